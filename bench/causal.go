package main

import (
	"fmt"
	"time"

	"chimera.ai/engine/guardian/causal"
)

// The bars of predictions, in microseconds.
const (
	barSamples    = 10_000
	barClosed     = 50
	sampledEach   = 20
	predictedEach = 1000
)

// predictions prints how long predictions take by each method.
func predictions(rounds int) error {
	closed, coins := tenVariables(), sprinkler()
	// With noise that is not normal there is no closed form.
	sampled := tenVariables()
	sampled.Variables[1].Noise = &causal.Noise{Uniform: &causal.Range{Min: -1, Max: 1}}
	for _, c := range []struct {
		name   string
		model  *causal.Model
		do     causal.Intervention
		method causal.Method
		each   int
		bar    float64
	}{
		{"20,000 samples of ten variables", sampled, causal.Intervention{Variable: "v0", Value: causal.Value{Number: 5}}, causal.MonteCarlo, sampledEach, barSamples},
		{"closed form gaussian", closed, causal.Intervention{Variable: "v0", Value: causal.Value{Number: 5}}, causal.Gaussian, predictedEach, barClosed},
		{"finite", coins, causal.Intervention{Variable: "sprinkler", Value: causal.Value{Category: "yes"}}, causal.Finite, predictedEach, barClosed},
	} {
		s, err := causal.New(c.model)
		if err != nil {
			return fmt.Errorf("predict: %w", err)
		}
		var took figures
		for range rounds {
			begin := time.Now()
			for range c.each {
				p, err := s.Simulate([]causal.Intervention{c.do}, "seed")
				if err != nil {
					return fmt.Errorf("predict: %w", err)
				}
				if p.Method != c.method {
					return fmt.Errorf("predict: %s is by %s", c.name, p.Method)
				}
			}
			took = append(took, float64(time.Since(begin).Microseconds())/float64(c.each))
		}
		fmt.Printf("causal: %-31s µs %s   of the bar (%.0f µs) %4.2f\n", c.name, took.row("%7.1f"), c.bar, took.median()/c.bar)
	}
	fmt.Println()
	return nil
}

// tenVariables is a linear model with normal noise, of which each variable has the two before it as parents.
func tenVariables() *causal.Model {
	m := &causal.Model{Name: "chain", Operations: []string{"bank/pay"}, Samples: causal.DefaultSamples, KPIs: []causal.KPI{{Variable: "v9", Max: new(12.0)}}}
	for i := range 10 {
		v := causal.Variable{Name: fmt.Sprintf("v%d", i), Noise: &causal.Noise{Normal: &causal.Normal{SD: 1}}, Provenance: causal.Assumed}
		if i > 0 {
			v.Linear = &causal.Linear{Intercept: 1, Weights: map[string]float64{}}
			for k := max(0, i-2); k < i; k++ {
				v.Parents = append(v.Parents, m.Variables[k].Name)
				v.Linear.Weights[m.Variables[k].Name] = 0.5
			}
		}
		m.Variables = append(m.Variables, v)
	}
	return m
}

// sprinkler is a model of four variables that are each one of two.
func sprinkler() *causal.Model {
	values := []string{"no", "yes"}
	row := func(p float64, when map[string]string) causal.Row {
		return causal.Row{When: when, P: map[string]float64{"yes": p, "no": 1 - p}}
	}
	cloudy := func(yes, no float64) []causal.Row {
		return []causal.Row{row(yes, map[string]string{"cloudy": "yes"}), row(no, map[string]string{"cloudy": "no"})}
	}
	wet := []causal.Row{}
	for _, rain := range values {
		for _, sprinkler := range values {
			p := 0.9
			if rain == sprinkler {
				p = map[string]float64{"yes": 0.99, "no": 0}[rain]
			}
			wet = append(wet, row(p, map[string]string{"rain": rain, "sprinkler": sprinkler}))
		}
	}
	return &causal.Model{
		Name: "sprinkler", Operations: []string{"garden/water"}, Samples: causal.DefaultSamples, KPIs: []causal.KPI{{Variable: "wet", Allow: []string{"no"}}},
		Variables: []causal.Variable{
			{Name: "cloudy", Values: values, Noise: &causal.Noise{Categorical: map[string]float64{"yes": 0.5, "no": 0.5}}, Provenance: causal.Assumed},
			{Name: "rain", Values: values, Parents: []string{"cloudy"}, Table: cloudy(0.8, 0.2), Provenance: causal.Assumed},
			{Name: "sprinkler", Values: values, Parents: []string{"cloudy"}, Table: cloudy(0.1, 0.5), Provenance: causal.Assumed},
			{Name: "wet", Values: values, Parents: []string{"rain", "sprinkler"}, Table: wet, Provenance: causal.Assumed},
		},
	}
}
