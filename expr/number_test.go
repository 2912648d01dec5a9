package expr_test

import (
	"encoding/json"
	"math"
	"math/big"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"chimera.ai/engine/expr"
	"chimera.ai/engine/schemas"
)

// over evaluates an expression over one value.
func over(t require.TestingT, src, value string) (any, error) {
	v, err := schemas.Decode([]byte(value))
	require.NoError(t, err, value)
	tpl, bad := expr.CompileTemplate("${"+src+"}", expr.Transform)
	require.Empty(t, bad, src)
	return tpl.Eval(expr.Vars{"value": v, "input": nil, "output": nil})
}

func TestNumbers(t *testing.T) {
	nines := strings.Repeat("9", 400)
	for _, c := range []struct{ src, value, want string }{
		// Whole is whole, however it is written.
		{`[value].map(x, type(x) == int)`, `1`, `[true]`},
		{`type(value) == int`, `1.0`, `true`},
		{`type(value) == int`, `1e3`, `true`},
		{`type(value) == int`, `10E-1`, `true`},
		{`type(value) == int`, `-0.0`, `true`},
		{`type(value) == int`, `0e400`, `true`},
		{`type(value) == int`, `1e400`, `true`},
		{`type(value) == int`, `9223372036854775808`, `true`},
		{`type(value) == int`, `1e-400`, `false`},
		{`type(value) == double`, `1.5`, `true`},
		{`type(value) == double`, `1e-400`, `true`},
		{`type(value) == double`, `12345678901234567890.5`, `true`},
		{`[value + 1]`, `1.0`, `[2]`},
		{`[value + 1]`, `1e3`, `[1001]`},
		{`["a", "b"][value]`, `1.0`, `"b"`},
		{`[value]`, `-0`, `[0]`},
		{`[value]`, `-0.0`, `[0]`},
		{`[value]`, `1.50`, `[1.5]`},
		{`[value]`, `9223372036854775807`, `[9223372036854775807]`},
		{`[value]`, `-9.223372036854775808e18`, `[-9223372036854775808]`},

		// A number that fits in no type is passed on as it is, alone and in a list.
		{`value`, `1e400`, `1e400`},
		{`[value]`, `1e400`, `[1e400]`},
		{`[value][0]`, `1.0e30`, `1.0e30`},
		{`{"a": value}.a`, `9223372036854775808`, `9223372036854775808`},
		{`[value]`, `0.1000000000000000000001`, `[0.1000000000000000000001]`},
		{`[value]`, `9007199254740993.5`, `[9007199254740993.5]`},
		{`true ? value : 0`, nines + `.5`, nines + `.5`},
		{`"" + string(value)`, `1e30`, `"1` + strings.Repeat("0", 30) + `"`},
		{`"" + string(value)`, `-12345678901234567890.0`, `"-12345678901234567890"`},
		{`"" + string(value)`, `0.10000000000000000001`, `"0.10000000000000000001"`},

		// Comparison is exact.
		{`value == 9007199254740992.0`, `9007199254740993`, `false`},
		{`value > 9007199254740992.0`, `9007199254740993`, `true`},
		{`value == 9007199254740992.0`, `9007199254740992`, `true`},
		{`value > 9223372036854775807`, `9223372036854775808`, `true`},
		{`value < 9223372036854775809u && value == 9223372036854775808u`, `9223372036854775808`, `true`},
		{`value == 1e30 && value <= 1e30 && !(value < 1e30)`, `1000000000000000000000000000000`, `true`},
		{`value > 1e30`, `1000000000000000000000000000001`, `true`},
		{`value == 0.1`, `0.1`, `true`},
		{`value == 0.1 || value <= 0.1`, `0.10000000000000000001`, `false`},
		{`value > 1e308`, `1e400`, `true`},
		{`value < -1e308`, `-1e400`, `true`},
		{`value > 0.0 && value < 5e-324`, `1e-400`, `true`},
		{`value[0] == value[1] && value[0] in [value[1]] && {"a": [value[0]]} == {"a": [value[1]]}`, `[1e30, 1000000000000000000000000000000]`, `true`},
		{`value[0] == value[1] || value[0] in [value[1]] || value[0] in value[2]`, `[1e30, 1000000000000000000000000000001, {}]`, `false`},
		{`value.a == value.b && value.a == [1, 2] && value.b == [1.0, 2.0]`, `{"a": [1.0, 2], "b": [1, 2e0]}`, `true`},
		{`value == "1" || value == [1] || value == null || value == true`, `1e30`, `false`},
		{`value != "1" && value != 1`, `1e30`, `true`},
		{`optional.of(value) == optional.of(1e30) && optional.of(value).hasValue(1e30)`, `1e30`, `true`},
		{`optional.ofNonZeroValue(value).hasValue()`, `1e-400`, `true`},
		{`{1: "a"}[value]`, `1.0`, `"a"`},
		{`{1: "a"}[?value].orValue("none")`, `1e30`, `"none"`},
		{`[1][?value].orValue(7)`, `1e30`, `7`},
		{`value in {1: "a"}`, `1e30`, `false`},

		// Conversion is to the nearest, or fails.
		{`double(value) == 1e30`, `1000000000000000000000000000001`, `true`},
		{`double(value) + 0.5`, `0.10000000000000000000001`, `0.6`},
		{`value + 0.5`, `0.10000000000000000000001`, `0.6`},
		{`-value`, `0.10000000000000000000001`, `-0.1`},
		{`double(value)`, `1e-400`, `0`},
		{`int(value)`, `2.99999999999999999999999`, `2`},
		{`int(value)`, `-0.99999999999999999999999`, `0`},
		{`int(value)`, `9223372036854775807.9`, `9223372036854775807`},
		{`uint(value)`, `18446744073709551615`, `18446744073709551615`},
		{`string(double("1e300") * 2.0)`, `0`, `"2e+300"`},

		{`value + 1`, `1e30`, `error: the number 1e30 does not fit in 64 bits`},
		{`1 - value`, `1e30`, `error: the number 1e30 does not fit in 64 bits`},
		{`value * 2.0`, `1e30`, `error: the number 1e30 does not fit in 64 bits`},
		{`value / value`, `1e30`, `error: the number 1e30 does not fit in 64 bits`},
		{`value % 2`, `9223372036854775808`, `error: the number 9223372036854775808 does not fit in 64 bits`},
		{`-value`, `9223372036854775808`, `error: the number 9223372036854775808 does not fit in 64 bits`},
		{`int(value)`, `1e30`, `error: the number 1e30 does not fit in 64 bits`},
		{`int(value)`, `9223372036854775808.5`, `error: the number 9223372036854775808.5 does not fit in 64 bits`},
		{`uint(value)`, `-9223372036854775809`, `error: the number -9223372036854775809 does not fit in 64 bits without a sign`},
		{`double(value)`, `1e400`, `error: the number 1e400 does not fit in a double`},
		{`value + 0.5`, nines + `.5`, `error: the number 9999999999999999999999999999999999999999… does not fit in a double`},
		{`string(timestamp(value))`, `1e30`, `error: type conversion error from 'int' to 'google.protobuf.Timestamp'`},
		{`[1][value]`, `1e30`, `error: no such index: 1e30`},
		{`[1][value]`, `0.10000000000000000000001`, `error: no such index: 0.10000000000000000000001`},
		{`[1][?value].hasValue()`, `0.10000000000000000000001`, `error: no such index: 0.10000000000000000000001`},
		{`"abc".substring(value)`, `1e30`, `error: no such overload: substring(string, int)`},
		{`value.a`, `1e30`, `error: no such key: a, in a number`},
		{`value.map(x, x)`, `1e30`, `error: a int cannot be walked; only lists can`},
		{`value < "a"`, `1e30`, `error: no such overload: <(int, string)`},
		{`value + "a"`, `0.10000000000000000000001`, `error: no such overload`},
		{`value && true`, `1e30`, `error: no such overload`},
		{`{value: 1}.size()`, `1e30`, `error: a map's key must be a string; this is of type int`},
		{`{value: 1}.size()`, `1.5`, `error: a map's key must be a string; this is of type double`},
		{`{dyn(b"x"): 1}.size()`, `0`, `error: a map's key must be a string`},
		{`{dyn([1]): 1}.size()`, `0`, `error: a map's key must be a string; this is of type list`},

		// A double is finite from its first moment.
		{`1e308 * 10.0 > 1.0`, `0`, `error: double overflow`},
		{`-1e308 - 1e308 < 1.0`, `0`, `error: double overflow`},
		{`1e308 + 1e308 > 1.0`, `0`, `error: double overflow`},
		{`1e308 / 1e-10 > 1.0`, `0`, `error: double overflow`},
		{`1.0 / 0.0 > 1.0`, `0`, `error: division by zero`},
		{`0.0 / -0.0 > 1.0`, `0`, `error: division by zero`},
		{`double("NaN") == 1.0`, `0`, `error: double overflow`},
		{`double("Infinity") == 1.0`, `0`, `error: double overflow`},
	} {
		t.Run(c.src+" over "+c.value[:min(len(c.value), 40)], func(t *testing.T) {
			got, err := over(t, c.src, c.value)
			if want, ok := strings.CutPrefix(c.want, "error: "); ok {
				require.ErrorContains(t, err, want)
				require.NotContains(t, err.Error(), "internal error")
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.want, encode(t, got))
		})
	}
}

