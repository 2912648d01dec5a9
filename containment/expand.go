package containment

import (
	"maps"
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

// atom is one demand on a value of one type. every and some are about the places from
// to to of a list, or the keys of class.
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

// clause is a list of alternatives, each a conjunction of atoms.
type clause [][]atom

// conj is a partly expanded conjunction: goal is its origin; units are still to be
// expanded; base holds the atoms of those that were; clauses are alternatives still to
// choose from; seen are the expanded schemas.
type conj struct {
	kind    string
	goal    []lit
	units   []atom
	base    []atom
	clauses []clause
	// negs are the clauses of negated schemas, kept apart only if gather is set:
	// they are applied where one alternative is left, and dropped otherwise.
	negs []clause
	seen []lit
	lost reason
	// keys are those that must be there, or must not.
	keys map[string]bool
	// pass, if set, must accept listed values, as goal must.
	pass func(v any) bool
	// gather, if set, is called instead of solving, with the demands or with all
	// possible values.
	gather func(c *conj, values []any)
}

func newConj(kind string, goal []lit) *conj {
	c := &conj{kind: kind, goal: goal, units: make([]atom, 0, len(goal)+4)}
	for _, l := range goal {
		c.units = append(c.units, atom{op: literal, lit: l})
	}
	return c
}

func (c *conj) list(p *prover, values []any) result {
	if c.gather != nil {
		c.gather(c, values)
		return result{state: empty}
	}
	if c.pass != nil {
		p.charge(1 + len(values)/8)
		values = slices.DeleteFunc(slices.Clone(values), func(v any) bool { return !c.pass(v) })
	}
	return p.try(c.goal, values)
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
			c.note(a)
			continue
		}
		if slices.Contains(c.seen, a.lit) {
			continue
		}
		if p.contradicts(c, a.lit) {
			return result{state: empty}
		}
		c.seen = append(c.seen, a.lit)
		if vs, ok := p.finite(a.lit); ok {
			return c.list(p, vs)
		}
		if a.lit.neg {
			neg, lost := p.fails(a.lit.s, c.kind)
			c.lost = c.lost.or(lost)
			if c.gather != nil {
				c.negs = append(c.negs, neg)
			} else {
				c.clauses = append(c.clauses, neg)
			}
			continue
		}
		pos, lost := p.asks(a.lit.s, c.kind)
		c.lost = c.lost.or(lost)
		for _, cl := range pos {
			if len(cl) == 1 {
				c.units = append(c.units, cl[0]...)
			} else {
				c.clauses = append(c.clauses, cl)
			}
		}
	}
	for i := 0; i < len(c.negs); i++ {
		keep := p.prune(c, c.negs[i])
		switch len(keep) {
		case 0:
			return result{state: empty}
		case 1:
			c.units = slices.Clone(keep[0])
			c.negs = slices.Delete(slices.Clone(c.negs), i, i+1)
			return p.expand(c)
		}
	}
	if len(c.clauses) == 0 {
		if c.gather != nil {
			c.gather(c, nil)
			return result{state: empty}
		}
		return p.leaf(c)
	}
	best := -1
	left := c.clauses[:0:0]
	for _, cl := range c.clauses {
		keep := p.prune(c, cl)
		switch {
		case len(keep) == 0:
			return result{state: empty}
		case len(keep) == 1:
			// One alternative remains, so it must hold; atoms that need no expansion count at once.
			for _, a := range keep[0] {
				if a.op == literal || a.op == never {
					c.units = append(c.units, a)
				} else {
					c.base = append(c.base, a)
					c.note(a)
				}
			}
			continue
		}
		if left = append(left, keep); best < 0 || len(keep) < len(left[best]) {
			best = len(left) - 1
		}
	}
	if n := len(c.clauses); len(left) < n {
		c.clauses = left
		return p.expand(c)
	}
	c.clauses = left
	pick := c.clauses[best]
	rest := slices.Delete(slices.Clone(c.clauses), best, best+1)
	out := result{state: empty}
	for _, alt := range pick {
		r := p.expand(&conj{kind: c.kind, goal: c.goal, units: slices.Clone(alt), base: slices.Clip(c.base),
			clauses: slices.Clone(rest), negs: slices.Clip(c.negs), keys: maps.Clone(c.keys), seen: slices.Clip(c.seen), lost: c.lost, pass: c.pass, gather: c.gather})
		if r.state == found {
			return r
		}
		if r.state == unknown {
			out = result{why: out.why.or(r.why)}
		}
	}
	return out
}

// note records which keys must be present, and which must not.
func (c *conj) note(a atom) {
	if a.op != required && a.op != absent {
		return
	}
	if c.keys == nil {
		c.keys = map[string]bool{}
	}
	c.keys[a.key] = a.op == required
}

// prune drops the alternatives that contradict what has been expanded.
func (p *prover) prune(c *conj, cl clause) clause {
	keep := make(clause, 0, len(cl))
	p.charge(1 + len(cl)/4)
	for _, alt := range cl {
		if !p.hopeless(c, alt) {
			keep = append(keep, alt)
		}
	}
	return keep
}

// hopeless reports whether an alternative contradicts what has been expanded.
func (p *prover) hopeless(c *conj, alt []atom) bool {
	return slices.ContainsFunc(alt, func(a atom) bool {
		if a.op == never {
			return true
		}
		if a.op == literal {
			p.step()
			return !a.lit.neg && !admits(a.lit.s, c.kind) || p.contradicts(c, a.lit)
		}
		there, told := c.keys[a.key]
		return told && (a.op == absent && there || a.op == required && !there)
	})
}

func (p *prover) contradicts(c *conj, l lit) bool {
	return slices.ContainsFunc(c.seen, func(o lit) bool {
		switch {
		case o.neg == l.neg:
			return false
		case l.neg:
			return p.within(o.s, l.s)
		}
		return p.within(l.s, o.s)
	})
}

// leaf solves a conjunction of atoms of one type, and confirms the value that it finds.
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
	if r.state == unknown {
		r.why = r.why.or(c.lost)
		if r.why.none() {
			r.why = c.author()
		}
		return r
	}
	if r.state == empty {
		return r
	}
	size := bulk(r.value, maxWitness)
	if p.charge(size / 256); size > maxWitness {
		return result{why: r.why.or(c.lost).or(reason{other: "a value is too large"})}
	}
	if yes, sure := p.check(c.goal, r.value); !yes {
		why := r.why.or(c.lost)
		switch {
		case !why.none():
		case sure:
			why = c.author()
		default:
			why = p.wildest(c.goal)
		}
		return result{why: why}
	}
	r.why = reason{}
	return r
}

// author returns the reason that names the last expanded schema that a user wrote.
func (c *conj) author() reason {
	for i := len(c.seen) - 1; i >= 0; i-- {
		if c.seen[i].s.Location != made {
			return reason{s: c.seen[i].s}
		}
	}
	return reason{}
}
