package typing

import (
	"fmt"
	"slices"
	"strings"

	"chimera.ai/engine/compiler/lint"
	"chimera.ai/engine/containment"
	"chimera.ai/engine/diag"
	"chimera.ai/engine/internal/fields"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/schemas"
)

// typeWith checks that the entries of `with` fit the ports of a node.
func (check *checker) typeWith(doc *Document, n *Node) {
	s := scope{input: doc.input.Usable()}
	known := s.input != nil && n.Input.Usable() != nil
	for i := range n.Fills {
		f := &n.Fills[i]
		f.failed = !known || !check.typeFill(n, f, s)
	}
}

// typeFill checks that an entry of `with` fits its port.
func (check *checker) typeFill(n *Node, f *fill, s scope) bool {
	v := n.With.Get(f.Port)
	var ok bool
	if f.Template, f.brings, ok = check.checkTemplate(v, f.Template, s, false, n.ID, ""); !ok {
		return false
	}
	if f.Template.Constant() {
		return check.constantFits(n, f.Port, f.Template, v.Range(), "")
	}
	target := check.wants(n, f.Port)
	r := check.prover.Within(f.brings, target)
	if r.Verdict == containment.Proved {
		return check.fitsItems(n, f.Port, f.brings, "that `with` gives", "the plan's input", diag.Diagnostic{Subject: v.Range()})
	}
	port := fields.Quote(n.ID + "." + f.Port)
	d := diag.Diagnostic{
		Code: diag.TypeUnknown, Summary: "it is not proved that what `with` gives fits " + port,
		Detail: stopped(r), Subject: v.Range(), Node: n.ID,
	}
	if r.Verdict == containment.Refuted {
		if before, after, found := check.searchInput(f.Template, s, r.Witness, target); found {
			d.Code = diag.TypeNotContained
			d.Summary = "what `with` gives does not fit " + port
			d.Detail = "For some input of the plan it gives the counterexample. " + refusal(after, target, port)
			d.Witness, d.Before = shown(after), shown(before)
			p := proposal{
				check: check, source: f.brings, target: target, template: f.Template, inputOpen: true, targetName: n.ID + "." + f.Port,
				targetOpen: n.Input.At != nil, root: n.Input.Decoded(), scope: s,
				derive: func(in *schemas.Schema) *schemas.Schema { return check.taken(n, in, f.Port) },
			}
			d.Suggestion = p.propose(after)
			check.Report(d)
			return false
		}
		d.Detail = fmt.Sprintf("The expression is known to give %s, which would allow %s. %s", describe(f.brings), fields.Quote(shown(r.Witness)), refusal(r.Witness, target, port))
	}
	d.Detail += " An edge from `$input` with that transform and `check: runtime` leaves it to the run."
	check.Report(d)
	return false
}

// missingInputs reports required ports that nothing can ever fill, and required
// edges from ports that may be absent.
func (check *checker) missingInputs(doc *Document) {
	doubtful := doc.doubtful()
	for _, e := range doc.Edges {
		if e.Sound && e.Required {
			check.certainSource(doc, e)
		}
	}
	for i, n := range doc.Nodes {
		if n.Input == nil || doubtful[i] || doc.Doubtful[n.ID] || n.Called || n.Input.Faulty {
			continue
		}
		for _, p := range doc.Needs(i) {
			if doc.fills(i, p) {
				continue
			}
			d := diag.Diagnostic{
				Code: diag.TypeMissingInput, Summary: fmt.Sprintf("nothing fills the required port %s of %s", fields.Quote(p), fields.Quote(n.ID)),
				Detail:  "No edge enters it and `with` does not give it, so the node could never run.",
				Subject: n.Key, Context: n.Input.requirement(p), Node: n.ID, Suggestion: "with: {" + p + ": …}", Edits: check.Set(n.At, "with", map[string]any{p: "…"}),
			}
			if n.With != nil {
				d.Edits = check.Set(n.With, p, "…")
			}
			switch {
			case n.Kind == plan.KindOutput:
				d.Detail, d.Suggestion, d.Edits = "No edge enters it, so no run could succeed.", "", nil
				if d.Subject = n.Input.requirement(p); !d.Subject.IsValid() {
					d.Subject = fields.Head(doc.At)
				}
				d.Context = diag.Range{}
			case p == plan.WholePort:
				d.Detail = "Its input schema takes no object, so only an edge into `$`, or `$` in `with`, can fill it."
				d.Suggestion, d.Edits = "", nil
			}
			check.Report(d)
		}
	}
}

