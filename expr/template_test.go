package expr_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"chimera.ai/engine/expr"
)

func TestTemplate(t *testing.T) {
	tests := []struct{ template, want string }{
		{`null`, `null`},
		{`1.50`, `1.50`},
		{`""`, `""`},
		{`"plain $ {} text"`, `"plain $ {} text"`},
		{`"$${literal}"`, `"${literal}"`},
		{`"$$${value.n}"`, `"$${value.n}"`},
		{`"${'$'}${value.n}"`, `"$3"`},
		{`"${value.n}"`, `3`},
		{`" ${value.n}"`, `" 3"`},
		{`"${ value.n }"`, `3`},
		{`"${value.n}${value.f}"`, `"32.5"`},
		{`"n is ${value.n}, b is ${value.b}, s is ${value.s}!"`, `"n is 3, b is true, s is héllo!"`},
		{`"${value.big + 0} ${1.0/3.0} ${1e30}"`, `"9007199254740993 0.3333333333333333 1e+30"`},
		{`{"a": ["${value.list}", {"b": "${value.z}", "c": 1}], "d": "x"}`, `{"a": [[1, 2, 3], {"b": null, "c": 1}], "d": "x"}`},
		{`"${{'a': {'b': 1}}}"`, `{"a": {"b": 1}}`},
		{`"${{'a': '}'}}"`, `{"a": "}"}`},
		{`"${\"}\"}"`, `"}"`},
		{`"${'\\'}'}"`, `"'}"`},
		{`"${r'\\'}"`, `"\\"`},
		{`"${R\"\\\"}|${br'\\' == b'\\\\'}"`, `"\\|true"`},
		{`"${'''a'}'b'''}"`, `"a'}'b"`},
		{`"${\"\"\"a\"}\"b\"\"\"}"`, `"a\"}\"b"`},
		{`"${value.n // } \n }"`, `3`},
		{"\"${value.map.`dash-ed`}\"", `2`},
		{`"${value.names.map(bar, bar + 'r').join('}')}"`, `"xr}yr"`},
		{`"a${'b${c'}d"`, `"ab${cd"`},
	}
	for _, tt := range tests {
		t.Run(tt.template, func(t *testing.T) {
			tpl, bad := expr.CompileTemplate(decode(t, tt.template), expr.Transform)
			require.Empty(t, bad)
			for range 2 {
				v, err := tpl.Eval(vars(t, expr.Transform))
				require.NoError(t, err)
				require.Empty(t, cmp.Diff(decode(t, tt.want), v))
			}
		})
	}
}

func TestTemplateErrors(t *testing.T) {
	raw := `{
		"a": ["${", "ok", "x ${value.n", "é${}", "${  }"],
		"b": {"c": "n: ${value.n +}", "d": "1 ${nothing} 2 ${nobody}", "${k}": 1},
		"e": "${'open}",
		"f": "${[b'x'][0]}", "g": "x${[1]}", "h": "${value.?x}", "i": "${type(1)}", "j": "${timestamp('2024-01-01T00:00:00Z')}"
	}`
	_, bad := expr.CompileTemplate(decode(t, raw), expr.Transform)
	want := []struct {
		path    []any
		offset  int
		message string
	}{
		{[]any{"a", 0}, 0, "does not end"},
		{[]any{"a", 2}, 2, "does not end"},
		{[]any{"a", 3}, 2, "the expression is empty"},
		{[]any{"a", 4}, 0, "the expression is empty"},
		{[]any{"b", "${k}"}, 0, "a key cannot hold an expression"},
		{[]any{"b", "c"}, 14, "not complete"},
		{[]any{"b", "d"}, 4, "'nothing'"},
		{[]any{"b", "d"}, 17, "'nobody'"},
		{[]any{"e"}, 2, "does not end on its line"},
		{[]any{"f"}, 2, "of type bytes, which JSON does not have"},
		{[]any{"g"}, 3, "only strings, numbers and booleans"},
		{[]any{"h"}, 2, ".orValue(…)"},
		{[]any{"i"}, 2, "a type"},
		{[]any{"j"}, 2, "string(…)"},
	}
	require.Len(t, bad, len(want))
	for i, w := range want {
		require.Equal(t, w.path, bad[i].Path, bad[i])
		require.Equal(t, w.offset, bad[i].Offset, bad[i])
		require.Contains(t, bad[i].Message, w.message)
	}
	require.Equal(t, `b.d: undeclared reference to 'nothing'; the names here are value, output, input`, bad[6].Error())
	require.Equal(t, `a[0]: the expression that starts here does not end: "}" is missing`, bad[0].Error())

	_, bad = expr.CompileTemplate([]any{1}, expr.With)
	require.Len(t, bad, 1)
	require.Contains(t, bad[0].Message, "int is not decoded JSON")
}

