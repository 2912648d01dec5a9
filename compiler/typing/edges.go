package typing

import (
	"fmt"
	"slices"
	"strings"

	"chimera.ai/engine/compiler/lint"
	"chimera.ai/engine/containment"
	"chimera.ai/engine/contract"
	"chimera.ai/engine/diag"
	"chimera.ai/engine/internal/fields"
	"chimera.ai/engine/internal/syntax"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/schemas"
)

// typeEdges types every edge of a document. It stops once no further findings would
// be listed.
func (check *checker) typeEdges(doc *Document) {
	for _, e := range doc.Edges {
		if e.Sound {
			e.failed = check.Full || !check.typeEdge(doc, e)
		}
	}
}

// typeEdge proves that the condition of an edge is a boolean, and that what the
// edge brings fits the port it enters. It reports whether no part of it was refused.
func (check *checker) typeEdge(doc *Document, e *Edge) bool {
	from, to := doc.Nodes[e.From], doc.Nodes[e.To]
	if from.PortsUnknown || to.PortsUnknown {
		return false
	}
	before, ok := check.before(doc, e)
	if !ok {
		return false
	}
	switch {
	case e.Predicate != nil:
		// A failing condition fails its source, which is too late if that had an effect.
		lenient := e.Check != nil && !from.Lasting()
		var refused bool
		e.Condition, refused = check.checkPredicate(e.When, e.Predicate, before, lenient, "", e.String())
		if refused {
			return false
		}
		if len(doc.Edges) <= maxWarned && !check.deferred(doc, e) {
			if !check.kinds(doc, e) {
				check.never(e, before)
			}
		}
	case e.When != nil:
		return false // it is not known what the condition rules out
	case e.Kind == plan.Conditional && !e.Otherwise && !check.typeCondition(e, before.value):
		return false
	}
	if !e.Carries() {
		return true
	}
	if !check.takesLists(from, to, e) {
		return false
	}
	target := check.wants(to, e.ToPort)
	if target == nil {
		return false
	}
	brought, _ := check.brought(doc, e)
	e.brings = brought.value
	if e.Transform != nil {
		if e.adapter() {
			e.brings = check.typeAdapter(doc, e, brought)
		} else {
			e.brings = check.typeTransform(e, brought)
		}
		if e.brings == nil {
			return false
		}
		if e.Template.Constant() {
			return check.constantFits(to, e.ToPort, e.Template, e.Transform.Range(), e.String())
		}
	}
	if !check.fits(doc, e, brought, target) {
		return false
	}
	return e.Check != nil || check.fitsItems(to, e.ToPort, e.brings, "of "+e.Source(),
		"the source, or let the run check it with `check: runtime`", diag.Diagnostic{Subject: e.ToRange(), Context: e.FromRange(), Edge: e.String()})
}

// maxWarned is the largest number of edges in a plan whose conditions are examined
// for warnings. Each takes a proof, together a fifth of the time for a plan with
// thousands of them.
const maxWarned = 2_000

// kindWords are what other systems call kinds of failure.
var kindWords = map[string]string{
	"refused": string(contract.Rejected), "denied": string(contract.Rejected), "forbidden": string(contract.Rejected), "policy": string(contract.Rejected), "disapproved": string(contract.Rejected),
	"timed_out": string(contract.Timeout), "deadline": string(contract.Timeout), "network": string(contract.Transport), "connection": string(contract.Transport),
	"rate_limit": string(contract.Throttled), "ratelimit": string(contract.Throttled), "unauthorized": string(contract.Auth), "not_found": string(contract.ToolError), "error": string(contract.ToolError),
}

// kinds warns about kinds of failure in a condition that do not exist, or that the edge does not
// bring. It reports whether the condition names no others.
func (check *checker) kinds(doc *Document, e *Edge) (none bool) {
	if e.FromPort != plan.ErrorPort {
		return false
	}
	named, ok := e.Predicate.OneOf("error", "kind")
	if !ok {
		return false
	}
	none = len(named) > 0
	var all []string
	for _, k := range contract.Kinds() {
		all = append(all, string(k))
	}
	for _, name := range named {
		d := diag.Diagnostic{
			Code: diag.TypePredicate, Severity: diag.Warning, Summary: "no failure has the kind " + fields.Quote(name),
			Detail: "The condition names it; where it names no other, the edge is never delivered.", Subject: e.When.Range(), Edge: e.String(), Suggestion: syntax.Nearest(name, all),
		}
		if d.Suggestion == "" {
			d.Suggestion = kindWords[strings.ToLower(name)]
			d.Detail += " " + lint.Listing("There are ", all)
		}
		if slices.Contains(all, name) {
			if name != string(contract.OutcomeUnknown) || check.handled(doc, e.From) == check.failures() {
				none = false
				continue
			}
			d.Summary, d.Suggestion = "the edge brings no failure of the kind "+fields.Quote(name), ""
			d.Detail = fmt.Sprintf("It is handled only once the effect has been undone, which takes a `%s` edge.", plan.CompensatePort)
		}
		check.Report(d)
	}
	return none
}