// literal draws a JSON number within bounds: often one near an edge, and often
// the one before in another form.
func literal() *rapid.Generator[string] {
	return rapid.OneOf(
		rapid.StringMatching(`-?(0|[1-9][0-9]{0,3})(\.[0-9]{1,3})?([eE][+-]?[0-9]{1,2})?`),
		rapid.StringMatching(`-?(0|[1-9][0-9]{0,40})(\.[0-9]{1,25})?([eE][+-]?([0-9]{1,2}|[123][0-9]{2}))?`),
		rapid.SampledFrom([]string{
			"9223372036854775807", "9223372036854775808", "-9223372036854775808", "-9223372036854775809", "18446744073709551616", "9007199254740992",
			"9007199254740993", "9007199254740992.5", "0.1", "0.10", "1e-1", "0.1000000000000000055511151231257827", "0.30000000000000004", "1e23", "9.999999999999999e22",
			"1e400", "-1e400", "1e-400", "1.7976931348623157e308", "1.7976931348623159e308", "5e-324", "2e-324", "0", "-0", "0.0", "1", "1.0", "10e-1", "100e-2",
		}),
	)
}

func rat(t require.TestingT, s string) *big.Rat {
	r, ok := new(big.Rat).SetString(s)
	require.True(t, ok, s)
	return r
}

