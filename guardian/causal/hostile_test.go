package causal

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// calculatedOf is an expression over a root with normal noise.
func calculatedOf(expression string) *Model {
	return model("calculated", []KPI{{Variable: "y", Max: new(1e6)}},
		sumOf("x", 1, nil), Variable{Name: "y", Parents: []string{"x"}, Expression: expression})
}

// What cannot be calculated is an error, and never a risk.
func TestHostileModelsFail(t *testing.T) {
	steep := func(first Variable) *Model {
		return model("steep", []KPI{{Variable: "e", Max: new(1.0)}}, first, sumOf("b", 0, map[string]float64{"a": 1e100}),
			sumOf("c", 0, map[string]float64{"b": 1e100}), sumOf("d", 1, map[string]float64{"c": 1e100}), sumOf("e", 0, map[string]float64{"d": 1}))
	}
	for name, m := range map[string]*Model{
		"weights overflow":          steep(sumOf("a", 1e100, nil)),
		"the variance overflows":    steep(sumOf("a", 1, nil)),
		"a mean overflows":          steep(Variable{Name: "a", Value: &Value{Number: 1e100}}),
		"division by zero":          calculatedOf("1 / (x - x)"),
		"a division by zero, rare":  calculatedOf("x > 3 ? 1 / (x - x) : x"),
		"exp overflows":             calculatedOf("exp(1000 * x)"),
		"log of a negative":         calculatedOf("log(x)"),
		"a product overflows":       calculatedOf("x * 1e200 * 1e200"),
		"values overflow in a sum":  calculatedOf("x > 0 ? 1.7e308 : -1.7e308"),
		"finite, divided by zero":   model("m", []KPI{{Variable: "y", Max: new(1.0)}}, Variable{Name: "x", Noise: &Noise{Bernoulli: new(1e-300)}}, Variable{Name: "y", Parents: []string{"x"}, Expression: "1 / (1 - x)"}),
		"without the action, fails": model("m", []KPI{{Variable: "y", Max: new(1.0)}}, Variable{Name: "x", Value: &Value{}}, Variable{Name: "y", Parents: []string{"x"}, Expression: "1 / x"}),
	} {
		s, err := New(m)
		require.NoError(t, err, name)
		for _, force := range []Method{"", MonteCarlo} {
			if force == MonteCarlo && (strings.HasPrefix(name, "the variance") || strings.HasPrefix(name, "finite")) {
				continue // its values are finite, or no sample has the case
			}
			s.force = force
			var do []Intervention
			if strings.HasPrefix(name, "without") {
				do = setTo("x", 1)
			}
			p, err := s.Simulate(do, "seed")
			require.Error(t, err, "%s", name)
			require.Nil(t, p)
		}
	}
}

