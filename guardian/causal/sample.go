package causal

import (
	"math"
	"slices"
	"sort"
)

// blockSize is how many worlds are sampled at once: their columns stay in the processor's cache. It is even.
const blockSize = 512

// sampling samples worlds with and without an action, of the same noise.
type sampling struct {
	*program
	base, with *world
	source     source
	evaluator  *evaluator
	// columns have a value of each variable for each world of a block. Those with the action are the same where
	// nothing changes.
	without, acted [][]float64
	// anew says of which variables there are two columns.
	anew       []bool
	noise, row []float64
}

// tally is what was counted and noted of one world.
type tally struct {
	columns [][]float64
	broken  []int
	any     int
}

// sample evaluates two worlds by so many samples.
func (p *program) sample(base, with *world, s source, samples int) (without, acted *result, err error) {
	g := &sampling{program: p, base: base, with: with, source: s, evaluator: newEvaluator(), noise: make([]float64, blockSize), row: make([]float64, len(p.nodes))}
	g.without, g.acted, g.anew = make([][]float64, len(p.nodes)), make([][]float64, len(p.nodes)), make([]bool, len(p.nodes))
	for _, i := range base.order {
		g.without[i] = make([]float64, blockSize)
		g.acted[i] = g.without[i]
	}
	for _, i := range with.order {
		if with.changed[i] {
			g.acted[i], g.anew[i] = make([]float64, blockSize), true
		}
	}
	tallies := [2]tally{{}, {}}
	same := true
	for t := range tallies {
		tallies[t].broken, tallies[t].columns = make([]int, len(p.kpis)), make([][]float64, len(p.kpis))
		for k := range p.kpis {
			if t == 1 && !with.changed[p.kpis[k].node] {
				tallies[t].columns[k] = tallies[0].columns[k]
				continue
			}
			same = same && t == 0
			tallies[t].columns[k] = make([]float64, samples)
		}
	}
	for at := 0; at < samples; at += blockSize {
		size := min(blockSize, samples-at)
		if err := g.block(at, size); err != nil {
			return nil, nil, err
		}
		p.count(&tallies[0], g.without, at, size)
		if !same {
			p.count(&tallies[1], g.acted, at, size)
		}
	}
	if without, err = p.summarize(&tallies[0], samples, nil, nil); err != nil || same {
		return without, without, err
	}
	acted, err = p.summarize(&tallies[1], samples, without, with)
	return without, acted, err
}

// block samples so many worlds.
func (g *sampling) block(at, size int) error {
	for _, i := range g.base.order {
		n := &g.nodes[i]
		noise := g.noise[:size]
		if n.mechanism == chances || n.noise.kind != silent {
			g.source.fill(noise, i, at)
		}
		if n.mechanism != chances && n.noise.kind != silent {
			n.noise.sample(noise)
		}
		if err := g.apply(n, g.without, noise, g.without[i][:size]); err != nil {
			return err
		}
		switch out := g.acted[i][:size]; {
		case !g.anew[i]:
		case g.with.fixed[i]:
			for k := range out {
				out[k] = g.with.values[i]
			}
		default:
			if err := g.apply(n, g.acted, noise, out); err != nil {
				return err
			}
		}
	}
	return nil
}

// infinite are the bits of infinity, without its sign. Those of NaN are greater.
const infinite = 0x7FF << 53

// apply evaluates a variable for all worlds of a block.
func (g *sampling) apply(n *node, columns [][]float64, noise, out []float64) error {
	switch n.mechanism {
	case linear:
		for k := range out {
			out[k] = n.intercept
		}
		for j, parent := range n.parents {
			w, column := n.weights[j], columns[parent][:len(out)]
			for k := range out {
				out[k] += float64(w * column[k])
			}
		}
		if n.noise.kind != silent {
			noise := noise[:len(out)]
			for k := range out {
				out[k] += noise[k]
			}
		}
		var largest uint64
		for _, x := range out {
			largest = max(largest, math.Float64bits(x)<<1)
		}
		if largest >= infinite {
			return overflow(n)
		}
		return nil
	case chances, levels, calculated:
	}
	for k := range out {
		for _, parent := range n.parents {
			g.row[parent] = columns[parent][k]
		}
		if n.mechanism == chances {
			out[k] = n.chances[n.row(g.row)].draw(noise[k])
			continue
		}
		z := 0.0
		if n.noise.kind != silent {
			z = noise[k]
		}
		x, err := g.evaluator.value(n, g.row, z)
		if err != nil {
			return err
		}
		out[k] = x
	}
	return nil
}

