package expr_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"chimera.ai/engine/expr"
)

// call is the schema of args in the tests of amounts.
const call = `{
	"type": "object", "required": ["minor", "price", "debt", "text", "word", "any", "fast", "parts"],
	"properties": {
		"minor": {"type": "integer", "minimum": 0, "maximum": 1000000000},
		"price": {"type": "number", "minimum": 0, "maximum": 1000},
		"debt": {"type": "number"},
		"text": {"type": "string", "pattern": "^[0-9]{1,9}\\.[0-9]{2}$"},
		"word": {"type": "string"},
		"either": {"type": "integer", "minimum": 1, "maximum": 9},
		"any": {},
		"fast": {"type": "boolean"},
		"parts": {"type": "array", "maxItems": 10, "items": {"type": "integer", "minimum": 0, "maximum": 9}}
	}
}`

func amountTyping(t testing.TB) expr.Typing {
	return expr.Typing{Types: expr.Types{"args": compileSchema(t, call), "input": compileSchema(t, `{"type": "object"}`)}}
}

func TestAmountsThatAreProved(t *testing.T) {
	args := map[string]any{
		"minor": json.Number("1250"), "price": json.Number("0.10"), "debt": json.Number("-1"), "text": "007.50", "word": "x",
		"any": nil, "fast": true, "parts": []any{json.Number("1"), json.Number("2")},
	}
	for src, want := range map[string]string{
		`1`: "1", `2.5`: "2.5", `0`: "0", `0.0`: "0", `1e3`: "1000", `"12.50"`: "12.5", `3u`: "3",
		`args.minor`:                                            "1250",
		`args.price`:                                            "0.1",
		`args.text`:                                             "7.5",
		`args["price"]`:                                         "0.1",
		`decimal(args.minor, 2)`:                                "12.5",
		`decimal(args.minor * 29 / 10, 2)`:                      "36.25",
		`args.fast ? 2.50 : 1.0`:                                "2.5",
		`args.?either.orValue(7)`:                               "7",
		`args.price * 2 > 1.5 ? 1.1 : 1.2`:                      "1.2",
		`size(args.parts) * 3`:                                  "6",
		`decimal(size(args.word), 5)`:                           "0.00001",
		`args.price > 5.0 ? args.minor : 0.5`:                   "0.5",
		`[args.minor, 5].map(x, x * 2)[1]`:                      "10",
		`args.debt >= 0 ? args.debt : 0`:                        "0",
		`type(args.any) == int && args.any > 0 ? args.any : 12`: "12",
		`args.word.matches("^[0-9]+$") ? args.word : "1"`:       "1",
	} {
		a, err := expr.CompileAmount(src, expr.Estimate)
		require.NoError(t, err, src)
		source, problems := a.Check(amountTyping(t))
		require.Empty(t, problems, src)
		a, err = expr.CompileAmount(source, expr.Estimate)
		require.NoError(t, err, source)
		got, err := a.Eval(expr.Vars{"args": args, "input": map[string]any{}})
		require.NoError(t, err, src)
		require.Equal(t, json.Number(want), got, src)
	}
}

func TestAmountsThatAreRefused(t *testing.T) {
	for _, c := range []struct {
		src     string
		kind    expr.Kind
		message string
		hint    string
		witness bool
	}{
		{`args.debt`, expr.MayFail, "an amount is not negative; args.debt may be", "minimum: 0", true},
		{`args.any`, expr.MayFail, "args.any may be", "type(args.any)", true},
		{`args.word`, expr.MayFail, "not proved to be the text of an amount", "pattern:", true},
		{`args.fast`, expr.Wrong, "this is a boolean", "", true},
		{`args.either`, expr.MayFail, "args.either may be missing", "has(args.either)", true},
		{`-1`, expr.Wrong, "always is", "", false},
		{`"free"`, expr.MayFail, "not proved to be the text", "", false},
		{`args.price * 2.0`, expr.Wrong, "is calculated with doubles", "decimal(…, 2)", false},
		{`args.price * 2`, expr.Wrong, "is calculated with doubles", "decimal(…, 2)", false},
		{`int(args.price * 100.0)`, expr.Wrong, "is calculated with doubles", "decimal(…, 2)", false},
		{`double(args.minor)`, expr.Wrong, "double(…) rounds", "decimal(…, 2)", false},
		{`args.fast ? 1.0 : double(args.minor)`, expr.Wrong, "double(…) rounds", "", false},
		{`[args.price].map(x, x + 0.5)[0]`, expr.Wrong, "is calculated with doubles", "", false},
		{`args.?nope.optMap(x, 1.0 + 1.0).orValue(1.0)`, expr.Wrong, "is calculated with doubles", "", false},
		{`0.12345678901234567891`, expr.Wrong, "more digits than a double holds", "", false},
		{`args.fast ? 1.0 : 0.12345678901234567891`, expr.Wrong, "more digits than a double holds", "", false},
		{`decimal(args.minor, 19)`, expr.MayFail, "decimal takes", "", false},
		{`decimal(args.minor, -1)`, expr.MayFail, "decimal takes", "", false},
		{`decimal(args.price, 2)`, expr.MayFail, "decimal takes", "", true},
		{`decimal(args.any, 2)`, expr.MayFail, "decimal takes", "", true},
		{`args.minor - 1`, expr.MayFail, "an amount is not negative", "", false},
		{`[args.minor]`, expr.Wrong, "", "", false},
	} {
		a, err := expr.CompileAmount(c.src, expr.Estimate)
		if err != nil {
			require.Contains(t, err.Error(), "an amount is a number or the text of one", c.src)
			require.Equal(t, expr.Wrong, c.kind, c.src)
			continue
		}
		_, problems := a.Check(amountTyping(t))
		require.NotEmpty(t, problems, c.src)
		found := false
		for _, p := range problems {
			found = found || p.Kind == c.kind && strings.Contains(p.Message, c.message) && strings.Contains(p.Hint, c.hint) && (p.Name != "") == c.witness
		}
		require.True(t, found, "%s: %+v", c.src, problems)
	}
}

