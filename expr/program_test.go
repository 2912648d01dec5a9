package expr_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"chimera.ai/engine/expr"
)

const sample = `{
	"value": {"n": 3, "f": 2.5, "s": "héllo", "b": true, "z": null, "big": 9007199254740993,
		"huge": 123456789012345678901234567890, "price": 5.00, "list": [1, 2, 3], "names": ["x", "y"],
		"map": {"k": 1, "dash-ed": 2}, "items": [{"p": 1, "t": "a"}, {"p": 20, "t": "b"}]},
	"output": {"ok": true},
	"input": {"a": {"b": [10, 20]}, "limit": 2},
	"error": {"kind": "timeout", "attempts": 3},
	"args": {"id": "x1"}
}`

// TestKeys: a key that no map can have is refused when the expression is compiled,
// and not when it is evaluated.
func TestKeys(t *testing.T) {
	for src, want := range map[string]string{
		"{}[null]": "this is of type null", "value[null]": "this is of type null", "value[?null]": "this is of type null", "value[b'a']": "this is of type bytes",
		"value['a']": "", "value[1]": "", "value[1u]": "", "value[1.0]": "", "value[true]": "", "value[?'a']": "", "value[input]": "",
	} {
		_, errs := expr.CompileTemplate("${"+src+"}", expr.Transform)
		if want == "" {
			require.Empty(t, errs, src)
			continue
		}
		require.Len(t, errs, 1, src)
		require.Contains(t, errs[0].Message, want)
	}
}

func vars(t testing.TB, scope expr.Scope) expr.Vars {
	t.Helper()
	all := decode(t, sample).(map[string]any)
	v := expr.Vars{}
	for _, name := range scope.Names() {
		v[name] = all[name]
	}
	return v
}

// eval evaluates one expression as a template that is nothing else.
func eval(t testing.TB, src string, scope expr.Scope) (any, error) {
	t.Helper()
	tpl, bad := expr.CompileTemplate("${"+src+"}", scope)
	if len(bad) > 0 {
		return nil, bad[0]
	}
	return tpl.Eval(vars(t, scope))
}