// never warns about a condition that no value of the source makes true. Usually
// that is a slip, such as a string that is in no enum.
func (check *checker) never(e *Edge, before scope) {
	left := check.narrow(e.Predicate, before, true)
	for _, n := range names {
		was, is := *n.of(&before), *n.of(&left)
		if was == is || !e.Predicate.Reads(n.name) || containment.Nonempty(is) || !check.prover.Holds(is, schemas.False()) || check.prover.Holds(was, schemas.False()) {
			continue
		}
		then := "the edge is never delivered"
		if e.Form == lint.FormWhen {
			then = "the node never runs"
		}
		why := fmt.Sprintf("No %s that the schema allows makes it true, so %s. The schema is %s.", fields.Quote(lint.Authored(e.When, n.name)), then, describe(was))
		if e.Hidden {
			why = fmt.Sprintf("Nothing that the schemas of what it reads allow makes it true, so %s.", then)
		}
		check.Report(diag.Diagnostic{
			Code: diag.TypePredicate, Severity: diag.Warning, Summary: "the condition never holds", Detail: why,
			Subject: e.When.Range(), Edge: e.String(),
		})
		return
	}
}

// typeTransform checks the transform of an edge, stores it with conversions written
// out, and returns the schema of its results, or nil if it is not known.
func (check *checker) typeTransform(e *Edge, s scope) *schemas.Schema {
	if e.Template == nil {
		return nil
	}
	lenient := e.Check != nil && e.FromPort != plan.CompensatePort
	t, result, ok := check.checkTemplate(e.Transform, e.Template, s, lenient, "", e.String())
	e.Template = t
	if !ok {
		return nil
	}
	return result
}

// fits proves that the target of an edge accepts every value the edge brings, or
// reports why not.
func (check *checker) fits(doc *Document, e *Edge, s scope, target *schemas.Schema) bool {
	if check.prover.Anything(target) {
		return true
	}
	r := check.prover.Within(e.brings, target)
	if r.Verdict == containment.Proved {
		return true
	}
	gives := e.FromRange()
	if e.Transform != nil {
		gives = e.Transform.Range()
	}
	d := diag.Diagnostic{
		Subject: e.ToRange(), Label: "takes " + brief(target), Edge: e.String(),
		Related: []diag.Related{{Range: gives, Label: "gives " + brief(e.brings)}},
	}
	source, port := e.Source(), fields.Quote(e.ToNode+"."+e.ToPort)
	if e.Check != nil {
		if !check.prover.Disjoint(e.brings, target) {
			return true
		}
		d.Code = diag.TypeNotContained
		d.Summary = fmt.Sprintf("no value of %s can ever fit %s", source, port)
		d.Detail = "`check: runtime` leaves it to the run whether a value fits, and none of them does."
		if r.Verdict == containment.Refuted {
			d.Detail += " " + refusal(r.Witness, target, "for one, the target")
			d.Witness = shown(r.Witness)
		}
		check.Report(d)
		return false
	}
	if r.Verdict == containment.Unknown {
		check.unproved(e, d, "it is not proved that every value of "+source+" fits "+port, stopped(r))
		return false
	}
	from, to := doc.Nodes[e.From], doc.Nodes[e.To]
	p := proposal{
		check: check, source: e.brings, target: target, template: e.Template,
		sourceName: e.FromNode + "." + e.FromPort, targetName: e.ToNode + "." + e.ToPort,
		sourceOpen: e.Kind != plan.Error && from.Output.At != nil, targetOpen: to.Input.At != nil, root: to.Input.Decoded(),
		inputOpen: true, scope: s, reference: e.Reference != "" && e.ToPort == plan.WholePort,
		derive: func(in *schemas.Schema) *schemas.Schema { return check.taken(to, in, e.ToPort) },
	}
	witness := r.Witness
	d.Code = diag.TypeNotContained
	d.Summary = fmt.Sprintf("a value of %s does not fit %s", source, port)
	d.Detail = "The source may give the counterexample. "
	if e.Transform != nil {
		// The schema inferred for a transform may allow more than the transform
		// returns, so search for a value of the source whose result does not fit.
		before, after, found := check.search(doc, e, s, r.Witness, target)
		if !found {
			check.unproved(e, d, "it is not proved that what the transform gives fits "+port,
				fmt.Sprintf("The transform is known to give %s, which would allow %s. %s %s",
					describe(e.brings), fields.Quote(shown(r.Witness)), refusal(r.Witness, target, port), check.unfound("value of the source")))
			return false
		}
		witness, d.Before = after, shown(before)
		d.Summary = fmt.Sprintf("what the transform of %s gives does not fit %s", source, port)
		if e.Form == lint.FormWith || e.Form == lint.FormOutput {
			d.Summary = fmt.Sprintf("what the entry gives does not fit %s", port)
		}
		d.Detail = "A value of the source comes out as the counterexample. "
	}
	d.Detail += refusal(witness, target, port)
	d.Witness = shown(witness)
	p.suggest(&d, witness, e, from.Output.of(e.FromPort))
	if e.FromPort == plan.ErrorPort && e.Transform == nil && check.prover.Holds(check.prover.Typed("string"), target) {
		d.Suggestion, d.Edits = e.Option(check.Reader, "transform", "${error.message}")
	}
	check.Report(d)
	return false
}

