package compiler

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"chimera.ai/engine/containment"
	"chimera.ai/engine/diag"
	"chimera.ai/engine/internal/fields"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/schemas"
)

// typeEdges types every edge of a document, one after the other. When no more
// findings are listed, nothing more is looked for.
func (u *unit) typeEdges(doc *typedDocument) {
	for _, e := range doc.edges {
		switch {
		case !e.sound:
		case u.Full:
			e.failed = true
		default:
			u.typeEdge(doc, e)
		}
	}
}

// typeEdge proves that the condition of an edge is one, and that what the edge
// brings fits the port that it enters.
func (u *unit) typeEdge(doc *typedDocument, e *typedEdge) {
	from, to := doc.nodes[e.from], doc.nodes[e.to]
	if from.torn || to.torn {
		e.failed = true
		return
	}
	before, ok := u.before(doc, e)
	if !ok {
		e.failed = true
		return
	}
	switch {
	case e.predicate != nil:
		// A condition that fails fails its source, which is too late for an effect.
		lenient := e.check != nil && !from.lasting()
		e.condition, e.failed = u.checkPredicate(e.when, e.predicate, before, lenient, "", e.String())
		if !e.failed && len(doc.edges) <= maxWarned && !u.deferred(doc, e) {
			u.never(e, before)
		}
	case e.kind == plan.Conditional && e.when == nil && !e.otherwise:
		u.typeCondition(from, e, before.value)
	}
	if e.when != nil && e.predicate == nil {
		// What the condition would have ruled out is not known.
		e.failed = true
	}
	if !e.carries() || e.failed {
		return
	}
	if !u.takesLists(from, to, e) {
		e.failed = true
		return
	}
	target := u.wants(to, e.toPort)
	if target == nil {
		e.failed = true
		return
	}
	brought, _ := u.brought(doc, e)
	e.brings = brought.value
	if e.transform != nil {
		if e.adapter() {
			e.brings = u.typeAdapter(doc, e, brought)
		} else {
			e.brings = u.typeTransform(e, brought)
		}
		if e.brings == nil {
			e.failed = true
			return
		}
		if e.template.Constant() {
			e.failed = !u.constantFits(to, e.toPort, e.template, e.transform.Range(), e.String())
			return
		}
	}
	e.failed = !u.fits(doc, e, brought, target)
	if !e.failed && to.splits(e.toPort) {
		e.failed = !u.fitsItems(doc, e)
	}
}

// maxWarned is the largest number of edges of a plan whose conditions are looked at
// for a warning: it takes a proof each, which would be a fifth of the time of a plan
// with thousands of them.
const maxWarned = 2_000

// never warns of a condition that no value of the source makes true. That can be
// meant, but mostly it is a slip, such as a text that stands in no enum.
func (u *unit) never(e *typedEdge, before sight) {
	left := u.narrow(e.predicate, before, true)
	for _, n := range names {
		was, is := *n.of(&before), *n.of(&left)
		if was == is || !e.predicate.Reads(n.name) || containment.Nonempty(is) || !u.prover.Holds(is, schemas.False()) || u.prover.Holds(was, schemas.False()) {
			continue
		}
		u.Report(diag.Diagnostic{
			Code: diag.TypePredicate, Severity: diag.Warning, Summary: "the condition never holds",
			Detail:  fmt.Sprintf("No %s that the schema allows makes it true, so the edge is never delivered. The schema is %s.", fields.Quote(n.name), describe(was)),
			Subject: e.when.Range(), Edge: e.String(),
		})
		return
	}
}

// typeTransform checks the transform of an edge, keeps it with its conversions
// written out, and gives what it makes; nil if that is not known.
func (u *unit) typeTransform(e *typedEdge, s sight) *schemas.Schema {
	if e.template == nil {
		return nil
	}
	lenient := e.check != nil && e.fromPort != plan.CompensatePort
	t, result, ok := u.checkTemplate(e.transform, e.template, s, lenient, "", e.String())
	e.template = t
	if !ok {
		return nil
	}
	return result
}

