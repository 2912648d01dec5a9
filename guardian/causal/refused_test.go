package causal

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/diag"
)

// chain is a model of n variables, each of which depends on the one before.
func chain(n int) *Model {
	m := &Model{
		Name: "chain", Operations: []string{"a/b"}, Samples: MinSamples,
		Bind: []Binding{{"v00000", "args.x"}}, KPIs: []KPI{{Variable: "v00000", Max: new(1.0)}},
	}
	for i := range n {
		v := Variable{Name: fmt.Sprintf("v%05d", i), Provenance: Assumed}
		if i == 0 {
			v.Value, v.Range = &Value{}, &Range{0, 1}
		} else {
			before := fmt.Sprintf("v%05d", i-1)
			v.Parents, v.Linear = []string{before}, &Linear{Weights: map[string]float64{before: 1}}
		}
		m.Variables = append(m.Variables, v)
	}
	return m
}

// TestHostileModels: what is too large is refused before anything is done with it, which allocations show.
func TestHostileModels(t *testing.T) {
	many := make([]string, 1_000_000)
	table := func(rows int) []Row { return make([]Row, rows) }
	for name, change := range map[string]func(m *Model){
		"variables":  func(m *Model) { m.Variables = make([]Variable, 1_000_000) },
		"operations": func(m *Model) { m.Operations = many },
		"bindings":   func(m *Model) { m.Bind = make([]Binding, 1_000_000) },
		"KPIs":       func(m *Model) { m.KPIs = make([]KPI, 1_000_000) },
		"observed":   func(m *Model) { m.Observe = make([]Binding, 1_000_000) },
		"parents":    func(m *Model) { m.Variables[1].Parents = many },
		"categories": func(m *Model) { m.Variables[1].Values = many },
		"rows":       func(m *Model) { m.Variables[1].Table = table(1_000_000) },
		"numbers":    func(m *Model) { m.Variables[1].Noise = &Noise{Empirical: make([]float64, 1_000_000)} },
		"allowed":    func(m *Model) { m.KPIs[0].Allow = many },
		"texts":      func(m *Model) { m.Bind[0].Expression = strings.Repeat("x", MaxExpressions+1) },
		"adjusted":   func(m *Model) { m.Variables[1].Fit = &Fit{Adjusted: many} },
	} {
		t.Run(name, func(t *testing.T) {
			m := chain(3)
			change(m)
			var found []Problem
			require.Less(t, testing.AllocsPerRun(1, func() { found = Check(m) }), 100.0)
			require.Len(t, found, 1)
			require.Equal(t, diag.PlanLimits, found[0].Code)
		})
	}
	t.Run("all tables", func(t *testing.T) {
		m := chain(MaxVariables)
		when := map[string]string{}
		for i := range MaxParents {
			when[fmt.Sprint(i)] = "a"
		}
		rows := table(MaxRows)
		for i := range rows {
			rows[i].When = when
		}
		for i := range m.Variables {
			m.Variables[i].Table = rows
		}
		found := Check(m)
		require.Len(t, found, 1)
		require.Contains(t, found[0].Summary, "too large")
	})
}

// TestHostileNumbers: what is not finite, or huge, is refused wherever it stands.
func TestHostileNumbers(t *testing.T) {
	for _, x := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), 1e101, -1e101, math.MaxFloat64} {
		for name, change := range map[string]func(m *Model){
			"value":       func(m *Model) { m.Variable("length").Value.Number = x },
			"min":         func(m *Model) { m.Variable("length").Range.Min = x },
			"max":         func(m *Model) { m.Variable("length").Range.Max = x },
			"intercept":   func(m *Model) { m.Variable("size").Linear.Intercept = x },
			"weight":      func(m *Model) { m.Variable("size").Linear.Weights["load"] = x },
			"mean":        func(m *Model) { m.Variable("load").Noise.Normal.Mean = x },
			"sd":          func(m *Model) { m.Variable("load").Noise.Normal.SD = x },
			"low":         func(m *Model) { m.Variable("cost").Noise.Uniform.Min = x },
			"high":        func(m *Model) { m.Variable("cost").Noise.Uniform.Max = x },
			"probability": func(m *Model) { m.Variable("weather").Noise.Categorical["dry"] = x },
			"share":       func(m *Model) { m.Variable("outcome").Table[0].P["ok"] = x },
			"row":         func(m *Model) { m.Variable("delay").Table[0].Value = &x },
			"empirical":   func(m *Model) { m.Variable("delay").Noise.Empirical[3] = x },
			"bernoulli":   func(m *Model) { m.Variable("delay").Noise = &Noise{Bernoulli: &x} },
			"KPI min":     func(m *Model) { m.KPIs[0].Min = &x },
			"KPI max":     func(m *Model) { m.KPIs[2].Max = &x },
			"error":       func(m *Model) { m.Variable("load").Fit.Errors = map[string]float64{"mean": x} },
			"held out":    func(m *Model) { m.Variable("load").Fit.HeldOutError = &x },
		} {
			m := parsed(t, "model.yaml")
			change(m)
			require.NotEmpty(t, Check(m), "%s: %v", name, x)
		}
	}
}

