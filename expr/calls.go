package expr

import (
	"encoding/json"
	"math/big"

	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/overloads"

	"chimera.ai/engine/schemas"
)

// call judges an operator or function.
func (j *judge) call(e ast.Expr, n names) known {
	c := e.AsCall()
	name := c.FunctionName()
	switch name {
	case operators.LogicalAnd, operators.LogicalOr:
		return j.logic(c, name, n)
	case operators.Conditional:
		return j.ternary(c, n)
	}
	args := c.Args()
	if c.IsMemberFunction() {
		args = append([]ast.Expr{c.Target()}, args...)
	}
	sides := make([]operand, len(args))
	for i, a := range args {
		sides[i] = operand{a, j.expr(a, n)}
	}
	for _, s := range sides {
		if s.known.broken && name != operators.Equals && name != operators.NotEquals {
			if _, calculates := signs[name]; calculates {
				return j.unproved(e, name, sides)
			}
			return j.given(name)
		}
	}
	switch name {
	case operators.LogicalNot:
		return j.negation(sides[0])
	case operators.Equals, operators.NotEquals:
		return j.equality(name == operators.Equals, sides[0], sides[1])
	case operators.Less, operators.LessEquals, operators.Greater, operators.GreaterEquals:
		return j.order(e, name, sides[0], sides[1])
	case operators.In:
		return j.member(sides[0], sides[1])
	case operators.Add:
		return j.sum(e, sides[0], sides[1])
	case operators.Subtract, operators.Multiply, operators.Divide, operators.Modulo, operators.Negate:
		if sides[0].known.form != formJSON {
			return j.instants(e, name, sides)
		}
		return j.arithmetic(e, name, sides...)
	case operators.Index:
		return j.index(e, sides[0], sides[1])
	case operators.OptSelect:
		key, _ := sides[1].known.text()
		return j.chain(sides[0].known, func(of known) known { return j.optionalKey(of, key, e) })
	case operators.OptIndex:
		return j.chain(sides[0].known, func(of known) known { return j.optionalIndex(e, operand{sides[0].expr, of}, sides[1]) })
	}
	if f, ok := ruleOf(name); ok {
		return f(j, e, sides)
	}
	j.report(Problem{Kind: MayFail, Offset: j.offset(e), Message: "nothing is known of what " + name + " does here"})
	return broken()
}

// given is the result of a function after a problem with its operands.
func (j *judge) given(name string) known {
	out := broken()
	switch name {
	case operators.LogicalNot, operators.Less, operators.LessEquals, operators.Greater, operators.GreaterEquals, operators.In,
		overloads.Contains, overloads.StartsWith, overloads.EndsWith, overloads.Matches, "hasValue":
		out.schema = ofKind[isBool]
	}
	return out
}

// condition requires a boolean.
func (j *judge) condition(s operand, why string) bool { return j.demand(s, isBool, why) }

// logic judges && and ||: the right operand is reached only if the left one does
// not decide.
func (j *judge) logic(c ast.CallExpr, name string, n names) known {
	left := operand{c.Args()[0], j.truth(j.expr(c.Args()[0], n))}
	reached, filled, sign := left.known.yes, left.known.filled, "&&"
	if name == operators.LogicalOr {
		reached, filled, sign = left.known.no, "", "||"
	}
	j.condition(left, "the operator "+sign+" is for conditions")
	right := operand{c.Args()[1], j.truth(j.expr(c.Args()[1], n.learn(j, reached).fill(filled)))}
	j.condition(right, "the operator "+sign+" is for conditions")
	out := boolean()
	out.broken = left.known.broken || right.known.broken
	a, b := left.known, right.known
	if name == operators.LogicalAnd {
		out.yes = a.yes.and(b.yes)
		out.no = oneOf(way{a.no, a.is(true)}, way{a.yes.and(b.no), b.is(true)})
	} else {
		out.no = a.no.and(b.no)
		out.yes = oneOf(way{a.yes, a.is(false)}, way{a.no.and(b.yes), b.is(false)})
	}
	return out
}

// way is one way in which a condition gets its value, and the facts known then.
type way struct {
	facts facts
	never bool
}

// oneOf returns the facts known if one of two ways was taken.
func oneOf(a, b way) facts {
	switch {
	case a.never:
		return b.facts
	case b.never:
		return a.facts
	}
	return a.facts.or(b.facts)
}

