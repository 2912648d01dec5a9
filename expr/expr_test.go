package expr_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"chimera.ai/engine/expr"
)

func decode(t testing.TB, text string) any {
	t.Helper()
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	var v any
	require.NoError(t, dec.Decode(&v))
	return v
}

func encode(t testing.TB, v any) string {
	t.Helper()
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	require.NoError(t, enc.Encode(v))
	return strings.TrimSpace(b.String())
}

func TestTemplates(t *testing.T) {
	vars := `{"value": {"n": 9007199254740993, "f": 1.5, "s": "text", "b": true, "z": null, "list": [3, 1, 2],
		"map": {"b": 2, "a": 1}, "huge": 123456789012345678901234567890}, "input": {"name": "you"}, "output": {"all": 1}}`
	for _, c := range []struct{ template, want string }{
		{`"plain"`, `"plain"`},
		{`"${value.n}"`, `9007199254740993`},
		{`"${value.n + 1}"`, `9007199254740994`},
		{`"${value.f}"`, `1.5`},
		{`"${value.f * 2.0}"`, `3`},
		{`"${value.z}"`, `null`},
		{`"${value}"`, encode(t, decode(t, vars).(map[string]any)["value"])},
		{`"${[value]}"`, `[` + encode(t, decode(t, vars).(map[string]any)["value"]) + `]`},
		{`"hello ${input.name}, ${value.n} ${value.b} ${value.f}"`, `"hello you, 9007199254740993 true 1.5"`},
		{`"$${value} is ${value.s}"`, `"${value} is text"`},
		{`"cost: $5 and $$"`, `"cost: $5 and $$"`},
		{`{"a": "${value.s}", "b": ["${value.b}", 7, {"c": "${output.all}"}], "d": 1.50}`, `{"a":"text","b":[true,7,{"c":1}],"d":1.50}`},
		{`"${{'k': value.n, 'l': {'m': '}'}}}"`, `{"k":9007199254740993,"l":{"m":"}"}}`},
		{`"${value.list.map(x, x * 2)}"`, `[6,2,4]`},
		{`"${value.list.filter(x, x > 1)}"`, `[3,2]`},
		{`"${value.?missing.orValue('none')}"`, `"none"`},
		{`"${has(value.missing) ? 1 : 2}"`, `2`},
		{`"${'a' + \"}\"}"`, `"a}"`},
		{`"${'''it's}'''}"`, `"it's}"`},
		{`"${r'\\}'}"`, `"\\}"`},
		{`"${size(value.s)}"`, `4`},
		{`"${value.n == 9007199254740993}"`, `true`},
		{`"${value.map == {'a': 1, 'b': 2}}"`, `true`},
		{`"${value.f > 1}"`, `true`},
	} {
		t.Run(c.template, func(t *testing.T) {
			tmpl, errs := expr.CompileTemplate(decode(t, c.template), expr.Transform)
			require.Empty(t, errs)
			for range 3 {
				got, err := tmpl.Eval(decode(t, vars).(map[string]any))
				require.NoError(t, err)
				require.Equal(t, c.want, encode(t, got))
			}
		})
	}
}

func TestTemplatesThatDoNotCompile(t *testing.T) {
	for _, c := range []struct {
		template, message string
		path              []any
		offset            int
	}{
		{`"ab ${value"`, "does not end", nil, 3},
		{`"a ${}"`, "empty", nil, 2},
		{`"a ${  }"`, "empty", nil, 2},
		{`"ö ${value.}"`, "expected identifier", nil, 11},
		{`{"a": [1, "${nope}"]}`, "undeclared reference to 'nope'", []any{"a", 1}, 2},
		{`"${error.kind}"`, "undeclared reference to 'error'", nil, 2},
		{`"${now()}"`, "undeclared reference to the function 'now'", nil, 2},
		{`"${timestamp('2026-01-01T00:00:00Z').getHours('Europe/Berlin')}"`, "getHours", nil, 0},
	} {
		t.Run(c.template, func(t *testing.T) {
			_, errs := expr.CompileTemplate(decode(t, c.template), expr.Transform)
			require.Len(t, errs, 1)
			require.Contains(t, errs[0].Message, c.message)
			require.Empty(t, cmp.Diff(c.path, errs[0].Path))
			if c.offset > 0 {
				require.Equal(t, c.offset, errs[0].Offset)
			}
		})
	}
}