// count notes the KPIs of a block.
func (p *program) count(t *tally, columns [][]float64, at, size int) {
	var broken [blockSize]bool
	for k := range p.kpis {
		kpi := &p.kpis[k]
		column := columns[kpi.node][:size]
		copy(t.columns[k][at:], column)
		if !kpi.Bounded() {
			continue
		}
		found := 0
		for i, x := range column {
			if kpi.breaks(x) {
				found++
				broken[i] = true
			}
		}
		t.broken[k] += found
	}
	for _, b := range broken[:size] {
		if b {
			t.any++
		}
	}
}

// summarize makes a result of what was counted. KPIs that do not change have that of the other world.
func (p *program) summarize(t *tally, samples int, other *result, w *world) (*result, error) {
	r := &result{broken: wilson(t.any, samples), kpis: make([]marginal, len(p.kpis))}
	if !slices.ContainsFunc(p.kpis, func(k indicator) bool { return k.Bounded() }) {
		r.broken = chance{}
	}
	for k := range p.kpis {
		n := &p.nodes[p.kpis[k].node]
		if other != nil && !w.changed[p.kpis[k].node] {
			r.kpis[k] = other.kpis[k]
			continue
		}
		m := counted(t.columns[k], len(n.Values))
		if !finite(m.mean) || !finite(m.variance) {
			return nil, overflow(n)
		}
		if p.kpis[k].Bounded() {
			m.broken = wilson(t.broken[k], samples)
		}
		r.kpis[k] = m
	}
	return r, nil
}

// counted returns the distribution of samples, which it sorts.
func counted(column []float64, categories int) marginal {
	n := float64(len(column))
	if categories > 0 {
		m := marginal{shares: make([]float64, categories)}
		for _, x := range column {
			m.shares[int(x)]++
		}
		for c := range m.shares {
			m.shares[c] /= n
		}
		return m
	}
	sortNumbers(column)
	var mean, variance sum
	for _, x := range column {
		mean.add(x)
	}
	m := marginal{mean: mean.value()/n + 0, low: column[0] + 0, high: column[len(column)-1] + 0}
	for _, x := range column {
		d := x - m.mean
		variance.add(float64(d * d))
	}
	m.variance = variance.value() / (n - 1)
	at := func(percent int) float64 { return column[(len(column)*percent+99)/100-1] + 0 }
	m.p05, m.p50, m.p95 = at(5), at(50), at(95)
	m.below = func(x float64) float64 { return float64(sort.SearchFloat64s(column, x)) / n }
	return m
}

// z is how many standard errors the interval of a risk reaches. Where its upper end is below 0.3, it is too low in one
// of 740 predictions (0.135 %) at most, and of improbable risks in far fewer; in one of 400 below 0.9. Nearer to 1 it
// is too low in up to one of 11, but by more than one sample in one of 400 at most.
const z = 3

// wilson returns the share of worlds, and the upper end of its score interval (E. B. Wilson, "Probable
// Inference, the Law of Succession, and Statistical Inference", 1927), which is not 0 even if none was found.
func wilson(found, of int) chance {
	n := float64(of)
	share := float64(found) / n
	half := float64(z * math.Sqrt(share*(1-share)/n+z*z/(4*n*n)))
	return chance{estimate: share, judged: min(1, (share+z*z/(2*n)+half)/(1+z*z/n)), possible: true}
}
