package expr_test

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"cel.dev/cel-go/cel"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"chimera.ai/engine/expr"
)

var (
	numericNames      = []string{"y", "x", "noise"} // not sorted: noise, x, y
	numericCategories = map[string][]string{"weather": {"wet", "dry"}, "road": {"dry", "icy", "wet"}}
)

func TestNumericEvaluates(t *testing.T) {
	// noise 0.5, x 3, y -2; road wet, weather wet
	numbers, categories := []float64{0.5, 3, -2}, []int{2, 0}
	for src, want := range map[string]float64{
		"7":                              7,
		"-x":                             -3,
		"x + 2 * y - 1 / 4":              -1.25,
		"x > 100.0 ? 2 * y + noise : 0":  0,
		"x >= 3 && y < 0 ? noise : x":    0.5,
		"x > 9 || !(y == -2) ? 1 : 2":    2,
		"x != 3 ? 1 : 2":                 2,
		"min(x, y) + max(x, y)":          1,
		"abs(y) + floor(noise)":          2,
		"sqrt(x * x) + exp(0) + log(1)":  4,
		`weather == "wet" ? 1 : 2`:       1,
		`"wet" != weather ? 1 : 2`:       2,
		`weather == road ? 1 : 2`:        1,
		`road in ["dry", "icy"] ? 1 : 2`: 2,
		`(x > 1) == true ? 1 : 2`:        1,
		"x < 1 && 1 / 0 > 1 ? 1 : 2":     2,
		"true ? 1 : 1 / 0":               1,
		"1e300 * 1e-300":                 1,
	} {
		n, err := expr.CompileNumeric(src, numericNames, numericCategories, nil)
		require.NoError(t, err, src)
		have, err := n.Eval(numbers, categories)
		require.NoError(t, err, src)
		require.Equal(t, want, have, src)
		require.Zero(t, testing.AllocsPerRun(10, func() { _, _ = n.Eval(numbers, categories) }), src)
	}
}

func TestNumericGivesCategories(t *testing.T) {
	result := []string{"icy", "wet", "dry", "dust"}
	for src, want := range map[string]string{
		`"wet"`:                "wet",
		`weather`:              "dry",
		`x > 5 ? "wet" : road`: "icy",
		`x > 1 ? (y > 1 ? "wet" : "dust") : weather`: "dust",
	} {
		n, err := expr.CompileNumeric(src, numericNames, numericCategories, result)
		require.NoError(t, err, src)
		have, err := n.Eval([]float64{0.5, 3, -2}, []int{1, 1})
		require.NoError(t, err, src)
		require.Equal(t, want, result[int(have)], src)
	}
}