func TestTemplateEvaluationErrors(t *testing.T) {
	tests := []struct {
		template string
		path     []any
		offset   int
		message  string
	}{
		{`{"a": ["x", "n ${value.n}: ${value.nothing}"]}`, []any{"a", 1}, 21, "no such key: nothing"},
		{`{"a": "n ${value.list}"}`, []any{"a"}, 4, "this is a list"},
		{`{"a": "n ${value.z}"}`, []any{"a"}, 4, "this is null"},
		{`{"a": "${value.list[5]}"}`, []any{"a"}, 12, "index out of bounds: 5"},
		{`{"a": "${1 + value.list[5]}"}`, []any{"a"}, 16, "index out of bounds: 5"},
		{`{"a": "${value.n.deeper}"}`, []any{"a"}, 9, "no such key: deeper, in a number"},
		{`{"a": "${value.list.first}"}`, []any{"a"}, 12, "a list has no key first"},
		{`{"a": "${value.map[0]}"}`, []any{"a"}, 11, "no such key: 0"},
		{`"${0.0 / 0.0}"`, nil, 6, "division by zero"},
	}
	for _, tt := range tests {
		tpl, bad := expr.CompileTemplate(decode(t, tt.template), expr.Transform)
		require.Empty(t, bad)
		_, err := tpl.Eval(vars(t, expr.Transform))
		var te expr.TemplateError
		require.ErrorAs(t, err, &te, tt.template)
		require.Equal(t, tt.path, te.Path, tt.template)
		require.Contains(t, te.Message, tt.message)
		require.Equal(t, tt.offset, te.Offset, "%s: %s", tt.template, te.Message)
	}
}

func TestTemplateReads(t *testing.T) {
	tpl, bad := expr.CompileTemplate(decode(t, `{"a": "x ${value.n}", "b": ["${input.a == 1}", "$${output}"]}`), expr.Transform)
	require.Empty(t, bad)
	require.True(t, tpl.Reads("value"))
	require.True(t, tpl.Reads("input"))
	require.False(t, tpl.Reads("output"))
	require.False(t, tpl.Constant())
	tpl, bad = expr.CompileTemplate(decode(t, `{"a": ["$${output}", 1]}`), expr.Transform)
	require.Empty(t, bad)
	require.True(t, tpl.Constant())
	for _, name := range expr.Transform.Names() {
		require.False(t, tpl.Reads(name))
	}
	v, err := tpl.Eval(nil)
	require.NoError(t, err)
	require.Equal(t, map[string]any{"a": []any{"${output}", decode(t, "1")}}, v)
}

// A template does not follow later changes of the value it was compiled from.
func TestTemplateIsItsOwn(t *testing.T) {
	v := decode(t, `{"a": [1], "b": "${input}"}`).(map[string]any)
	tpl, bad := expr.CompileTemplate(v, expr.With)
	require.Empty(t, bad)
	v["a"].([]any)[0] = "changed"
	v["b"] = "changed"
	got, err := tpl.Eval(expr.Vars{"input": nil})
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(decode(t, `{"a": [1], "b": null}`), got))
}

func TestLongMessagesAreCut(t *testing.T) {
	long := strings.Repeat("é", 2000)
	_, err := expr.CompilePredicate("has_"+strings.Repeat("x", 4000)+" == 1", expr.When)
	require.Error(t, err)
	require.Less(t, len(err.Error()), 400)
	tpl, bad := expr.CompileTemplate("${int('"+long+"')}", expr.With)
	require.Empty(t, bad)
	_, err = tpl.Eval(expr.Vars{"input": nil})
	require.Error(t, err)
	require.Less(t, len(err.Error()), 400)
	p, err := expr.CompilePredicate(`{"a": 1}[input] == 1`, expr.With)
	require.NoError(t, err)
	_, err = p.EvalBool(expr.Vars{"input": long})
	require.Error(t, err)
	require.Less(t, len(err.Error()), 400)
}
