package containment

import (
	"math/big"
	"regexp"
	"slices"
)

type op int

const (
	literal op = iota
	never
	lower
	upper
	multiple
	notMultiple
	minLen
	maxLen
	matches
	notMatches
	notValue
	every
	some
	unique
	repeated
	atLeast
	atMost
	required
	absent
	names
	someName
)

// atom is one thing that is asked of a value of one type. every and some are
// about the places from to to of a list, or the keys of class.
type atom struct {
	op       op
	lit      lit
	num      *big.Rat
	strict   bool
	n        int
	from, to int
	key      string
	re       *regexp.Regexp
	class    *class
	value    any
}

type clause [][]atom

// conj is a partly expanded conjunction.
type conj struct {
	kind    string
	goal    []lit
	units   []atom
	base    []atom
	clauses []clause
	seen    []lit
}

func (p *prover) expand(c *conj) result {
	for len(c.units) > 0 {
		p.step()
		a := c.units[0]
		c.units = c.units[1:]
		if a.op == never {
			return result{state: empty}
		}
		if a.op != literal {
			c.base = append(c.base, a)
			continue
		}
		if slices.Contains(c.seen, a.lit) {
			continue
		}
		if p.contradicts(c, a.lit) {
			return result{state: empty}
		}
		c.seen = append(c.seen, a.lit)
		if s := a.lit.s; !a.lit.neg {
			if len(s.Constant) > 0 {
				return p.try(c.goal, s.Constant[:1])
			}
			if len(s.Enum) > 0 {
				return p.try(c.goal, s.Enum)
			}
		}
		pos, neg := p.keywords(a.lit.s, c.kind)
		if a.lit.neg {
			c.clauses = append(c.clauses, neg)
			continue
		}
		for _, cl := range pos {
			if len(cl) == 1 {
				c.units = append(c.units, cl[0]...)
			} else {
				c.clauses = append(c.clauses, cl)
			}
		}
	}
	if len(c.clauses) == 0 {
		return p.leaf(c)
	}
	best := -1
	for i, cl := range c.clauses {
		var keep clause
		for _, alt := range cl {
			p.step()
			if !slices.ContainsFunc(alt, func(a atom) bool {
				return a.op == never || a.op == literal && (p.contradicts(c, a.lit) || !a.lit.neg && !admits(a.lit.s, c.kind))
			}) {
				keep = append(keep, alt)
			}
		}
		c.clauses[i] = keep
		if best < 0 || len(keep) < len(c.clauses[best]) {
			best = i
		}
	}
	pick := c.clauses[best]
	rest := slices.Delete(slices.Clone(c.clauses), best, best+1)
	out := result{state: empty}
	for _, alt := range pick {
		r := p.expand(&conj{kind: c.kind, goal: c.goal, units: slices.Clone(alt), base: slices.Clone(c.base),
			clauses: slices.Clone(rest), seen: slices.Clone(c.seen)})
		if r.state == found {
			return r
		}
		if r.state == unknown {
			out.state = unknown
		}
	}
	return out
}

func (p *prover) contradicts(c *conj, l lit) bool {
	return slices.ContainsFunc(c.seen, func(o lit) bool { return o.neg != l.neg && p.same(o.s, l.s) })
}

// leaf solves a conjunction of atoms of one type, and confirms what it finds.
func (p *prover) leaf(c *conj) result {
	p.step()
	var r result
	switch c.kind {
	case "number":
		r = p.number(c.base)
	case "string":
		r = p.text(c.base)
	case "array":
		r = p.list(c.base)
	default:
		r = p.object(c.base)
	}
	if r.state != found {
		return r
	}
	if yes, _ := p.check(c.goal, r.value); !yes {
		if len(c.seen) > 0 {
			p.because(c.seen[len(c.seen)-1].s, "")
		}
		return result{}
	}
	return r
}
