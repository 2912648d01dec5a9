package causal

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// discrete draws a model of categories and of numbers with few values.
func discrete(r *rand.Rand) *Model {
	var variables []Variable
	n := 2 + r.IntN(5)
	chances := func(of []string) map[string]float64 {
		p, rest := map[string]float64{}, 1.0
		for _, c := range of[1:] {
			p[c] = rest * float64(r.IntN(5)) / 5
			rest -= p[c]
		}
		p[of[0]] = rest
		return p
	}
	for i := range n {
		v := Variable{Name: fmt.Sprintf("v%d", i), Values: []string{"a", "b", "c"}[:2+r.IntN(2)]}
		var parents []Variable
		for _, k := range r.Perm(i) {
			if len(parents) < 2 && r.IntN(3) > 0 && variables[k].Categorical() {
				parents = append(parents, variables[k])
				v.Parents = append(v.Parents, variables[k].Name)
			}
		}
		switch {
		case len(parents) == 0:
			v.Noise = &Noise{Categorical: chances(v.Values)}
		default:
			number := r.IntN(3) == 0
			when := []map[string]string{{}}
			for _, p := range parents {
				var more []map[string]string
				for _, w := range when {
					for _, c := range p.Values {
						row := map[string]string{p.Name: c}
						for k, x := range w {
							row[k] = x
						}
						more = append(more, row)
					}
				}
				when = more
			}
			for _, w := range when {
				if number {
					v.Table = append(v.Table, Row{When: w, Value: new(float64(r.IntN(9)))})
				} else {
					v.Table = append(v.Table, Row{When: w, P: chances(v.Values)})
				}
			}
			if number {
				v.Values, v.Noise = nil, &Noise{Bernoulli: new(float64(r.IntN(11)) / 10)}
			}
		}
		variables = append(variables, v)
	}
	var kpis []KPI
	for _, k := range r.Perm(n)[:1+r.IntN(n)] {
		if variables[k].Categorical() {
			kpis = append(kpis, KPI{Variable: variables[k].Name, Allow: []string{"a"}})
		} else {
			kpis = append(kpis, KPI{Variable: variables[k].Name, Max: new(float64(r.IntN(9)))})
		}
	}
	return model("discrete", kpis, variables...)
}

// linearModel draws a model of linear mechanisms and normal noise.
func linearModel(r *rand.Rand) *Model {
	var variables []Variable
	n := 2 + r.IntN(6)
	for i := range n {
		weights := map[string]float64{}
		for k := range i {
			if r.IntN(2) == 0 {
				weights[fmt.Sprintf("v%d", k)] = float64(r.IntN(21)-10) / 8
			}
		}
		v := sumOf(fmt.Sprintf("v%d", i), float64(1+r.IntN(16))/8, weights)
		v.Noise.Normal.Mean = float64(r.IntN(9) - 4)
		variables = append(variables, v)
	}
	return model("linear", []KPI{{Variable: fmt.Sprintf("v%d", n-1), Max: new(float64(r.IntN(9) - 4)), Min: new(float64(-r.IntN(9) - 4))}}, variables...)
}

// acting draws an intervention.
func acting(r *rand.Rand, m *Model) []Intervention {
	v := &m.Variables[r.IntN(len(m.Variables))]
	if v.Categorical() {
		return set(v.Name, v.Values[r.IntN(len(v.Values))])
	}
	return setTo(v.Name, float64(r.IntN(9)-4))
}

func drawn(t *rapid.T) (*rand.Rand, *Model) {
	r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
	if r.IntN(2) == 0 {
		return r, discrete(r)
	}
	return r, linearModel(r)
}

func simulated(t require.TestingT, m *Model, do []Intervention, method Method) *Prediction {
	s, err := New(m)
	require.NoError(t, err)
	s.force = method
	p, err := s.Simulate(do, "seed")
	require.NoError(t, err)
	return p
}

