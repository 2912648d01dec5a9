package compiler

import (
	"fmt"
	"slices"
	"strings"

	"chimera.ai/engine/diag"
	"chimera.ai/engine/expr"
	"chimera.ai/engine/internal/embedded"
	"chimera.ai/engine/internal/fields"
	"chimera.ai/engine/internal/syntax"
)

var adapterFields = &fields.Table{What: "an adapter", Fields: []fields.Field{
	fields.Required("id", fields.FormText, "what the `transform` of an edge says"),
	fields.Optional("description", fields.FormText, "for people"),
	fields.Required("input_schema", fields.FormSchema, "the JSON Schema of the values that it takes"),
	fields.Required("output_schema", fields.FormSchema, "the JSON Schema of what it gives, which is proved"),
	fields.Required("transform", fields.FormAny, "a JSON template with ${…} expressions over `value`"),
}}

// MaxAdapters bounds the adapters of a catalog file.
const MaxAdapters = 10_000

// readAdapters reads the adapters of a catalog.
func (u *unit) readAdapters(list *syntax.Value) []Adapter {
	if list == nil {
		return nil
	}
	items := list.Items
	if len(items) > MaxAdapters {
		u.Report(diag.Diagnostic{
			Code: diag.PlanLimits, Summary: fmt.Sprintf("the catalog has %d adapters", len(items)),
			Detail: fmt.Sprintf("A catalog has at most %d adapters.", MaxAdapters), Subject: fields.Head(items[MaxAdapters]),
		})
		items = items[:MaxAdapters]
	}
	var all []Adapter
	for _, item := range items {
		if a := u.readAdapter(item); a != nil {
			all = append(all, *a)
		}
	}
	return all
}

// readAdapter reads one adapter, and proves that it gives what it promises for
// all that it takes. It is nil where anything was refused.
func (u *unit) readAdapter(v *syntax.Value) *Adapter {
	id := ""
	if x := v.Get("id"); x != nil && x.Kind == syntax.String {
		id = x.Text
	}
	errs := u.Errors
	r := u.Read(v, adapterFields, id)
	if r == nil {
		return nil
	}
	a := &Adapter{Range: fields.Head(v)}
	if x := r.Get("id"); u.Name(x, "id", fields.AdapterIDs) {
		a.ID, a.Range = x.Text, x.Range()
	}
	u.Bounded(r.Get("description"), "description")
	if x := r.Get("description"); x != nil {
		a.Description = x.Text
	}
	var input, output *schema
	a.InputSchema, input = u.fileSchema(r.Get("input_schema"))
	a.OutputSchema, output = u.fileSchema(r.Get("output_schema"))
	a.InputAt, a.OutputAt = oneLine(r.Get("input_schema")), oneLine(r.Get("output_schema"))
	if x := r.Get("transform"); x != nil {
		a.TransformAt = oneLine(x)
		if t := u.adapterTemplate(x, a.ID); t != nil {
			a.Transform = t.Raw
			u.proveAdapter(x, t, input, output, a.ID)
		}
	}
	if u.Errors > errs {
		return nil
	}
	return a
}

// adapterTemplate compiles the transform of an adapter where it stands.
func (u *unit) adapterTemplate(v *syntax.Value, id string) *embedded.Template {
	if embedded.Bare(v) {
		u.Report(diag.Diagnostic{
			Code: diag.TypeExpr, Summary: fmt.Sprintf("the transform of the adapter %s is a bare string", fields.Quote(id)),
			Detail:  "On an edge that would be the id of an adapter, and an adapter is not made of others. An expression stands between `${` and `}`, and " + constantRule(v.Text),
			Subject: v.Range(), Suggestion: u.bareExpression(v.Text, expr.Adapter),
		})
		return nil
	}
	return u.Template(v, expr.Adapter, "", "")
}

// constantRule says how a constant text is written as a transform.
func constantRule(text string) string {
	return fmt.Sprintf("a constant text is one too: `%s`.", embedded.ConstantText(fields.Clip(text, 80)))
}

// bareExpression is what the author of a bare string most probably means: an
// expression in the marks of another language or in none, or else a constant text.
func (u *unit) bareExpression(text string, scope expr.Scope) string {
	if found, meant := u.Lookalikes(text, scope); len(found) > 0 {
		return fmt.Sprintf("%q", meant)
	}
	fits := func(text string) bool {
		t, errs := expr.CompileTemplate("${"+text+"}", scope)
		return len(errs) == 0 && slices.ContainsFunc(scope.Names(), t.Reads)
	}
	// A path of JSONPath or jq starts at the value.
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

// proveAdapter proves that the transform cannot fail, and gives what the adapter
// promises, for all that it takes.
func (u *unit) proveAdapter(v *syntax.Value, t *embedded.Template, input, output *schema, id string) {
	if input == nil || output == nil {
		return // reported already
	}
	in, err := input.compile()
	if err != nil {
		return
	}
	out, err := output.compile()
	if err != nil {
		return
	}
	s := sight{value: in}
	made, result, ok := u.checkTemplate(v, t, s, false, "", "")
	if !ok {
		return
	}
	u.fitsWhole(&inquiry{template: made, sight: s, target: out, admits: anyVars}, result, oneLine(v), "the `output_schema` of the adapter "+fields.Quote(id), "")
}
