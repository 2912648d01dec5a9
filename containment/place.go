package containment

import "encoding/binary"

// cell is one way to fill a place: the needs that it satisfies, with a value if one is
// known.
type cell struct {
	lits   []lit
	serves uint
	state  state
	value  any
}

// at returns the ways to fill place i that are not known to be empty. A need with a
// minimum adds its demand to the place, one with a maximum the negation.
func (l *listing) at(i int) []cell {
	i = min(i, l.edge)
	if cells, ok := l.cells[i]; ok {
		return cells
	}
	var base []lit
	for _, a := range l.every {
		if a.from <= i && i < a.to {
			base = append(base, a.lit)
		}
	}
	var cells []cell
	var choose func(q int, serves uint, lits []lit)
	choose = func(q int, serves uint, lits []lit) {
		r := l.sat(lits)
		if r.state == empty {
			return
		}
		for ; q < len(l.needs); q++ {
			if n := l.needs[q]; n.from <= i && i < n.to {
				yes, no := lits[:len(lits):len(lits)], lits[:len(lits):len(lits)]
				if n.min > 0 {
					yes = append(yes, n.lit)
				}
				if n.max < unlimited {
					no = append(no, n.lit.not())
				}
				choose(q+1, serves|1<<q, yes)
				choose(q+1, serves, no)
				return
			}
		}
		if r.state == unknown {
			l.why = l.why.or(r.why)
		}
		cells = append(cells, cell{lits, serves, r.state, r.value})
	}
	choose(0, 0, base)
	l.cells[i] = cells
	return cells
}

// counts holds how often each need is satisfied, as far as it matters.
type counts []int

func (l *listing) serve(c counts, serves uint) (counts, bool) {
	out := make(counts, len(c))
	for q, n := range l.needs {
		out[q] = c[q]
		if serves>>q&1 == 0 {
			continue
		}
		if out[q]++; out[q] > n.max {
			return nil, false
		}
		if n.max == unlimited {
			out[q] = min(out[q], n.min)
		}
	}
	return out, true
}

func (l *listing) served(c counts) bool {
	for q, n := range l.needs {
		if c[q] < n.min {
			return false
		}
	}
	return true
}

// shortest looks for the shortest list, place by place and breadth first over counts.
// With unsure, places may hold what is not known to be empty.
func (l *listing) shortest(unsure bool) ([]cell, bool) {
	type node struct {
		i    int
		got  counts
		back int
		cell cell
	}
	nodes := []node{{got: make(counts, len(l.needs)), back: -1}}
	seen := map[string]bool{}
	still := max(l.edge, l.least)
	var key []byte
	for at := 0; at < len(nodes); at++ {
		n := nodes[at]
		if n.i >= l.least && l.served(n.got) {
			path := make([]cell, n.i)
			for k := at; nodes[k].back >= 0; k = nodes[k].back {
				path[nodes[k].i-1] = nodes[k].cell
			}
			return path, true
		}
		if n.i >= l.most {
			continue
		}
		for _, c := range l.at(n.i) {
			l.step()
			if !unsure && c.state != found {
				continue
			}
			got, ok := l.serve(n.got, c.serves)
			if !ok {
				continue
			}
			key = binary.AppendUvarint(key[:0], uint64(min(n.i+1, still)))
			for _, g := range got {
				key = binary.AppendUvarint(key, uint64(g))
			}
			if seen[string(key)] {
				continue
			}
			seen[string(key)] = true
			nodes = append(nodes, node{n.i + 1, got, at, c})
		}
	}
	return nil, false
}
