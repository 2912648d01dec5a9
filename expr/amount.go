package expr

import (
	"encoding/json"
	"math/big"
	"regexp"
	"slices"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/overloads"
	"cel.dev/cel-go/common/types"
)

// Amount is a compiled expression for an amount of money: a number from 0 on, or
// the text of one without sign and exponent ("12.50"). It is exact: no step
// calculates with doubles. An Amount is immutable and safe for concurrent use.
type Amount struct{ code *code }

// CompileAmount compiles an expression that must return an amount. Its error is an
// [*Error].
func CompileAmount(src string, scope Scope) (*Amount, error) {
	c, bad := compile(src, scope)
	if bad != nil {
		return nil, bad
	}
	switch t := c.output(); t.Kind() {
	case types.DynKind, types.AnyKind, types.IntKind, types.UintKind, types.DoubleKind, types.StringKind:
	default:
		return nil, errorf(0, "an amount is a number or the text of one; this is of type %s", cel.FormatCELType(t))
	}
	return &Amount{code: c}, nil
}

// Reads reports whether the expression reads that name.
func (a *Amount) Reads(name string) bool { return slices.Contains(a.code.reads, name) }

// Check proves that for all values that t allows the expression cannot fail, and
// that its amount is exact. It returns the source with the conversions of numbers
// that its conditions need, and what is not proved. The source is valid only if
// there are no problems.
func (a *Amount) Check(t Typing) (source string, problems []Problem) {
	j := newJudge(a.code, t, newAllowance(t, maxCheck))
	j.accepts = func(v any) bool {
		_, bad := amountOf(v)
		return bad == nil
	}
	v := j.judge()
	if !v.broken {
		j.amount(v)
	}
	if a.code.ast != nil {
		j.rounded(a.code.ast.Expr())
	}
	return j.finish()
}

// Bounds returns bounds of the result for all values that t allows; most is nil if
// no upper bound is known. The expression must have passed Check.
func (a *Amount) Bounds(t Typing) (least, most *big.Rat) {
	j := newJudge(a.code, t, newAllowance(t, maxCheck))
	v := j.judge()
	if v.broken || v.form != formJSON {
		return zero, nil
	}
	if one, ok := v.value(); ok {
		if d, bad := amountOf(one); bad == nil {
			if r, ok := new(big.Rat).SetString(d.plain()); ok {
				return r, r
			}
		}
	}
	if !j.only(v.schema, isNumber) {
		return zero, nil // a text says little of its amount
	}
	i := j.numbers(v.schema)
	if i.lo == nil || i.lo.Sign() < 0 {
		return zero, i.hi
	}
	return i.lo, i.hi
}

// Eval returns the amount as a decimal number without exponent. Its error is an
// [*Error].
func (a *Amount) Eval(vars Vars) (json.Number, error) {
	v, bad := a.code.eval(vars, newBudget(), 0)
	if bad != nil {
		return "", bad
	}
	d, bad := amountOf(v)
	if bad != nil {
		return "", bad
	}
	return json.Number(d.plain()), nil
}

// amountOf reads a result.
func amountOf(v any) (d decimal, bad *Error) {
	ok := false
	switch v := v.(type) {
	case json.Number:
		d, ok = parseDecimal(string(v))
	case string:
		if ok = amountText.MatchString(v); ok {
			whole, fraction, _ := strings.Cut(v, ".")
			d.point = len(whole)
			d = d.normal(whole + fraction)
		}
	default:
		return d, errorf(0, "an amount is a number or the text of one; this is %s", kindOf(v))
	}
	switch {
	case !ok:
		return d, errorf(0, "%v is not the text of an amount, which has digits and a decimal point", v)
	case d.negative:
		return d, errorf(0, "an amount is not negative; this is %v", v)
	}
	return d, nil
}

// The text of an amount, as an expression and as the schema of such strings.
const amountPattern = `^[0-9]+(\.[0-9]+)?$`

var (
	amountText    = regexp.MustCompile(amountPattern)
	amountTexts   = texts(amountPattern)
	amountNumbers = interval{lo: zero}.schema(false)
	amounts       = either(amountNumbers, amountTexts)
)