// unproved reports that it is neither proved nor refuted that the target of an edge
// accepts every value.
func (check *checker) unproved(e *Edge, d diag.Diagnostic, summary, detail string) {
	d.Code, d.Summary = diag.TypeUnknown, summary
	d.Detail = detail + " `check: runtime` on the edge leaves it to the run."
	d.Suggestion, d.Edits = e.Option(check.Reader, "check", "runtime")
	check.Report(d)
}

// typeCondition proves that a value that serves as the condition is a boolean, or
// reports why not.
func (check *checker) typeCondition(e *Edge, value *schemas.Schema) bool {
	if value == nil {
		return true
	}
	boolean := check.prover.Typed("boolean")
	r := check.prover.Within(value, boolean)
	if r.Verdict == containment.Proved || e.Check != nil && !check.prover.Disjoint(value, boolean) {
		return true
	}
	source := e.Source()
	d := diag.Diagnostic{
		Code: diag.TypePredicate, Summary: fmt.Sprintf("the value of %s is not always a boolean", source),
		Detail:  "A conditional edge without `when` takes the value itself as its condition. Give a condition over `value`.",
		Subject: e.FromRange(), Edge: e.String(), Node: e.FromNode,
	}
	d.Suggestion, d.Edits = e.Option(check.Reader, "when", "value == true")
	if e.Form == lint.FormWhen {
		d.Summary = fmt.Sprintf("%s is not always true or false", fields.Quote(e.Reference))
		d.Detail = "A condition is true or false: compare the value with another."
	}
	switch {
	case r.Verdict == containment.Unknown:
		d.Summary = fmt.Sprintf("it is not proved that %s is a boolean", source)
		d.Detail += " " + stopped(r)
	case check.prover.Disjoint(value, boolean):
		d.Summary = fmt.Sprintf("the value of %s is not a boolean", source)
		d.Suggestion, d.Edits = "", nil
	}
	if r.Verdict == containment.Refuted {
		d.Witness = shown(r.Witness)
	}
	check.Report(d)
	return false
}

// takesLists refuses edges that make no sense at a node with for_each: its list
// enters the port that for_each names, and its outputs form a list only if every
// call has one.
func (check *checker) takesLists(from, to *Node, e *Edge) bool {
	if to.ForEach != nil && to.ForEach.Port != nil && e.ToPort == plan.WholePort {
		port := to.ForEach.Port.Text
		check.Report(diag.Diagnostic{
			Code: diag.PlanPortConflict, Summary: fmt.Sprintf("an edge into `$` of %s, which has `for_each`", fields.Quote(to.ID)),
			Detail:  fmt.Sprintf("The list enters the port %s, one element for each call; other ports get the same value in each.", fields.Quote(port)),
			Subject: e.ToRange(), Context: to.ForEach.At.Range(), Node: to.ID, Edge: e.String(), Suggestion: port, Edits: check.Replace(e.ToPortAt, port),
		})
		return false
	}
	if from.ForEach != nil && e.Kind != plan.Error && !e.Required && !check.has(from, e.FromPort) {
		check.Report(diag.Diagnostic{
			Code: diag.TypeMissingInput, Summary: fmt.Sprintf("%s has no list, since a call may leave it out", fields.Quote(e.FromNode+"."+e.FromPort)),
			Detail:  fmt.Sprintf("The calls of a node with `for_each` give one list for each port that its output schema requires, and the list of all outputs as `$`. Require %s there, or take `$`.", fields.Quote(e.FromPort)),
			Subject: e.FromRange(), Node: from.ID, Edge: e.String(), Suggestion: fmt.Sprintf("add `%s` to `required` of `%s`", e.FromPort, from.ID),
		})
		return false
	}
	return true
}
