package fit

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"chimera.ai/engine/diag"
	"chimera.ai/engine/guardian/causal"
)

// model builds one: parents after a colon, categories after an equals sign, such as "y=ok,late: x z". The levers are bound.
func model(kpis, levers []string, variables ...string) *causal.Model {
	m := &causal.Model{Name: "m", Operations: []string{"a/b"}, Samples: causal.DefaultSamples}
	for _, text := range variables {
		name, parents, _ := strings.Cut(text, ":")
		name, values, categorical := strings.Cut(name, "=")
		v := causal.Variable{Name: name, Parents: strings.Fields(parents), Provenance: causal.Assumed}
		if categorical {
			v.Values = strings.Split(values, ",")
		}
		slices.Sort(v.Parents)
		m.Variables = append(m.Variables, v)
	}
	if len(levers) == 0 {
		// Each model binds something.
		levers = []string{"lever"}
		m.Variables = append(m.Variables, causal.Variable{Name: "lever", Value: &causal.Value{}, Range: &causal.Range{Max: 1}, Provenance: causal.Assumed})
	}
	slices.SortFunc(m.Variables, func(a, b causal.Variable) int { return strings.Compare(a.Name, b.Name) })
	for _, name := range levers {
		m.Bind = append(m.Bind, causal.Binding{Variable: name, Expression: "args." + name})
	}
	for _, name := range kpis {
		m.KPIs = append(m.KPIs, causal.KPI{Variable: name})
	}
	return m
}

// table makes n rows of columns, of which each row gives the cells.
func table(n int, columns string, row func() []any) *Data {
	d := &Data{Columns: strings.Fields(columns)}
	for range n {
		var cells []string
		for _, x := range row() {
			if f, ok := x.(float64); ok {
				x = strconv.FormatFloat(f, 'g', -1, 64)
			}
			cells = append(cells, fmt.Sprint(x))
		}
		d.Rows = append(d.Rows, cells)
	}
	return d
}

func fitted(t *testing.T, m *causal.Model, d *Data, o Options) (*causal.Model, *Report) {
	t.Helper()
	o.Source = "data.csv"
	before, err := json.Marshal(m)
	require.NoError(t, err)
	out, report, err := Fit(m, d, o)
	require.NoError(t, err)
	after, err := json.Marshal(m)
	require.NoError(t, err)
	require.Equal(t, string(before), string(after), "the model itself does not change")
	readBack(t, out)
	return out, report
}

// readBack checks that a model that is written is the one that is read.
func readBack(t *testing.T, m *causal.Model) {
	t.Helper()
	read, found := causal.ParseDraft(diag.Source{Name: "model.yaml", Text: causal.Write(m)})
	require.Empty(t, found)
	require.Equal(t, m.Digest(), read.Digest())
}

func refused(t *testing.T, m *causal.Model, d *Data, o Options, variable, message string) {
	t.Helper()
	o.Source = "data.csv"
	out, report, err := Fit(m, d, o)
	var r *RefusedError
	require.ErrorAs(t, err, &r)
	require.Equal(t, variable, r.Variable)
	require.Contains(t, err.Error(), message)
	require.Nil(t, out)
	require.Nil(t, report)
}