// CEL compares two JSON numbers by their values.
func TestNumbersAreTheirValues(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := literal().Draw(t, "a"), literal().Draw(t, "b")
		x, y := rat(t, a), rat(t, b)
		order := x.Cmp(y)
		got, err := over(t, `[value.a < value.b, value.a <= value.b, value.a > value.b, value.a >= value.b, value.a == value.b, value.a != value.b,
			value.a in [value.b], [value.a] == [value.b], {"k": value.a} == {"k": value.b}, type(value.a) == int, type(value.a) == double]`,
			`{"a":`+a+`,"b":`+b+`}`)
		require.NoError(t, err)
		whole := x.IsInt()
		require.Equal(t, []any{order < 0, order <= 0, order > 0, order >= 0, order == 0, order != 0, order == 0, order == 0, order == 0, whole, !whole}, got,
			"%s and %s", a, b)

		// Passed through CEL it is the same number, and JSON within bounds.
		got, err = over(t, `[value]`, a)
		require.NoError(t, err)
		handed := got.([]any)[0].(json.Number)
		require.Zero(t, x.Cmp(rat(t, string(handed))), "%s became %s", a, handed)
		_, err = schemas.Decode([]byte(handed))
		require.NoError(t, err)

		got, err = over(t, `"" + string(value)`, a)
		require.NoError(t, err)
		if whole {
			require.Equal(t, x.Num().String(), got)
		} else {
			require.Zero(t, x.Cmp(rat(t, got.(string))), "%s became %s", a, got)
		}

		got, err = over(t, `int(value)`, a)
		cut := new(big.Int).Quo(x.Num(), x.Denom())
		if cut.IsInt64() {
			require.NoError(t, err)
			require.Equal(t, json.Number(cut.String()), got)
		} else {
			require.Error(t, err)
		}
	})
}

// A double stands for its shortest text: it equals what it becomes in a result.
func TestDoublesAreTheirTexts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := literal().Draw(t, "a"), literal().Draw(t, "b")
		const sum = `(double(value.a) * double(value.b) + double(value.b))`
		out, err := over(t, sum, `{"a":`+a+`,"b":`+b+`}`)
		if err != nil {
			require.Regexp(t, "double", err.Error())
			return
		}
		again, err := over(t, sum+` == value.c && value.c == `+sum+` && !(value.c < `+sum+`) && !(value.c > `+sum+`) && value.c in [`+sum+`]`,
			`{"a":`+a+`,"b":`+b+`,"c":`+string(out.(json.Number))+`}`)
		require.NoError(t, err)
		require.Equal(t, true, again)
	})
}

