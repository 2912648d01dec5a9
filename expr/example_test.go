package expr_test

import (
	"encoding/json"
	"fmt"

	"chimera.ai/engine/expr"
)

func ExampleCompileTemplate() {
	template := map[string]any{
		"path":  "${value.files[0]}",
		"note":  "read for ${input.who}",
		"limit": json.Number("20"),
	}
	t, bad := expr.CompileTemplate(template, expr.Transform)
	if len(bad) > 0 {
		fmt.Println(bad)
		return
	}
	v, err := t.Eval(expr.Vars{
		"value": map[string]any{"files": []any{"README.md"}},
		"input": map[string]any{"who": "you"},
	})
	fmt.Println(v, err)
	// Output: map[limit:20 note:read for you path:README.md] <nil>
}

func ExampleCompilePredicate() {
	_, err := expr.CompilePredicate("value.amount > limit", expr.When)
	fmt.Println(err)
	p, err := expr.CompilePredicate("value.amount > input.limit", expr.When)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(p.Reads("input"), p.Reads("output"))
	fmt.Println(p.EvalBool(expr.Vars{
		"value": map[string]any{"amount": json.Number("150")},
		"input": map[string]any{"limit": json.Number("100")},
	}))
	// Output:
	// undeclared reference to 'limit'; the names here are value, output, input
	// true false
	// true <nil>
}