// TestRecovery: coefficients that are known are found within 4 standard errors, which are right themselves.
func TestRecovery(t *testing.T) {
	within := 0
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 5))
		a, b, c, sd := 10*r.NormFloat64(), r.NormFloat64(), 100*r.NormFloat64(), 0.1+5*r.Float64()
		d := table(100+r.IntN(400), "x z y", func() []any {
			z := r.NormFloat64()
			x := 3 + 2*z + r.NormFloat64()
			return []any{x, z, a + b*x + c*z + sd*r.NormFloat64()}
		})
		m, report := fitted(t, model([]string{"y"}, nil, "z", "x: z", "y: x z"), d, Options{Source: "data.csv"})
		require.Len(t, report.Variables, 3)
		y := m.Variable("y")
		require.Equal(t, causal.Fitted, y.Provenance)
		require.Equal(t, "data.csv", y.Fit.Source)
		require.Equal(t, d.Digest(), y.Fit.Digest)
		require.Equal(t, len(d.Rows), y.Fit.Rows+y.Fit.HeldOut)
		for _, got := range []struct{ want, is, e float64 }{
			{a, y.Linear.Intercept, y.Fit.Errors["intercept"]}, {b, y.Linear.Weights["x"], y.Fit.Errors["x"]}, {c, y.Linear.Weights["z"], y.Fit.Errors["z"]},
		} {
			require.InDelta(t, got.want, got.is, 4*got.e)
			if math.Abs(got.want-got.is) < got.e {
				within++
			}
		}
		require.InEpsilon(t, sd, y.Noise.Normal.SD, 0.35)
		require.InEpsilon(t, sd, *y.Fit.HeldOutError, 0.7)
		require.Zero(t, y.Noise.Normal.Mean)
	}
	// One standard error holds 68 %.
	require.InDelta(t, 0.68*120, within, 20)
}

// confounded draws x and y with a common cause z, which acts on y by u alone.
func confounded(r *rand.Rand, n int, columns string) *Data {
	return table(n, columns, func() []any {
		z := 1 + r.NormFloat64()
		u := 5 + 2*z + r.NormFloat64()
		x := 3*z + r.NormFloat64()
		all := map[string]any{"z": z, "u": u, "x": x, "y": 10 + 4*x + 7*u + r.NormFloat64()}
		var row []any
		for _, name := range strings.Fields(columns) {
			row = append(row, all[name])
		}
		return row
	})
}

func TestAdjusted(t *testing.T) {
	m := model([]string{"y"}, []string{"x"}, "z", "u: z", "x: z", "y: x u")
	m.Variable("u").Noise, m.Variable("u").Linear = &causal.Noise{Normal: &causal.Normal{SD: 1}}, &causal.Linear{Weights: map[string]float64{"z": 2}}
	for seed := range uint64(5) {
		out, report := fitted(t, m, confounded(rand.New(rand.NewPCG(seed, 6)), 4000, "x y z"), Options{Only: []string{"y"}, Marginalize: []string{"u"}})
		y := out.Variable("y")
		require.Equal(t, []string{"x"}, y.Parents)
		require.Equal(t, []string{"z"}, y.Fit.Adjusted)
		require.Equal(t, []string{"u"}, y.Fit.Marginalized)
		require.InDelta(t, 4, y.Linear.Weights["x"], 4*y.Fit.Errors["x"])
		// Without z, the weight would be 4 + 7·2·3/10.
		require.Less(t, 4*y.Fit.Errors["x"], 2.0)
		// E[y | do(x)] = 10 + 4x + 7 E[u], E[u] = 7; Var(y | do(x)) = 7²·(2² + 1) + 1.
		require.InDelta(t, 59, y.Linear.Intercept, 4*y.Fit.Errors["intercept"])
		require.InDelta(t, math.Sqrt(246), y.Noise.Normal.SD, 1)
		require.Len(t, report.Variables[0].Notes, 2)
	}
	d := confounded(rand.New(rand.NewPCG(1, 6)), 100, "x y")
	refused(t, m, d, Options{Only: []string{"y"}, Marginalize: []string{"u"}}, "y", "x ← z → u → y")
	refused(t, m, confounded(rand.New(rand.NewPCG(1, 6)), 100, "x z y"), Options{Only: []string{"y"}}, "y",
		"the data have no column of u, on which it depends: measure u, or")
	free := model([]string{"y"}, nil, "z", "u: z", "x: z", "y: x u")
	refused(t, free, confounded(rand.New(rand.NewPCG(1, 6)), 100, "x z y"), Options{Only: []string{"y"}, Marginalize: []string{"u"}}, "y",
		"the KPIs depend on z in other ways too")
}