func TestExpressions(t *testing.T) {
	tests := []struct{ src, want string }{
		{`value.n`, `3`},
		{` value . n `, `3`},
		{`value.n + 1`, `4`},
		{`value.f * 2.0`, `5`},
		{`value.f + 0.25`, `2.75`},
		{`value.big + 1`, `9007199254740994`},
		{`value.big`, `9007199254740993`},
		{`value.huge`, `123456789012345678901234567890`},
		{`[value][0].huge == null ? 1 : 2`, `2`},
		{`{"all": value.map}`, `{"all":{"k":1,"dash-ed":2}}`},
		{`value.price`, `5.00`},
		{`[value.price]`, `[5]`},
		{`9223372036854775807`, `9223372036854775807`},
		{`-9223372036854775808`, `-9223372036854775808`},
		{`9223372036854775807 + 1`, `error: integer overflow`},
		{`18446744073709551615u`, `18446744073709551615`},
		{`1.0 / 0.0`, `error: division by zero`},
		{`1 / 0`, `error: division by zero`},
		{`7 / 2`, `3`},
		{`7 % 2`, `1`},
		{`1 < 1.5`, `true`},
		{`value.n < 3.5 && value.n == 3.0`, `true`},
		{`null`, `null`},
		{`value.z`, `null`},
		{`value.z == null`, `true`},
		{`"a" + 'b'`, `"ab"`},
		{`value.s.size()`, `5`},
		{`value.s.substring(1, 3)`, `"él"`},
		{`value.s.substring(3)`, `"lo"`},
		{`value.s.substring(9)`, `error: index out of range: 9`},
		{`value.s.indexOf("l")`, `2`},
		{`"a,b,,c".split(",")`, `["a","b","","c"]`},
		{`value.names.join("-")`, `"x-y"`},
		{`[].join()`, `""`},
		{`[1].join(",")`, `error: found no matching overload for 'join' applied to 'list(int).(string)'`},
		{`value.list.join(",")`, `error: join takes a list of strings; item 0 is of type int`},
		{`"aXbX".replace("X", "--")`, `"a--b--"`},
		{`" Ab ".trim().lowerAscii() + "é".upperAscii()`, `"abé"`},
		{`value.s.matches("^h.llo$")`, `true`},
		{`matches(value.s, "^x")`, `false`},
		{`value.s.startsWith("h") && value.s.endsWith("o") && value.s.contains("ll")`, `true`},
		{`has(value.n) ? 1 : 2`, `1`},
		{`has(value.nothing) ? 1 : 2`, `2`},
		{`value.nothing`, `error: no such key: nothing`},
		{`value.nothing + 1`, `error: no such key: nothing`},
		{`value.?nothing.orValue("none")`, `"none"`},
		{`value.?nothing.?deeper.orValue("none")`, `"none"`},
		{`value.?n.optMap(x, x * 2).orValue(0)`, `6`},
		{`value.list[?7].orValue(0)`, `0`},
		{`value.list[7]`, `error: index out of bounds: 7`},
		{`value.list[value.n - 1]`, `3`},
		{`value["dash-ed"]`, `error: no such key: dash-ed`},
		{"value.map.`dash-ed`", `2`},
		{`value.map["dash-ed"]`, `2`},
		{`optional.of(1).hasValue() && !optional.none().hasValue()`, `true`},
		{`optional.of([1]) == optional.of([1])`, `true`},
		{`value.list.map(x, x * 2)`, `[2,4,6]`},
		{`value.list.filter(x, x > 1)`, `[2,3]`},
		{`value.items.filter(i, i.p > 10).map(i, i.t)`, `["b"]`},
		{`value.items.map(i, i.p > 10, i.t)`, `["b"]`},
		{`value.list.all(x, x > 0) && value.list.exists(x, x == 2) && value.list.exists_one(x, x == 2)`, `true`},
		{`value.map.map(k, k)`, `error: a map cannot be walked, for the order of its keys is not fixed`},
		{`dyn({"a": 1}).all(k, true)`, `error: a map cannot be walked, for the order of its keys is not fixed`},
		{`{"a": 1}.all(k, true)`, `error: only lists can be walked, for the order of a map's keys is not fixed; this is of type map(string, int)`},
		{`value.n.map(k, k)`, `error: a int cannot be walked; only lists can`},
		{`value.list + [4] + value.names`, `[1,2,3,4,"x","y"]`},
		{`value.list == [1, 2.0, 3]`, `true`},
		{`value.items == [{"p": 1, "t": "a"}, {"t": "b", "p": 20}]`, `true`},
		{`value.items != [{"p": 1, "t": "a"}]`, `true`},
		{`2 in value.list && 2.0 in value.list && !("x" in value.list)`, `true`},
		{`"k" in value.map && !("j" in value.map)`, `true`},
		{`{"p": 1, "t": "a"} in value.items`, `true`},
		{`{"a": [1, {"b": null}], "c": value.b}`, `{"a":[1,{"b":null}],"c":true}`},
		{`{1: 2}`, `error: a map has a key of type int; JSON has strings only`},
		{`type(value.n) == int && type(value.f) == double && type(value.s) == string`, `true`},
		{`type(value.list) == list && type(value.map) == map && type(value.z) == null_type`, `true`},
		{`int("12") + int(2.9)`, `14`},
		{`double("1.5") + double(value.n)`, `4.5`},
		{`string(value.n) + string(1.5) + string(true)`, `"31.5true"`},
		{`string(timestamp("2024-02-29T12:00:00Z") + duration("24h"))`, `"2024-03-01T12:00:00Z"`},
		{`timestamp("2024-02-29T12:00:00+05:00").getHours()`, `7`},
		{`[b"a"]`, `error: bytes is no JSON value`},
		{`[timestamp("2024-02-29T12:00:00Z")]`, `error: google.protobuf.Timestamp is no JSON value`},
		{`[optional.none()]`, `error: optional_type is no JSON value`},
		{`input.a.b[1] + input.limit`, `22`},
		{`false && value.nothing`, `false`},
		{`true || value.nothing`, `true`},
		{"1 + // one\n 2", `3`},
		{`r"\d" + '''a'b'''`, `"\\da'b"`},
	}
	for _, tt := range tests {
		t.Run(tt.src, func(t *testing.T) {
			for range 3 {
				v, err := eval(t, tt.src, expr.Transform)
				if want, ok := strings.CutPrefix(tt.want, "error: "); ok {
					require.Error(t, err)
					require.Equal(t, want, err.Error())
					continue
				}
				require.NoError(t, err)
				require.Empty(t, cmp.Diff(decode(t, tt.want), v))
			}
		})
	}
}

