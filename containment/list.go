package containment

import "slices"

func (p *prover) list(base []atom) result {
	least, most, edge := 0, unlimited, 0
	var wants []atom
	for _, a := range base {
		switch a.op {
		case minLen:
			least = max(least, a.n)
		case maxLen:
			most = min(most, a.n)
		case every, some:
			edge = max(edge, a.from)
			if a.to < unlimited {
				edge = max(edge, a.to)
			}
			if a.op == some {
				wants = append(wants, a)
			}
		case atLeast:
			if a.n > 16 {
				least = max(least, a.n)
				continue // the rest is dropped
			}
			for i := range a.n {
				wants = append(wants, atom{op: some, to: unlimited, lit: a.lit, n: i})
			}
		}
	}
	if least > most {
		return result{state: empty}
	}
	all := func(i int) []lit {
		var out []lit
		for _, a := range base {
			switch {
			case a.op == every && a.from <= i && i < a.to:
				out = append(out, a.lit)
			case a.op == atMost && a.n == 0:
				out = append(out, lit{a.lit.s, !a.lit.neg})
			}
		}
		return out
	}
	span := edge + len(wants) + 1
	where := make([]int, len(wants))
	var place func(k int) result
	place = func(k int) result {
		p.step()
		if k < len(wants) {
			out := result{state: empty}
			for i := wants[k].from; i < min(wants[k].to, span, most); i++ {
				if wants[k].n > 0 && where[k-1] >= i {
					continue // copies stand in order
				}
				where[k] = i
				r := place(k + 1)
				if r.state == found {
					return r
				}
				if r.state == unknown {
					out.state = unknown
				}
			}
			return out
		}
		n := least
		for _, i := range where {
			n = max(n, i+1)
		}
		return p.fill(base, n, span, all, wants, where)
	}
	return place(0)
}

func (p *prover) fill(base []atom, n, span int, all func(int) []lit, wants []atom, where []int) result {
	is := func(o op) bool { return slices.ContainsFunc(base, func(a atom) bool { return a.op == o }) }
	out := []any{}
	unsure := false
	for i := range min(n, span+1000) {
		lits := all(i)
		for k, w := range where {
			if w == i {
				lits = append(lits, wants[k].lit)
			}
		}
		r := p.sat(lits)
		if r.state == empty {
			return r
		}
		if r.state == found && is(unique) {
			for _, v := range out {
				lits = append(lits, lit{constant(v), true})
			}
			if r = p.sat(lits); r.state == empty {
				r.state = unknown
			}
		}
		unsure = unsure || r.state == unknown
		out = append(out, r.value)
	}
	if unsure || n > len(out) {
		return result{}
	}
	if is(repeated) {
		most := unlimited
		for _, a := range base {
			if a.op == maxLen {
				most = min(most, a.n)
			}
		}
		if most < 2 {
			return result{state: empty}
		}
		for len(out) < 2 {
			out = append(out, nil)
		}
		r := p.sat(append(all(0), all(1)...))
		if r.state != found {
			return result{}
		}
		out[0], out[1] = r.value, r.value
	}
	return result{state: found, value: out}
}