func (check *checker) certainSource(doc *Document, e *Edge) {
	from := doc.Nodes[e.From]
	if e.Kind == plan.Error || e.FromPort == plan.DonePort || from.Output == nil || check.has(from, e.FromPort) {
		return
	}
	d := diag.Diagnostic{
		Code: diag.TypeMissingInput, Summary: fmt.Sprintf("the edge is required, and %s may be absent", fields.Quote(e.FromNode+"."+e.FromPort)),
		Detail:  fmt.Sprintf("The output schema of %s does not require %s. Require it there, take the whole output from `$` with a transform such as `${value.?%s}`, or let the edge be skipped.", fields.Quote(from.ID), fields.Quote(e.FromPort), e.FromPort),
		Subject: e.FromRange(), Node: e.ToNode, Edge: e.String(),
	}
	d.Suggestion, d.Edits = e.Option(check.Reader, "required", false)
	if e.Reference != "" {
		d.Detail = fmt.Sprintf("The output schema of %s does not require %s, so `%s` may be absent. Say what to take then, or require it there.", fields.Quote(from.ID), fields.Quote(e.FromPort), e.Reference)
	}
	if e.RequiredAt.IsValid() {
		d.Subject, d.Context = e.RequiredAt, e.FromRange()
	}
	ports := from.Output.Ports()
	if ports.Requires(e.FromPort) && !ports.Object {
		d.Detail = fmt.Sprintf("The output schema of %s lists %s as required, and does not say that the output is an object.", fields.Quote(from.ID), fields.Quote(e.FromPort))
		d.Suggestion, d.Edits = "type: object", check.Set(from.Output.At, "type", "object")
	}
	check.Report(d)
}

// assembled is the question whether a node's input schema follows from those of its
// ports.
type assembled struct {
	input          *schemas.Schema
	ports, certain string
	some           bool
}

// typeInputs proves the input of every node that is sound.
func (check *checker) typeInputs(doc *Document) {
	doubtful := doc.doubtful()
	for i, n := range doc.Nodes {
		if !check.Full && !doubtful[i] && n.Kind != plan.KindInput && (n.sound || n.Kind == plan.KindOutput) {
			check.typeInput(doc, i)
		}
	}
}

// typeInput proves that the values of a node's ports together fit its input schema,
// if that asks for more than the ports do one by one.
func (check *checker) typeInput(doc *Document, i int) {
	n := doc.Nodes[i]
	in := n.Input.Usable()
	if in == nil || n.Called {
		return
	}
	a, ok := check.assemble(doc, i)
	if !ok || slices.Contains(a.ports, plan.WholePort) || n.Input.Lists(a.ports, a.certain) {
		return
	}
	key := assembled{in, strings.Join(a.ports, "\x00"), strings.Join(a.certain, "\x00"), a.some}
	follows, known := check.inputs[key]
	if !known {
		taken := map[string]*schemas.Schema{}
		for _, p := range a.ports {
			taken[p] = check.prover.Property(in, p)
		}
		follows = check.prover.Holds(check.object(&a, taken), in)
		check.inputs[key] = follows
	}
	if follows {
		return
	}
	object := check.object(&a, a.types)
	r := check.prover.Within(object, in)
	v, fixed := a.fixed(n)
	if fixed {
		// There is only one value, which the validator decides about.
		r = containment.Result{Verdict: containment.Proved}
		if _, refused := causeOf(v, in); refused {
			r = containment.Result{Verdict: containment.Refuted, Witness: v}
		}
	}
	if r.Verdict == containment.Proved || a.checked && !check.prover.Disjoint(object, in) {
		return
	}
	var before map[string]any
	if !fixed && !a.exact {
		if r, before = check.together(doc, i, &a, in, r); r.Verdict == containment.Proved {
			return
		}
	}
	name := "the input of " + fields.Quote(n.ID)
	d := diag.Diagnostic{Subject: n.Key, Node: n.ID}
	if n.Kind == plan.KindOutput {
		name = "the output of the plan"
		d.Subject = fields.Head(doc.At)
	}
	if n.Input.At != nil {
		d.Context = fields.Head(n.Input.At)
		if n.Kind == plan.KindOutput {
			d.Subject, d.Context = d.Context, diag.Range{}
		}
	}
	var fed []string
	for _, e := range a.edges {
		fed = append(fed, e.String())
	}
	for _, f := range n.Fills {
		fed = append(fed, "with."+f.Port)
	}
	from := " Nothing fills any port of it."
	if len(fed) > 0 {
		from = " " + lint.Listing("It is made by ", fed)
	}
	switch {
	case r.Verdict == containment.Refuted && a.checked:
		d.Code = diag.TypeNotContained
		d.Summary = "nothing that arrives can ever fit " + name
	case r.Verdict == containment.Refuted && a.exact:
		d.Code = diag.TypeNotContained
		d.Summary = "what arrives together does not fit " + name
	default:
		d.Code = diag.TypeUnknown
		d.Summary = "it is not proved that what arrives together fits " + name
		if len(a.edges) > 0 {
			d.Suggestion = "check: runtime"
		}
	}
	d.Detail = "Each value fits its port; the schema asks for more of all of them together."
	if before != nil {
		d.Before = shown(before)
		d.Detail = "The counterexample is what the sources give, and what arrives of it. " + d.Detail
	}
	if r.Verdict == containment.Refuted {
		d.Witness = shown(r.Witness)
		d.Detail += " " + refusal(r.Witness, in, name)
	}
	if r.Verdict == containment.Unknown || r.Reason != "" {
		d.Detail += " " + stopped(r)
	}
	if d.Code == diag.TypeNotContained {
		p := proposal{check: check, source: object, target: in, targetName: n.ID, targetOpen: n.Input.At != nil, root: n.Input.Decoded()}
		d.Suggestion = p.propose(r.Witness)
	}
	d.Detail += from
	check.Report(d)
}
