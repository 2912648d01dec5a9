package expr_test

import (
	"encoding/json"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/expr"
	"chimera.ai/engine/schemas"
)

// extremes are values of the parts of an order that lie at the ends of what its
// schema takes, or look like what they are not; "-" is none.
var extremes = map[string][]string{
	"id":     {`"abc"`, `"\u0000\u2028\""`, `"😀😀😀"`, `"123456789"`, `"-9223372036854775808"`, `"99999999999999999999"`, `"1e309"`, `"2020-02-29T23:59:60Z"`, `"0001-01-01T00:00:00Z"`, `"9999-12-31T23:59:59.999999999Z"`, `"3600s"`, `"NaN"`, `"true"`, `"a,,b"`, `"ﬃİß"`},
	"note":   {"-", `""`, `"x"`, `"12"`, `"0x1F"`, `" 1"`},
	"total":  {"0", "-0", "9223372036854775807", "-9223372036854775808", "9223372036854775808", "1e300", "1.0", "9007199254740993", "-1e25"},
	"small":  {"0", "1", "100", "1e2", "7.0", "50"},
	"price":  {"0", "-0.0", "5e-324", "1e-400", "0.1", "1000000", "1e6", "999999.9999999999999999", "3", "0.30000000000000004"},
	"flag":   {"true", "false"},
	"name":   {`"red"`, `"green"`},
	"maybe":  {"-", "null", `""`, `"12"`},
	"either": {`""`, `"10"`, "0", "10", "1e1", "10.0"},
	"tags":   {"[]", `[""]`, `["a","b","a"]`, `["12","x"]`},
	"items":  {"[]", `[{"sku":"a"}]`, `[{"sku":"a","count":1},{"sku":"","count":9.0}]`, `[{"sku":"b","count":3,"more":null},{"sku":"a"}]`, "[" + strings.Repeat(`{"sku":"a","count":9},`, 49) + `{"sku":"z"}]`},
	"pair":   {"-", "[0,0]", "[9223372036854775807,-9223372036854775808,1]", "[1e300,1]"},
	"nested": {`{"deep":{}}`, `{"deep":{"leaf":""}}`, `{"deep":{"leaf":"x","more":1},"more":2}`},
	"shape":  {`{"kind":"circle","radius":0}`, `{"kind":"circle","radius":10.0,"side":"x"}`, `{"kind":"square","side":1}`, `{"kind":"square","side":10,"radius":-1}`},
	"more":   {"-", "null", `{"a":[1]}`},
}

// orders draws so many values of an order.
func orders(t testing.TB, s *schemas.Schema, n int) []any {
	t.Helper()
	r := rand.New(rand.NewPCG(1, 2))
	var out []any
	for range n {
		parts := map[string]json.RawMessage{}
		for _, key := range slices.Sorted(maps.Keys(extremes)) {
			if v := extremes[key][r.IntN(len(extremes[key]))]; v != "-" {
				parts[key] = json.RawMessage(v)
			}
		}
		raw, err := json.Marshal(parts)
		require.NoError(t, err)
		v, err := s.ValidateJSON(raw)
		require.NoError(t, err, "%s", raw)
		out = append(out, v)
	}
	return out
}

// FuzzCheck: whatever the source, what is checked without a problem does not fail
// on any value of its types, and gives a value of the schema that was inferred;
// where a condition was true, or false, what is known there holds.
func FuzzCheck(f *testing.F) {
	for _, c := range cannotFail {
		f.Add(c.src)
	}
	for _, c := range mayFail {
		f.Add(c.src)
	}
	for _, s := range []string{"has(value.a) ? value.a[0] : value.b", "value.l.map(x, x.y)", "optional.of(value).optMap(v, v.a)", "[1].map(value, value)",
		"timestamp(value.id) - timestamp(0)", "value == output && output.total == value.total ? input.id : 'a'"} {
		f.Add(s)
	}
	s := compileSchema(f, order)
	values := orders(f, s, 60)
	odd := []any{nil, true, json.Number("1.5"), json.Number("1e400"), "", []any{}, map[string]any{}, []any{nil, "a"}}
	f.Fuzz(func(t *testing.T, src string) {
		if len(src) > 300 {
			return
		}
		for _, c := range []struct {
			ty     expr.Typing
			values []any
		}{
			{expr.Typing{}, append(odd, values[:4]...)},
			{expr.Typing{Types: expr.Types{"value": s, "output": s, "input": s}, Port: "$"}, values},
		} {
			if tmpl, bad := expr.CompileTemplate("${"+src+"}", expr.Transform); len(bad) == 0 {
				holdsTemplate(t, src, tmpl, c.ty, c.values)
			}
			if p, err := expr.CompilePredicate(src, expr.When); err == nil {
				holdsPredicate(t, src, p, c.ty, c.values)
			}
		}
	})
}

func holdsTemplate(t *testing.T, src string, tmpl *expr.Template, ty expr.Typing, values []any) {
	t.Helper()
	made, result, problems := tmpl.Check(ty)
	require.NotNil(t, result)
	for _, p := range problems {
		require.NotEmpty(t, p.Message)
		require.GreaterOrEqual(t, p.Offset, 0)
		require.LessOrEqual(t, p.Offset, len(src)+3)
		if p.Name != "" && ty.Types[p.Name] != nil {
			require.NoError(t, ty.Types[p.Name].Validate(p.Witness), "%q: %v is no value of %s", src, p.Witness, p.Name)
		}
	}
	if len(problems) > 0 {
		return
	}
	again, bad := expr.CompileTemplate(made, expr.Transform)
	require.Empty(t, bad, "%q becomes %v", src, made)
	for i, v := range values {
		have, err := again.Eval(expr.Vars{"value": v, "output": v, "input": values[len(values)-1-i]})
		require.NoError(t, err, "%q becomes %v, and fails on %v", src, made, v)
		require.NoError(t, result.Validate(have), "%q gives %v on %v", src, have, v)
	}
	twice, _, problems := again.Check(ty)
	require.Empty(t, problems, "%q becomes %v", src, made)
	require.Equal(t, made, twice)
}

func holdsPredicate(t *testing.T, src string, p *expr.Program, ty expr.Typing, values []any) {
	t.Helper()
	made, problems := p.Check(ty)
	if len(problems) > 0 {
		return
	}
	q, err := expr.CompilePredicate(made, expr.When)
	require.NoError(t, err, "%q becomes %q", src, made)
	after := map[bool]expr.Typing{true: p.Narrow(ty, true), false: p.Narrow(ty, false)}
	for i, v := range values {
		vars := expr.Vars{"value": v, "output": v, "input": values[len(values)-1-i]}
		holds, err := q.EvalBool(vars)
		require.NoError(t, err, "%q becomes %q, and fails on %v", src, made, v)
		for name, s := range after[holds].Types {
			require.NoError(t, s.Validate(vars[name]), "%q is %v for %s = %v", src, holds, name, vars[name])
		}
	}
}