// TestMarginalize: an independent cause becomes noise; one that is not is refused.
func TestMarginalize(t *testing.T) {
	d := func() *Data {
		r := rand.New(rand.NewPCG(7, 8))
		return table(3000, "x y w", func() []any {
			x, u := r.NormFloat64(), 3+2*r.NormFloat64()
			return []any{x, 1 + 5*x + 2*u + r.NormFloat64(), r.NormFloat64()}
		})
	}
	o := Options{Source: "data.csv", Only: []string{"y"}, Marginalize: []string{"u"}}
	out, _ := fitted(t, model([]string{"y"}, []string{"x"}, "x", "u", "y: x u"), d(), o)
	y := out.Variable("y")
	require.Equal(t, []string{"x"}, y.Parents)
	require.Empty(t, y.Fit.Adjusted)
	require.Equal(t, []string{"u"}, y.Fit.Marginalized)
	require.InDelta(t, 7, y.Linear.Intercept, 4*y.Fit.Errors["intercept"])
	require.InDelta(t, math.Sqrt(17), y.Noise.Normal.SD, 0.3)

	refused(t, model([]string{"y"}, []string{"u", "x"}, "x", "u", "y: x u"), d(), o, "y", "its parent u is a lever")
	lever := model([]string{"y"}, []string{"x"}, "x", "u", "y: x u")
	lever.Variable("u").Value = &causal.Value{Number: 3}
	refused(t, lever, d(), o, "y", "its parent u is a lever")
	_, _, err := Fit(lever, d(), Options{Source: "d", Only: []string{"y"}})
	require.EqualError(t, err, "y: the data have no column of u, on which it depends: measure u")
	refused(t, model([]string{"y"}, []string{"x"}, "x", "u: x", "y: x u"), d(), o, "y", "its parent u depends on the lever x")
	refused(t, model([]string{"y"}, nil, "x", "u: x", "y: x u"), d(), o, "y", "the KPIs depend on x in other ways too")
	refused(t, model([]string{"y"}, nil, "u", "x: u", "y: x u"), d(), o, "y", "the KPIs depend on u in other ways too")
	refused(t, model([]string{"y"}, []string{"x"}, "u", "x: u", "y: x u"), d(), o, "y", "no measured variables block the path x ← u → y")
	refused(t, model([]string{"k", "y"}, []string{"x"}, "x", "u", "k: u", "y: x u"), d(), o, "y", "the KPIs depend on u in other ways too")
	out, _ = fitted(t, model([]string{"y"}, []string{"x"}, "x", "u", "k: u", "y: x u"), d(), o)
	require.Equal(t, []string{"x"}, out.Variable("y").Parents)
	require.Equal(t, []string{"u"}, out.Variable("k").Parents)

	_, _, err = Fit(model([]string{"y"}, []string{"x"}, "x", "w", "y: x w"), d(), Options{Source: "d", Only: []string{"y"}, Marginalize: []string{"w"}})
	require.EqualError(t, err, "w has data: it cannot be made noise")
	_, _, err = Fit(model([]string{"y"}, []string{"x"}, "x", "u", "y: x"), d(), o)
	require.EqualError(t, err, `"u" is to be made noise, but is no parent of what is fitted`)
	// All parents become noise: a root stays.
	out, _ = fitted(t, model([]string{"y"}, nil, "u", "y: u"), d(), o)
	require.Empty(t, out.Variable("y").Parents)
	require.InDelta(t, 7, out.Variable("y").Noise.Normal.Mean, 1)
}

// stones repeats the table of Charig and others (1986): treatments of kidney stones, by size.
func stones(columns ...string) *Data {
	d := &Data{Columns: columns}
	for _, c := range []struct {
		size, treatment, outcome string
		n                        int
	}{
		{"small", "open", "ok", 81}, {"small", "open", "bad", 6}, {"large", "open", "ok", 192}, {"large", "open", "bad", 71},
		{"small", "puncture", "ok", 234}, {"small", "puncture", "bad", 36}, {"large", "puncture", "ok", 55}, {"large", "puncture", "bad", 25},
	} {
		// Each ten times, so that the prior weighs little.
		for range 10 * c.n {
			all := map[string]string{"size": c.size, "treatment": c.treatment, "outcome": c.outcome}
			var row []string
			for _, name := range columns {
				row = append(row, all[name])
			}
			d.Rows = append(d.Rows, row)
		}
	}
	// What is held out depends on the row's index.
	r := rand.New(rand.NewPCG(9, 9))
	r.Shuffle(len(d.Rows), func(i, j int) { d.Rows[i], d.Rows[j] = d.Rows[j], d.Rows[i] })
	return d
}

