package causal

// world says which variables an action sets.
type world struct {
	fixed  []bool
	values []float64
	// changed are those variables and their descendants: nothing else differs from the world without
	// the action.
	changed []bool
	// order lists the variables on which the KPIs depend, each behind its parents. What only leads to the KPIs
	// through variables that are set is not among them.
	order []int
}

// world returns that in which variables, by index, have values.
func (p *program) world(do map[int]float64) *world {
	w := &world{fixed: make([]bool, len(p.nodes)), values: make([]float64, len(p.nodes)), changed: make([]bool, len(p.nodes))}
	needed := make([]bool, len(p.nodes))
	for i := range p.kpis {
		needed[p.kpis[i].node] = true
	}
	for _, i := range p.order {
		if x, ok := do[i]; ok {
			w.fixed[i], w.values[i], w.changed[i] = true, x, true
			continue
		}
		for _, parent := range p.nodes[i].parents {
			w.changed[i] = w.changed[i] || w.changed[parent]
		}
	}
	for k := len(p.order) - 1; k >= 0; k-- {
		i := p.order[k]
		if !needed[i] || w.fixed[i] {
			continue
		}
		for _, parent := range p.nodes[i].parents {
			needed[parent] = true
		}
	}
	for _, i := range p.order {
		if needed[i] {
			w.order = append(w.order, i)
		}
	}
	return w
}

// result is what becomes of the KPIs in one world.
type result struct {
	// broken is the probability that any KPI breaks its bound.
	broken chance
	kpis   []marginal
}

// chance is a probability: itself, and the number by which it is judged, which is not less. It may be
// too small for a double and yet possible.
type chance struct {
	estimate, judged float64
	possible         bool
}

func exactly(p float64, possible bool) chance {
	p = min(max(p, 0), 1)
	return chance{estimate: p, judged: p, possible: possible}
}

// marginal is the distribution of one KPI.
type marginal struct {
	broken                        chance
	mean, variance, p05, p50, p95 float64
	// shares are the probabilities of categories.
	shares []float64
	// below returns the probability of what is less than x, and low and high are the ends for plots.
	below     func(x float64) float64
	low, high float64
}