func amount(t require.TestingT, n json.Number) float64 {
	x, err := n.Float64()
	require.NoError(t, err)
	return x
}

func TestClosedFormsAndSamplesAgree(t *testing.T) {
	// One in some 16,000 comparisons is beyond 4 standard errors; the draws are fixed, so that none is found by chance.
	models := 40
	if testing.Short() {
		models = 12
	}
	for i := range models {
		r := rand.New(rand.NewPCG(uint64(i), 7))
		m := discrete(r)
		if i%2 == 0 {
			m = linearModel(r)
		}
		do := acting(r, m)
		exact, sampled := simulated(t, m, do, ""), simulated(t, m, do, MonteCarlo)
		require.NotEqual(t, MonteCarlo, exact.Method)
		near := func(want, have json.Number) {
			p := amount(t, want)
			require.InDelta(t, p, amount(t, have), 4*math.Sqrt(p*(1-p)/DefaultSamples)+2e-9, "%d", i)
		}
		near(exact.Risk, sampled.Estimate)
		require.GreaterOrEqual(t, amount(t, sampled.Risk), amount(t, sampled.Estimate))
		for k := range exact.KPIs {
			a, b := &exact.KPIs[k].With, &sampled.KPIs[k].With
			if a.Mean == "" {
				for c := range a.P {
					near(a.P[c].P, b.P[c].P)
				}
				continue
			}
			variance := amount(t, a.Variance)
			require.InDelta(t, amount(t, a.Mean), amount(t, b.Mean), 4*math.Sqrt(variance/DefaultSamples)+1e-9, "%d", i)
			require.InDelta(t, variance, amount(t, b.Variance), variance*8/math.Sqrt(DefaultSamples)+1e-9, "%d", i)
		}
	}
}

// What the action does not bring about is what it was, to the last bit.
func TestNonDescendantsAreUnchanged(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r, m := drawn(t)
		for i := range m.Variables {
			// All variables are KPIs.
			if !slices.ContainsFunc(m.KPIs, func(k KPI) bool { return k.Variable == m.Variables[i].Name }) {
				m.KPIs = append(m.KPIs, KPI{Variable: m.Variables[i].Name})
			}
		}
		m.Samples = MinSamples
		do := acting(r, m)
		below := map[string]bool{do[0].Variable: true}
		for range m.Variables {
			for i := range m.Variables {
				v := &m.Variables[i]
				below[v.Name] = below[v.Name] || slices.ContainsFunc(v.Parents, func(p string) bool { return below[p] })
			}
		}
		for _, method := range []Method{"", MonteCarlo} {
			for _, f := range simulated(t, m, do, method).KPIs {
				if !below[f.Variable] {
					require.Equal(t, f.Without, f.With, f.Variable)
				}
			}
		}
	})
}

// To set a root to a category is to look at the worlds in which it has it.
func TestDoAtARootIsConditioning(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		m := discrete(r)
		m.KPIs = m.KPIs[:1]
		var root *Variable
		for i := range m.Variables {
			if v := &m.Variables[i]; len(v.Parents) == 0 && v.Noise.Categorical[v.Values[0]] > 0 {
				root = v
			}
		}
		if root == nil {
			t.Skip()
		}
		s, err := New(m)
		require.NoError(t, err)
		// The root is a KPI too, so that it is enumerated.
		at := s.program.index(root.Name)
		s.program.kpis = append(s.program.kpis, indicator{KPI: &KPI{Variable: root.Name}, node: at, low: math.Inf(-1), high: math.Inf(1)})
		e := &enumeration{program: s.program, w: s.program.world(nil), values: make([]float64, len(m.Variables)), evaluator: newEvaluator(),
			masses: make([][]mass, 2), broken: make([]sum, 2), possible: make([]bool, 2)}
		require.NoError(t, e.visit(0, 1))
		var given, both float64
		for i, x := range e.masses[1] {
			if x.value == 0 {
				given += x.p
				if s.program.kpis[0].breaks(e.masses[0][i].value) {
					both += x.p
				}
			}
		}
		p := simulated(t, m, set(root.Name, root.Values[0]), "")
		require.InDelta(t, both/given, amount(t, p.Risk), 2e-9)
	})
}