// What can break has a risk, however improbable it is.
func TestRiskIsNotZeroIfBreakingIsPossible(t *testing.T) {
	bounded := func(max float64, v ...Variable) *Model { return model("m", []KPI{{Variable: "y", Max: &max}}, v...) }
	for name, m := range map[string]*Model{
		"far tail":               bounded(1e6, sumOf("y", 1, nil)),
		"where doubles end":      bounded(1e100, sumOf("y", 1e-100, nil)),
		"no double between":      bounded(1, Variable{Name: "y", Noise: &Noise{Normal: &Normal{Mean: 1 - 0x1p-53, SD: 1e-300}}}),
		"the weight underflows":  bounded(1, sumOf("a", 1e-200, nil), sumOf("b", 0, map[string]float64{"a": 1e-100}), sumOf("y", 0, map[string]float64{"b": 1e-100})),
		"the variance does":      bounded(1, sumOf("y", 1e-200, nil)),
		"noise cancels out":      bounded(1, sumOf("a", 1, nil), sumOf("b", 0, map[string]float64{"a": 1}), sumOf("y", 0, map[string]float64{"a": 1, "b": -1})),
		"noise is absorbed":      bounded(1, sumOf("a", 1, nil), sumOf("b", 0, map[string]float64{"a": 1e17}), sumOf("c", 0, map[string]float64{"a": 1, "b": 1}), sumOf("y", 0, map[string]float64{"c": 1, "b": -1})),
		"an improbable world":    bounded(0, Variable{Name: "y", Noise: &Noise{Bernoulli: new(5e-324)}}),
		"a product underflows":   bounded(1, Variable{Name: "a", Noise: &Noise{Bernoulli: new(1e-200)}}, Variable{Name: "b", Noise: &Noise{Bernoulli: new(1e-200)}}, sumOf("y", 0, map[string]float64{"a": 1, "b": 1})),
		"no sample breaks":       bounded(1e100, Variable{Name: "y", Noise: &Noise{Uniform: &Range{Min: 0, Max: 1}}}),
		"a probability rounds":   bounded(0, Variable{Name: "y", Noise: &Noise{Bernoulli: new(1e-18)}}),
		"a very wide normal one": bounded(1e6, sumOf("y", 1e100, nil)),
	} {
		s, err := New(m)
		require.NoError(t, err, name)
		for _, force := range []Method{"", MonteCarlo} {
			s.force = force
			p, err := s.Simulate(nil, "seed")
			require.NoError(t, err, name)
			risk, err := p.Risk.Float64()
			require.NoError(t, err)
			require.GreaterOrEqual(t, risk, 1e-9, name)
			require.LessOrEqual(t, risk, 1.0, name)
			require.Equal(t, p.Risk, p.Baseline)
		}
	}
}

// What cannot break has the risk 0 in closed form, and what always does 1.
func TestCertainty(t *testing.T) {
	for max, want := range map[float64]string{2: "0", 1: "0", 0.5: "1"} {
		s, err := New(model("m", []KPI{{Variable: "y", Max: &max}}, Variable{Name: "y", Value: &Value{Number: 1}}))
		require.NoError(t, err)
		p, err := s.Simulate(nil, "")
		require.NoError(t, err)
		require.Equal(t, want, string(p.Risk))
		require.Equal(t, want, string(p.Estimate))
	}
}

