package typing

import (
	"fmt"

	"chimera.ai/engine/diag"
	"chimera.ai/engine/internal/fields"
	"chimera.ai/engine/plan"
)

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

// fitsItems proves that a list is no longer than for_each allows.
func (check *checker) fitsItems(to *Node, e *Edge) bool {
	most := to.most()
	if most < 0 || e.Check != nil || check.prover.Holds(e.brings, check.prover.List(check.prover.Whole, most)) {
		return true
	}
	check.Report(diag.Diagnostic{
		Code:    diag.TypeNotContained,
		Summary: fmt.Sprintf("the list of %s may be longer than `for_each` of %s allows", fields.Quote(e.FromNode+"."+e.FromPort), fields.Quote(to.ID)),
		Detail:  fmt.Sprintf("A list of more than %d elements fails the node. Bound it in the schema of the source, or let the run check it with `check: runtime`.", most),
		Subject: e.ToRange(), Context: e.FromRange(), Edge: e.String(), Node: to.ID, Suggestion: fmt.Sprintf("maxItems: %d", most),
	})
	return false
}