func TestWiderBoundsNeverRaiseRisk(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r, m := drawn(t)
		m.Samples = MinSamples
		do := acting(r, m)
		wider := *m
		wider.KPIs = slices.Clone(m.KPIs)
		for k := range wider.KPIs {
			kpi := &wider.KPIs[k]
			if kpi.Max != nil {
				kpi.Max = new(*kpi.Max + r.Float64()*3)
			}
			if kpi.Min != nil {
				kpi.Min = new(*kpi.Min - r.Float64()*3)
			}
			if len(kpi.Allow) > 0 {
				kpi.Allow = append(slices.Clone(kpi.Allow), "b")
			}
		}
		require.LessOrEqual(t, amount(t, simulated(t, &wider, do, "").Risk), amount(t, simulated(t, m, do, "").Risk))
		// The same noise: the digest is part of its key, so that it is set by hand.
		var risks []float64
		for _, m := range []*Model{m, &wider} {
			s, err := New(m)
			require.NoError(t, err)
			s.force, s.digest = MonteCarlo, "same"
			p, err := s.Simulate(do, "seed")
			require.NoError(t, err)
			risks = append(risks, amount(t, p.Risk))
		}
		require.LessOrEqual(t, risks[1], risks[0])
	})
}

// Neither the order of variables nor that of parents changes what is calculated.
func TestOrderDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r, m := drawn(t)
		m.Samples = MinSamples
		do := acting(r, m)
		shuffled := *m
		shuffled.Variables, shuffled.KPIs = slices.Clone(m.Variables), m.KPIs
		r.Shuffle(len(m.Variables), func(i, k int) {
			shuffled.Variables[i], shuffled.Variables[k] = shuffled.Variables[k], shuffled.Variables[i]
		})
		for i := range shuffled.Variables {
			v := &shuffled.Variables[i]
			v.Parents, v.Table = slices.Clone(v.Parents), slices.Clone(v.Table)
			slices.Reverse(v.Parents)
			slices.Reverse(v.Table)
		}
		for _, method := range []Method{"", MonteCarlo} {
			var texts []string
			for _, m := range []*Model{m, &shuffled} {
				s, err := New(m)
				require.NoError(t, err)
				s.force, s.digest = method, "same"
				p, err := s.Simulate(do, "seed")
				require.NoError(t, err)
				raw, err := json.Marshal(p)
				require.NoError(t, err)
				texts = append(texts, string(raw))
			}
			require.Equal(t, texts[0], texts[1])
		}
	})
}

// Bins are a distribution, by each method.
func TestBins(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r, m := drawn(t)
		m.Samples = MinSamples
		do := acting(r, m)
		for _, method := range []Method{"", MonteCarlo} {
			for _, f := range simulated(t, m, do, method).KPIs {
				if f.With.Mean == "" {
					require.Nil(t, f.With.Bins)
					continue
				}
				for _, of := range [][]float64{f.With.Bins, f.Without.Bins} {
					require.Len(t, of, bins)
					sum := 0.0
					for _, p := range of {
						sum += p
					}
					require.InDelta(t, 1, sum, 1e-4)
				}
			}
		}
	})
}

func TestQuantilesAreThoseOfEach(t *testing.T) {
	p := make([]float64, 3*blockSize/2)
	newSource("sha256:1", "seed").fill(p, 0, 0)
	copy(p, []float64{0x1p-53, 1 - 0x1p-53, 0.075, 0.925, 0.5})
	want := make([]float64, len(p))
	for i, x := range p {
		want[i] = quantile(x)
	}
	quantiles(p)
	require.Equal(t, want, p)
	for i := range p {
		p[i] = 0.01
	}
	quantiles(p)
	require.Equal(t, quantile(0.01), p[len(p)-1])
}