func TestNewRefuses(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	y := func(v Variable) *Model {
		v.Name = "y"
		return model("m", []KPI{{Variable: "y", Max: new(1.0)}}, sumOf("x", 1, nil), root("c", 0.5, "a", "b"), v)
	}
	row := func(category string, value float64) Row {
		return Row{When: map[string]string{"c": category}, Value: &value}
	}
	for name, m := range map[string]*Model{
		"a draft":                 y(Variable{Parents: []string{"x"}}),
		"a draft without cause":   y(Variable{}),
		"an unknown parent":       y(Variable{Parents: []string{"z"}, Linear: &Linear{Weights: map[string]float64{"z": 1}}}),
		"a parent twice":          y(Variable{Parents: []string{"x", "x"}, Linear: &Linear{Weights: map[string]float64{"x": 1}}}),
		"a cycle":                 y(Variable{Parents: []string{"y"}, Linear: &Linear{Weights: map[string]float64{"y": 1}}}),
		"a missing weight":        y(Variable{Parents: []string{"x"}, Linear: &Linear{}}),
		"a weight of nothing":     y(Variable{Parents: []string{"x"}, Linear: &Linear{Weights: map[string]float64{"x": 1, "z": 1}}}),
		"a weight of a category":  y(Variable{Parents: []string{"c"}, Linear: &Linear{Weights: map[string]float64{"c": 1}}}),
		"a weight that is none":   y(Variable{Parents: []string{"x"}, Linear: &Linear{Weights: map[string]float64{"x": nan}}}),
		"two mechanisms":          y(Variable{Value: &Value{}, Linear: &Linear{}}),
		"a value and noise":       y(Variable{Value: &Value{}, Noise: &Noise{Bernoulli: new(0.5)}}),
		"an infinite value":       y(Variable{Value: &Value{Number: inf}}),
		"a category for number":   y(Variable{Value: &Value{Category: "a"}}),
		"two noises":              y(Variable{Noise: &Noise{Bernoulli: new(0.5), Normal: &Normal{}}}),
		"no noise":                y(Variable{Noise: &Noise{}}),
		"a negative sd":           y(Variable{Noise: &Noise{Normal: &Normal{SD: -1}}}),
		"an infinite sd":          y(Variable{Noise: &Noise{Normal: &Normal{SD: inf}}}),
		"an empty range":          y(Variable{Noise: &Noise{Uniform: &Range{Min: 1}}}),
		"an endless range":        y(Variable{Noise: &Noise{Uniform: &Range{Min: -1e308, Max: 1e308}}}),
		"probability 2":           y(Variable{Noise: &Noise{Bernoulli: new(2.0)}}),
		"probability NaN":         y(Variable{Noise: &Noise{Bernoulli: &nan}}),
		"empty observations":      y(Variable{Noise: &Noise{Empirical: []float64{}}}),
		"observed NaN":            y(Variable{Noise: &Noise{Empirical: []float64{1, nan}}}),
		"categorical number":      y(Variable{Noise: &Noise{Categorical: map[string]float64{"a": 1}}}),
		"a missing row":           y(Variable{Parents: []string{"c"}, Table: []Row{row("a", 1)}}),
		"a row twice":             y(Variable{Parents: []string{"c"}, Table: []Row{row("a", 1), row("a", 1)}}),
		"a row of nothing":        y(Variable{Parents: []string{"c"}, Table: []Row{row("a", 1), row("z", 1)}}),
		"a row NaN":               y(Variable{Parents: []string{"c"}, Table: []Row{row("a", 1), row("b", nan)}}),
		"a table of numbers":      y(Variable{Parents: []string{"x"}, Table: []Row{row("a", 1)}}),
		"a bad expression":        y(Variable{Parents: []string{"x"}, Expression: "z"}),
		"noise that is not there": y(Variable{Parents: []string{"x"}, Expression: "noise"}),
		"bounds of categories":    y(Variable{Values: []string{"a", "b"}, Noise: &Noise{Categorical: map[string]float64{"a": 1}}}),
		"a name twice":            model("m", nil, sumOf("x", 1, nil), sumOf("x", 1, nil)),
		"a KPI of nothing":        model("m", []KPI{{Variable: "z"}}, sumOf("x", 1, nil)),
		"a bound NaN":             model("m", []KPI{{Variable: "x", Max: &nan}}, sumOf("x", 1, nil)),
		"half probabilities":      model("m", allowed("c", "a"), Variable{Name: "c", Values: []string{"a", "b"}, Noise: &Noise{Categorical: map[string]float64{"a": 0.5}}}),
		"a probability of none":   model("m", allowed("c", "a"), Variable{Name: "c", Values: []string{"a", "b"}, Noise: &Noise{Categorical: map[string]float64{"a": 1, "z": 0}}}),
		"a category of none":      model("m", allowed("c", "a"), Variable{Name: "c", Values: []string{"a", "b"}, Value: &Value{Category: "z"}}),
		"categories, linear":      model("m", allowed("c", "a"), Variable{Name: "c", Values: []string{"a", "b"}, Linear: &Linear{}}),
		"categories, normal":      model("m", allowed("c", "a"), Variable{Name: "c", Values: []string{"a", "b"}, Noise: &Noise{Normal: &Normal{SD: 1}}}),
		"too many variables":      model("m", nil, make([]Variable, MaxVariables+1)...),
		"too much work":           func() *Model { m := calculatedOf("x" + strings.Repeat(" + x", 300)); m.Samples = MaxSamples; return m }(),
		"no samples":              func() *Model { m := calculatedOf("x"); m.Samples = -1; return m }(),
		"a bad binding":           func() *Model { m := calculatedOf("x"); m.Bind = []Binding{{"x", "args."}}; return m }(),
		"a binding of nothing":    func() *Model { m := calculatedOf("x"); m.Bind = []Binding{{"z", "1"}}; return m }(),
		"a bad observation":       func() *Model { m := calculatedOf("x"); m.Observe = []Binding{{"y", "value"}}; return m }(),
	} {
		_, err := New(m)
		require.Error(t, err, name)
	}
}
