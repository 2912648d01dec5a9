package containment

import (
	"encoding/json"
	"math/big"
	"strconv"
)

var one = big.NewRat(1, 1)

// Bounds of numbers: the size of a lattice's step in bits, and how far the
// lattice is searched beyond the values to avoid.
const (
	maxBits  = 20_000
	maxSteps = 512
)

// decimal returns a rational as JSON, if it has a finite decimal form that is not too
// long.
func decimal(r *big.Rat) (json.Number, bool) {
	n, exact := r.FloatPrec()
	switch {
	case !exact || n > 400:
		return "", false
	case n <= 20:
		return json.Number(r.FloatString(n)), true
	}
	scale := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(n)), nil)
	m := new(big.Rat).Mul(r, new(big.Rat).SetInt(scale))
	return json.Number(m.Num().String() + "e-" + strconv.Itoa(n)), true
}

func numberKeywords(s *schema, d *demands) {
	bound := func(r *big.Rat, o op, strict bool) {
		if r == nil {
			return
		}
		dual := lower
		if o == lower {
			dual = upper
		}
		d.both(atom{op: o, num: r, strict: strict}, atom{op: dual, num: r, strict: !strict})
	}
	bound(s.Minimum, lower, false)
	bound(s.ExclusiveMinimum, lower, true)
	bound(s.Maximum, upper, false)
	bound(s.ExclusiveMaximum, upper, true)
	if s.MultipleOf != nil {
		d.both(atom{op: multiple, num: s.MultipleOf}, atom{op: notMultiple, num: s.MultipleOf})
	}
}

// interval holds the demands on a number: bounds, nil if there is none; a lattice of
// multiples of step, nil for all numbers; lattices and values to avoid.
type interval struct {
	*prover
	lo, hi            *big.Rat
	openLow, openHigh bool
	step              *big.Rat
	lattices          []*big.Rat
	values            map[string]bool
}

func (p *prover) number(base []atom) result {
	v := &interval{prover: p, values: map[string]bool{}}
	p.charge(1 + len(base)/8)
	for _, a := range base {
		switch a.op {
		case lower:
			if v.lo == nil || compare(a.num, v.lo) > 0 || compare(a.num, v.lo) == 0 && a.strict {
				v.lo, v.openLow = a.num, a.strict
			}
		case upper:
			if v.hi == nil || compare(a.num, v.hi) < 0 || compare(a.num, v.hi) == 0 && a.strict {
				v.hi, v.openHigh = a.num, a.strict
			}
		case multiple:
			if v.step = common(v.step, a.num); v.step.Num().BitLen()+v.step.Denom().BitLen() > maxBits {
				return result{why: reason{other: "the common multiples of numbers are too large"}}
			}
			p.charge(1 + v.step.Num().BitLen()/256)
		case notMultiple:
			v.lattices = append(v.lattices, a.num)
		case notValue:
			if n, ok := a.value.(json.Number); ok {
				v.values[canonical(n)] = true
			}
		default: // about other types, or handled already
		}
	}
	if v.lo != nil && v.hi != nil {
		switch c := compare(v.lo, v.hi); {
		case c > 0 || c == 0 && (v.openLow || v.openHigh):
			return result{state: empty}
		case c == 0 && v.fits(v.lo):
			return give(v.lo)
		case c == 0:
			return result{state: empty}
		}
	}
	if v.step == nil {
		return v.dense()
	}
	return v.lattice()
}

// common returns the least common multiple: of a/b and c/d it is that of a·d and
// c·b, divided by b·d. A nil stands for no lattice.
func common(s, t *big.Rat) *big.Rat {
	if s == nil {
		return t
	}
	x := new(big.Int).Mul(s.Num(), t.Denom())
	y := new(big.Int).Mul(t.Num(), s.Denom())
	g := new(big.Int).GCD(nil, nil, x, y)
	l := new(big.Int).Mul(x, new(big.Int).Quo(y, g))
	return new(big.Rat).SetFrac(l, new(big.Int).Mul(s.Denom(), t.Denom()))
}

// fits reports whether x lies between the bounds and on the lattice, and is not to be
// avoided.
func (v *interval) fits(x *big.Rat) bool {
	v.charge(1 + len(v.lattices)/4)
	if v.lo != nil {
		if c := compare(x, v.lo); c < 0 || c == 0 && v.openLow {
			return false
		}
	}
	if v.hi != nil {
		if c := compare(x, v.hi); c > 0 || c == 0 && v.openHigh {
			return false
		}
	}
	if v.step != nil && !new(big.Rat).Quo(x, v.step).IsInt() {
		return false
	}
	for _, l := range v.lattices {
		if new(big.Rat).Quo(x, l).IsInt() {
			return false
		}
	}
	return len(v.values) == 0 || !v.values[x.RatString()]
}

func give(x *big.Rat) result {
	if n, ok := decimal(x); ok {
		return result{state: found, value: n}
	}
	return result{why: reason{other: "a number has too many digits"}}
}

// dense looks for a number if the bounds differ: the numbers to avoid between them are
// countable, so ever finer decimals find another.
func (v *interval) dense() result {
	from, width := new(big.Rat), one
	switch {
	case v.lo != nil && v.hi != nil:
		from, width = v.lo, new(big.Rat).Sub(v.hi, v.lo)
	case v.lo != nil:
		from = v.lo
	case v.hi != nil:
		from = new(big.Rat).Sub(v.hi, one)
	}
	for den, tries := int64(1), 0; tries <= len(v.values)+maxSteps; den *= 2 {
		for k := int64(0); k <= min(den, 64); k++ {
			tries++
			x := new(big.Rat).Mul(width, big.NewRat(k, den))
			if x.Add(x, from); v.fits(x) {
				return give(x)
			}
		}
		if den > 1<<50 {
			break
		}
	}
	return result{why: reason{other: "no number between bounds was found"}}
}

// lattice tries the multiples of step, starting from a bound or from 0.
func (v *interval) lattice() result {
	for _, l := range v.lattices {
		if new(big.Rat).Quo(v.step, l).IsInt() {
			return result{state: empty}
		}
	}
	k, way := new(big.Int), one.Num()
	switch {
	case v.lo != nil: // the first k with k·step ≥ lo
		q := new(big.Rat).Quo(v.lo, v.step)
		k.Neg(k.Div(k.Neg(q.Num()), q.Denom()))
	case v.hi != nil: // the last with k·step ≤ hi
		q := new(big.Rat).Quo(v.hi, v.step)
		k.Div(q.Num(), q.Denom())
		way = big.NewInt(-1)
	}
	for range len(v.values) + maxSteps {
		x := new(big.Rat).SetInt(k)
		x.Mul(x, v.step)
		if v.fits(x) {
			return give(x)
		}
		if v.lo != nil && v.hi != nil && compare(x, v.hi) > 0 {
			return result{state: empty}
		}
		k.Add(k, way)
	}
	return result{why: reason{other: "no number among multiples was found"}}
}
