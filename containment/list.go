package containment

import (
	"math/bits"
	"slices"
)

// unlimited is beyond the last place of any list.
const unlimited = 1 << (bits.UintSize - 4)

// longest bounds the lists that are built.
const longest = 4000

func (p *prover) listKeywords(s *schema, d *demands) {
	if s.MinItems > 0 {
		d.both(atom{op: minLen, n: s.MinItems}, atom{op: maxLen, n: s.MinItems - 1})
	}
	if s.MaxItems >= 0 {
		d.both(atom{op: maxLen, n: s.MaxItems}, atom{op: minLen, n: s.MaxItems + 1})
	}
	if s.UniqueItems {
		d.both(atom{op: unique}, atom{op: repeated})
	}
	places := func(from, to int, e *schema) {
		if !always(e) {
			d.both(atom{op: every, from: from, to: to, lit: lit{e, false}}, atom{op: some, from: from, to: to, lit: lit{e, true}})
		}
	}
	prefix, rest := elements(s)
	for i, e := range prefix {
		places(i, i+1, e)
	}
	if rest != nil {
		places(len(prefix), unlimited, rest)
	}
	if s.Contains != nil {
		c := lit{s.Contains, false}
		if s.MinContains > 0 {
			d.both(atom{op: atLeast, n: s.MinContains, lit: c}, atom{op: atMost, n: s.MinContains - 1, lit: c})
		}
		if s.MaxContains >= 0 {
			d.both(atom{op: atMost, n: s.MaxContains, lit: c}, atom{op: atLeast, n: s.MaxContains + 1, lit: c})
		}
	}
	p.unevaluated(s, s.UnevaluatedItems, "array", "unevaluatedItems", d)
}

// need demands that between min and max of the places from to to hold lit.
type need struct {
	lit      lit
	from, to int
	min, max int
}

// listing holds the demands on a list.
type listing struct {
	*prover
	least, most int
	// edge is the first place from which on the demands are the same for every place.
	edge             int
	every            []atom
	needs            []need
	unique, repeated bool
	cells            map[int][]cell
	why              reason
}

func (p *prover) list(base []atom) result {
	l := &listing{prover: p, most: unlimited, cells: map[int][]cell{}}
	for _, a := range base {
		switch a.op {
		case minLen:
			l.least = max(l.least, a.n)
		case maxLen:
			l.most = min(l.most, a.n)
		case unique:
			l.unique = true
		case repeated:
			l.repeated = true
		case every:
			l.every = append(l.every, a)
			l.reach(a.from, a.to)
		case some:
			l.add(need{lit: a.lit, from: a.from, to: a.to, min: 1, max: unlimited})
		case atLeast:
			l.add(need{lit: a.lit, to: unlimited, min: a.n, max: unlimited})
		case atMost:
			if a.n == 0 {
				l.every = append(l.every, atom{op: every, to: unlimited, lit: a.lit.not()})
			} else {
				l.add(need{lit: a.lit, to: unlimited, max: a.n})
			}
		default: // about other types, or handled already
		}
	}
	if l.repeated {
		l.least = max(l.least, 2)
	}
	// A place that must hold something lies within the list.
	for _, n := range l.needs {
		if n.min > 0 && n.to < unlimited {
			l.least = max(l.least, n.from+1)
		}
		if n.min > 0 {
			l.least = max(l.least, n.min)
		}
	}
	if l.least > l.most || l.unique && l.repeated {
		return result{state: empty}
	}
	return l.solve()
}

func (l *listing) reach(from, to int) {
	l.edge = max(l.edge, from)
	if to < unlimited {
		l.edge = max(l.edge, to)
	}
}

func (l *listing) add(n need) {
	l.reach(n.from, n.to)
	for i := range l.needs {
		if m := &l.needs[i]; m.lit == n.lit && m.from == n.from && m.to == n.to {
			m.min, m.max = max(m.min, n.min), min(m.max, n.max)
			return
		}
	}
	l.needs = append(l.needs, n)
}

func (l *listing) solve() result {
	if slices.ContainsFunc(l.needs, func(n need) bool { return n.min > n.max }) {
		return result{state: empty}
	}
	if len(l.needs) > 8 {
		return result{why: reason{other: "a list has more than 8 different demands on its places"}}
	}
	if l.least > longest {
		// The only useful answer is that a place holds nothing.
		for i := range l.edge + 1 {
			if len(l.at(i)) == 0 {
				return result{state: empty}
			}
		}
		return result{why: l.why.or(reason{other: "a list is too long"})}
	}
	if l.unique || l.repeated {
		return l.compare()
	}
	for _, unsure := range []bool{false, true} {
		path, ok := l.shortest(unsure)
		switch {
		case ok && !unsure:
			out := make([]any, 0, len(path))
			for _, c := range path {
				out = append(out, c.value)
			}
			return result{state: found, value: out}
		case ok:
			return result{why: l.why}
		}
	}
	return result{state: empty}
}