func TestEvaluationFails(t *testing.T) {
	for _, c := range []struct{ expression, message string }{
		{"value.missing", "no such key"},
		{"value.n / 0", "division by zero"},
		{"value.n + 9223372036854775807", "overflow"},
		{"value.huge + 1", "64 bits"},
		{"value.n + 'x'", "no such overload"},
		{"[1][7]", "index out of bounds"},
		{"1.0 / 0.0", "division by zero"},
		{"{1: 2}", "JSON has strings only"},
		{"[timestamp('2026-01-01T00:00:00Z')]", "no JSON value"},
		{"dyn(b'x')", "no JSON value"},
		{"dyn(value.?missing)", "no JSON value"},
		{"[type(value)]", "no JSON value"},
	} {
		t.Run(c.expression, func(t *testing.T) {
			tmpl, errs := expr.CompileTemplate("${"+c.expression+"}", expr.Transform)
			require.Empty(t, errs)
			_, err := tmpl.Eval(expr.Vars{"value": decode(t, `{"n": 1, "huge": 123456789012345678901}`)})
			require.ErrorContains(t, err, c.message)
		})
	}
}

func TestPredicates(t *testing.T) {
	p, err := expr.CompilePredicate("value.n > 3 && has(input.x)", expr.When)
	require.NoError(t, err)
	require.True(t, p.Reads("value"))
	require.True(t, p.Reads("input"))
	require.False(t, p.Reads("output"))
	ok, err := p.EvalBool(expr.Vars{"value": decode(t, `{"n":4}`), "input": decode(t, `{"x":1}`)})
	require.NoError(t, err)
	require.True(t, ok)
	_, err = p.EvalBool(expr.Vars{"value": decode(t, `{"n":4}`)})
	require.Error(t, err, "a name without a value is an error where it is read")

	_, err = expr.CompilePredicate("1 + 1", expr.When)
	require.ErrorContains(t, err, "true or false")
	p, err = expr.CompilePredicate("value", expr.When)
	require.NoError(t, err)
	_, err = p.EvalBool(expr.Vars{"value": "yes"})
	require.ErrorContains(t, err, "must be true or false")
	p, err = expr.CompilePredicate("error.kind == 'timeout'", expr.ErrorWhen)
	require.NoError(t, err)
	ok, err = p.EvalBool(expr.Vars{"error": decode(t, `{"kind":"timeout"}`)})
	require.NoError(t, err)
	require.True(t, ok)
}

// Each of these would hang or eat the machine's memory if nothing stopped it.
func TestBombs(t *testing.T) {
	list := make([]any, 1000)
	for i := range list {
		list[i] = json.Number("1")
	}
	vars := expr.Vars{"value": map[string]any{"list": list, "text": strings.Repeat("x", 1<<20)}}
	for name, text := range map[string]string{
		"nested loops":   "value.list.map(a, value.list.map(b, value.list.map(c, a + b + c)))",
		"long strings":   "value.list.map(a, value.text + value.text + value.text + value.text)",
		"long regexp":    "value.text.matches('(x+x+)+y" + strings.Repeat("(a|b|c){1,50}", 20) + "')",
		"growing string": strings.Repeat("(", 50) + "value.text" + strings.Repeat("+value.text)", 50),
		"deep":           strings.Repeat("(", 5000) + "1" + strings.Repeat(")", 5000),
		"deep lists":     strings.Repeat("[", 5000) + strings.Repeat("]", 5000),
		"long":           "1" + strings.Repeat("+1", 50_000),
	} {
		t.Run(name, func(t *testing.T) {
			tmpl, errs := expr.CompileTemplate("${"+text+"}", expr.Transform)
			if len(errs) > 0 {
				return
			}
			_, err := tmpl.Eval(vars)
			require.Error(t, err)
		})
	}
}

