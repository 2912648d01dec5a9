package causal

import (
	"cmp"
	"slices"
)

// maxFinite bounds the worlds that are enumerated, times their variables.
const maxFinite = 20_000

// enumerable reports whether all worlds can be enumerated.
func (p *program) enumerable(w *world) bool {
	worlds := 1
	for _, i := range w.order {
		n := &p.nodes[i]
		most := 1
		switch {
		case w.fixed[i]:
		case n.mechanism == chances:
			for _, row := range n.chances {
				most = max(most, len(row.p))
			}
		case !n.noise.few():
			return false
		default:
			most = max(most, len(n.noise.outcomes.p))
		}
		if worlds *= most; worlds > maxFinite {
			return false
		}
	}
	return worlds*len(w.order) <= maxFinite
}

// mass is a value and its probability.
type mass struct{ value, p float64 }

// enumeration visits all worlds.
type enumeration struct {
	*program
	w         *world
	values    []float64
	evaluator *evaluator
	masses    [][]mass
	// broken has one sum for each KPI, and any that of the worlds in which one breaks. What is possible has
	// a probability, even if that is too small for a double.
	broken      []sum
	possible    []bool
	any         sum
	anyPossible bool
}

// finite evaluates a world in which all noise has few values.
func (p *program) finite(w *world) (*result, error) {
	e := &enumeration{
		program: p, w: w, values: make([]float64, len(p.nodes)), evaluator: newEvaluator(),
		masses: make([][]mass, len(p.kpis)), broken: make([]sum, len(p.kpis)), possible: make([]bool, len(p.kpis)),
	}
	if err := e.visit(0, 1); err != nil {
		return nil, err
	}
	r := &result{broken: exactly(e.any.value(), e.anyPossible), kpis: make([]marginal, len(p.kpis))}
	for k := range p.kpis {
		m := marginalOf(e.masses[k], len(p.nodes[p.kpis[k].node].Values))
		m.broken = exactly(e.broken[k].value(), e.possible[k])
		if !finite(m.mean) || !finite(m.variance) {
			return nil, overflow(&p.nodes[p.kpis[k].node])
		}
		r.kpis[k] = m
	}
	return r, nil
}

// visit goes on with the variables from the k-th on, in the worlds that are as probable as p says.
func (e *enumeration) visit(k int, p float64) error {
	if k == len(e.w.order) {
		e.leaf(p)
		return nil
	}
	i := e.w.order[k]
	n := &e.nodes[i]
	switch {
	case e.w.fixed[i]:
		e.values[i] = e.w.values[i]
		return e.visit(k+1, p)
	case n.mechanism == chances:
		o := &n.chances[n.row(e.values)]
		for j, x := range o.values {
			e.values[i] = x
			if err := e.visit(k+1, float64(p*o.p[j])); err != nil {
				return err
			}
		}
		return nil
	case n.noise.kind == silent:
		x, err := e.evaluator.value(n, e.values, 0)
		if err != nil {
			return err
		}
		e.values[i] = x
		return e.visit(k+1, p)
	}
	o := &n.noise.outcomes
	for j, noise := range o.values {
		x, err := e.evaluator.value(n, e.values, noise)
		if err != nil {
			return err
		}
		e.values[i] = x
		if err := e.visit(k+1, float64(p*o.p[j])); err != nil {
			return err
		}
	}
	return nil
}

// leaf notes a world.
func (e *enumeration) leaf(p float64) {
	broken := false
	for k := range e.kpis {
		x := e.values[e.kpis[k].node]
		e.masses[k] = append(e.masses[k], mass{x, p})
		if e.kpis[k].breaks(x) {
			broken, e.possible[k] = true, true
			e.broken[k].add(p)
		}
	}
	if broken {
		e.anyPossible = true
		e.any.add(p)
	}
}

// marginalOf returns the distribution of masses, of numbers if there are no categories.
func marginalOf(masses []mass, categories int) marginal {
	// Also by probability, so that sums do not depend on how equal values are sorted.
	slices.SortFunc(masses, func(a, b mass) int { return cmp.Or(cmp.Compare(a.value, b.value), cmp.Compare(a.p, b.p)) })
	if categories > 0 {
		sums := make([]sum, categories)
		m := marginal{shares: make([]float64, categories)}
		for _, x := range masses {
			sums[int(x.value)].add(x.p)
		}
		for c := range sums {
			m.shares[c] = sums[c].value()
		}
		return m
	}
	// Of equal values one is left, with the probability of what is up to it.
	upTo := masses[:0]
	var total, mean sum
	for _, x := range masses {
		total.add(x.p)
		mean.add(float64(x.p * x.value))
		if n := len(upTo); n > 0 && upTo[n-1].value == x.value {
			upTo[n-1].p = total.value()
		} else {
			upTo = append(upTo, mass{x.value + 0, total.value()})
		}
	}
	m := marginal{mean: mean.value(), low: upTo[0].value, high: upTo[len(upTo)-1].value}
	var variance sum
	before := 0.0
	for _, x := range upTo {
		d := x.value - m.mean
		variance.add(float64(float64((x.p-before)*d) * d))
		before = x.p
	}
	m.variance = max(variance.value(), 0)
	at := func(q float64) float64 {
		for _, x := range upTo {
			if x.p >= q-1e-12 {
				return x.value
			}
		}
		return m.high
	}
	m.p05, m.p50, m.p95 = at(0.05), at(0.5), at(0.95)
	m.below = func(x float64) float64 {
		i, _ := slices.BinarySearchFunc(upTo, x, func(m mass, x float64) int { return cmp.Compare(m.value, x) })
		if i == 0 {
			return 0
		}
		return upTo[i-1].p
	}
	return m
}
