package typing

import (
	"fmt"
	"slices"
	"strings"

	"chimera.ai/engine/compiler/internal/pool"
	"chimera.ai/engine/diag"
	"chimera.ai/engine/expr"
	"chimera.ai/engine/internal/embedded"
	"chimera.ai/engine/internal/fields"
	"chimera.ai/engine/internal/syntax"
)

// adapterTemplate compiles the transform of an adapter in a catalog file.
func (check *checker) adapterTemplate(v *syntax.Value, id string) *embedded.Template {
	if embedded.Bare(v) {
		check.Report(diag.Diagnostic{
			Code: diag.TypeExpr, Summary: fmt.Sprintf("the transform of the adapter %s is a bare string", fields.Quote(id)),
			Detail:  "On an edge that would be the id of an adapter, and an adapter is not made of others. An expression stands between `${` and `}`, and " + constantRule(v.Text),
			Subject: v.Range(), Suggestion: check.bareExpression(v.Text, expr.Adapter),
		})
		return nil
	}
	return check.Template(v, expr.Adapter, "", "")
}

// constantRule says how to write a constant string as a transform.
func constantRule(text string) string {
	return fmt.Sprintf("a constant text is one too: `%s`.", embedded.ConstantText(fields.Clip(text, 80)))
}

// bareExpression returns what the author of a bare string most probably means: an
// expression without marks or in those of another language, or else a constant.
func (check *checker) bareExpression(text string, scope expr.Scope) string {
	if found, meant := check.Lookalikes(text, scope); len(found) > 0 {
		return fmt.Sprintf("%q", meant)
	}
	fits := func(text string) bool {
		t, errs := expr.CompileTemplate("${"+text+"}", scope)
		return len(errs) == 0 && slices.ContainsFunc(scope.Names(), t.Reads)
	}
	// JSONPath and jq start at the value.
	path := text
	if rest, ok := strings.CutPrefix(strings.TrimPrefix(text, "$"), "."); ok {
		path = "value." + rest
	}
	for _, candidate := range []string{text, embedded.Fix(text, fits), path} {
		if fits(candidate) {
			return fmt.Sprintf("%q", "${"+candidate+"}")
		}
	}
	if strings.ContainsAny(text, "'\\\n\r{}$") || len(text) > 80 {
		return ""
	}
	return `"` + embedded.ConstantText(text) + `"`
}

// proveAdapter proves that for every input the adapter accepts, the transform
// cannot fail and its result fits the output schema.
func (check *checker) proveAdapter(v *syntax.Value, t *embedded.Template, input, output *pool.Schema, id string) {
	in, out := input.Usable(), output.Usable()
	if in == nil || out == nil {
		return // reported already
	}
	s := scope{value: in}
	made, result, ok := check.checkTemplate(v, t, s, false, "", "")
	if !ok {
		return
	}
	check.fitsWhole(&search{template: made, scope: s, target: out}, result, fields.OneLine(v), "the `output_schema` of the adapter "+fields.Quote(id), "")
}
