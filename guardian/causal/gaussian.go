package causal

import "math"

// z95 is the 95 % quantile of the standard normal distribution.
const z95 = 1.6448536269514722

// combination is a variable as a mean plus a sum of independent standard normal variables.
type combination struct {
	mean    float64
	weights []float64
	// reach says which of them have a path to the variable: a weight may be too small for a double, or cancel out.
	reach []bool
}

// gaussian evaluates a world of linear mechanisms and normal noise. It gives nil if the closed form does not hold:
// there is another mechanism or noise, two KPIs with bounds share a noise, or a weight is lost.
func (p *program) gaussian(w *world) (*result, error) {
	noises := 0
	for _, i := range w.order {
		n := &p.nodes[i]
		switch {
		case w.fixed[i]:
			continue
		case n.mechanism != linear, n.noise.kind != silent && n.noise.kind != normalNoise, n.Categorical():
			return nil, nil
		case n.noise.sd > 0:
			noises++
		}
	}
	of := make([]combination, len(p.nodes))
	next := 0
	for _, i := range w.order {
		n, c := &p.nodes[i], &of[i]
		c.weights, c.reach = make([]float64, noises), make([]bool, noises)
		if w.fixed[i] {
			c.mean = w.values[i]
			continue
		}
		c.mean = n.intercept
		for k, parent := range n.parents {
			c.mean += float64(n.weights[k] * of[parent].mean)
			if !c.add(n.weights[k], &of[parent]) {
				return nil, nil
			}
		}
		c.mean += n.noise.mean
		if n.noise.sd > 0 {
			c.weights[next], c.reach[next] = n.noise.sd, true
			next++
		}
		if !finite(c.mean) {
			return nil, overflow(n)
		}
	}
	r := &result{kpis: make([]marginal, len(p.kpis))}
	taken := make([]bool, noises)
	fine, possible := 1.0, false
	broken := 0.0
	for k := range p.kpis {
		kpi := &p.kpis[k]
		c := &of[kpi.node]
		for j, reached := range c.reach {
			if reached && (c.weights[j] == 0 || kpi.Bounded() && taken[j]) {
				return nil, nil
			}
			taken[j] = taken[j] || reached && kpi.Bounded()
		}
		m, ok := c.marginal(kpi)
		if !ok {
			return nil, overflow(&p.nodes[kpi.node])
		}
		r.kpis[k] = m
		// 1 - Π(1 - p), without a difference of what is near 1.
		broken += float64(fine * m.broken.judged)
		fine = float64(fine * (1 - m.broken.judged))
		possible = possible || m.broken.possible
	}
	r.broken = exactly(broken, possible)
	return r, nil
}

// add adds the noises of a parent. It reports false if a product is too small for a double.
func (c *combination) add(weight float64, parent *combination) bool {
	for j, x := range parent.weights {
		product := float64(weight * x)
		if weight != 0 && x != 0 && math.Abs(product) < 0x1p-1022 {
			return false
		}
		c.weights[j] += product
		c.reach[j] = c.reach[j] || weight != 0 && parent.reach[j]
	}
	return true
}

// marginal reports false if it is not finite.
func (c *combination) marginal(k *indicator) (marginal, bool) {
	largest, random := 0.0, false
	for j, x := range c.weights {
		largest = max(largest, math.Abs(x))
		random = random || c.reach[j]
	}
	var squares float64
	if largest > 0 {
		for _, x := range c.weights {
			squares += float64(x / largest * (x / largest))
		}
	}
	sd := float64(largest * math.Sqrt(squares))
	mean := c.mean + 0
	m := marginal{
		mean: mean, variance: float64(sd * sd), p05: mean - float64(z95*sd), p50: mean, p95: mean + float64(z95*sd),
		low: mean - float64(4*sd), high: mean + float64(4*sd),
	}
	if !finite(sd) || !finite(m.variance) || !finite(m.low) || !finite(m.high) {
		return m, false
	}
	if !random {
		m.below = func(x float64) float64 {
			if mean < x {
				return 1
			}
			return 0
		}
		m.broken = exactly(0, false)
		if k.breaks(mean) {
			m.broken = exactly(1, true)
		}
		return m, true
	}
	m.below = func(x float64) float64 { return upper((mean - x) / sd) }
	p := 0.0
	if k.Max != nil {
		p += upper((*k.Max - mean) / sd)
	}
	if k.Min != nil {
		p += upper((mean - *k.Min) / sd)
	}
	m.broken = exactly(p, k.Bounded())
	return m, true
}