func TestRefused(t *testing.T) {
	tests := []struct {
		src     string
		offset  int
		message string
	}{
		{``, 0, "empty"},
		{"  \n", 0, "empty"},
		{`value +`, 7, "the expression is not complete"},
		{`value.n ==`, 10, "the expression is not complete"},
		{`nothing.x`, 0, "undeclared reference to 'nothing'; the names here are value, output, input"},
		{`1 + nothing`, 4, "undeclared reference"},
		{`"é" + nothing`, 7, "undeclared reference"},
		{"1 +\n  nothing", 6, "undeclared reference"},
		{`error.kind`, 0, "undeclared reference"},
		{`now()`, 0, "undeclared reference to the function 'now'"},
		{`"é" + value.s.substr (1)`, 15, "undeclared reference to the function 'substr'"},
		{`timestamp("2024-02-29T12:00:00Z").getHours("Europe/Berlin")`, 42, "getHours"},
		{`"a" + 1`, 4, "no matching overload"},
		{`value.s.matches(input.p)`, 21, "the pattern of matches must be a string in the expression itself"},
		{`value.s.matches("(a")`, 16, "not RE2"},
		{`value.s.matches("(((a{100}){9}){1})x{1000}")`, 16, "instructions"},
		{`Foo{a: 1}`, 3, ""},
		{`value.list.map(a, value.list.map(b, value.list.map(c, value.list.map(d, d))))`, 32, "too many steps"},
		{strings.Repeat("(", 200) + "1" + strings.Repeat(")", 200), 0, "recursion"},
		{strings.Repeat("[", 5000), 0, ""},
		{strings.Repeat("1+", 5000) + "1", 0, "more than 8192"},
		{`value.x.?y`, 0, "must be true or false"},
		{`{"a": 1, "b": 2, "a": 3} == {}`, 17, "stands twice"},
		{"\"\xff\" == value", 0, "not UTF-8"},
	}
	for _, tt := range tests {
		t.Run(tt.src[:min(len(tt.src), 40)], func(t *testing.T) {
			_, err := expr.CompilePredicate(tt.src, expr.When)
			require.Error(t, err)
			var bad *expr.Error
			require.ErrorAs(t, err, &bad)
			t.Log(bad.Offset, bad.Message)
			require.Contains(t, bad.Message, tt.message)
			if tt.message != "" {
				require.Equal(t, tt.offset, bad.Offset)
			}
			require.LessOrEqual(t, bad.Offset, len(tt.src))
		})
	}
}

func TestPredicate(t *testing.T) {
	for src, want := range map[string]bool{
		`value.b`: true, `value.n > 2`: true, `!value.b`: false, `output.ok && input.limit < 2`: false,
		`value.items.exists(i, i.p > value.n)`: true,
	} {
		p, err := expr.CompilePredicate(src, expr.When)
		require.NoError(t, err, src)
		got, err := p.EvalBool(vars(t, expr.When))
		require.NoError(t, err, src)
		require.Equal(t, want, got, src)
	}
	_, err := expr.CompilePredicate(`value.n + 1 + 2 == 3 ? 1 : 2`, expr.When)
	require.ErrorContains(t, err, "must be true or false; this is of type int")
	_, err = expr.CompilePredicate(`"x"`, expr.When)
	require.ErrorContains(t, err, "of type string")
	for _, src := range []string{`value.n`, `value.n > 1 ? value.n : value.b`} {
		p, err := expr.CompilePredicate(src, expr.When)
		require.NoError(t, err)
		_, err = p.EvalBool(vars(t, expr.When))
		require.ErrorContains(t, err, "must be true or false; this is a number")
	}
}