func TestATemplateWithoutExpressionsIsItself(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		v := drawJSON(r, 3)
		tmpl, errs := expr.CompileTemplate(v, expr.With)
		require.Empty(r, errs)
		require.True(r, tmpl.Constant())
		got, err := tmpl.Eval(nil)
		require.NoError(r, err)
		require.Empty(r, cmp.Diff(v, got))
	})
}

func TestAValuePassesThroughUnchanged(t *testing.T) {
	tmpl, errs := expr.CompileTemplate(map[string]any{"v": "${value}", "in": []any{"${value.x}"}}, expr.Transform)
	require.Empty(t, errs)
	require.False(t, tmpl.Constant())
	rapid.Check(t, func(r *rapid.T) {
		v := map[string]any{"x": drawJSON(r, 3)}
		got, err := tmpl.Eval(expr.Vars{"value": v})
		require.NoError(r, err)
		require.Empty(r, cmp.Diff(map[string]any{"v": any(v), "in": []any{v["x"]}}, got))
	})
}

// drawJSON draws decoded JSON without "${" and with integers only: a double's
// text may change.
func drawJSON(r *rapid.T, depth int) any {
	switch rapid.IntRange(0, 3+min(depth, 2)).Draw(r, "kind") {
	case 0:
		return nil
	case 1:
		return rapid.Bool().Draw(r, "bool")
	case 2:
		return json.Number(rapid.StringMatching(`-?[1-9][0-9]{0,17}`).Draw(r, "int"))
	case 3:
		return strings.ReplaceAll(rapid.String().Draw(r, "text"), "{", "")
	case 4:
		out := []any{}
		for range rapid.IntRange(0, 4).Draw(r, "n") {
			out = append(out, drawJSON(r, depth-1))
		}
		return out
	}
	out := map[string]any{}
	for range rapid.IntRange(0, 4).Draw(r, "n") {
		out[rapid.StringMatching(`[a-zé$ ]{0,5}`).Draw(r, "key")] = drawJSON(r, depth-1)
	}
	return out
}

func FuzzTemplate(f *testing.F) {
	for _, s := range []string{
		"${value}", "a ${value.x + 1} b", "${", "$${}", "${{'a': value}}", "${'}'}", "${r\"\\\"}", "${value.map(x, x)}",
		"${value.?a.orValue(1)}", "${input.x ? 1 : 'a'}", "${value.matches('(a+)+')}", "${\"\"\"}\"\"\"}", "${1u}", "${-9223372036854775808}",
	} {
		f.Add(s, `{"x": 1, "list": [1, 2.5, "a", null, {"b": true}]}`)
	}
	f.Fuzz(func(t *testing.T, template, value string) {
		dec := json.NewDecoder(strings.NewReader(value))
		dec.UseNumber()
		var v any
		if dec.Decode(&v) != nil || len(value) > 1<<16 {
			return
		}
		tmpl, errs := expr.CompileTemplate(template, expr.Transform)
		if len(errs) > 0 {
			for _, e := range errs {
				if e.Offset < 0 || e.Offset > len(template) || e.Message == "" {
					t.Fatalf("bad error %+v", e)
				}
			}
			return
		}
		vars := expr.Vars{"value": v, "input": v, "output": v}
		one, err1 := tmpl.Eval(vars)
		two, err2 := tmpl.Eval(vars)
		if (err1 == nil) != (err2 == nil) || !cmp.Equal(one, two) {
			t.Fatalf("two evaluations differ: %v %v, %v %v", one, err1, two, err2)
		}
		if err1 == nil {
			if _, err := json.Marshal(one); err != nil {
				t.Fatalf("the result is not JSON: %v", err)
			}
		}
	})
}

func BenchmarkCompile(b *testing.B) {
	for b.Loop() {
		if _, err := expr.CompilePredicate("value.amount > 100 && input.kind == 'x'", expr.When); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkEval(b *testing.B) {
	p, err := expr.CompilePredicate("value.amount > 100 && input.kind == 'x'", expr.When)
	require.NoError(b, err)
	vars := expr.Vars{"value": decode(b, `{"amount": 150}`), "input": decode(b, `{"kind": "x"}`)}
	for b.Loop() {
		if _, err := p.EvalBool(vars); err != nil {
			b.Fatal(err)
		}
	}
}