func TestKidneyStones(t *testing.T) {
	size, treatment := "size=small,large", "treatment=open,puncture: size"
	// All measured: a table by treatment and size.
	out, _ := fitted(t, model([]string{"outcome"}, []string{"treatment"}, size, treatment, "outcome=ok,bad: size treatment"),
		stones("size", "treatment", "outcome"), Options{})
	p := map[string]float64{}
	for _, r := range out.Variable("outcome").Table {
		p[r.When["treatment"]+" "+r.When["size"]] = r.P["ok"]
		require.InDelta(t, 1, r.P["ok"]+r.P["bad"], 1e-12)
	}
	small := out.Variable("size").Noise.Categorical["small"]
	require.InDelta(t, 0.8325, small*p["open small"]+(1-small)*p["open large"], 0.01)
	require.InDelta(t, 0.7789, small*p["puncture small"]+(1-small)*p["puncture large"], 0.01)
	require.Greater(t, out.Variable("outcome").Fit.Errors["size=large, treatment=open: ok"], 0.0)

	// Severity was not measured: the treatment is adjusted for size.
	hidden := model([]string{"outcome"}, []string{"treatment"}, size, treatment, "severity=low,high: size", "outcome=ok,bad: severity treatment")
	o := Options{Only: []string{"outcome"}, Marginalize: []string{"severity"}}
	out, _ = fitted(t, hidden, stones("size", "treatment", "outcome"), o)
	v := out.Variable("outcome")
	require.Equal(t, []string{"size"}, v.Fit.Adjusted)
	require.Len(t, v.Table, 2)
	require.InDelta(t, 0.8325, v.Table[0].P["ok"], 4*v.Fit.Errors["treatment=open: ok"])
	require.InDelta(t, 0.7789, v.Table[1].P["ok"], 4*v.Fit.Errors["treatment=puncture: ok"])
	require.Less(t, v.Fit.Errors["treatment=open: ok"], 0.01)
	require.InDelta(t, 0.3, *v.Fit.HeldOutError, 0.05)
	refused(t, hidden, stones("treatment", "outcome"), o, "outcome", "treatment ← size → severity → outcome")
}

func TestTables(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	never := table(60, "w o", func() []any { return []any{[]string{"dry", "wet"}[r.IntN(2)], "ok"} })
	m := model([]string{"o"}, nil, "w=dry,wet,snow", "o=ok,late,lost: w")
	refused(t, m, never, Options{}, "o", "the data have no row with (w=snow)")
	out, report := fitted(t, m, never, Options{UniformUnseen: true})
	for _, row := range out.Variable("o").Table {
		for _, c := range []string{"ok", "late", "lost"} {
			require.Greater(t, row.P[c], 0.0)
			require.Greater(t, out.Variable("o").Fit.Errors["w="+row.When["w"]+": "+c], 0.0)
			if row.When["w"] == "snow" {
				require.InDelta(t, 1.0/3, row.P[c], 1e-15)
			}
		}
	}
	require.Equal(t, []string{"combinations without data, whose categories are equally probable: 1"}, report.Variables[0].Notes)
	require.Greater(t, out.Variable("w").Noise.Categorical["snow"], 0.0)

	// The list of what was not seen is bounded.
	var values []string
	for i := range 30 {
		values = append(values, fmt.Sprintf("c%d", i))
	}
	one := table(400, "a o", func() []any { return []any{"c0", []string{"ok", "late"}[r.IntN(2)]} })
	refused(t, model(nil, nil, "a="+strings.Join(values, ","), "o=ok,late: a"), one, Options{Only: []string{"o"}}, "o", "(a=c8), and 21 others")

	// Means, with a cell that was not seen refused whatever the options say.
	d := table(200, "w x", func() []any {
		w := r.IntN(2)
		return []any{[]string{"dry", "wet"}[w], 5 + 10*float64(w) + r.NormFloat64()}
	})
	out, _ = fitted(t, model(nil, nil, "w=dry,wet", "x: w"), d, Options{})
	x := out.Variable("x")
	require.InDelta(t, 5, *x.Table[0].Value, 4*x.Fit.Errors["w=dry"])
	require.InDelta(t, 15, *x.Table[1].Value, 4*x.Fit.Errors["w=wet"])
	require.InDelta(t, 1, x.Noise.Normal.SD, 0.3)
	refused(t, model(nil, nil, "w=dry,wet,snow", "x: w"), d, Options{Only: []string{"x"}, UniformUnseen: true}, "x", "no row with (w=snow)")
	refused(t, model(nil, nil, "x", "w=dry,wet: x"), d, Options{Only: []string{"w"}}, "w", "write an expression")
}

