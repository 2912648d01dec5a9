package expr

import (
	"encoding/json"
	"math/big"

	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/overloads"

	"chimera.ai/engine/schemas"
)

// rule judges a call of a function; a method's receiver is its first operand.
type rule func(j *judge, e ast.Expr, s []operand) known

// ruleOf says of a function of the environment when it can fail and what it
// gives. One that it does not know is refused.
func ruleOf(name string) (rule, bool) {
	switch name {
	case overloads.TypeConvertDyn:
		return func(_ *judge, _ ast.Expr, s []operand) known { return s[0].known }, true
	case overloads.TypeConvertType:
		return typeRule, true
	case functionList:
		return listRule, true
	case overloads.Size:
		return sizeRule, true
	case overloads.Contains, overloads.StartsWith, overloads.EndsWith:
		return textRule(ofKind[isBool]), true
	case overloads.Matches:
		return matchesRule, true
	case "lowerAscii", "upperAscii":
		return sameLength, true
	case "trim":
		return shorter, true
	case "split":
		return splitRule, true
	case "join":
		return joinRule, true
	case "replace":
		return textRule(ofKind[isText]), true
	case "substring":
		return substringRule, true
	case "indexOf":
		return textRule(between(-1, maxText).schema(true)), true
	case functionDecimal:
		return decimalRule, true
	case overloads.TypeConvertInt:
		return intRule, true
	case overloads.TypeConvertUint:
		return uintRule, true
	case overloads.TypeConvertDouble:
		return doubleRule, true
	case overloads.TypeConvertString:
		return stringRule, true
	case overloads.TypeConvertBool:
		return boolRule, true
	case overloads.TypeConvertBytes:
		return bytesRule, true
	case overloads.TypeConvertTimestamp:
		return timestampRule, true
	case overloads.TypeConvertDuration:
		return durationRule, true
	case "first", "last":
		return endRule, true
	}
	if r, ok := optionalRule(name); ok {
		return r, true
	}
	ends, ok := moments[name]
	return momentRule(between(ends[0], ends[1]).schema(true)), ok
}

// optionalRule is ruleOf for functions of optional values.
func optionalRule(name string) (rule, bool) {
	switch name {
	case overloads.OptionalNone, "optional.none":
		return func(*judge, ast.Expr, []operand) known {
			return known{form: formOptional, schema: anything, none: true}
		}, true
	case "optional.of", "optional.ofNonZeroValue":
		return func(_ *judge, _ ast.Expr, s []operand) known {
			return optional(s[0].known, name == "optional.of")
		}, true
	case "hasValue":
		return onOptional(func(j *judge, _ ast.Expr, s []operand) known {
			if len(s) > 1 {
				return boolean()
			}
			return j.hasValue(s[0])
		}), true
	case "value":
		return onOptional(valueRule), true
	case "or":
		return onOptional(orRule), true
	case "orValue":
		return onOptional(func(j *judge, _ ast.Expr, s []operand) known { return j.orValue(s[0].known, s[1].known) }), true
	case "optional.unwrap", "unwrapOpt":
		return func(j *judge, e ast.Expr, s []operand) known { return j.unwrap(e, s[0]) }, true
	}
	return nil, false
}

// moments are the methods of timestamps, with the least and greatest result.
var moments = map[string][2]int64{
	overloads.TimeGetFullYear: {1, 9999}, overloads.TimeGetMonth: {0, 11}, overloads.TimeGetDayOfYear: {0, 365},
	overloads.TimeGetDayOfMonth: {0, 30}, overloads.TimeGetDate: {1, 31}, overloads.TimeGetDayOfWeek: {0, 6},
	overloads.TimeGetHours: {0, 23}, overloads.TimeGetMinutes: {0, 59}, overloads.TimeGetSeconds: {0, 59},
	overloads.TimeGetMilliseconds: {0, 999},
}

// takes demands kinds of the operands of a function.
func (j *judge) takes(name string, s []operand, want kinds) bool {
	ok := true
	for _, one := range s {
		ok = j.demand(one, want, name+" takes "+plural(want)) && ok
	}
	return ok
}

func plural(k kinds) string {
	switch k {
	case isText:
		return "strings"
	case isNumber:
		return "numbers"
	case isWhole:
		return "whole numbers"
	}
	return orKinds(k)
}

func called(e ast.Expr) string { return e.AsCall().FunctionName() }