// is reports whether the value is known to be that boolean.
func (k known) is(b bool) bool {
	v, ok := k.value()
	return ok && v == b
}

func (j *judge) negation(s operand) known {
	if !j.condition(s, "the operator ! is for conditions") {
		return j.given(operators.LogicalNot)
	}
	out := boolean()
	if v, ok := s.known.value(); ok {
		b, _ := v.(bool)
		out = constant(!b)
	}
	k := j.truth(s.known)
	out.yes, out.no = k.no, k.yes
	return out
}

// ternary judges each branch with the facts of its condition.
func (j *judge) ternary(c ast.CallExpr, n names) known {
	args := c.Args()
	cond := operand{args[0], j.truth(j.expr(args[0], n))}
	j.condition(cond, "what stands before ? is a condition")
	holds, fails := n.learn(j, cond.known.yes), n.learn(j, cond.known.no)
	yes := j.expr(args[1], holds.fill(cond.known.filled))
	no := j.expr(args[2], fails)
	if cond.known.broken {
		return broken()
	}
	switch v, ok := cond.known.value(); {
	case ok && v == true, !ok && j.decides && fails.impossible(j, cond.known.no):
		return yes
	case ok, j.decides && holds.impossible(j, cond.known.yes):
		return no
	}
	out := union(yes, no)
	yes, no = j.truth(yes), j.truth(no)
	if out.form == formJSON && !out.broken {
		out.yes = oneOf(way{cond.known.yes.and(yes.yes), yes.is(false)}, way{cond.known.no.and(no.yes), no.is(false)})
		out.no = oneOf(way{cond.known.yes.and(yes.no), yes.is(true)}, way{cond.known.no.and(no.no), no.is(true)})
	}
	return out
}

// sum judges +: numbers, strings, lists, moments.
func (j *judge) sum(e ast.Expr, a, b operand) known {
	x, y := a.known, b.known
	if x.form == formList && y.form == formList {
		return known{form: formMixed, schema: anything}
	}
	if x.form != formJSON || y.form != formJSON {
		return j.instants(e, operators.Add, []operand{a, b})
	}
	want := kinds(0)
	for _, k := range []kinds{isNumber, isText, isList} {
		if j.kinds(x.schema)&^k == 0 || j.kinds(y.schema)&^k == 0 {
			want = k
			break
		}
	}
	if want == 0 {
		for _, k := range []kinds{isNumber, isText, isList} {
			if j.only(x.schema, k) || j.only(y.schema, k) {
				want = k
				break
			}
		}
	}
	if want == 0 {
		j.mayBe(a, isNumber|isText|isList, "only numbers, strings and lists can be added")
		j.mayBe(b, isNumber|isText|isList, "only numbers, strings and lists can be added")
		j.report(Problem{Kind: MayFail, Offset: j.offset(e), Message: render(e) + " adds " + j.describe(x) + " to " + j.describe(y),
			Hint: guard(render(b.expr), j.refined(y.schema)&isNumber|isText) + " ? … : …"})
		return broken()
	}
	if want == isNumber {
		for k, s := range []operand{a, b} {
			other := []operand{b, a}[k]
			if s.known.form == formJSON && j.kinds(s.known.schema) == isText && j.only(other.known.schema, isNumber|isBool) {
				p := Problem{Kind: Wrong, Offset: j.offset(s.expr), Message: render(s.expr) + " is a string, to which only strings are added",
					Hint: "string(" + render(other.expr) + ")"}
				if s.known.at != nil {
					s.known.at.within(j, notKinds(isNumber), &p)
				}
				j.report(p)
				return broken()
			}
		}
		return j.arithmetic(e, operators.Add, a, b)
	}
	why := "it is added to " + orKinds(want)
	ok := j.demand(a, want, why)
	if !j.demand(b, want, why) || !ok {
		return broken()
	}
	if want == isText {
		return j.concat(a.known, b.known)
	}
	return j.append(a.known, b.known)
}

// concat is two strings after each other.
func (j *judge) concat(a, b known) known {
	x, ok := a.text()
	y, ok2 := b.text()
	if ok && ok2 && len(x)+len(y) <= maxFold {
		return constant(x + y)
	}
	n := calculate(operators.Add, []interval{j.lengths(a.schema, isText), j.lengths(b.schema, isText)}, true)
	return ofSchema(textOf(n))
}