func TestNoiseFamilies(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 2))
	draw := map[string]func() float64{
		"normal": r.NormFloat64, "uniform": func() float64 { return 4*r.Float64() - 2 },
		"empirical": func() float64 { return []float64{-1, 0, 1}[r.IntN(3)] },
		"bernoulli": func() float64 {
			if r.Float64() < 0.3 {
				return 1
			}
			return 0
		},
	}
	declared := func(family string) *causal.Noise {
		p := 0.5
		return map[string]*causal.Noise{
			"normal": {Normal: &causal.Normal{SD: 9}}, "uniform": {Uniform: &causal.Range{Min: 0, Max: 1}},
			"empirical": {Empirical: []float64{9}}, "bernoulli": {Bernoulli: &p},
		}[family]
	}
	family := func(n *causal.Noise) string {
		raw, err := json.Marshal(n)
		require.NoError(t, err)
		name, _, _ := strings.Cut(string(raw)[2:], `"`)
		return name
	}
	for _, name := range []string{"normal", "uniform", "empirical", "bernoulli"} {
		d := table(1000, "x y e", func() []any {
			x, e := r.NormFloat64(), draw[name]()
			return []any{x, 7 + 2*x + e, e}
		})
		m := model(nil, nil, "x", "y: x", "e")
		m.Variable("y").Noise, m.Variable("e").Noise = declared(name), declared(name)
		out, _ := fitted(t, m, d, Options{Only: []string{"y", "e"}})
		require.Equal(t, name, family(out.Variable("y").Noise))
		require.Equal(t, name, family(out.Variable("e").Noise))
		y, e := out.Variable("y"), out.Variable("e")
		for _, err := range e.Fit.Errors {
			require.Greater(t, err, 0.0)
		}
		switch name {
		case "uniform":
			require.Equal(t, -y.Noise.Uniform.Max, y.Noise.Uniform.Min)
			require.InDelta(t, 2, y.Noise.Uniform.Max, 0.3)
			require.InDelta(t, 2, e.Noise.Uniform.Max, 5*e.Fit.Errors["max"])
			for _, row := range d.Rows {
				x, _ := number(row[2])
				require.GreaterOrEqual(t, x, e.Noise.Uniform.Min-0.02)
			}
		case "empirical":
			require.Len(t, y.Noise.Empirical, MaxEmpirical)
			require.InDelta(t, 0, mean(y.Noise.Empirical), 1e-12)
			require.InDelta(t, 0, mean(e.Noise.Empirical), 0.1)
		case "bernoulli":
			require.InDelta(t, 0.3, *y.Noise.Bernoulli, 0.07)
			require.InDelta(t, 7, y.Linear.Intercept, 0.1)
			require.InDelta(t, 0.3, *e.Noise.Bernoulli, 4*e.Fit.Errors["p"])
		}
	}
	// Residuals that are no Bernoulli noise.
	d := table(100, "x y", func() []any { return []any{r.NormFloat64(), r.NormFloat64()} })
	m := model(nil, nil, "x", "y: x")
	m.Variable("y").Noise = declared("bernoulli")
	refused(t, m, d, Options{Only: []string{"y"}}, "y", "declared as bernoulli")
	m.Variable("x").Noise = declared("bernoulli")
	refused(t, m, d, Options{Only: []string{"x"}}, "x", "values other than 0 and 1")
}

