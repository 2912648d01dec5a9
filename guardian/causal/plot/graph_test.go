package plot

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/guardian/causal"
)

func model() *causal.Model {
	return &causal.Model{
		Name: "report-size", Version: "1", Operations: []string{"files/write_file"},
		Variables: []causal.Variable{
			{Name: "cost", Parents: []string{"delay", "size"}, Expression: "size > 100.0 ? 2.0 * delay + noise : 0.0", Noise: &causal.Noise{Uniform: &causal.Range{Max: 1}}, Provenance: causal.Assumed},
			{Name: "delay", Parents: []string{"weather"}, Table: make([]causal.Row, 2), Noise: &causal.Noise{Empirical: []float64{0, 0, 1, 3}}, Provenance: causal.Assumed},
			{Name: "length", Value: &causal.Value{}, Provenance: causal.Assumed},
			{Name: "load", Noise: &causal.Noise{Normal: &causal.Normal{Mean: 0.4, SD: 0.1}}, Provenance: causal.Fitted},
			{Name: "outcome", Values: []string{"ok", "late"}, Parents: []string{"weather"}, Table: make([]causal.Row, 2), Provenance: causal.Assumed},
			{Name: "size", Parents: []string{"length", "load"}, Linear: &causal.Linear{Intercept: 12, Weights: map[string]float64{"length": 1.02, "load": 40}}, Noise: &causal.Noise{Normal: &causal.Normal{SD: 20}}, Provenance: causal.Fitted},
			{Name: "weather", Values: []string{"dry", "wet"}, Noise: &causal.Noise{Categorical: map[string]float64{"dry": 0.7, "wet": 0.3}}, Provenance: causal.Assumed},
		},
		Bind: []causal.Binding{{Variable: "length", Expression: "size(args.content)"}},
		KPIs: []causal.KPI{{Variable: "cost", Min: ptr(0), Max: ptr(100)}, {Variable: "outcome", Allow: []string{"ok"}}, {Variable: "size", Max: ptr(20000), Unit: "bytes"}},
	}
}

// random returns a model of n variables with up to three parents each.
func random(n int, seed uint64) *causal.Model {
	rnd := rand.New(rand.NewPCG(seed, 1))
	m := &causal.Model{Name: "random"}
	for i := range n {
		v := causal.Variable{Name: fmt.Sprintf("variable_%02d", i), Linear: &causal.Linear{Weights: map[string]float64{}}}
		if i >= n/4 {
			for range 1 + rnd.IntN(2) {
				parent := fmt.Sprintf("variable_%02d", max(0, i-1-rnd.IntN(12)))
				if _, ok := v.Linear.Weights[parent]; !ok {
					v.Parents = append(v.Parents, parent)
					v.Linear.Weights[parent] = math.Round(200*rnd.NormFloat64()) / 100
				}
			}
		}
		m.Variables = append(m.Variables, v)
	}
	m.Bind = []causal.Binding{{Variable: "variable_00"}, {Variable: "variable_03"}}
	m.KPIs = []causal.KPI{{Variable: m.Variables[n-1].Name, Max: ptr(10)}, {Variable: m.Variables[n-2].Name, Min: ptr(-3)}}
	return m
}

func TestGraph(t *testing.T) {
	golden(t, "graph", Graph(model()))
	require.Equal(t, Graph(model()), Graph(model()))
}

func TestGraphs(t *testing.T) {
	for seed, n := range []int{2, 4, 10, 20, 40, 40, 40, causal.MaxVariables} {
		m := random(n, uint64(seed))
		texts := strings.Join(valid(t, Graph(m)), "\n")
		for i := range m.Variables {
			require.Contains(t, texts, m.Variables[i].Name)
		}
	}
}

func TestGraphTooLarge(t *testing.T) {
	m := &causal.Model{Name: "dense"}
	for i := range causal.MaxVariables {
		v := causal.Variable{Name: fmt.Sprint("v", i)}
		for j := range min(i, causal.MaxParents) {
			v.Parents = append(v.Parents, fmt.Sprint("v", i-1-j))
		}
		m.Variables = append(m.Variables, v)
	}
	require.Contains(t, strings.Join(valid(t, Graph(m)), "\n"), "too large to draw")
	m = random(causal.MaxVariables+1, 1)
	require.Contains(t, strings.Join(valid(t, Graph(m)), "\n"), "too large to draw")
}

func TestHostileGraph(t *testing.T) {
	valid(t, Graph(nil))
	for _, name := range hostile {
		m := model()
		m.Name = name
		m.Variables[0].Name, m.Variables[0].Expression = name, name
		m.Variables[1].Parents = []string{name, "gone", "delay", "delay"}
		m.Variables[2].Value = &causal.Value{Category: name}
		m.Variables[5].Linear.Weights["load"] = math.NaN()
		m.Variables[5].Linear.Weights["length"] = -math.MaxFloat64
		m.Variables[5].Noise.Normal.SD = math.Inf(1)
		m.KPIs[0].Variable, m.KPIs[0].Unit = name, name
		m.KPIs[1].Allow = []string{name, name, name, name, name, name}
		svg := Graph(m)
		require.NotContains(t, string(svg), "<script")
		require.NotContains(t, string(svg), "<image")
		valid(t, svg)
	}
	// Cycles are refused by the check of a model, and drawn none the less.
	m := model()
	m.Variables[3].Parents = []string{"cost", "load"}
	valid(t, Graph(m))
}