func TestEvaluationErrorsHavePlaces(t *testing.T) {
	tests := []struct {
		src    string
		offset int
	}{
		{`1 == 1 && value.list[9] == 1`, 20},
		{`true && "é" == string(1 / 0)`, 25},
		{`value.nothing`, 5},
		{`value.n < "a"`, 8},
	}
	for _, tt := range tests {
		p, err := expr.CompilePredicate(tt.src, expr.When)
		require.NoError(t, err)
		_, err = p.EvalBool(vars(t, expr.When))
		var bad *expr.Error
		require.ErrorAs(t, err, &bad, tt.src)
		require.Equal(t, tt.offset, bad.Offset, "%s: %s", tt.src, bad.Message)
	}
}

func TestReads(t *testing.T) {
	tests := []struct {
		src  string
		want []string
	}{
		{`true`, nil},
		{`value`, []string{"value"}},
		{`value.output`, []string{"value"}},
		{`"input" == output.x`, []string{"output"}},
		{`has(input.a)`, []string{"input"}},
		{`input.?a.orValue(value)`, []string{"input", "value"}},
		{`[1].exists(value, value > 0)`, nil},
		{`[1].exists(value, value > output)`, []string{"output"}},
		{`value.exists(value, value > 0)`, []string{"value"}},
		{`[1].exists(value, .value == value)`, []string{"value"}},
		{`[1].exists(x, [x].exists(output, output == input))`, []string{"input"}},
		{`optional.of(1).optMap(value, value + 1).hasValue()`, nil},
		{`{"value": 1} == {}`, nil},
	}
	for _, tt := range tests {
		p, err := expr.CompilePredicate(tt.src, expr.When)
		require.NoError(t, err, tt.src)
		var got []string
		for _, name := range []string{"error", "input", "output", "value"} {
			if p.Reads(name) {
				got = append(got, name)
			}
		}
		require.Equal(t, tt.want, got, tt.src)
	}
}

func TestScopes(t *testing.T) {
	known := map[expr.Scope]string{
		expr.When: "value output input", expr.Transform: "value output input", expr.With: "input",
		expr.ErrorWhen: "error input", expr.ErrorTransform: "value error input", expr.Compensate: "args output error input",
		expr.Action: "action", expr.Estimate: "args input", expr.Price: "args", expr.Charge: "args output", expr.Adapter: "value",
	}
	for scope, names := range known {
		for _, name := range []string{"value", "output", "input", "error", "args", "action"} {
			_, err := expr.CompilePredicate(name+" == 1", scope)
			_, pathErr := expr.CompilePredicate(name, scope)
			if strings.Contains(" "+names+" ", " "+name+" ") {
				require.NoError(t, err)
				require.NoError(t, pathErr)
			} else {
				require.ErrorContains(t, err, "undeclared reference")
				require.ErrorContains(t, pathErr, "undeclared reference")
			}
		}
	}
	_, err := expr.CompilePredicate("true", expr.Scope(99))
	require.Error(t, err)
	require.Nil(t, expr.Scope(-1).Names())
}

func TestMissingVariable(t *testing.T) {
	for _, src := range []string{`value`, `value == 1`} {
		p, err := expr.CompilePredicate(src, expr.When)
		require.NoError(t, err)
		_, err = p.EvalBool(expr.Vars{"input": json.Number("1")})
		require.ErrorContains(t, err, "value has no value here")
	}
}