func TestThin(t *testing.T) {
	var x []float64
	for i := range 1001 {
		x = append(x, float64(1000-i))
	}
	require.Equal(t, []float64{0, 250, 500, 750, 1000}, thin(x, 5))
	require.Equal(t, []float64{1, 2, 3}, thin([]float64{3, 1, 2}, 3))
	require.Len(t, thin(x, 200), 200)
}

func TestExact(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	d := table(80, "x y c", func() []any {
		x := math.Floor(1e6 * r.Float64())
		return []any{x, 1e9 + 3*x, 4.0}
	})
	out, report := fitted(t, model(nil, nil, "x", "y: x"), d, Options{Only: []string{"y"}})
	require.Nil(t, out.Variable("y").Noise)
	require.Equal(t, []string{exact}, report.Variables[0].Notes)
	require.InEpsilon(t, 3, out.Variable("y").Linear.Weights["x"], 1e-9)
	refused(t, model(nil, nil, "c"), d, Options{}, "c", "the same value in all rows")
	refused(t, model(nil, nil, "x", "c: x"), d, Options{Only: []string{"c"}}, "c", "the same value in all rows")
	refused(t, model(nil, nil, "c", "y: c"), d, Options{Only: []string{"y"}}, "y", "c has the same value in all rows")
}

func TestRefuses(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	d := table(60, "x z y", func() []any { x := r.NormFloat64(); return []any{x, 2 * x, r.NormFloat64()} })
	m := model([]string{"y"}, []string{"x"}, "x", "z", "y: x z")
	refused(t, m, d, Options{Only: []string{"y"}}, "y", "z is collinear with x")
	few := &Data{Columns: d.Columns, Rows: d.Rows[:20]}
	refused(t, model(nil, nil, "x", "y: x"), few, Options{Only: []string{"y"}}, "y", "too few rows: 17, and at least 20 are needed")
	refused(t, model(nil, nil, "x", "y: x", "q"), d, Options{}, "q", "the data have no column of this name")
	refused(t, model(nil, nil, "x", "y: x"), &Data{Columns: []string{"x;y"}, Rows: d.Rows[:0]}, Options{Only: []string{"y"}}, "y", `the data have one column, "x;y", and none of this name: cells are separated by commas`)
	fixed := model(nil, nil, "x", "y: x")
	fixed.Variable("y").Expression = "x"
	refused(t, fixed, d, Options{Only: []string{"y"}}, "y", "its mechanism is an expression")
	for _, c := range []struct {
		o    Options
		want string
	}{
		{Options{}, "the data have no name (source)"},
		{Options{Source: "d", Only: []string{"q"}}, `the model has no variable "q" to fit`},
		{Options{Source: "d", HoldOut: 0.6}, "the share of the rows held out is 0.6: it must be from 0 to 0.5"},
		{Options{Source: "d", HoldOut: math.NaN()}, "the share of the rows held out is NaN: it must be from 0 to 0.5"},
	} {
		_, _, err := Fit(m, d, c.o)
		require.EqualError(t, err, c.want)
	}
	done := model(nil, nil, "x")
	done.Variable("x").Noise = &causal.Noise{Normal: &causal.Normal{SD: 1}}
	_, _, err := Fit(done, d, Options{Source: "d"})
	require.ErrorContains(t, err, "nothing is to be fitted")
	bad := &Data{Columns: []string{"x"}, Rows: [][]string{{"1", "2"}}}
	_, _, err = Fit(m, bad, Options{Source: "d"})
	var at *DataError
	require.ErrorAs(t, err, &at)
	// Every refusal is reported.
	_, _, err = Fit(model(nil, nil, "p", "q"), d, Options{Source: "d"})
	require.EqualError(t, err, "p: the data have no column of this name\nq: the data have no column of this name")
}

