package typing

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"chimera.ai/engine/catalog"
	"chimera.ai/engine/compiler/internal/pool"
	"chimera.ai/engine/containment"
	"chimera.ai/engine/diag"
	"chimera.ai/engine/expr"
	"chimera.ai/engine/internal/embedded"
	"chimera.ai/engine/internal/excerpt"
	"chimera.ai/engine/internal/fields"
	"chimera.ai/engine/internal/syntax"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/schemas"
)

// adapterIn is an adapter as transforms of one scope use it.
type adapterIn struct {
	adapter *catalog.Adapter
	scope   expr.Scope
}

// boundAdapter is an adapter, compiled for transforms of one scope. fault says why
// it cannot be used there.
type boundAdapter struct {
	*catalog.Adapter
	// input and output are its schemas; result is the schema inferred for its
	// results.
	input, output, result *schemas.Schema
	// template is its transform with conversions of numbers written out. They
	// are those for every input it accepts, so that an adapter means the same
	// on every edge.
	template *embedded.Template
	code     diag.Code
	fault    string
}

// findAdapter finds the adapter that the transform of an edge names.
func (check *checker) findAdapter(e *Edge, scope expr.Scope) {
	id := e.Transform.Text
	a := check.Catalog.Adapters[id]
	if a == nil {
		check.unknownAdapter(e, scope)
		return
	}
	key := adapterIn{a, scope}
	x, known := check.adapters[key]
	if !known {
		x = &boundAdapter{Adapter: a}
		x.prepare(check, scope)
		check.adapters[key] = x
	}
	if x.fault != "" {
		check.Report(diag.Diagnostic{
			Code: x.code, Summary: fmt.Sprintf("the adapter %s cannot be used here", fields.Quote(id)), Detail: fields.Sentence(x.fault),
			Subject: e.Transform.Range(), Edge: e.String(), Related: there(x.TransformAt, "the adapter"),
		})
		return
	}
	e.boundAdapter, e.Template = x, x.template
}

// unknownAdapter reports an id that no adapter has, or a bare string that was not
// meant as an id.
func (check *checker) unknownAdapter(e *Edge, scope expr.Scope) {
	id := e.Transform.Text
	d := diag.Diagnostic{
		Code: diag.TrustOperation, Summary: fmt.Sprintf("the catalog has no adapter %s", fields.Quote(excerpt.Bytes(id, 80))),
		Subject: e.Transform.Range(), Edge: e.String(), Suggestion: check.Near(id, check.Catalog.AdapterNames),
	}
	switch names := check.Catalog.AdapterNames; {
	case len(names) == 0:
		d.Detail = "It has none at all."
	case len(names) <= 8:
		d.Detail = "It has " + fields.Either(names) + "."
	}
	d.Detail = strings.TrimSpace("A transform that is a string without `${…}` is the id of an adapter. " + d.Detail)
	d.Detail += " An expression stands between `${` and `}`, and " + constantRule(id)
	if d.Suggestion != "" {
		d.Edits = check.Replace(e.Transform.Range(), d.Suggestion)
	} else {
		d.Suggestion = check.bareExpression(id, scope)
	}
	check.Report(d)
}

// prepare compiles the adapter and proves it. One of a catalog file has been proved
// when the file was read; a catalog can also be built by code.
func (x *boundAdapter) prepare(check *checker, where expr.Scope) {
	refuse := func(code diag.Code, format string, args ...any) { x.code, x.fault = code, fmt.Sprintf(format, args...) }
	schemaOf := func(raw []byte, field string) *schemas.Schema {
		c, err := check.Catalog.Schema(raw)
		if err == nil && c == nil {
			err = fmt.Errorf("there is none")
		}
		var s *schemas.Schema
		if err == nil {
			s, err = c.Compile()
		}
		if err != nil {
			refuse(diag.TypeSchema, "its %s is not a usable JSON Schema: %v", field, err)
			return nil
		}
		return s
	}
	if x.input = schemaOf(x.InputSchema, "input_schema"); x.input == nil {
		return
	}
	if x.output = schemaOf(x.OutputSchema, "output_schema"); x.output == nil {
		return
	}
	value, err := schemas.Decode(x.Transform)
	if err != nil {
		refuse(diag.TypeExpr, "its transform is not JSON: %v", err)
		return
	}
	t, errs := expr.CompileTemplate(value, expr.Adapter)
	if len(errs) > 0 {
		refuse(diag.TypeExpr, "its transform does not compile: %v", errs[0])
		return
	}
	checked := check.checked(&embedded.Template{Template: t, Value: value, Raw: x.Transform, Scope: expr.Adapter}, scope{value: x.input})
	if len(checked.problems) > 0 {
		refuse(kindCode(checked.problems[0].Kind), "its transform may fail for what it takes: %s", checked.problems[0].Message)
		return
	}
	x.result = checked.result
	if !check.prover.Holds(x.result, x.output) {
		refuse(diag.TypeUnknown, "it is not proved that its transform gives what its output_schema says")
		return
	}
	made := checked.made.Value
	if where == expr.Compensate {
		if made, err = expr.Spread(made); err != nil {
			refuse(diag.TypeExpr, "where an effect is undone, `value` stands for `args`, `output` and `error`, and %v", err)
			return
		}
	}
	if t, errs = expr.CompileTemplate(made, where); len(errs) > 0 {
		refuse(diag.TypeExpr, "its transform does not compile here: %v", errs[0])
		return
	}
	raw, err := plan.Canonical(made)
	if err != nil {
		refuse(diag.TypeExpr, "its transform cannot be written: %v", err)
		return
	}
	x.template = &embedded.Template{Template: t, Value: made, Raw: raw, Scope: where}
}

