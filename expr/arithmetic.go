package expr

import (
	"math/big"

	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"

	"chimera.ai/engine/schemas"
)

// signs maps the operators of arithmetic to their text.
var signs = map[string]string{
	operators.Add: "+", operators.Subtract: "-", operators.Multiply: "*",
	operators.Divide: "/", operators.Modulo: "%", operators.Negate: "-",
}

// operand is one side of an operator.
type operand struct {
	expr  ast.Expr
	known known
}

// arithmetic judges an operator on numbers: int arithmetic if all operands are
// certainly ints, else double arithmetic, for which operands that may not be
// doubles are converted.
func (j *judge) arithmetic(e ast.Expr, op string, sides ...operand) known {
	ints, uints := true, true
	for _, s := range sides {
		if !j.number(s, "the operator "+signs[op]) {
			return j.unproved(e, op, sides)
		}
		whole := j.only(s.known.schema, isWhole)
		ints = ints && whole && s.known.notation == byValue
		uints = uints && s.known.notation == asUint
	}
	j.settle(e, op, true)
	switch {
	case ints:
		return j.whole(e, op, int64s, byValue, sides)
	case uints && op != operators.Negate:
		return j.whole(e, op, uint64s, asUint, sides)
	case op == operators.Modulo:
		for _, s := range sides {
			if !j.only(s.known.schema, isWhole) || s.known.notation != byValue {
				j.mayBe(s, isWhole, "the operator % is for whole numbers only")
				return broken()
			}
		}
	}
	return j.fractions(e, op, sides)
}

// unproved judges arithmetic after a problem with an operand. If its operands are
// numbers whenever it does not fail, it is still written as int or double
// arithmetic. Text is not converted: double("1") would not fail.
func (j *judge) unproved(e ast.Expr, op string, sides []operand) known {
	ints := true
	for _, s := range sides {
		have := j.kinds(s.known.schema)
		if s.known.form != formJSON || s.known.notation == asUint || have&isNumber == 0 || have&^(isNumber|isNull|isBool) != 0 {
			j.settle(e, op, false)
			return broken()
		}
		ints = ints && have&isNumber == isWhole && s.known.notation == byValue
	}
	j.settle(e, op, true)
	switch {
	case ints:
		return known{schema: int64s.schema(true), broken: true}
	case op == operators.Modulo:
		return broken()
	}
	j.double(e)
	for i, s := range sides {
		if s.known.notation != asDouble {
			j.convert(e, i, len(sides), s.expr)
		}
	}
	return known{schema: ofKind[isNumber], notation: asDouble, broken: true}
}

// settle records whether a division is known to be one of ints or of doubles. In a
// loop that is judged more than once it must be so each time.
func (j *judge) settle(e ast.Expr, op string, known bool) {
	if op != operators.Divide {
		return
	}
	if j.settled == nil {
		j.settled = map[int64]bool{}
	}
	before, judged := j.settled[e.ID()]
	j.settled[e.ID()] = known && (before || !judged)
}

// number demands a number.
func (j *judge) number(s operand, who string) bool {
	return j.demand(s, isNumber, who+" takes numbers")
}

// whole judges arithmetic on ints.
func (j *judge) whole(e ast.Expr, op string, range64 interval, n notation, sides []operand) known {
	in := make([]interval, len(sides))
	for i, s := range sides {
		in[i] = j.numbers(s.known.schema).whole()
		if in[i].empty {
			return known{schema: nothing, notation: n}
		}
	}
	for i := range in {
		if in[i].inside(range64) {
			continue
		}
		j.beyond(e, sides, in, range64, "an int has 64 bits, and "+render(sides[i].expr)+" can be "+in[i].String())
		return known{schema: int64s.schema(true), notation: n}
	}
	if op == operators.Divide || op == operators.Modulo {
		if !j.divisor(e, sides[1], in[1]) {
			return known{schema: range64.schema(true), notation: n}
		}
	}
	out := calculate(op, in, true)
	if op == operators.Modulo {
		out = remainder(in[0], in[1])
		if in[0].holds(minInt64) && in[1].holds(new(big.Rat).SetInt64(-1)) {
			// The library divides first, and that overflows.
			out.hi = new(big.Rat).Neg(minInt64)
		}
	}
	if !out.inside(range64) {
		j.beyond(e, sides, in, range64, "it can be "+out.String()+", beyond the 64 bits of an int")
		out = out.meet(range64)
		if out.empty {
			out = range64
		}
	}
	return known{schema: out.schema(true), notation: n}
}