func TestAmountsThatDoNotCompile(t *testing.T) {
	for src, message := range map[string]string{
		`1 > 2`: "this is of type bool", `[1]`: "this is of type list", `null`: "this is of type null", `output.x`: "the names here are args, input",
		`{"a": 1}`: "this is of type map", `args.?x`: "optional", `decimal(1.5, 2)`: "decimal", ``: "empty",
	} {
		_, err := expr.CompileAmount(src, expr.Estimate)
		require.ErrorContains(t, err, message, src)
	}
	for scope, names := range map[expr.Scope][]string{expr.Estimate: {"args", "input"}, expr.Price: {"args"}, expr.Charge: {"args", "output"}} {
		require.Equal(t, names, scope.Names())
	}
}

// TestAmountsAtRunTime: what was not checked is refused when it is evaluated.
func TestAmountsAtRunTime(t *testing.T) {
	a, err := expr.CompileAmount("args", expr.Price)
	require.NoError(t, err)
	require.True(t, a.Reads("args"))
	for _, v := range []any{json.Number("-1"), json.Number("-0.001"), "", "1.", ".5", "-1", "+1", "1e3", "1,5", " 1", "1\n", nil, true, []any{}, map[string]any{}} {
		_, err := a.Eval(expr.Vars{"args": v})
		require.Error(t, err, "%v", v)
	}
	for v, want := range map[any]string{
		json.Number("-0"): "0", json.Number("1e-7"): "0.0000001", json.Number("0.1234567890123456789"): "0.1234567890123456789",
		json.Number("123456789012345678901234567890"): "123456789012345678901234567890", "000": "0", "1.10": "1.1",
		"0." + strings.Repeat("3", 500): "0." + strings.Repeat("3", 500),
	} {
		got, err := a.Eval(expr.Vars{"args": v})
		require.NoError(t, err, "%v", v)
		require.Equal(t, json.Number(want), got)
	}
}

// TestDecimalIsExact: decimal(n, p) is n divided by ten p times, to the last digit.
func TestDecimalIsExact(t *testing.T) {
	a, err := expr.CompileAmount("decimal(args.n, args.p)", expr.Price)
	require.NoError(t, err)
	ty := expr.Typing{Types: expr.Types{"args": compileSchema(t, `{"type": "object", "required": ["n", "p"], "properties": {
		"n": {"type": "integer", "minimum": 0, "maximum": 9223372036854775807}, "p": {"type": "integer", "minimum": 0, "maximum": 18}}}`)}}
	_, problems := a.Check(ty)
	require.Empty(t, problems)
	rapid.Check(t, func(t *rapid.T) {
		n, p := rapid.Int64Min(0).Draw(t, "n"), rapid.IntRange(0, 18).Draw(t, "p")
		text, err := json.Marshal(n)
		require.NoError(t, err)
		places, err := json.Marshal(p)
		require.NoError(t, err)
		got, err := a.Eval(expr.Vars{"args": map[string]any{"n": json.Number(text), "p": json.Number(places)}})
		require.NoError(t, err)
		whole, fraction, _ := strings.Cut(got.String(), ".")
		require.LessOrEqual(t, len(fraction), p)
		back := strings.TrimLeft(whole+fraction+strings.Repeat("0", p-len(fraction)), "0")
		require.Equal(t, strings.TrimLeft(string(text), "0"), back, "decimal(%d, %d) is %s", n, p, got)
	})
}

func TestAmountBounds(t *testing.T) {
	for src, want := range map[string][2]string{
		`2.5`: {"2.5", "2.5"}, `"12.50"`: {"12.5", "12.5"}, `args.price`: {"0", "1000"}, `args.text`: {"0", ""}, `decimal(args.minor, 2)`: {"0", "10000000"},
		`args.?either.orValue(4)`: {"1", "9"}, `args.fast ? 3 : args.?either.orValue(4)`: {"1", "9"}, `args.fast ? '3' : args.text`: {"0", ""},
		`decimal(args.minor * 3 + 7, 1)`: {"0.7", "300000000.7"}, `args.debt > 0.0 ? args.debt : 1`: {"0", ""},
	} {
		a, err := expr.CompileAmount(src, expr.Estimate)
		require.NoError(t, err, src)
		_, problems := a.Check(amountTyping(t))
		require.Empty(t, problems, src)
		least, most := a.Bounds(amountTyping(t))
		require.Equal(t, want[0], strings.TrimSuffix(strings.TrimRight(least.FloatString(3), "0"), "."), src)
		if want[1] == "" {
			require.Nil(t, most, src)
			continue
		}
		require.NotNil(t, most, src)
		require.Equal(t, want[1], strings.TrimSuffix(strings.TrimRight(most.FloatString(3), "0"), "."), src)
	}
}