// there refers to a place in a catalog's file, if it is one.
func there(at diag.Range, label string) []diag.Related {
	if !at.IsValid() {
		return nil
	}
	return []diag.Related{{Range: at, Label: label}}
}

// typeAdapter proves that the edge's adapter accepts every value that the edge
// brings, and returns the schema of its results, or nil if it is not known.
func (check *checker) typeAdapter(doc *Document, e *Edge, s scope) *schemas.Schema {
	x := e.boundAdapter
	if x == nil {
		return nil
	}
	value := s.value
	if e.FromPort == plan.CompensatePort {
		value = schemas.Make(schemas.Keywords{
			Types: []string{"object"}, Required: []string{"args", "error", "output"}, Rest: schemas.False(),
			Properties: map[string]*schemas.Schema{"args": s.args, "output": s.output, "error": s.failure},
		})
	}
	if value == nil || !check.adapts(doc, e, s, value) {
		return nil
	}
	// The edge may bring fewer values than the adapter accepts, so that more is
	// known about the results. If nothing more can be inferred, x.result holds.
	c := check.checked(e.Template, s)
	switch {
	case len(c.problems) > 0 || !bytes.Equal(c.made.Raw, e.Template.Raw):
		return x.result
	case check.prover.Holds(c.result, x.output):
		return c.result
	}
	return check.prover.Both(c.result, x.output)
}

// adapts proves that an adapter accepts every value that an edge brings.
func (check *checker) adapts(doc *Document, e *Edge, s scope, value *schemas.Schema) bool {
	x := e.boundAdapter
	if check.prover.Anything(x.input) {
		return true
	}
	r := check.prover.Within(value, x.input)
	if r.Verdict == containment.Proved {
		return true
	}
	source, name := fields.Quote(e.FromNode+"."+e.FromPort), "the adapter "+fields.Quote(x.ID)
	if e.FromPort == plan.CompensatePort {
		source = "{args, output, error} of " + fields.Quote(e.FromNode)
	}
	d := diag.Diagnostic{
		Subject: e.Transform.Range(), Label: "takes " + brief(x.input), Edge: e.String(),
		Related: append([]diag.Related{{Range: e.FromRange(), Label: "gives " + brief(value)}}, there(x.InputAt, "what it takes")...),
	}
	rule := " An adapter gets only what its `input_schema` takes; `check: runtime` is about what it gives."
	if r.Verdict == containment.Unknown {
		d.Code, d.Summary = diag.TypeUnknown, fmt.Sprintf("it is not proved that %s takes every value of %s", name, source)
		d.Detail = stopped(r) + rule
		check.Report(d)
		return false
	}
	d.Code, d.Summary = diag.TypeNotContained, fmt.Sprintf("%s does not take every value of %s", name, source)
	d.Detail, d.Witness = "The source may give the counterexample. "+refusal(r.Witness, x.input, fields.Quote(x.ID))+rule, shown(r.Witness)
	var root any
	if c, err := check.Catalog.Schema(x.InputSchema); err == nil && c != nil {
		root = c.Decoded()
	}
	p := proposal{
		check: check, source: value, target: x.input, sourceName: e.FromNode + "." + e.FromPort, targetName: x.ID,
		sourceOpen: e.Kind != plan.Error && doc.Nodes[e.From].Output.At != nil, adapter: true, root: root, scope: s,
	}
	d.Suggestion = p.propose(r.Witness)
	check.Report(d)
	return false
}

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
	return fmt.Sprintf("a constant text is one too: `%s`.", embedded.ConstantText(excerpt.Bytes(text, 80)))
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