// TestUnchanged: what is not fitted stays as it is, but for the ranges of levers without one.
func TestUnchanged(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	d := table(100, "a b y spare", func() []any { return []any{2 + r.Float64(), r.Float64(), r.NormFloat64(), "text"} })
	d.Rows[3][0], d.Rows[5][2] = "", ""
	m := model([]string{"y"}, []string{"a", "b"}, "a", "b", "y: a b", "other")
	m.Variable("a").Value, m.Variable("b").Value = &causal.Value{Number: 2.5}, &causal.Value{}
	m.Variable("b").Range = &causal.Range{Min: 0.4, Max: 0.5}
	m.Variable("other").Noise = &causal.Noise{Normal: &causal.Normal{SD: 1}}
	out, report := fitted(t, m, d, Options{})
	require.Equal(t, []string{"a"}, report.Ranges)
	require.Equal(t, []string{"spare"}, report.Unused)
	require.Equal(t, 2, report.Variables[0].Missing)
	require.Equal(t, 98, out.Variable("y").Fit.Rows+out.Variable("y").Fit.HeldOut)
	low, high := math.Inf(1), math.Inf(-1)
	for _, row := range d.Rows {
		if x, ok := number(row[0]); ok {
			low, high = min(low, x), max(high, x)
		}
	}
	require.Equal(t, &causal.Range{Min: low, Max: high}, out.Variable("a").Range)
	out.Variable("a").Range = nil
	*out.Variable("y") = *m.Variable("y")
	require.Empty(t, cmp.Diff(m, out))
	again, _ := fitted(t, m, d, Options{})
	other, _ := fitted(t, m, d, Options{})
	require.Equal(t, string(causal.Write(again)), string(causal.Write(other)))
}

// TestAdjustedForCategories: one of two causes is confounded, by a variable with categories.
func TestAdjustedForCategories(t *testing.T) {
	m := model([]string{"y"}, []string{"a", "b"}, "z=low,mid,high,never", "u: z", "a: z", "b", "y: a b u")
	for seed := range uint64(3) {
		r := rand.New(rand.NewPCG(seed, 7))
		d := table(4000, "z a b y", func() []any {
			z := r.IntN(3)
			u := []float64{0, 5, -1}[z] + r.NormFloat64()
			a, b := 2*float64(z)+r.NormFloat64(), r.NormFloat64()
			return []any{[]string{"low", "mid", "high"}[z], a, b, 1 + 2*a + 3*b + 4*u + r.NormFloat64()}
		})
		out, _ := fitted(t, m, d, Options{Only: []string{"y"}, Marginalize: []string{"u"}})
		y := out.Variable("y")
		require.Equal(t, []string{"z"}, y.Fit.Adjusted)
		require.InDelta(t, 2, y.Linear.Weights["a"], 4*y.Fit.Errors["a"])
		require.InDelta(t, 3, y.Linear.Weights["b"], 4*y.Fit.Errors["b"])
		require.InDelta(t, 1+16.0/3, y.Linear.Intercept, 4*y.Fit.Errors["intercept"])
		require.Len(t, y.Fit.Errors, 3)
	}
}

// TestSameBytes: every machine fits the same model to the same data. Run it for GOAMD64=v1
// and v3 too, of which the latter may fuse operations.
func TestSameBytes(t *testing.T) {
	state := uint64(1)
	draw := func(n uint64) uint64 {
		state = state*6364136223846793005 + 1442695040888963407
		return (state >> 33) % n
	}
	d := table(500, "w x z y o", func() []any {
		w, x, z := draw(2), draw(1000), draw(1000)
		y := 3*x + 7*z + w + draw(500)
		return []any{[]string{"dry", "wet"}[w], fmt.Sprintf("%d.%d", x, draw(10)), z, fmt.Sprintf("0.%03d", y%1000), []string{"ok", "late"}[draw(5)/4]}
	})
	out, _ := fitted(t, model([]string{"y"}, nil, "w=dry,wet", "o=ok,late: w", "x", "z", "y: x z"), d, Options{})
	require.Equal(t, "sha256:5afb2ead612f4f3eeded11aefbc2674ea3cc20a6b8b406d2814243b5c7c932a2", out.Digest())
}