// fits proves that what an edge brings is contained in what its target takes,
// and reports it where it is not.
func (u *unit) fits(doc *typedDocument, e *typedEdge, s sight, target *schemas.Schema) bool {
	if u.prover.Anything(target) {
		return true
	}
	r := u.prover.Within(e.brings, target)
	if r.Verdict == containment.Proved {
		return true
	}
	d := diag.Diagnostic{
		Subject: e.toRange(), Label: "takes " + brief(target), Edge: e.String(),
		Related: []diag.Related{{Range: e.fromRange(), Label: "gives " + brief(e.brings)}},
	}
	if e.transform != nil {
		d.Related = []diag.Related{{Range: e.transform.Range(), Label: "gives " + brief(e.brings)}}
	}
	source, port := fields.Quote(e.fromNode+"."+e.fromPort), fields.Quote(e.toNode+"."+e.toPort)
	if e.check != nil {
		if !u.prover.Disjoint(e.brings, target) {
			return true
		}
		d.Code = diag.TypeNotContained
		d.Summary = fmt.Sprintf("no value of %s can ever fit %s", source, port)
		d.Detail = "`check: runtime` leaves it to the run whether a value fits, and none of them does." + u.instance(r, target)
		d.Witness = shown(r.Witness)
		u.Report(d)
		return false
	}
	if r.Verdict == containment.Unknown {
		u.unproved(d, "it is not proved that every value of "+source+" fits "+port, r, "")
		return false
	}
	from, to := doc.nodes[e.from], doc.nodes[e.to]
	m := mend{
		u: u, source: e.brings, target: target, template: e.template,
		sourceName: e.fromNode + "." + e.fromPort, targetName: e.toNode + "." + e.toPort,
		sourceOpen: e.kind != plan.Error && from.output.at != nil, targetOpen: to.input.at != nil, root: to.input.Decoded(),
		inputOpen: true, sight: s,
		derive: func(in *schemas.Schema) *schemas.Schema { return u.taken(to, in, e.toPort) },
	}
	if e.transform == nil {
		d.Code = diag.TypeNotContained
		d.Summary = fmt.Sprintf("a value of %s does not fit %s", source, port)
		d.Detail = "The source may give the counterexample. " + u.refusal(r.Witness, target, port)
		d.Witness = shown(r.Witness)
		d.Suggestion = m.propose(r.Witness)
		u.Report(d)
		return false
	}
	// What is known of a transform may be more than it can give, so a value of
	// the source is searched that really comes out wrong.
	before, after, found := u.search(doc, e, s, r.Witness, target)
	if !found {
		u.unproved(d, "it is not proved that what the transform gives fits "+port,
			r, fmt.Sprintf("The transform is known to give %s, which would allow %s. %s %s",
				describe(e.brings), fields.Quote(shown(r.Witness)), u.refusal(r.Witness, target, port), u.unfound("value of the source")))
		return false
	}
	d.Code = diag.TypeNotContained
	d.Summary = fmt.Sprintf("what the transform of %s gives does not fit %s", source, port)
	d.Detail = "A value of the source comes out as the counterexample. " + u.refusal(after, target, port)
	d.Witness, d.Before = shown(after), shown(before)
	d.Suggestion = m.propose(after)
	u.Report(d)
	return false
}

// unproved reports that something is neither proved nor refuted.
func (u *unit) unproved(d diag.Diagnostic, summary string, r containment.Result, detail string) {
	d.Code, d.Summary, d.Suggestion = diag.TypeUnknown, summary, "check: runtime"
	if detail == "" {
		detail = "What stopped the proof: " + stopped(r) + "."
	}
	d.Detail = detail + " `check: runtime` on the edge leaves it to the run."
	u.Report(d)
}

// refusal says why a schema refuses a value, in the validator's words.
func (u *unit) refusal(v any, s *schemas.Schema, name string) string {
	cause, ok := causeOf(v, s)
	if !ok {
		return ""
	}
	text := name + " refuses it"
	if cause.Instance != "" {
		text += " at " + fields.Quote(cause.Instance)
	}
	text += ": " + cause.Message
	if keyword := keywordOf(cause); keyword != "" {
		text += " (`" + keyword + "`)"
	}
	return fields.Sentence(text)
}

func (u *unit) instance(r containment.Result, target *schemas.Schema) string {
	if r.Verdict != containment.Refuted {
		return ""
	}
	return " " + u.refusal(r.Witness, target, "for one, the target")
}

// causeOf gives the first reason why a schema refuses a value.
func causeOf(v any, s *schemas.Schema) (schemas.Cause, bool) {
	var invalid *schemas.Invalid
	if err := s.Validate(v); !errors.As(err, &invalid) || len(invalid.Causes) == 0 {
		return schemas.Cause{}, false
	}
	return invalid.Causes[0], true
}

// keywordOf is the keyword that a cause is about. Of one that has an entry for
// each name, the entry stands behind it.
func keywordOf(c schemas.Cause) string {
	path := strings.Split(c.Keyword, "/")
	for back := 2; back <= 3 && back < len(path); back++ {
		switch word := path[len(path)-back]; word {
		case "dependentRequired", "dependencies":
			return word
		}
	}
	return path[len(path)-1]
}

// shown writes a counterexample.
func shown(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		return ""
	}
	return fields.Clip(string(raw), 400)
}

// describe says in short what a schema takes.
func describe(s *schemas.Schema) string { return "`" + fields.Clip(s.Describe(), 240) + "`" }

// brief is what describe gives, for a label.
func brief(s *schemas.Schema) string {
	if text := s.Describe(); text != "true" {
		return fields.Clip(text, 80)
	}
	return "anything"
}

// typeCondition proves that a value that is itself the condition is a boolean.
func (u *unit) typeCondition(from *typedNode, e *typedEdge, value *schemas.Schema) {
	if value == nil {
		return
	}
	boolean := u.prover.Typed("boolean")
	r := u.prover.Within(value, boolean)
	if r.Verdict == containment.Proved || e.check != nil && !u.prover.Disjoint(value, boolean) {
		return
	}
	e.failed = true
	d := diag.Diagnostic{
		Code: diag.TypePredicate, Summary: fmt.Sprintf("the value of %s is not a boolean", fields.Quote(e.fromNode+"."+e.fromPort)),
		Detail:  "A conditional edge without `when` takes the value itself as its condition. Give a condition over `value`.",
		Subject: e.fromRange(), Edge: e.String(), Node: from.id,
	}
	switch {
	case r.Verdict == containment.Refuted:
		d.Witness = shown(r.Witness)
		if !u.prover.Disjoint(value, boolean) {
			d.Summary = fmt.Sprintf("the value of %s is not always a boolean", fields.Quote(e.fromNode+"."+e.fromPort))
			d.Suggestion = "when: value == true"
		}
	default:
		d.Summary = fmt.Sprintf("it is not proved that %s is a boolean", fields.Quote(e.fromNode+"."+e.fromPort))
		d.Suggestion = "when: value == true"
		d.Detail += " What stopped the proof: " + stopped(r) + "."
	}
	u.Report(d)
}
