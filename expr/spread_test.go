package expr_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/expr"
	"chimera.ai/engine/schemas"
)

func TestSpread(t *testing.T) {
	for _, tt := range []struct{ template, want, refused string }{
		{`{"a":"${value.args.x}","b":["${value.output.y + value.error.z}",1]}`, `{"a":"${args.x}","b":["${output.y + error.z}",1]}`, ""},
		{`"$${value} ${ value . args.x } and value.args"`, `"$${value} ${ args.x } and value.args"`, ""},
		{`"${value.args.value.args}"`, `"${args.value.args}"`, ""},
		{`"${value.args.x == 'value' ? \"value.output\" : value.args.?output.orValue('')}"`, `"${args.x == 'value' ? \"value.output\" : args.?output.orValue('')}"`, ""},
		{`"${value.args.list.map(x, x + value.output.y)}"`, `"${args.list.map(x, x + output.y)}"`, ""},
		{`{"a":1}`, `{"a":1}`, ""},

		{`"${value}"`, "", "otherwise than as"},
		{`"${value.input}"`, "", "otherwise than as"},
		{`"${value.?args.x.orValue(1)}"`, "", "otherwise than as"},
		{`"${value['args'].x}"`, "", "otherwise than as"},
		{`["${has(value.x) ? 1 : 2}"]`, "", "otherwise than as"},
		{`"${value.output.list.map(args, value.args.x + args)}"`, "", "a variable of its own args"},
		{`"${value.args.list.map(value, value.args)}"`, "", "otherwise than as"},
		{`"${input.x}"`, "", "undeclared reference"},
		{`"${value"`, "", "does not end"},
	} {
		v, err := schemas.Decode([]byte(tt.template))
		require.NoError(t, err)
		got, err := expr.Spread(v)
		if tt.refused != "" {
			require.ErrorContains(t, err, tt.refused, tt.template)
			continue
		}
		require.NoError(t, err, tt.template)
		want, err := schemas.Decode([]byte(tt.want))
		require.NoError(t, err)
		require.Equal(t, want, got)

		// Both mean the same.
		before, errs := expr.CompileTemplate(v, expr.Adapter)
		require.Empty(t, errs)
		after, errs := expr.CompileTemplate(got, expr.Compensate)
		require.Empty(t, errs)
		data, err := schemas.Decode([]byte(`{"args":{"x":"value","value":{"args":7},"list":["a","b"]},"output":{"y":"!"},"error":{"z":"?"}}`))
		require.NoError(t, err)
		members := data.(map[string]any)
		a, err := before.Eval(expr.Vars{"value": data})
		require.NoError(t, err)
		b, err := after.Eval(expr.Vars{"args": members["args"], "output": members["output"], "error": members["error"]})
		require.NoError(t, err)
		require.Equal(t, a, b, tt.template)
	}
	deep := any("x")
	for range 2000 {
		deep = []any{deep}
	}
	_, err := expr.Spread(deep)
	require.ErrorContains(t, err, "deeper")
}