// textRule is for functions of strings that never fail.
func textRule(result *schemas.Schema) rule {
	return func(j *judge, e ast.Expr, s []operand) known {
		out := ofSchema(result)
		out.broken = !j.takes(called(e), s, isText)
		return out
	}
}

func typeRule(_ *judge, _ ast.Expr, s []operand) known {
	of := s[0].known
	return known{form: formType, schema: anything, inner: &of}
}

func listRule(j *judge, e ast.Expr, s []operand) known {
	if s[0].known.form == formList || j.demand(s[0], isList, "only lists can be walked") {
		return s[0].known
	}
	return broken()
}

func sizeRule(j *judge, _ ast.Expr, s []operand) known {
	of := s[0].known
	if of.form == formBytes || of.form == formList {
		return ofSchema(between(0, maxText).schema(true))
	}
	if !j.demand(s[0], isText|isList|isMap, "only strings, lists and objects have a size") {
		return known{schema: between(0, maxText).schema(true), broken: true}
	}
	n := interval{empty: true}
	have := j.refined(of.schema)
	for _, k := range []kinds{isText, isList, isMap} {
		if have&k != 0 {
			n = n.hull(j.lengths(of.schema, k))
		}
	}
	return known{schema: n.schema(true), inner: &of}
}

func matchesRule(j *judge, e ast.Expr, s []operand) known {
	out := boolean()
	out.broken = !j.takes("matches", s, isText)
	pattern, ok := s[1].known.text()
	if at := s[0].known.at; ok && at != nil && !out.broken {
		if is := texts(pattern); is != nil {
			out.yes, out.no = fact(at, is), fact(at, not(is))
		}
	}
	return out
}

func sameLength(j *judge, e ast.Expr, s []operand) known {
	if !j.takes(called(e), s, isText) {
		return known{schema: ofKind[isText], broken: true}
	}
	return ofSchema(textOf(j.lengths(s[0].known.schema, isText)))
}

func shorter(j *judge, e ast.Expr, s []operand) known {
	if !j.takes(called(e), s, isText) {
		return known{schema: ofKind[isText], broken: true}
	}
	n := j.lengths(s[0].known.schema, isText)
	n.lo = zero
	return ofSchema(textOf(n))
}

// listOf is the schema of lists of items.
func listOf(item *schemas.Schema, n interval) *schemas.Schema {
	k := schemas.Keywords{Types: []string{"array"}, Items: item}
	if n.empty {
		return nothing
	}
	k.MinItems, k.MaxItems = counts(n, maxItems)
	return schemas.Make(k)
}

func splitRule(j *judge, e ast.Expr, s []operand) known {
	ok := j.takes("split", s, isText)
	n := interval{lo: zero}
	if sep, fixed := s[1].known.text(); fixed && sep != "" {
		n.lo = one
	}
	out := ofSchema(listOf(ofKind[isText], n))
	out.broken = !ok
	return out
}

func joinRule(j *judge, e ast.Expr, s []operand) known {
	out := known{schema: ofKind[isText]}
	if !j.demand(s[0], isList, "join takes a list of strings") || !j.takes("join", s[1:], isText) {
		out.broken = true
		return out
	}
	texts := listOf(ofKind[isText], interval{})
	if item := j.element(s[0].known.schema, everywhere); !j.only(item, isText) && !j.proves(s[0].known.schema, texts) {
		p := Problem{Kind: MayFail, Offset: j.offset(e), Message: "join takes a list of strings; an item of " + render(s[0].expr) + " may be " + orKinds(j.refined(item)&^isText),
			Hint: render(s[0].expr) + ".map(x, string(x))." + "join(…)"}
		if at := s[0].known.at; at != nil {
			at.within(j, not(texts), &p)
		}
		j.report(p)
		out.broken = true
	}
	return out
}