// TestManyProblems: the problems of a model, and what each says, are bounded.
func TestManyProblems(t *testing.T) {
	m := chain(2)
	v := &m.Variables[1]
	v.Linear, v.Table = nil, []Row{}
	m.Variables[0] = Variable{Name: "v00000", Provenance: Assumed, Values: []string{"a", "b"}, Value: &Value{Category: "a"}}
	m.KPIs[0] = KPI{Variable: "v00000", Allow: []string{"a"}}
	for range MaxRows {
		v.Table = append(v.Table, Row{When: map[string]string{"v00000": "c", strings.Repeat("x", 1000): "y"}, P: map[string]float64{"d": 2}})
	}
	found := Check(m)
	require.Len(t, found, maxProblems)
	require.Contains(t, found[len(found)-1].Summary, "too many problems")
	for _, p := range found {
		require.Less(t, len(p.Summary)+len(p.Detail)+len(p.Suggestion), 4096)
	}
}

// TestLongCycle: a cycle of all variables is found, shown in part, and reported once; what follows from
// it is not.
func TestLongCycle(t *testing.T) {
	m := chain(MaxVariables)
	last := m.Variables[MaxVariables-2].Name
	m.Variables[0] = Variable{Name: "v00000", Parents: []string{last}, Linear: &Linear{Weights: map[string]float64{last: 1}}, Range: &Range{0, 1}}
	found := Check(m)
	require.Len(t, found, 1)
	require.Equal(t, diag.ModelCycle, found[0].Code)
	require.Equal(t, []any{"variables", "v00000", "parents", 0}, found[0].Path)
	require.Contains(t, found[0].Detail, "`v00000 -> v00001 -> ")
	require.Contains(t, found[0].Detail, " -> … -> v00000`")
	require.Less(t, len(found[0].Detail), 1000)
}

// TestCyclesAreFound: a graph has a cycle exactly if one is reported, and the one that is reported is there.
func TestCyclesAreFound(t *testing.T) {
	for bits := range 1 << 12 { // all graphs of four variables
		m := chain(4)
		var adjacent [4][4]bool
		k := 0
		for from := range 4 {
			for to := range 4 {
				if from != to {
					adjacent[from][to] = bits>>k&1 == 1
					k++
				}
			}
		}
		for to := range 4 {
			v := &m.Variables[to]
			*v = Variable{Name: v.Name, Linear: &Linear{Weights: map[string]float64{}}}
			for from := range 4 {
				if adjacent[from][to] {
					v.Parents = append(v.Parents, m.Variables[from].Name)
				}
			}
		}
		reach := adjacent
		for via := range 4 {
			for from := range 4 {
				for to := range 4 {
					reach[from][to] = reach[from][to] || reach[from][via] && reach[via][to]
				}
			}
		}
		cyclic := reach[0][0] || reach[1][1] || reach[2][2] || reach[3][3]
		c := newChecker(m)
		c.index()
		c.cycles()
		require.Equal(t, cyclic, len(c.found) > 0, "%v", adjacent)
		for _, p := range c.found {
			shown, _, _ := strings.Cut(strings.Trim(p.Detail, "`"), "`")
			names := strings.Split(shown, " -> ")
			require.Equal(t, names[0], names[len(names)-1])
			for i := range len(names) - 1 {
				require.Contains(t, m.Variable(names[i+1]).Parents, names[i], "%v: %s", adjacent, shown)
			}
		}
	}
}

