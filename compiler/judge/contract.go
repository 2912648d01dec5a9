package judge

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"chimera.ai/engine/catalog"
	"chimera.ai/engine/compiler/internal/pool"
	"chimera.ai/engine/compiler/internal/proof"
	"chimera.ai/engine/compiler/lint"
	"chimera.ai/engine/compiler/typing"
	"chimera.ai/engine/containment"
	"chimera.ai/engine/diag"
	"chimera.ai/engine/internal/excerpt"
	"chimera.ai/engine/internal/fields"
	"chimera.ai/engine/schemas"
)

// weakerSchemas refuses a node whose schemas break the contract of its operation.
// It may accept fewer inputs than the operation, and must accept every output of
// it. Only a node without a lasting effect may narrow the output, since nothing has
// happened that an answer that does not fit would hide.
func (j *judge) weakerSchemas(n *typing.Node, t *catalog.Template) {
	c := j.Catalog.Contract(t)
	if c.Fault != nil {
		lint.BadTemplate(j.Reader, n.Node, t, c.Fault)
		return
	}
	for _, s := range []*lint.Schema{c.Input, c.Output} {
		if s == nil {
			continue
		}
		if _, err := s.Compile(); err != nil {
			lint.BadTemplate(j.Reader, n.Node, t, err)
			return
		}
	}
	if n.Input.Own() && c.Input != nil {
		j.weakerInput(n, t, c)
	}
	if n.Output.Own() {
		j.weakerOutput(n, t, c)
	}
}

func (j *judge) weakerInput(n *typing.Node, t *catalog.Template, c *lint.Contract) {
	res := j.prover.Within(n.Input.Usable(), c.Input.Usable())
	name := fields.Quote(t.Name())
	f := mismatch{j: j, node: n, template: t, field: "input_schema", given: n.Input.Schema, want: c.Input, at: t.InputAt}
	switch res.Verdict {
	case containment.Proved:
	case containment.Refuted:
		f.refuted(res, c.Input.Usable(),
			fmt.Sprintf("%s takes values that %s does not", fields.Quote(n.ID), name),
			"A node may take less than its operation, never more. By its schema in the catalog, the operation refuses the counterexample: ")
	case containment.Unknown:
		f.unknown(res, fmt.Sprintf("it is not proved that %s takes all that %s does", name, fields.Quote(n.ID)),
			"A node may take less than its operation, never more.")
	}
}

func (j *judge) weakerOutput(n *typing.Node, t *catalog.Template, c *lint.Contract) {
	promised, whence := c.Output, "the operation"
	if t.Passes() {
		if n.Input == nil || n.Input.Faulty {
			return
		}
		promised = n.Input.Schema
		whence = "the operation, which returns its input,"
	}
	name := fields.Quote(t.Name())
	f := mismatch{j: j, node: n, template: t, field: "output_schema", given: n.Output.Schema, want: promised, at: t.OutputAt}
	if t.Passes() && promised.At != nil {
		f.promise = fields.OneLine(promised.At)
	}
	lasting := n.Lasting()
	// Without a lasting effect, the proof only shows outputs that never fit.
	res := j.promise(promised, n.Output, !lasting)
	switch {
	case res.Verdict == containment.Proved:
		return
	case !lasting:
		// A tool that declares no output may answer with JSON in a text, and an operation
		// that never returns (engine/fail) returns nothing that does not fit.
		if promised != nil && !c.Undeclared && j.prover.DisjointBriefly(promised.Usable(), n.Output.Usable()) && !j.prover.DisjointBriefly(promised.Usable(), promised.Usable()) {
			f.never()
		}
		return
	}
	rule := fmt.Sprintf("The node is %s: when the answer comes, the effect has happened, so every answer that the operation may give has to be accepted.", n.Effect)
	if res.Verdict == containment.Refuted {
		f.refuted(res, n.Output.Usable(),
			fmt.Sprintf("%s refuses outputs that %s may return", fields.Quote(n.ID), name),
			fmt.Sprintf("%s By the catalog %s may return the counterexample, and the node refuses it: ", rule, whence))
		return
	}
	f.unknown(res, fmt.Sprintf("it is not proved that %s accepts all that %s may return", fields.Quote(n.ID), name), rule)
}

// promise asks whether the node accepts every output that its operation promises. A
// template without an output schema promises nothing.
func (j *judge) promise(promised *lint.Schema, accepted *typing.Schema, brief bool) containment.Result {
	all := j.prover.Whole
	if promised != nil {
		all = promised.Usable()
	}
	if brief {
		return j.prover.WithinBriefly(all, accepted.Usable())
	}
	return j.prover.Within(all, accepted.Usable())
}

// mismatch is a schema of a node that breaks its operation's contract.
type mismatch struct {
	j        *judge
	node     *typing.Node
	template *catalog.Template
	// field is input_schema or output_schema; given is the node's, and want the
	// catalog's, in the place at.
	field       string
	given, want *lint.Schema
	at          diag.Range
	// promise is the place where the node itself says what the operation
	// returns: for engine/pass, its input schema.
	promise diag.Range
}