func substringRule(j *judge, e ast.Expr, s []operand) known {
	if !j.takes("substring", s[:1], isText) || !j.takes("substring", s[1:], isWhole) {
		return known{schema: ofKind[isText], broken: true}
	}
	size := j.lengths(s[0].known.schema, isText)
	from := j.numbers(s[1].known.schema)
	to := size
	if len(s) > 2 {
		to = j.numbers(s[2].known.schema)
	}
	if size.empty || from.empty || to.empty {
		return ofSchema(nothing)
	}
	text := render(s[0].expr)
	p := Problem{Kind: MayFail, Offset: j.offset(e)}
	last := s[len(s)-1]
	limit := j.numbers(last.known.schema).hi
	switch {
	case from.lo == nil || from.lo.Sign() < 0:
		p.Message = render(s[1].expr) + " may be negative"
	case limit == nil || limit.Cmp(size.lo) > 0 && !j.longEnough(s[0].known.schema, limit):
		p.Message = text + " may be shorter than " + render(last.expr)
		p.Hint = "size(" + text + ") >= " + render(last.expr) + " ? " + render(e) + " : …"
		if limit != nil && s[0].known.at != nil && limit.IsInt() && limit.Num().IsInt64() {
			n := int(limit.Num().Int64())
			s[0].known.at.within(j, not(schemas.Make(schemas.Keywords{MinLength: &n})), &p)
		}
	case len(s) > 2 && (from.hi == nil || to.lo == nil || from.hi.Cmp(to.lo) > 0):
		p.Message = render(s[1].expr) + " may be greater than " + render(s[2].expr)
	default:
		n := interval{lo: zero, hi: size.hi}
		if len(s) > 2 {
			n = interval{lo: add2(to.lo, neg(from.hi)), hi: add2(to.hi, neg(from.lo))}
		} else if v := add2(size.lo, neg(from.hi)); v != nil && v.Sign() > 0 {
			n.lo = v
		}
		return ofSchema(textOf(n.meet(between(0, maxText))))
	}
	j.report(p)
	return known{schema: ofKind[isText], broken: true}
}

// longEnough asks for a proof that strings are at least n long.
func (j *judge) longEnough(s *schemas.Schema, n *big.Rat) bool {
	if !compound(s) || n.Cmp(new(big.Rat).SetInt64(maxText)) > 0 {
		return false
	}
	least := int(floor(n).Int64())
	return j.proves(s, schemas.Make(schemas.Keywords{Types: []string{"string"}, MinLength: &least}))
}

// onOptional is for methods of optional values.
func onOptional(f rule) rule {
	return func(j *judge, e ast.Expr, s []operand) known {
		if s[0].known.form != formOptional {
			j.report(Problem{Kind: Wrong, Offset: j.offset(e), Message: called(e) + " is for optional values; " + render(s[0].expr) + " is " + j.describe(s[0].known),
				Hint: "select with .? or [?…]"})
			return broken()
		}
		return f(j, e, s)
	}
}

func valueRule(j *judge, e ast.Expr, s []operand) known {
	of := s[0].known
	if of.full {
		return *of.inner
	}
	p := Problem{Kind: MayFail, Offset: j.offset(e), Message: render(s[0].expr) + " may hold no value",
		Hint: render(s[0].expr) + ".orValue(…)"}
	if of.none || of.inner == nil {
		p.Kind, p.Message = Wrong, render(s[0].expr)+" holds no value"
	}
	j.report(p)
	return broken()
}

func orRule(j *judge, e ast.Expr, s []operand) known {
	a, b := s[0].known, s[1].known
	switch {
	case b.form != formOptional:
		j.report(Problem{Kind: Wrong, Offset: j.offset(s[1].expr), Message: "or takes an optional value; this is " + j.describe(b), Hint: "write orValue(…)"})
		return broken()
	case a.full:
		return a
	case a.none:
		return b
	case b.none:
		return a
	}
	inner := union(*a.inner, *b.inner)
	return optional(inner, b.full)
}

func endRule(j *judge, e ast.Expr, s []operand) known {
	if !j.demand(s[0], isList, called(e)+" takes a list") {
		return broken()
	}
	of := s[0].known
	item := known{schema: j.element(of.schema, everywhere), notation: inside(of.notation)}
	if called(e) == "first" {
		item.schema, item.at = j.element(of.schema, 0), of.at.index(0)
	}
	n := j.lengths(of.schema, isList)
	return optional(item, n.empty || n.lo.Sign() > 0)
}

// smallIndex gives a whole number that can be an index.
func smallIndex(v any) (int, bool) {
	n, ok := v.(json.Number)
	if !ok {
		return 0, false
	}
	r, ok := rational(n)
	if !ok || !r.IsInt() || r.Sign() < 0 || !r.Num().IsInt64() || r.Num().Int64() >= 1<<31-1 {
		return 0, false
	}
	return int(r.Num().Int64()), true
}