// Arithmetic on whole numbers that fit is exact, or an error.
func TestIntsAreExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := rapid.Int64().Draw(t, "a"), rapid.Int64().Draw(t, "b")
		x, y := big.NewInt(a), big.NewInt(b)
		value := `{"a":` + x.String() + `.0,"b":` + y.String() + `}`
		for symbol, apply := range map[string]func(z, x, y *big.Int) *big.Int{
			"+": (*big.Int).Add, "-": (*big.Int).Sub, "*": (*big.Int).Mul, "/": (*big.Int).Quo, "%": (*big.Int).Rem,
		} {
			got, err := over(t, "value.a "+symbol+" value.b", value)
			if b == 0 && (symbol == "/" || symbol == "%") {
				require.ErrorContains(t, err, "by zero")
				continue
			}
			want := apply(new(big.Int), x, y)
			// The library finds the remainder by dividing.
			if !want.IsInt64() || symbol == "%" && a == math.MinInt64 && b == -1 {
				require.ErrorContains(t, err, "overflow")
				continue
			}
			require.NoError(t, err)
			require.Equal(t, json.Number(want.String()), got)
		}
	})
}

// Numbers beyond the bounds of JSON texts come in by other ways than a text.
func TestNumbersBeyondBounds(t *testing.T) {
	for _, n := range []json.Number{"1e401", "1e-401", "1e1000000001", "1e99999999999999999999", json.Number(strings.Repeat("9", 513)), "", "-", "1.", "x", "0x1", "NaN", "1e", "1e+", " 1", "1_0", "+1"} {
		tpl, bad := expr.CompileTemplate("${[value][0] == 1 ? 1 : 2}", expr.Transform)
		require.Empty(t, bad)
		_, err := tpl.Eval(expr.Vars{"value": n})
		if n == "1." {
			continue
		}
		require.ErrorContains(t, err, "is not a JSON number within bounds", "%q", n)
	}
}

func TestTemplatesShareTheirSteps(t *testing.T) {
	list := make([]any, 1000)
	for i := range list {
		list[i] = json.Number("1")
	}
	vars := expr.Vars{"input": list}
	const loop = "${input.map(a, input.filter(b, a == b).size()).size()}"
	many := make([]any, 50)
	for i := range many {
		many[i] = "${input.map(a, input[?a].hasValue()).size()}"
	}
	tpl, bad := expr.CompileTemplate(many, expr.With)
	require.Empty(t, bad)
	got, err := tpl.Eval(vars)
	require.NoError(t, err)
	require.Len(t, got, 50)
	for i := range many {
		many[i] = loop
	}
	tpl, bad = expr.CompileTemplate(many, expr.With)
	require.Empty(t, bad)
	_, err = tpl.Eval(vars)
	require.ErrorContains(t, err, "takes more than 2000000 steps")
}

func TestKeysOfMaps(t *testing.T) {
	for _, src := range []string{`{1.5: 1}`, `{b"x": 1}`, `{[1]: 1}`, `{null: 1}`, `{{"a": 1}: 1}`, `{type(1): 1}`, `{optional.of(1): 1}`} {
		_, bad := expr.CompileTemplate("${"+src+".size()}", expr.With)
		require.Len(t, bad, 1, src)
		require.Contains(t, bad[0].Message, "a map's key must be a string", src)
	}
	got, err := over(t, `{value: 1, "b": 2}`, `"a"`)
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(decode(t, `{"a":1,"b":2}`), got))
}

func BenchmarkNumbers(b *testing.B) {
	for name, list := range map[string]string{
		"small ints": `[1,2,3,40,500,6000,70000,800000]`, "ints": `[9007199254740993,1e3,2.0,3e10,1234567890123456789,5.0,7e0,1e18]`,
		"doubles": `[0.1,1.5,2.25,3.125,1e-7,99.99,12.34,5.5]`, "exact": `[1e30,1e400,0.12345678901234567891,9223372036854775808,1e-400,1e31,1e32,1e33]`,
	} {
		b.Run(name, func(b *testing.B) {
			tpl, bad := expr.CompileTemplate("${value.all(x, x > 0 && x != 7)}", expr.Transform)
			require.Empty(b, bad)
			vars := expr.Vars{"value": decode(b, list)}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := tpl.Eval(vars); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