// fractions judges arithmetic on doubles.
func (j *judge) fractions(e ast.Expr, op string, sides []operand) known {
	j.double(e)
	in := make([]interval, len(sides))
	for i, s := range sides {
		in[i] = j.numbers(s.known.schema)
		if in[i].empty {
			return known{schema: nothing, notation: asDouble}
		}
		if s.known.notation != asDouble {
			if !in[i].inside(doubles) {
				j.beyond(e, sides, in, doubles, render(s.expr)+" can be "+in[i].String()+", beyond what a double holds")
				return known{schema: ofKind[isNumber], notation: asDouble, broken: true}
			}
			j.convert(e, i, len(sides), s.expr)
		}
		in[i] = in[i].binary()
	}
	if op == operators.Divide && !j.divisor(e, sides[1], in[1]) {
		return known{schema: doubles.schema(false), notation: asDouble}
	}
	out := calculate(op, in, false)
	if !out.inside(doubles) {
		j.beyond(e, sides, in, doubles, "it can be "+out.String()+", beyond what a double holds")
		out = out.meet(doubles)
		if out.empty {
			out = doubles
		}
	}
	return known{schema: out.rounded().schema(false), notation: asDouble}
}

// double records a node that calculates with doubles or converts to them.
func (j *judge) double(e ast.Expr) {
	if j.doubles == nil {
		j.doubles = map[int64]bool{}
	}
	j.doubles[e.ID()] = true
}

// divisor requires that a divisor is not 0, and that a double keeps a distance from
// 0.
func (j *judge) divisor(e ast.Expr, s operand, i interval) bool {
	if !i.holds(zero) {
		return true
	}
	text := render(s.expr)
	whole := j.only(s.known.schema, isWhole)
	p := Problem{Kind: MayFail, Offset: j.offset(e)}
	if j.disjoint(s.known.schema, exactly(number0)) {
		if whole {
			return true
		}
		p.Message = "the quotient may overflow, for " + text + " can be as near to 0 as it likes"
		p.Hint = text + " >= 0.001 ? " + render(e) + " : …"
		j.report(p)
		return false
	}
	p.Message, p.Hint = text+" may be 0, by which nothing can be divided", text+" != 0 ? "+render(e)+" : …"
	if !whole {
		p.Hint = text + " >= 0.001 ? " + render(e) + " : …"
	}
	if v, ok := s.known.value(); ok && kindOfValue(v)&isNumber != 0 {
		p.Kind, p.Message, p.Hint = Wrong, "division by 0", ""
	} else if s.known.at != nil {
		s.known.at.within(j, exactly(number0), &p)
	}
	j.report(p)
	return false
}

// beyond reports a result that may be out of range.
func (j *judge) beyond(e ast.Expr, sides []operand, in []interval, out interval, why string) {
	p := Problem{Kind: MayFail, Offset: j.offset(e), Message: render(e) + " may overflow: " + why}
	for i, s := range sides {
		at := s.known.at
		if at == nil {
			continue
		}
		low, high := in[i].lo == nil || in[i].lo.Cmp(out.lo) < 0, in[i].hi == nil || in[i].hi.Cmp(out.hi) > 0
		narrow := !low && !high && in[i].inside(between(-1<<31, 1<<31))
		if p.Hint == "" && (!narrow || len(sides) == 1) {
			p.Hint = "add `minimum` and `maximum` to the schema of " + at.String()
			if in[i].lo != nil && !low {
				p.Hint = "add `maximum` to the schema of " + at.String()
			}
			p.Hint += ", or guard it: " + at.String() + " < 1000000 ? … : …"
		}
		if p.Name == "" {
			j.extreme(at, in[i], &p)
		}
	}
	j.report(p)
}

