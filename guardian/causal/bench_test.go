package causal

import (
	"fmt"
	"testing"
)

// chainModel has ten variables with normal noise, of which each depends on those before.
func chainModel(kind string) *Model {
	m := &Model{Name: "chain", Version: "1", Operations: []string{"a/b"}, Samples: DefaultSamples}
	var names []string
	for i := range 10 {
		v := Variable{Name: fmt.Sprintf("v%d", i), Provenance: Assumed, Noise: &Noise{Normal: &Normal{SD: 1}}}
		if i > 0 {
			v.Parents = append([]string{}, names[max(0, i-2):]...)
			v.Linear = &Linear{Intercept: 1, Weights: map[string]float64{}}
			for _, p := range v.Parents {
				v.Linear.Weights[p] = 0.5
			}
		}
		names = append(names, v.Name)
		m.Variables = append(m.Variables, v)
	}
	m.KPIs = []KPI{{Variable: "v9", Max: new(12.0)}}
	if kind == "two" {
		m.KPIs = []KPI{{Variable: "v8", Max: new(12.0)}, {Variable: "v9", Max: new(12.0)}}
	}
	return m
}

func benchmark(b *testing.B, m *Model, do []Intervention, force Method) {
	s, err := New(m)
	if err != nil {
		b.Fatal(err)
	}
	s.force = force
	for b.Loop() {
		if _, err := s.Simulate(do, "seed"); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkMonteCarlo(b *testing.B) {
	benchmark(b, chainModel(""), []Intervention{{"v0", Value{Number: 5}}}, MonteCarlo)
}

func BenchmarkGaussian(b *testing.B) {
	benchmark(b, chainModel(""), []Intervention{{"v0", Value{Number: 5}}}, "")
}
