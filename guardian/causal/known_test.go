package causal

import (
	"fmt"
	"maps"
	"math"
	"math/big"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// known is a question whose answer somebody has published, or that follows from published numbers.
type known struct {
	name, source string
	model        *Model
	do           []Intervention
	// want is the exact probability that the KPI breaks its bound, or its mean.
	want *big.Rat
	// before is that without the action, if it is not nil.
	before *big.Rat
}

// The models are written as functions of their names, so that their parts are read like the sources' tables.
func model(name string, kpis []KPI, variables ...Variable) *Model {
	m := &Model{Name: name, Version: "1", Operations: []string{"test/act"}, KPIs: kpis, Variables: variables, Samples: DefaultSamples}
	slices.SortFunc(m.Variables, func(a, b Variable) int { return strings.Compare(a.Name, b.Name) })
	for i := range m.Variables {
		slices.Sort(m.Variables[i].Parents)
		m.Variables[i].Provenance = Assumed
	}
	slices.SortFunc(m.KPIs, func(a, b KPI) int { return strings.Compare(a.Variable, b.Variable) })
	return m
}

func allowed(variable string, values ...string) []KPI {
	return []KPI{{Variable: variable, Allow: values}}
}

// root is one of two categories, the first with the probability p.
func root(name string, p float64, values ...string) Variable {
	return Variable{Name: name, Values: values, Noise: &Noise{Categorical: map[string]float64{values[0]: p, values[1]: 1 - p}}}
}

// yesNo is "yes" with the probability that a table gives for the categories of its parents, joined by spaces.
func yesNo(name string, parents []string, p map[string]float64) Variable {
	v := Variable{Name: name, Values: []string{"yes", "no"}, Parents: slices.Clone(parents)}
	for _, key := range slices.Sorted(maps.Keys(p)) {
		row := Row{When: map[string]string{}, P: map[string]float64{"yes": p[key], "no": 1 - p[key]}}
		for i, c := range strings.Fields(key) {
			row.When[parents[i]] = c
		}
		v.Table = append(v.Table, row)
	}
	return v
}

func set(variable, category string) []Intervention {
	return []Intervention{{variable, Value{Category: category}}}
}

func setTo(variable string, x float64) []Intervention {
	return []Intervention{{variable, Value{Number: x}}}
}

// sumOf is an intercept of 0 and weights, with normal noise.
func sumOf(name string, sd float64, weights map[string]float64) Variable {
	v := Variable{Name: name, Noise: &Noise{Normal: &Normal{SD: sd}}}
	if len(weights) > 0 {
		v.Parents, v.Linear = slices.Sorted(maps.Keys(weights)), &Linear{Weights: weights}
	}
	if sd == 0 {
		v.Noise = nil
	}
	return v
}

func ratio(a, b int64) *big.Rat { return big.NewRat(a, b) }

func product(factors ...*big.Rat) *big.Rat {
	p := ratio(1, 1)
	for _, f := range factors {
		p.Mul(p, f)
	}
	return p
}

func total(terms ...*big.Rat) *big.Rat {
	s := new(big.Rat)
	for _, t := range terms {
		s.Add(s, t)
	}
	return s
}

func not_(p *big.Rat) *big.Rat { return new(big.Rat).Sub(ratio(1, 1), p) }

func float(r *big.Rat) float64 { f, _ := r.Float64(); return f }

// stones are C. R. Charig et al., "Comparison of treatment of renal calculi by open surgery, percutaneous
// nephrolithotomy, and extracorporeal shockwave lithotripsy", BMJ 292 (1986), by size as in S. A. Julious and
// M. A. Mullee, "Confounding and Simpson's paradox", BMJ 309 (1994).
func stones() *Model {
	return model("kidney-stones", allowed("success", "yes"),
		root("size", 357./700, "small", "large"),
		Variable{Name: "treatment", Values: []string{"open", "nephrolithotomy"}, Parents: []string{"size"}, Table: []Row{
			{When: map[string]string{"size": "small"}, P: map[string]float64{"open": 87. / 357, "nephrolithotomy": 270. / 357}},
			{When: map[string]string{"size": "large"}, P: map[string]float64{"open": 263. / 343, "nephrolithotomy": 80. / 343}},
		}},
		yesNo("success", []string{"size", "treatment"}, map[string]float64{
			"small open": 81. / 87, "small nephrolithotomy": 234. / 270, "large open": 192. / 263, "large nephrolithotomy": 55. / 80,
		}))
}

// simpson is the table of J. Pearl, "Causality" (2009), 6.1, after D. V. Lindley and M. R. Novick (1981): of those
// who are treated more recover, and in each group fewer.
func simpson() *Model {
	return model("simpson", allowed("recovers", "yes"),
		root("group", 0.5, "male", "female"),
		Variable{Name: "treated", Values: []string{"1", "0"}, Parents: []string{"group"}, Table: []Row{
			{When: map[string]string{"group": "male"}, P: map[string]float64{"1": 0.75, "0": 0.25}},
			{When: map[string]string{"group": "female"}, P: map[string]float64{"1": 0.25, "0": 0.75}},
		}},
		yesNo("recovers", []string{"group", "treated"}, map[string]float64{"male 1": 18. / 30, "male 0": 7. / 10, "female 1": 2. / 10, "female 0": 9. / 30}))
}

// whatIf is the model of DoWhy's tests/gcm/test_whatif.py, with a normal variable for its uniform one.
func whatIf(kpi string) *Model {
	return model("what-if", []KPI{{Variable: kpi, Max: new(100.0)}},
		sumOf("X0", 1, nil), sumOf("X1", 0.1, map[string]float64{"X0": 2}), sumOf("X2", 0.1, map[string]float64{"X0": 0.5}), sumOf("X3", 0.1, map[string]float64{"X2": 0.5}))
}

// sprinkler is that of S. Russell and P. Norvig, "Artificial Intelligence" (1995), 15.
func sprinkler() *Model {
	return model("sprinkler", allowed("wet", "no"),
		root("cloudy", 0.5, "yes", "no"),
		yesNo("rain", []string{"cloudy"}, map[string]float64{"yes": 0.8, "no": 0.2}),
		yesNo("sprinkler", []string{"cloudy"}, map[string]float64{"yes": 0.1, "no": 0.5}),
		yesNo("wet", []string{"sprinkler", "rain"}, map[string]float64{"yes yes": 0.99, "yes no": 0.9, "no yes": 0.9, "no no": 0}))
}

// alarm is that of J. Pearl, "Probabilistic Reasoning in Intelligent Systems" (1988), with the numbers of Russell
// and Norvig, figure 14.2.
func alarm() *Model {
	return model("alarm", allowed("john_calls", "no"),
		root("burglary", 0.001, "yes", "no"), root("earthquake", 0.002, "yes", "no"),
		yesNo("alarm", []string{"burglary", "earthquake"}, map[string]float64{"yes yes": 0.95, "yes no": 0.94, "no yes": 0.29, "no no": 0.001}),
		yesNo("john_calls", []string{"alarm"}, map[string]float64{"yes": 0.9, "no": 0.05}))
}

// tar is J. Pearl, "Causality" (2009), 3.3.3, table 3.1, where the genotype is what smokes: its cancer depends on
// genotype and tar, as that of smokers and others in the table.
func tar() *Model {
	return model("front-door", allowed("cancer", "no"),
		root("genotype", 0.5, "yes", "no"),
		yesNo("smokes", []string{"genotype"}, map[string]float64{"yes": 1, "no": 0}),
		yesNo("tar", []string{"smokes"}, map[string]float64{"yes": 0.95, "no": 0.05}),
		yesNo("cancer", []string{"genotype", "tar"}, map[string]float64{"no no": 0.1, "yes no": 0.9, "no yes": 0.05, "yes yes": 0.85}))
}

// monty is S. Selvin, "A Problem in Probability", The American Statistician 29 (1975).
func monty() *Model {
	doors := []string{"1", "2", "3"}
	third := map[string]float64{"1": 1. / 3, "2": 1. / 3, "3": 1. / 3}
	host := Variable{Name: "host", Values: doors, Parents: []string{"car", "pick"}}
	for _, car := range doors {
		for _, pick := range doors {
			row := Row{When: map[string]string{"car": car, "pick": pick}, P: map[string]float64{}}
			for _, door := range doors {
				switch {
				case door == car || door == pick:
				case car == pick:
					row.P[door] = 0.5
				default:
					row.P[door] = 1
				}
			}
			host.Table = append(host.Table, row)
		}
	}
	return model("monty-hall", allowed("prize", "car"),
		Variable{Name: "car", Values: doors, Noise: &Noise{Categorical: third}}, Variable{Name: "pick", Values: doors, Noise: &Noise{Categorical: third}}, host,
		Variable{Name: "strategy", Values: []string{"stay", "switch"}, Value: &Value{Category: "stay"}},
		Variable{Name: "final", Values: doors, Parents: []string{"host", "pick", "strategy"},
			Expression: `strategy == "stay" ? pick : host != "1" && pick != "1" ? "1" : host != "2" && pick != "2" ? "2" : "3"`},
		Variable{Name: "prize", Values: []string{"car", "goat"}, Parents: []string{"car", "final"}, Expression: `car == final ? "car" : "goat"`})
}

// departments are the six largest of P. J. Bickel, E. A. Hammel and J. W. O'Connell, "Sex Bias in Graduate Admissions:
// Data from Berkeley", Science 187 (1975), as in R's UCBAdmissions: admitted and rejected men, then women.
var departments = map[string][4]int64{
	"A": {512, 313, 89, 19}, "B": {353, 207, 17, 8}, "C": {120, 205, 202, 391}, "D": {138, 279, 131, 244}, "E": {53, 138, 94, 299}, "F": {22, 351, 24, 317},
}

// berkeley has the department by what applicants are, and admission by what is written on their application.
func berkeley() *Model {
	names := slices.Sorted(maps.Keys(departments))
	var men, women int64
	for _, d := range departments {
		men, women = men+d[0]+d[1], women+d[2]+d[3]
	}
	department := Variable{Name: "department", Values: names, Parents: []string{"sex"}, Table: []Row{
		{When: map[string]string{"sex": "man"}, P: map[string]float64{}}, {When: map[string]string{"sex": "woman"}, P: map[string]float64{}}}}
	admitted := map[string]float64{}
	for _, name := range names {
		d := departments[name]
		department.Table[0].P[name] = float64(d[0]+d[1]) / float64(men)
		department.Table[1].P[name] = float64(d[2]+d[3]) / float64(women)
		admitted[name+" man"] = float64(d[0]) / float64(d[0]+d[1])
		admitted[name+" woman"] = float64(d[2]) / float64(d[2]+d[3])
	}
	return model("berkeley", allowed("admitted", "yes"),
		root("sex", float64(men)/float64(men+women), "man", "woman"), department,
		Variable{Name: "written", Values: []string{"man", "woman"}, Parents: []string{"sex"}, Expression: "sex"},
		yesNo("admitted", []string{"department", "written"}, admitted))
}

// adjusted is the share of rejected applicants if the application says what is at an index of a department's.
func adjusted(at int) *big.Rat {
	sum, all := new(big.Rat), int64(0)
	for _, d := range departments {
		all += d[0] + d[1] + d[2] + d[3]
	}
	for _, d := range departments {
		sum.Add(sum, product(ratio(d[0]+d[1]+d[2]+d[3], all), ratio(d[at+1], d[at]+d[at+1])))
	}
	return sum
}

// mediation has a direct effect of 0.3 and one of 0.5 · 0.4 by a mediator, as R. M. Baron and D. A. Kenny (1986) take
// them apart.
func mediation() *Model {
	return model("mediation", []KPI{{Variable: "outcome", Max: new(100.0)}},
		sumOf("cause", 1, nil), sumOf("mediator", 1, map[string]float64{"cause": 0.5}), sumOf("outcome", 1, map[string]float64{"cause": 0.3, "mediator": 0.4}))
}

// instrument has a hidden cause of demand and price, by the rules of S. Wright, "The Method of Path Coefficients"
// (1934): regression would give 2 + 3/2, and setting the price gives 2.
func instrument() *Model {
	return model("instrument", []KPI{{Variable: "demand", Max: new(100.0)}},
		sumOf("hidden", 1, nil), sumOf("tax", 1, nil), sumOf("price", 0, map[string]float64{"hidden": 1, "tax": 1}), sumOf("demand", 1, map[string]float64{"price": 2, "hidden": 3}))
}

// bell is J. Pearl, M. Glymour and N. P. Jewell, "Causal Inference in Statistics: A Primer" (2016), 2.3: a bell rings
// if one of two coins shows heads. To ring it does not move the coins.
func bell() *Model {
	return model("bell", allowed("coin", "heads"),
		root("coin", 0.5, "heads", "tails"), root("other", 0.5, "heads", "tails"),
		Variable{Name: "bell", Values: []string{"rings", "silent"}, Parents: []string{"coin", "other"}, Expression: `coin == "heads" || other == "heads" ? "rings" : "silent"`})
}

func knownAnswers() []known {
	alarmed := func(p *big.Rat) *big.Rat { return total(product(ratio(9, 10), p), product(ratio(1, 20), not_(p))) }
	burgled := total(product(ratio(2, 1000), ratio(95, 100)), product(ratio(998, 1000), ratio(94, 100)))
	quiet := total(product(ratio(2, 1000), ratio(29, 100)), product(ratio(998, 1000), ratio(1, 1000)))
	rung := total(product(ratio(1, 1000), burgled), product(ratio(999, 1000), quiet))
	open := total(product(ratio(357, 700), ratio(81, 87)), product(ratio(343, 700), ratio(192, 263)))   // 0.8325
	closed := total(product(ratio(357, 700), ratio(234, 270)), product(ratio(343, 700), ratio(55, 80))) // 0.7789
	return []known{
		{name: "stones-open", source: "Charig 1986", model: stones(), do: set("treatment", "open"), want: not_(open), before: ratio(700-562, 700)},
		{name: "stones-nephrolithotomy", source: "Charig 1986", model: stones(), do: set("treatment", "nephrolithotomy"), want: not_(closed)},
		{name: "simpson-treated", source: "Causality 6.1", model: simpson(), do: set("treated", "1"), want: ratio(6, 10), before: ratio(44, 80)},
		{name: "simpson-untreated", source: "Causality 6.1", model: simpson(), do: set("treated", "0"), want: ratio(5, 10)},
		{name: "what-if", source: "DoWhy", model: whatIf("X3"), do: setTo("X2", 10), want: ratio(5, 1), before: ratio(0, 1)},
		{name: "what-if-root", source: "DoWhy", model: whatIf("X0"), do: setTo("X2", 10), want: ratio(0, 1), before: ratio(0, 1)},
		{name: "what-if-sibling", source: "DoWhy", model: whatIf("X1"), do: setTo("X2", 10), want: ratio(0, 1), before: ratio(0, 1)},
		{name: "sprinkler-on", source: "Russell and Norvig", model: sprinkler(), do: set("sprinkler", "yes"), want: ratio(945, 1000), before: ratio(6471, 10000)},
		{name: "sprinkler-off", source: "Russell and Norvig", model: sprinkler(), do: set("sprinkler", "no"), want: ratio(45, 100)},
		{name: "alarm", source: "Pearl 1988", model: alarm(), do: set("burglary", "yes"), want: alarmed(burgled), before: alarmed(rung)},
		{name: "alarm-itself", source: "Pearl 1988", model: alarm(), do: set("alarm", "no"), want: ratio(1, 20)},
		{name: "tar-smokes", source: "Causality 3.3.3", model: tar(), do: set("smokes", "yes"), want: ratio(4525, 10000), before: ratio(475*10+25*90+25*5+475*85, 100000)},
		{name: "tar-does-not", source: "Causality 3.3.3", model: tar(), do: set("smokes", "no"), want: ratio(4975, 10000)},
		{name: "monty-stays", source: "Selvin 1975", model: monty(), do: set("pick", "1"), want: ratio(2, 3), before: ratio(2, 3)},
		{name: "monty-switches", source: "Selvin 1975", model: monty(), do: set("strategy", "switch"), want: ratio(1, 3)},
		{name: "berkeley-man", source: "Bickel 1975", model: berkeley(), do: set("written", "man"), want: adjusted(0), before: ratio(2771, 4526)},
		{name: "berkeley-woman", source: "Bickel 1975", model: berkeley(), do: set("written", "woman"), want: adjusted(2)},
		{name: "berkeley-sex", source: "Bickel 1975", model: berkeley(), do: set("sex", "woman"), want: ratio(1278, 1835)},
		{name: "mediation", source: "Baron and Kenny 1986", model: mediation(), do: setTo("cause", 1), want: ratio(1, 2), before: ratio(0, 1)},
		{name: "mediation-direct", source: "Baron and Kenny 1986", model: mediation(), want: ratio(3, 10), do: []Intervention{{"cause", Value{Number: 1}}, {"mediator", Value{}}}},
		{name: "instrument", source: "Wright 1934", model: instrument(), do: setTo("price", 1), want: ratio(2, 1), before: ratio(0, 1)},
		{name: "bell", source: "Primer 2.3", model: bell(), do: set("bell", "rings"), want: ratio(1, 2), before: ratio(1, 2)},
	}
}

// of takes from a prediction what a known answer is about, and its variance: the probability that the KPI breaks
// its bound, or its mean.
func (c *known) of(t *testing.T, broken float64, d *Distribution) (x, variance float64) {
	t.Helper()
	if d.Mean == "" {
		return broken, broken * (1 - broken)
	}
	x, err := d.Mean.Float64()
	require.NoError(t, err)
	variance, err = d.Variance.Float64()
	require.NoError(t, err)
	return x, variance
}

// broken is the probability of what is not allowed.
func broken(t *testing.T, f *Forecast, d *Distribution) float64 {
	t.Helper()
	b := 1.0
	for _, s := range d.P {
		if slices.Contains(f.Allow, s.Category) {
			p, err := s.P.Float64()
			require.NoError(t, err)
			b -= p
		}
	}
	return b
}

func TestKnownAnswers(t *testing.T) {
	for _, c := range knownAnswers() {
		t.Run(c.name, func(t *testing.T) {
			s, err := New(c.model)
			require.NoError(t, err)
			p, err := s.Simulate(c.do, "seed")
			require.NoError(t, err)
			require.NotEqual(t, MonteCarlo, p.Method)
			f := &p.KPIs[0]
			have, _ := c.of(t, broken(t, f, &f.With), &f.With)
			require.InDelta(t, float(c.want), have, 1e-9)
			if f.With.Mean == "" {
				risk, err := p.Risk.Float64()
				require.NoError(t, err)
				require.InDelta(t, float(c.want), risk, 1.01e-9)
				require.Equal(t, p.Risk, f.Broken)
			}
			if c.before != nil {
				have, _ := c.of(t, broken(t, f, &f.Without), &f.Without)
				require.InDelta(t, float(c.before), have, 1e-9)
			}
			s.force = MonteCarlo
			p, err = s.Simulate(c.do, "seed")
			require.NoError(t, err)
			require.Equal(t, MonteCarlo, p.Method)
			f = &p.KPIs[0]
			have, variance := c.of(t, broken(t, f, &f.With), &f.With)
			if f.With.Mean == "" {
				variance = float(c.want) * (1 - float(c.want))
			}
			require.InDelta(t, float(c.want), have, 4*math.Sqrt(variance/DefaultSamples)+1e-12)
			if c.before != nil {
				have, variance := c.of(t, broken(t, f, &f.Without), &f.Without)
				require.InDelta(t, float(c.before), have, 4*math.Sqrt(variance/DefaultSamples)+1e-12)
			}
		})
	}
}

// The published decimals.
func TestKnownDecimals(t *testing.T) {
	want := map[string]string{"stones-open": "0.8325", "stones-nephrolithotomy": "0.7789", "alarm": "0.1510"}
	for _, c := range knownAnswers() {
		if text, ok := want[c.name]; ok {
			require.Equal(t, text, fmt.Sprintf("%.4f", float(not_(c.want))))
		}
	}
}
