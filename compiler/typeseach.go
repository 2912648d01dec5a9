package compiler

import (
	"fmt"

	"chimera.ai/engine/internal/fields"

	"chimera.ai/engine/containment"
	"chimera.ai/engine/diag"
	"chimera.ai/engine/plan"
)

// takesLists refuses edges that cannot be meant where one of their ends is a node
// with for_each: its list enters a port of its own, and what its calls give is a
// list only where each of them gives something.
func (u *unit) takesLists(from, to *typedNode, e *typedEdge) bool {
	if to.forEach != nil && to.forEach.port != nil && e.toPort == plan.WholePort {
		port := to.forEach.port.Text
		u.Report(diag.Diagnostic{
			Code: diag.PlanPortConflict, Summary: fmt.Sprintf("an edge into `$` of %s, which has `for_each`", fields.Quote(to.id)),
			Detail:  fmt.Sprintf("The list enters the port %s, one element for each call; other ports get the same value in each.", fields.Quote(port)),
			Subject: e.toRange(), Context: to.forEach.at.Range(), Node: to.id, Edge: e.String(), Suggestion: port,
		})
		return false
	}
	if from.forEach != nil && e.kind != plan.Error && !e.required && !u.has(from, e.fromPort) {
		u.Report(diag.Diagnostic{
			Code: diag.TypeMissingInput, Summary: fmt.Sprintf("%s has no list, since a call may leave it out", fields.Quote(e.fromNode+"."+e.fromPort)),
			Detail:  fmt.Sprintf("The calls of a node with `for_each` give one list for each port that its output schema requires, and the list of all outputs as `$`. Require %s there, or take `$`.", fields.Quote(e.fromPort)),
			Subject: e.fromRange(), Node: from.id, Edge: e.String(), Suggestion: fmt.Sprintf("add `%s` to `required` of `%s`", e.fromPort, from.id),
		})
		return false
	}
	return true
}

// fitsItems proves that a list is not longer than for_each lets it be.
func (u *unit) fitsItems(doc *typedDocument, e *typedEdge) bool {
	to := doc.nodes[e.to]
	most := to.most()
	if most < 0 || e.check != nil {
		return true
	}
	limit := u.prover.List(u.prover.Whole, most)
	r := u.prover.Within(e.brings, limit)
	if r.Verdict == containment.Proved {
		return true
	}
	u.Report(diag.Diagnostic{
		Code:    diag.TypeNotContained,
		Summary: fmt.Sprintf("the list of %s may be longer than `for_each` of %s allows", fields.Quote(e.fromNode+"."+e.fromPort), fields.Quote(to.id)),
		Detail:  fmt.Sprintf("A list of more than %d elements fails the node. Bound it in the schema of the source, or let the run check it with `check: runtime`.", most),
		Subject: e.toRange(), Context: e.fromRange(), Edge: e.String(), Node: to.id, Suggestion: fmt.Sprintf("maxItems: %d", most),
	})
	return false
}