// refuted reports a counterexample. by is the schema that refuses it, whose reason
// ends the detail.
func (f *mismatch) refuted(res containment.Result, by *schemas.Schema, summary, detail string) {
	cause := schemas.Cause{Message: "it does not fit"}
	var invalid *schemas.Invalid
	if errors.As(by.Validate(res.Witness), &invalid) && len(invalid.Causes) > 0 {
		cause = invalid.Causes[0]
	}
	reason := cause.Message
	if cause.Instance != "" {
		reason = fmt.Sprintf("at `%s` %s", excerpt.Bytes(cause.Instance, 80), reason)
	}
	f.report(diag.Diagnostic{
		Summary: summary, Detail: detail + reason + ".", Witness: witness(res),
		Subject: f.place(cause), Suggestion: f.fix(cause),
	})
}

func (f *mismatch) unknown(res containment.Result, summary, rule string) {
	detail := fmt.Sprintf("%s What stopped the proof: %s. Write that part of the schema more simply, or leave `%s` out, so that the operation's own schema stands.", rule, proof.Stopped(res), f.field)
	f.report(diag.Diagnostic{Summary: summary, Detail: detail, Subject: fields.Head(f.given.At), Suggestion: f.leave()})
}

// never reports that the node accepts no output of the operation.
func (f *mismatch) never() {
	f.report(diag.Diagnostic{
		Summary: fmt.Sprintf("%s refuses every output of %s", fields.Quote(f.node.ID), fields.Quote(f.template.Name())),
		Detail:  "No value satisfies both the node's `output_schema` and what the operation may return, so the node could only fail. A pure or staged node may accept less than its operation returns, but it has to accept something.",
		Subject: fields.OneLine(f.given.At), Suggestion: f.leave(),
	})
}

func (f *mismatch) report(d diag.Diagnostic) {
	d.Code, d.Node = diag.TrustWeaker, f.node.ID
	there := diag.Related{Range: f.at, Label: "what " + fields.Quote(f.template.Name()) + " takes"}
	if f.field == "output_schema" {
		there.Label = "what " + fields.Quote(f.template.Name()) + " may return"
	}
	if f.promise.IsValid() {
		there = diag.Related{Range: f.promise, Label: "what comes back"}
	}
	if there.Range.IsValid() {
		d.Related = append(d.Related, there)
	}
	f.j.Report(d)
}

// leave suggests the operation's own schema, which always fits.
func (f *mismatch) leave() string {
	if f.node.TemplateAt == nil {
		return "template: " + f.template.Name()
	}
	return "leave " + f.field + " out"
}

// place is the part of the node's schema that a cause is about, or the nearest one
// around it that is written there.
func (f *mismatch) place(cause schemas.Cause) diag.Range {
	at := f.given.At
	if port := portOf(cause); port != "" {
		if part := at.Get("properties").Get(port); part != nil {
			return fields.OneLine(part)
		}
	}
	return fields.OneLine(at)
}

// fix is the smallest edit of the node's schema that removes the cause.
func (f *mismatch) fix(cause schemas.Cause) string {
	const short = 100
	given, _ := f.given.Decoded().(map[string]any)
	want := map[string]any{}
	if f.want != nil {
		want, _ = f.want.Decoded().(map[string]any)
	}
	if port := portOf(cause); port != "" {
		properties, _ := want["properties"].(map[string]any)
		if part, has := properties[port]; has {
			if text := fields.Inline(part); len(text) <= short && !strings.Contains(text, "$ref") {
				return fmt.Sprintf("%s: %s", fields.Inline(port), text)
			}
		}
		return f.leave()
	}
	keyword := cause.Keyword[strings.LastIndexByte(cause.Keyword, '/')+1:]
	switch {
	case keyword == "required":
		form, names := "add %s to required", missingNames(want["required"], given["required"])
		if f.field == "output_schema" {
			form, names = "take %s out of required", missingNames(given["required"], want["required"])
		}
		if text := strings.Join(names, ", "); text != "" && len(text) <= short {
			return fmt.Sprintf(form, text)
		}
	case keyword == "additionalProperties" && f.field == "input_schema":
		return "additionalProperties: false"
	case keyword == "additionalProperties":
		return "take additionalProperties out"
	case keyword == "type" && want["type"] != nil:
		return "type: " + fields.Inline(want["type"])
	}
	return f.leave()
}

// portOf is the name in the whole value that a cause is about, or "".
func portOf(cause schemas.Cause) string {
	port, _, _ := strings.Cut(strings.TrimPrefix(cause.Instance, "/"), "/")
	return schemas.Unescape(port)
}

// missingNames lists the words of a that are not in b.
func missingNames(a, b any) []string {
	have, _ := pool.Words(b)
	all, _ := pool.Words(a)
	var out []string
	for _, w := range all {
		if !slices.Contains(have, w) {
			out = append(out, w)
		}
	}
	return out
}

// witness formats a counterexample for people: a very long one is cut.
func witness(res containment.Result) string { return excerpt.Bytes(string(res.JSON), 2000) }
