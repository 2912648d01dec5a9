package expr

import (
	"encoding/json"
	"math/big"
	"strings"

	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/overloads"

	"chimera.ai/engine/schemas"
)

// equality judges == and !=, which never fail.
func (j *judge) equality(equal bool, a, b operand) known {
	out := boolean()
	if a.known.form == formMixed || b.known.form == formMixed {
		out.broken = a.known.broken || b.known.broken
	}
	for _, s := range [][2]operand{{a, b}, {b, a}} {
		yes, no := j.equals(s[0], s[1])
		out.yes, out.no = out.yes.and(yes), out.no.and(no)
	}
	if !equal {
		out.yes, out.no = out.no, out.yes
	}
	return out
}

// equals gives what is known where a equals b, and where it does not.
func (j *judge) equals(a, b operand) (yes, no facts) {
	if t, of, ok := j.typeOf(a, b); ok {
		at := of.at
		if at == nil || of.form != formJSON {
			return nil, nil
		}
		if of.notation != byValue && t&isNumber != 0 {
			// An int is whole all the same, but a double may be, too.
			if t != isWhole {
				t = isNumber
			}
			return fact(at, ofKind[t]), nil
		}
		return fact(at, ofKind[t]), fact(at, notKinds(t))
	}
	v, ok := b.known.value()
	if !ok || a.known.form != formJSON {
		return nil, nil
	}
	if b, isBool := v.(bool); isBool {
		// A comparison with true or false is the condition itself.
		if b {
			yes, no = a.known.yes, nil
		} else {
			yes, no = a.known.no, nil
		}
	}
	if n, ok := v.(json.Number); ok && a.known.at == nil {
		if r, ok := rational(n); ok {
			return j.sized(a, r)
		}
	}
	if a.known.at == nil {
		return yes, no
	}
	s := exactly(v)
	return yes.and(fact(a.known.at, s)), no.and(fact(a.known.at, not(s)))
}

// sized returns the facts known if the size of a place is a number, and if it is
// not.
func (j *judge) sized(a operand, n *big.Rat) (yes, no facts) {
	yes = j.bounded(a, interval{lo: n, hi: n})
	switch in := j.numbers(a.known.schema); {
	case in.lo != nil && in.lo.Cmp(n) == 0:
		no = j.bounded(a, interval{lo: n, loOpen: true})
	case in.hi != nil && in.hi.Cmp(n) == 0:
		no = j.bounded(a, interval{hi: n, hiOpen: true})
	}
	return yes, no
}

// typeOf reads type(x) == T: the kinds that T means, and what is known of x.
func (j *judge) typeOf(a, b operand) (kinds, known, bool) {
	if a.expr.Kind() != ast.CallKind || a.expr.AsCall().FunctionName() != overloads.TypeConvertType {
		return 0, known{}, false
	}
	inner := a.known.inner
	if inner == nil {
		return 0, known{}, false
	}
	switch b.expr.Kind() {
	case ast.IdentKind:
		if b.known.form == formType {
			if k, ok := typeNames[strings.TrimPrefix(b.expr.AsIdent(), ".")]; ok {
				return k, *inner, true
			}
		}
	case ast.CallKind:
		if of := b.known.inner; b.expr.AsCall().FunctionName() == overloads.TypeConvertType && of != nil && of.form == formJSON && of.notation == byValue {
			k := j.kinds(of.schema)
			if k&(k-1) == 0 && k != 0 {
				return k, *inner, true
			}
		}
	}
	return 0, known{}, false
}

var typeNames = map[string]kinds{
	"int": isWhole, "double": isFraction, "bool": isBool, "string": isText, "list": isList, "map": isMap, "null_type": isNull,
}