// maxFold is the largest length of constants that are folded, in bytes.
const maxFold = 1 << 10

// textOf is the schema of strings of certain lengths.
func textOf(n interval) *schemas.Schema {
	if n.empty {
		return nothing
	}
	k := schemas.Keywords{Types: []string{"string"}}
	k.MinLength, k.MaxLength = counts(n, maxText)
	return schemas.Make(k)
}

// counts returns an interval of counts as bounds, or none if it says nothing.
func counts(n interval, most int64) (lo, hi *int) {
	limit := new(big.Rat).SetInt64(most)
	if n.lo != nil && n.lo.Sign() > 0 {
		v := int(min(floor(n.lo).Int64(), most))
		lo = &v
	}
	if n.hi != nil && n.hi.Cmp(limit) < 0 {
		v := int(floor(n.hi).Int64())
		hi = &v
	}
	return lo, hi
}

// append is two lists after each other.
func (j *judge) append(a, b known) known {
	out := known{notation: byValue}
	if a.notation != byValue || b.notation != byValue {
		out.notation = anyNotation
	}
	x, y := j.lengths(a.schema, isList), j.lengths(b.schema, isList)
	if x.empty || y.empty {
		out.schema = nothing
		return out
	}
	k := schemas.Keywords{Types: []string{"array"}}
	k.MinItems, k.MaxItems = counts(calculate(operators.Add, []interval{x, y}, true), maxItems)
	first, second := j.element(a.schema, everywhere), j.element(b.schema, everywhere)
	if x.lo.Cmp(x.hi) == 0 && x.hi.Cmp(new(big.Rat).SetInt64(maxPrefix)) <= 0 {
		for i := range floor(x.lo).Int64() {
			k.Prefix = append(k.Prefix, j.element(a.schema, int(i)))
		}
		k.Items = second
	} else {
		k.Items = either(first, second)
	}
	out.schema = schemas.Make(k)
	return out
}

// index judges value[i].
func (j *judge) index(e ast.Expr, of, i operand) known {
	if of.known.form == formOptional {
		return j.chain(of.known, func(inner known) known { return j.optionalIndex(e, operand{of.expr, inner}, i) })
	}
	if key, ok := i.known.text(); ok {
		return j.selectKey(of.known, key, j.offset(e))
	}
	offset := j.offset(e)
	if of.known.form != formJSON || i.known.form != formJSON {
		j.report(Problem{Kind: Wrong, Offset: offset, Message: j.describe(of.known) + " has no place " + j.describe(i.known)})
		return broken()
	}
	if v, ok := i.known.value(); ok {
		if n, ok := v.(json.Number); ok {
			if r, ok := rational(n); ok && r.IsInt() && r.Sign() >= 0 && r.Num().IsInt64() && r.Num().Int64() < 1<<40 {
				return j.selectIndex(of.known, int(r.Num().Int64()), offset)
			}
		}
	}
	text, item := render(of.expr), render(e)
	guard := render(of.expr) + "[?" + render(i.expr) + "].orValue(…)"
	if j.only(i.known.schema, isText) {
		if !j.demand(of, isMap, "a key is looked up in it") {
			return broken()
		}
		j.report(Problem{Kind: MayFail, Offset: offset, Message: item + " may be missing: nothing says that " + text + " has the key " + render(i.expr), Hint: guard})
		return j.anyProperty(of.known)
	}
	if !j.demand(of, isList, "an index is looked up in it") || !j.demand(i, isWhole, "an index is a whole number") {
		return broken()
	}
	in := j.numbers(i.known.schema)
	if in.empty {
		return ofSchema(nothing)
	}
	size := j.lengths(of.known.schema, isList)
	low := in.lo == nil || in.lo.Sign() < 0
	if low || in.hi == nil || size.empty || in.hi.Cmp(size.lo) >= 0 {
		p := Problem{Kind: MayFail, Offset: offset, Message: render(i.expr) + " may be beyond the items of " + text, Hint: guard}
		if low {
			p.Message = render(i.expr) + " may be negative"
		}
		j.report(p)
	}
	return known{schema: j.element(of.known.schema, everywhere), notation: inside(of.known.notation)}
}

// anyProperty is the schema of the values at any key, as far as known.
func (j *judge) anyProperty(of known) known {
	return known{schema: anything, notation: inside(of.notation)}
}