func TestNumericRefuses(t *testing.T) {
	for _, c := range []struct {
		src     string
		result  []string
		message string
		at      int
	}{
		{"", nil, "the expression is empty", 0},
		{"x +", nil, "not complete", 3},
		{"x + z", nil, "undeclared reference to 'z'", 4},
		{"nois + 1", nil, "did you mean noise?", 0},
		{"1 + sqr(x)", nil, "undeclared reference to the function 'sqr'; did you mean sqrt?", 4},
		{"x % 2", nil, "no operator %", 2},
		{"x.abs()", nil, "write abs(…)", 5},
		{"abs(x, y)", nil, "no matching overload", 3},
		{"x + weather", nil, "no matching overload", 2},
		{"x > 1", nil, "the result is a number; this is of type bool", 2},
		{`"wet"`, nil, "the result is a number; this is of type string", 0},
		{"x", []string{"a"}, "the result is one of", 0},
		{`"b"`, []string{"a"}, `"b" is no category of the result`, 0},
		{`road`, []string{"dry", "wet"}, `road may be "icy"`, 0},
		{`weather == "wett" ? 1 : 2`, nil, `"wett" is no category of weather; did you mean wet?`, 11},
		{`weather in ["dry", "wets"] ? 1 : 2`, nil, `"wets" is no category of weather; did you mean wet?`, 19},
		{`(x > 1 ? weather : road) == "wet" ? 1 : 2`, nil, "compare the name of categories", 25},
		{`[1.0] == [2.0] ? 1 : 2`, nil, "lists are not compared", 6},
		{"1u + 2u", nil, "a literal is a number", 0},
		{"b'a' == b'b' ? 1 : 2", nil, "a literal is a number", 0},
		{"null", nil, "a literal is a number", 0},
		{"9007199254740993", nil, "more digits than a double holds", 0},
		{"1e400", nil, "", 0},
		{"x.y", nil, "no fields", 1},
		{"{'a': 1}", nil, "no fields", 0},
		{"[1, 2].map(i, i)", nil, "undeclared reference", 7},
		{"x ? 1 : 2", nil, "no matching overload", 2},
		{".x + 1", nil, "undeclared reference", 0},
		{strings.Repeat("(", 100) + "x" + strings.Repeat(")", 100), nil, "", 0},
		{strings.Repeat("x + ", 3000) + "x", nil, "the expression has 12001 bytes", 0},
	} {
		_, err := expr.CompileNumeric(c.src, numericNames, numericCategories, c.result)
		require.ErrorContains(t, err, c.message, c.src)
		var bad *expr.Error
		require.ErrorAs(t, err, &bad)
		if c.message != "" {
			require.Equal(t, c.at, bad.Offset, "%s: %v", c.src, err)
		}
	}
	for _, names := range [][]string{{"x", "x"}, {"a b"}, {""}, {"weather"}} {
		_, err := expr.CompileNumeric("1", names, numericCategories, nil)
		require.ErrorContains(t, err, "is no name of a value", "%q", names)
	}
}

func TestNumericFails(t *testing.T) {
	for src, message := range map[string]string{
		"1 / (x - 3)":               "division by zero",
		"0 / -0.0":                  "division by zero",
		"log(y)":                    "log(…) gives no finite number",
		"log(x - 3)":                "log(…) gives no finite number",
		"sqrt(y)":                   "sqrt(…) gives no finite number",
		"exp(1000)":                 "exp(…) gives no finite number",
		"1e300 * 1e300":             "the operator * gives no finite number",
		"-1e308 - 1e308":            "the operator - gives no finite number",
		"1 / 0 > 1 || true ? 1 : 2": "division by zero", // which CEL would not see
	} {
		n, err := expr.CompileNumeric(src, numericNames, numericCategories, nil)
		require.NoError(t, err, src)
		_, err = n.Eval([]float64{0.5, 3, -2}, []int{0, 0})
		require.EqualError(t, err, message, src)
		var bad *expr.Error
		require.ErrorAs(t, err, &bad)
	}
	n, err := expr.CompileNumeric("x", numericNames, numericCategories, nil)
	require.NoError(t, err)
	for _, values := range [][]float64{nil, {1, 2}, {1, math.NaN(), 2}, {math.Inf(1), 1, 2}} {
		_, err := n.Eval(values, []int{0, 0})
		require.Error(t, err)
	}
	for _, categories := range [][]int{nil, {0, 2}, {-1, 0}} {
		_, err := n.Eval([]float64{1, 2, 3}, categories)
		require.Error(t, err)
	}
}

func TestNumericReadsAndSteps(t *testing.T) {
	n, err := expr.CompileNumeric(`weather == "wet" ? x + 1 : x`, numericNames, numericCategories, nil)
	require.NoError(t, err)
	require.True(t, n.Reads("x") && n.Reads("weather"))
	require.False(t, n.Reads("y") || n.Reads("road"))
	require.Equal(t, 8, n.Steps())
}

// arithmetic draws an expression of numbers, or a condition.
func arithmetic(r *rand.Rand, depth int, truth bool) string {
	part := func(truth bool) string { return arithmetic(r, depth-1, truth) }
	pick := func(of ...string) string { return of[r.IntN(len(of))] }
	if truth {
		switch {
		case depth == 0:
			return pick("true", "false", `(weather == "wet")`, `(road in ["icy"])`, `(weather == road)`, "(x < y)")
		case r.IntN(3) == 0:
			return "(" + part(true) + pick(" && ", " || ") + part(true) + ")"
		case r.IntN(3) == 0:
			return "!" + part(true)
		}
		return "(" + part(false) + pick(" < ", " <= ", " > ", " >= ", " == ", " != ") + part(false) + ")"
	}
	switch {
	case depth == 0:
		return pick("x", "y", "noise", "0.1", "3.0", "1e200", "7e-9", "0.0")
	case r.IntN(5) == 0:
		return "(" + part(true) + " ? " + part(false) + " : " + part(false) + ")"
	case r.IntN(8) == 0:
		return "(-" + part(false) + ")"
	}
	return "(" + part(false) + pick(" + ", " - ", " * ", " / ") + part(false) + ")"
}

