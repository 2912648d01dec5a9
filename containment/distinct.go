package containment

import (
	"encoding/json"
	"math/big"
)

// maxPaths bounds the lists that are tried when places depend on each other.
const maxPaths = 400

// compare looks for a list whose places all differ, or of which two are equal.
func (l *listing) compare() result {
	// A list with two equal places needs no other places than those that must exist.
	most := min(l.most, max(l.least, l.edge)+2)
	for _, n := range l.needs {
		most = min(l.most, most+min(n.min, 64))
	}
	paths, unsure := 0, false
	var out result
	var walk func(path []cell, got counts) bool
	walk = func(path []cell, got counts) bool {
		l.step()
		if len(path) >= l.least && l.served(got) {
			paths++
			v, sure, ok := l.accept(path)
			if ok {
				out = result{state: found, value: v}
				return true
			}
			unsure = unsure || !sure
			if l.unique {
				return false // more places are no easier to tell apart
			}
		}
		if len(path) >= most || paths > maxPaths {
			return false
		}
		for _, c := range l.at(len(path)) {
			if next, ok := l.serve(got, c.serves); ok && walk(append(path[:len(path):len(path)], c), next) {
				return true
			}
		}
		return false
	}
	if l.least > 300 {
		return result{why: l.why.or(reason{other: "a list with equal or different places is too long"})}
	}
	if walk(nil, make(counts, len(l.needs))) {
		return out
	}
	if unsure || paths > maxPaths {
		return result{why: l.why.or(reason{other: "the places of a list depend on each other in too many ways"})}
	}
	return result{state: empty}
}

func (l *listing) accept(path []cell) (v any, sure, ok bool) {
	if l.unique {
		return l.differ(path)
	}
	return l.agree(path)
}

// agree looks for two places that can hold the same value.
func (l *listing) agree(path []cell) (v any, sure, ok bool) {
	sure = true
	seen := map[string]bool{}
	for j := range path {
		for i := range j {
			both := append(path[i].lits[:len(path[i].lits):len(path[i].lits)], path[j].lits...)
			l.step()
			l.normal(both)
			if key := string(l.buf); seen[key] {
				continue
			} else {
				seen[key] = true
			}
			r := l.sat(both)
			if r.state == unknown {
				l.why = l.why.or(r.why)
				sure = false
			}
			if r.state != found {
				continue
			}
			out := make([]any, len(path))
			known := true
			for k, c := range path {
				out[k] = c.value
				known = known && (c.state == found || k == i || k == j)
			}
			if !known {
				sure = false
				continue
			}
			out[i], out[j] = r.value, r.value
			return out, true, true
		}
	}
	return nil, sure, false
}

// differ assigns each place a value of its own, by matching places with values. A
// place with as many values as there are places can always wait for the others.
func (l *listing) differ(path []cell) (v any, sure, ok bool) {
	sure = true
	domains := map[string]*domain{}
	places := make([]*domain, len(path))
	for i, c := range path {
		l.normal(c.lits)
		key := string(l.buf)
		d := domains[key]
		if d == nil {
			d = l.domain(c.lits, len(path))
			sure = sure && d.whole
			domains[key] = d
		}
		places[i] = d
	}
	owner := map[string]int{}
	out := make([]any, len(path))
	var seat func(i int, tried map[string]bool) bool
	seat = func(i int, tried map[string]bool) bool {
		d := places[i]
		l.charge(1 + len(d.keys)/16)
		for n, k := range d.keys {
			if _, taken := owner[k]; !taken {
				owner[k], out[i] = i, d.values[n]
				return true
			}
		}
		for n, k := range d.keys {
			if tried[k] {
				continue
			}
			tried[k] = true
			if seat(owner[k], tried) {
				owner[k], out[i] = i, d.values[n]
				return true
			}
		}
		return false
	}
	for i := range places {
		if !seat(i, map[string]bool{}) {
			return nil, sure, false
		}
	}
	return out, true, true
}

// domain holds values of one goal with their canonical texts. whole is false if there
// may be others.
type domain struct {
	values []any
	keys   []string
	whole  bool
}

// domain returns n values of lits, or all if there are fewer.
func (l *listing) domain(lits []lit, n int) *domain {
	d := &domain{whole: true}
	have := map[string]bool{}
	goal := lits[:len(lits):len(lits)]
	take := func(v any) bool {
		k := canonical(v)
		if have[k] {
			return false
		}
		have[k] = true
		d.values, d.keys = append(d.values, v), append(d.keys, k)
		goal = append(goal, lit{l.constant(v), true})
		return true
	}
	for len(d.values) < n {
		r := l.sat(goal)
		if r.state != found || !take(r.value) {
			l.why = l.why.or(r.why)
			d.whole = r.state == empty
			return d
		}
		// Values next to it are cheaper to find than by a proof.
		for v := r.value; len(d.values) < n; {
			if v = beside(v); v == nil {
				break
			}
			l.depth++
			yes, sure := l.check(lits, v)
			l.depth--
			if !yes || !sure || !take(v) {
				break
			}
		}
	}
	return d
}

// beside returns another value of the same type, or nil if it knows none.
func beside(v any) any {
	switch v := v.(type) {
	case string:
		if len(v) > 1000 {
			return nil
		}
		return v + "a"
	case json.Number:
		r, ok := new(big.Rat).SetString(v.String())
		if !ok {
			return nil
		}
		if n, ok := decimal(r.Add(r, one)); ok {
			return n
		}
	}
	return nil
}