// extreme looks for a value of a name that has the largest number at a place, or
// else the smallest.
func (j *judge) extreme(at *location, in interval, p *Problem) {
	if in.empty {
		return
	}
	try := func(s *schemas.Schema) bool {
		at.within(j, s, p)
		return p.Name != ""
	}
	if n, ok := literalOf(in.hi); ok && try(exactly(n)) {
		return
	}
	for _, bound := range []*big.Rat{maxDouble, maxInt64, new(big.Rat).SetInt64(1 << 62)} {
		if in.hi == nil && try(interval{lo: bound}.schema(false)) || in.lo == nil && try(interval{hi: new(big.Rat).Neg(bound)}.schema(false)) {
			return
		}
	}
	if n, ok := literalOf(in.lo); ok {
		try(exactly(n))
	}
}

// calculate returns an interval that contains all results of an operator; for a
// quotient, those of divisors other than 0.
func calculate(op string, in []interval, whole bool) interval {
	a := in[0]
	switch op {
	case operators.Negate:
		return interval{lo: neg(a.hi), hi: neg(a.lo)}
	case operators.Add:
		return interval{lo: add2(a.lo, in[1].lo), hi: add2(a.hi, in[1].hi)}
	case operators.Subtract:
		return interval{lo: add2(a.lo, neg(in[1].hi)), hi: add2(a.hi, neg(in[1].lo))}
	case operators.Multiply:
		return corners(a, in[1], func(x, y *big.Rat) *big.Rat { return new(big.Rat).Mul(x, y) })
	case operators.Divide:
		quotient := func(x, y *big.Rat) *big.Rat {
			q := new(big.Rat).Quo(x, y)
			if whole {
				q.SetInt(new(big.Int).Quo(q.Num(), q.Denom()))
			}
			return q
		}
		b := in[1]
		if !b.holds(zero) {
			return corners(a, b, quotient)
		}
		// Here the divisor is whole, and not 0.
		out := interval{empty: true}
		minus := new(big.Rat).Neg(one)
		if below := b.meet(interval{hi: minus}); !below.empty {
			out = out.hull(corners(a, below, quotient))
		}
		if above := b.meet(interval{lo: one}); !above.empty {
			out = out.hull(corners(a, above, quotient))
		}
		return out
	}
	return interval{}
}

// remainder is the interval of a % b, which has the sign of a.
func remainder(a, b interval) interval {
	size := func(i interval) *big.Rat {
		x, y := new(big.Rat).Abs(i.lo), new(big.Rat).Abs(i.hi)
		if x.Cmp(y) > 0 {
			return x
		}
		return y
	}
	most := new(big.Rat).Sub(size(b), one)
	if x := size(a); x.Cmp(most) < 0 {
		most = x
	}
	out := interval{lo: zero, hi: zero}
	if a.lo.Sign() < 0 {
		out.lo = new(big.Rat).Neg(most)
	}
	if a.hi.Sign() > 0 {
		out.hi = most
	}
	return out
}

// corners is the interval of an operator that is monotone in each operand: its ends
// are among the results at the ends, which must be known.
func corners(a, b interval, f func(x, y *big.Rat) *big.Rat) interval {
	if a.lo == nil || a.hi == nil || b.lo == nil || b.hi == nil {
		return interval{}
	}
	out := interval{empty: true}
	for _, x := range []*big.Rat{a.lo, a.hi} {
		for _, y := range []*big.Rat{b.lo, b.hi} {
			r := f(x, y)
			out = out.hull(interval{lo: r, hi: r})
		}
	}
	return out
}

func neg(r *big.Rat) *big.Rat {
	if r == nil {
		return nil
	}
	return new(big.Rat).Neg(r)
}

// add2 is nil where one side has no bound.
func add2(a, b *big.Rat) *big.Rat {
	if a == nil || b == nil {
		return nil
	}
	return new(big.Rat).Add(a, b)
}