// TestHostileFiles: hostile files are refused with few findings, each in its place.
func TestHostileFiles(t *testing.T) {
	const head = "apiVersion: chimera/v1\nkind: CausalModel\nname: hostile\noperations: [a/b]\nbind: {x: args.x}\nkpis: {x: {max: 1}}\n"
	const x = "  x: {value: 0, range: [0, 1]}\n"
	var variables, anchors strings.Builder
	for i := range 60_000 {
		fmt.Fprintf(&variables, "  v%d: {}\n", i)
	}
	for i := range 20 {
		fmt.Fprintf(&anchors, "  a%d: &a%d {parents: [b], linear: *a%d}\n", i+1, i+1, i)
	}
	for name, c := range map[string]struct {
		text string
		code diag.Code
		says string
	}{
		"large":        {head + "description: " + strings.Repeat("a", MaxFile), diag.PlanSyntax, ""},
		"variables":    {head + "variables:\n" + x + variables.String(), diag.PlanLimits, "`variables` has 60001 entries"},
		"million":      {head + "variables:\n" + x + strings.Repeat("  y: {}\n", 1_000_000), diag.PlanSyntax, ""},
		"deep":         {head + "variables:\n  x: " + strings.Repeat("[", 10_000), diag.PlanSyntax, ""},
		"aliases":      {head + "variables:\n  a0: &a0 {}\n" + anchors.String() + x, diag.PlanSyntax, ""},
		"expression":   {head + "variables:\n" + x + "  y: {parents: [x], expression: \"" + strings.Repeat("(", 5000) + "x" + strings.Repeat(")", 5000) + "\"}\n", diag.TypeExpr, ""},
		"binding":      {strings.Replace(head, "args.x", "'"+strings.Repeat("[", 5000)+strings.Repeat("]", 5000)+"'", 1) + "variables:\n" + x, diag.TypeExpr, ""},
		"long":         {head + "variables:\n" + x + "  y: {parents: [x], expression: \"" + strings.Repeat("x + ", 50_000) + "x\"}\n", diag.PlanLimits, "the expressions are too long"},
		"number":       {head + "variables:\n  x: {value: 1" + strings.Repeat("0", 300) + ", range: [0, 1]}\n", diag.PlanLimits, "out of range"},
		"digits":       {head + "variables:\n  x: {value: " + strings.Repeat("1", 300_000) + ", range: [0, 1]}\n", diag.PlanSyntax, ""},
		"nothing":      {"", diag.PlanSyntax, "holds no causal model"},
		"no map":       {"[]", diag.PlanSchema, "a causal model is a map"},
		"documents":    {head + "variables:\n" + x + "---\n" + head, diag.PlanSyntax, "2 documents"},
		"combinations": {head + "variables:\n" + x + combinations(7), diag.PlanLimits, "more than 4096 combinations"},
		"work":         {head + "samples: 100000\nvariables:\n" + x + work(20, 20), diag.PlanLimits, "too long to sample"},
		"more work":    {head + "samples: 1000\nvariables:\n" + x + work(240, 58), diag.PlanLimits, "too long to sample"},
	} {
		t.Run(name, func(t *testing.T) {
			m, ds := Parse(diag.Source{Name: "hostile.yaml", Text: []byte(c.text)})
			require.Nil(t, m)
			require.NotEmpty(t, ds)
			require.LessOrEqual(t, len(ds), MaxVariables)
			require.Equal(t, c.code, ds[0].Code, show(ds[:1]))
			require.Contains(t, ds[0].Summary, c.says)
			require.True(t, ds[0].Subject.IsValid())
			for _, d := range ds {
				require.Less(t, len(d.Summary)+len(d.Detail)+len(d.Suggestion), 4096)
			}
		})
	}
}

// combinations is a table over n variables of four categories.
func combinations(n int) string {
	var b strings.Builder
	var names []string
	for i := range n {
		fmt.Fprintf(&b, "  c%d: {values: [a, b, c, d], value: a}\n", i)
		names = append(names, fmt.Sprintf("c%d", i))
	}
	return b.String() + "  y: {parents: [" + strings.Join(names, ", ") + "], table: []}\n"
}

// work is n expressions, each of a sum.
func work(n, terms int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "  y%d: {parents: [x], expression: \"%sx\"}\n", i, strings.Repeat("x + ", terms))
	}
	return b.String()
}