// What a calculation gives is what CEL's own arithmetic with doubles gives.
func TestNumericAgreesWithCEL(t *testing.T) {
	env, err := cel.NewEnv(cel.Variable("x", cel.DoubleType), cel.Variable("y", cel.DoubleType), cel.Variable("noise", cel.DoubleType),
		cel.Variable("weather", cel.StringType), cel.Variable("road", cel.StringType))
	require.NoError(t, err)
	values := 0
	rapid.Check(t, func(t *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		src := arithmetic(r, 1+r.IntN(5), false)
		n, err := expr.CompileNumeric(src, numericNames, numericCategories, nil)
		require.NoError(t, err, src)
		checked, issues := env.Compile(src)
		require.NoError(t, issues.Err(), src)
		program, err := env.Program(checked)
		require.NoError(t, err)
		for range 5 {
			numbers := []float64{r.NormFloat64(), float64(r.IntN(7) - 3), r.NormFloat64() * 1e10}
			road, weather := r.IntN(3), r.IntN(2)
			have, err := n.Eval(numbers, []int{road, weather})
			if err != nil {
				continue // CEL goes on with what is not finite
			}
			values++
			out, _, err := program.Eval(map[string]any{"noise": numbers[0], "x": numbers[1], "y": numbers[2],
				"road": numericCategories["road"][road], "weather": numericCategories["weather"][weather]})
			require.NoError(t, err, src)
			want, ok := out.Value().(float64)
			require.True(t, ok)
			require.Equal(t, math.Float64bits(want), math.Float64bits(have), "%s of %v", src, numbers)
		}
	})
	require.Greater(t, values, 20)
}

// FuzzNumeric: whatever the source, a calculation gives a finite number or a category, or an error.
func FuzzNumeric(f *testing.F) {
	for _, s := range []string{"x + 2 * y", `weather == "wet" ? exp(x) : log(noise)`, "1 / 0", `road in ["icy", "dry"] ? min(x, y) : max(1, 2)`, "x ? 1 : 2", "!true", `"wet"`, "road", "[x][0]", "{1: x}", "x.y", "-(-x)", ".x", "1u", "x.?y", "`x`"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, src string) {
		for _, result := range [][]string{nil, {"icy", "dry", "wet"}} {
			n, err := expr.CompileNumeric(src, numericNames, numericCategories, result)
			if err != nil {
				var bad *expr.Error
				require.ErrorAs(t, err, &bad)
				require.True(t, bad.Offset >= 0 && bad.Offset <= len(src), "%q: %d", src, bad.Offset)
				continue
			}
			require.Positive(t, n.Steps())
			for i, numbers := range [][]float64{{0, 0, 0}, {1, -1, 0.5}, {1e308, -1e308, 5e-324}} {
				v, err := n.Eval(numbers, []int{i, i % 2})
				if err != nil {
					continue
				}
				require.False(t, math.IsNaN(v) || math.IsInf(v, 0), "%q", src)
				if result != nil {
					require.Contains(t, []float64{0, 1, 2}, v, "%q", src)
				}
			}
		}
	})
}

func BenchmarkNumeric(b *testing.B) {
	n, err := expr.CompileNumeric("x > 100.0 ? 2 * y + noise : x * 0.5", numericNames, numericCategories, nil)
	if err != nil {
		b.Fatal(err)
	}
	numbers, categories := []float64{0.5, 3, -2}, []int{0, 0}
	for b.Loop() {
		if _, err := n.Eval(numbers, categories); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n.Steps()), "ns/step")
}