// order judges <, <=, > and >=.
func (j *judge) order(e ast.Expr, name string, a, b operand) known {
	out := boolean()
	x, y := a.known, b.known
	if x.form != y.form || x.form == formOptional || x.form == formType || x.form == formList || x.form == formMixed {
		j.report(Problem{Kind: Wrong, Offset: j.offset(e), Message: j.describe(x) + " cannot be compared with " + j.describe(y)})
		return j.given(name)
	}
	if x.form != formJSON {
		return out
	}
	want := kinds(0)
	for _, k := range []kinds{isNumber, isText, isBool} {
		if j.kinds(x.schema)&^k == 0 || j.kinds(y.schema)&^k == 0 {
			want = k
			break
		}
	}
	if want == 0 {
		for _, k := range []kinds{isNumber, isText, isBool} {
			if j.only(x.schema, k) || j.only(y.schema, k) {
				want = k
				break
			}
		}
	}
	if want == 0 {
		j.report(Problem{Kind: MayFail, Offset: j.offset(e), Message: render(e) + " compares " + j.describe(x) + " with " + j.describe(y),
			Hint: guard(render(a.expr), isNumber) + " && " + render(e)})
		return j.given(name)
	}
	ok := j.demand(a, want, "it is compared with "+orKinds(want))
	if !j.demand(b, want, "it is compared with "+orKinds(want)) || !ok {
		return j.given(name)
	}
	if want != isNumber {
		return out
	}
	switch name {
	case operators.Less:
		out.yes, out.no = j.less(a, b, true), j.less(b, a, false)
	case operators.LessEquals:
		out.yes, out.no = j.less(a, b, false), j.less(b, a, true)
	case operators.Greater:
		out.yes, out.no = j.less(b, a, true), j.less(a, b, false)
	case operators.GreaterEquals:
		out.yes, out.no = j.less(b, a, false), j.less(a, b, true)
	}
	return out
}

// less gives what is known where a < b, or a <= b.
func (j *judge) less(a, b operand, strict bool) facts {
	x, y := j.numbers(a.known.schema), j.numbers(b.known.schema)
	var out facts
	if !y.empty && y.hi != nil {
		out = out.and(j.bounded(a, interval{hi: y.hi, hiOpen: strict || y.hiOpen}))
	}
	if !x.empty && x.lo != nil {
		out = out.and(j.bounded(b, interval{lo: x.lo, loOpen: strict || x.loOpen}))
	}
	return out
}

// bounded gives what is known of an operand that lies in an interval: a value at
// a place, or the size of one.
func (j *judge) bounded(s operand, i interval) facts {
	if s.known.at != nil {
		k := schemas.Keywords{Types: []string{"number"}}
		i.bounds(&k)
		return fact(s.known.at, schemas.Make(k))
	}
	of := s.known.inner
	if of == nil || of.at == nil || s.expr.Kind() != ast.CallKind || s.expr.AsCall().FunctionName() != overloads.Size {
		return nil
	}
	i = i.whole().meet(between(0, maxItems+maxText))
	if i.empty {
		return fact(of.at, nothing)
	}
	k := schemas.Keywords{}
	if lo := i.lo.Num(); i.lo.Sign() > 0 && lo.IsInt64() {
		n := int(lo.Int64())
		k.MinItems, k.MinLength = &n, &n
	}
	if hi := i.hi.Num(); hi.Int64() < maxItems {
		n := int(hi.Int64())
		k.MaxItems, k.MaxLength = &n, &n
	}
	return fact(of.at, schemas.Make(k))
}

// member judges in.
func (j *judge) member(a, b operand) known {
	if !j.demand(b, isList|isMap, "what stands after in must be a list or an object") {
		return j.given(operators.In)
	}
	out := boolean()
	if a.known.form != formJSON {
		return out
	}
	v, fixed := b.known.value()
	if all, ok := v.([]any); fixed && ok && a.known.at != nil && len(all) <= maxEnum {
		if len(all) == 0 {
			out.yes = fact(a.known.at, nothing)
			return out
		}
		s := schemas.Make(schemas.Keywords{Enum: all})
		out.yes, out.no = fact(a.known.at, s), fact(a.known.at, not(s))
		return out
	}
	if key, ok := a.known.text(); ok && b.known.at != nil {
		has := withKey(key)
		one := 1
		some := schemas.Make(schemas.Keywords{Types: []string{"array"}, MinItems: &one})
		out.yes, out.no = fact(b.known.at, either(has, some)), fact(b.known.at, not(has))
	}
	return out
}

// maxEnum bounds lists of values that a condition compares with.
const maxEnum = 256
