package containment

import (
	"encoding/json"
	"math/big"
)

var one = big.NewRat(1, 1)

// decimal writes a rational as JSON, if it has a finite decimal form.
func decimal(r *big.Rat) (json.Number, bool) {
	n, exact := r.FloatPrec()
	if !exact || n > 200 {
		return "", false
	}
	return json.Number(r.FloatString(n)), true
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

func (p *prover) number(base []atom) result {
	var lo, hi, step *big.Rat
	var los, his bool
	var avoid []*big.Rat
	fits := func(x *big.Rat) bool {
		p.step()
		for _, a := range base {
			switch a.op {
			case lower:
				if c := x.Cmp(a.num); c < 0 || c == 0 && a.strict {
					return false
				}
			case upper:
				if c := x.Cmp(a.num); c > 0 || c == 0 && a.strict {
					return false
				}
			case multiple, notMultiple:
				if new(big.Rat).Quo(x, a.num).IsInt() != (a.op == multiple) {
					return false
				}
			case notValue:
				if n, ok := a.value.(json.Number); ok {
					if v, ok := new(big.Rat).SetString(n.String()); ok && v.Cmp(x) == 0 {
						return false
					}
				}
			}
		}
		return true
	}
	for _, a := range base {
		switch a.op {
		case lower:
			if lo == nil || a.num.Cmp(lo) > 0 || a.num.Cmp(lo) == 0 && a.strict {
				lo, los = a.num, a.strict
			}
		case upper:
			if hi == nil || a.num.Cmp(hi) < 0 || a.num.Cmp(hi) == 0 && a.strict {
				hi, his = a.num, a.strict
			}
		case multiple:
			if step == nil {
				step = a.num
				continue
			}
			// lcm(a/b, c/d) = lcm(a·d, c·b)/(b·d)
			x := new(big.Int).Mul(step.Num(), a.num.Denom())
			y := new(big.Int).Mul(a.num.Num(), step.Denom())
			g := new(big.Int).GCD(nil, nil, x, y)
			l := new(big.Int).Mul(x, new(big.Int).Quo(y, g))
			step = new(big.Rat).SetFrac(l, new(big.Int).Mul(step.Denom(), a.num.Denom()))
		case notMultiple:
			avoid = append(avoid, a.num)
		}
	}
	give := func(x *big.Rat) result {
		if n, ok := decimal(x); ok {
			return result{state: found, value: n}
		}
		return result{}
	}
	if lo != nil && hi != nil {
		if c := lo.Cmp(hi); c > 0 || c == 0 && (los || his) {
			return result{state: empty}
		} else if c == 0 {
			if fits(lo) {
				return give(lo)
			}
			return result{state: empty}
		}
	}
	if step == nil {
		// The interval has an inside, and what is excluded is countable there: go
		// through ever finer decimals.
		from := new(big.Rat)
		width := big.NewRat(1, 1)
		switch {
		case lo != nil && hi != nil:
			from, width = lo, new(big.Rat).Sub(hi, lo)
		case lo != nil:
			from = lo
		case hi != nil:
			from = new(big.Rat).Sub(hi, one)
		}
		for den := int64(1); den <= 1<<12; den *= 2 {
			for k := int64(0); k <= min(den, 64); k++ {
				x := new(big.Rat).Add(from, new(big.Rat).Mul(width, big.NewRat(k, den)))
				if fits(x) {
					return give(x)
				}
			}
		}
		return result{}
	}
	for _, a := range avoid {
		if new(big.Rat).Quo(step, a).IsInt() {
			return result{state: empty}
		}
	}
	up := func(r *big.Rat) *big.Int { // the first k with k·step ≥ r
		q := new(big.Rat).Quo(r, step)
		n := new(big.Int).Neg(new(big.Int).Div(new(big.Int).Neg(q.Num()), q.Denom()))
		return n
	}
	k, sign := new(big.Int), int64(1)
	switch {
	case lo != nil:
		k = up(lo)
	case hi != nil:
		q := new(big.Rat).Quo(hi, step)
		k, sign = new(big.Int).Div(q.Num(), q.Denom()), -1
	}
	for range 2048 {
		x := new(big.Rat).Mul(step, new(big.Rat).SetInt(k))
		if fits(x) {
			return give(x)
		}
		if lo != nil && hi != nil && x.Cmp(hi) > 0 {
			return result{state: empty}
		}
		k.Add(k, big.NewInt(sign))
	}
	return result{}
}