// amount demands an amount.
func (j *judge) amount(v known) {
	if v.form != formJSON {
		j.report(Problem{Kind: Wrong, Message: "an amount is a number or the text of one; this is " + j.describe(v)})
		return
	}
	if j.proves(v.schema, amounts) {
		return
	}
	have := j.refined(v.schema)
	p := Problem{Kind: MayFail}
	text := "the result"
	if v.at != nil {
		text = v.at.String()
	}
	bad := not(amounts)
	switch {
	case have == 0:
		return // nothing gets here
	case have&(isNumber|isText) == 0:
		p.Kind, p.Message = Wrong, "an amount is a number or the text of one; this is "+orKinds(have)
	case have&^(isNumber|isText) != 0:
		p.Message = "an amount is a number or the text of one; " + text + " may be " + orKinds(have&^(isNumber|isText))
		bad = notKinds(isNumber | isText)
		if v.at != nil {
			p.Hint = guard(text, have&(isNumber|isText)) + " ? " + text + " : 0"
		}
	case have&isNumber != 0 && !j.proves(both(v.schema, ofKind[isNumber]), amountNumbers):
		p.Message = "an amount is not negative; " + text + " may be"
		bad = both(ofKind[isNumber], not(amountNumbers))
		if v.at != nil {
			p.Hint = "add `minimum: 0` to the schema of " + text
		}
		if j.never(both(v.schema, amounts)) {
			p.Kind, p.Message = Wrong, "an amount is not negative; "+text+" always is"
		}
	default:
		p.Message = text + " is not proved to be the text of an amount, which has digits and a decimal point"
		bad = both(ofKind[isText], not(amountTexts))
		p.Hint = "add `pattern: '" + amountPattern + "'` to the schema of " + text
		if v.at == nil {
			p.Hint = ""
		}
	}
	if v.at != nil {
		v.at.within(j, bad, &p)
	}
	j.report(p)
}

// aside lists the operators with a boolean result, which can only choose an amount.
var aside = map[string]bool{
	operators.LogicalAnd: true, operators.LogicalOr: true, operators.LogicalNot: true,
	operators.Equals: true, operators.NotEquals: true, operators.In: true,
	operators.Less: true, operators.LessEquals: true, operators.Greater: true, operators.GreaterEquals: true,
}

// rounded reports where a step towards the result calculates with doubles, which
// round, or a literal has more digits than a double holds.
func (j *judge) rounded(e ast.Expr) {
	switch e.Kind() {
	case ast.LiteralKind:
		if f, ok := e.AsLiteral().(types.Double); ok && !j.holds(e, float64(f)) {
			j.report(Problem{Kind: Wrong, Offset: j.offset(e), Message: "the number has more digits than a double holds, so that it would be rounded",
				Hint: "leave out digits behind the seventeenth"})
		}
	case ast.SelectKind:
		j.rounded(e.AsSelect().Operand())
	case ast.CallKind:
		c := e.AsCall()
		name := c.FunctionName()
		switch {
		case aside[name]:
			return
		case name == operators.Conditional:
			j.rounded(c.Args()[1])
			j.rounded(c.Args()[2])
			return
		case j.doubles[e.ID()]:
			p := Problem{Kind: Wrong, Offset: j.offset(e), Message: "an amount is exact, and " + render(e) + " is calculated with doubles, which round",
				Hint: "calculate with whole numbers, then move the point: decimal(…, 2)"}
			if name == overloads.TypeConvertDouble {
				p.Message = "an amount is exact, and double(…) rounds"
			}
			j.report(p)
			return
		}
		if c.IsMemberFunction() {
			j.rounded(c.Target())
		}
		for _, arg := range c.Args() {
			j.rounded(arg)
		}
	case ast.ListKind:
		for _, item := range e.AsList().Elements() {
			j.rounded(item)
		}
	case ast.MapKind:
		for _, entry := range e.AsMap().Entries() {
			j.rounded(entry.AsMapEntry().Value())
		}
	case ast.ComprehensionKind:
		if l, ok := macroOf(e.AsComprehension()); ok {
			j.rounded(l.over)
			if l.result != nil {
				j.rounded(l.result)
			}
		}
	}
}

// holds reports whether a double is exactly what the source says.
func (j *judge) holds(e ast.Expr, f float64) bool {
	text := j.code.src[j.offset(e):]
	end := strings.IndexFunc(text, func(r rune) bool { return !strings.ContainsRune("0123456789.eE+-", r) })
	if end >= 0 {
		text = text[:end]
	}
	// The rest may be an operator.
	for ; text != ""; text = text[:len(text)-1] {
		if m := doubleText.FindString(text); m != "" {
			d, ok := parseDecimal(m)
			return ok && d == decimalOf(f)
		}
	}
	return false
}

var doubleText = regexp.MustCompile(`^-?[0-9]*(\.[0-9]+)?([eE][+-]?[0-9]+)?`)
