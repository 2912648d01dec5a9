package compiler

import (
	"fmt"

	"chimera.ai/engine/diag"
	"chimera.ai/engine/internal/fields"
	"chimera.ai/engine/plan"
)

// lintConflicts refuses payloads that exclude each other: two required edges
// into one port, and `$` beside anything else.
func (u *unit) lintConflicts(doc *document) {
	for i, n := range doc.nodes {
		required := map[string]*edge{}
		var whole, part *edge
		for _, at := range doc.in[i] {
			e := doc.edges[at]
			if !e.carries() {
				continue
			}
			if e.toPort == plan.WholePort {
				whole = e
			} else {
				part = e
			}
			if !e.required {
				continue
			}
			if first := required[e.toPort]; first != nil {
				u.Report(diag.Diagnostic{
					Code: diag.PlanPortConflict, Summary: fmt.Sprintf("two required edges into port %s of %s", fields.Quote(e.toPort), fields.Quote(n.id)),
					Detail:  "A port takes one value. Alternatives are edges with `required: false`: the first delivered one in the order of the file is taken.",
					Subject: e.toRange(), Context: first.toRange(), Node: n.id, Edge: e.String(), Suggestion: "required: false",
				})
				continue
			}
			required[e.toPort] = e
		}
		if whole != nil && part != nil {
			u.Report(diag.Diagnostic{
				Code: diag.PlanPortConflict, Summary: fmt.Sprintf("an edge into `$` of %s beside one into %s", fields.Quote(n.id), fields.Quote(part.toPort)),
				Detail:  "`$` is the whole input, so nothing else can fill a part of it.",
				Subject: whole.toRange(), Context: part.toRange(), Node: n.id, Edge: whole.String(),
			})
		}
		if n.with == nil || (whole == nil && part == nil) {
			continue
		}
		if hasWhole := n.withPort(plan.WholePort) != nil; hasWhole && part != nil {
			u.Report(diag.Diagnostic{
				Code: diag.PlanPortConflict, Summary: fmt.Sprintf("`with` gives `$` of %s, and an edge fills %s", fields.Quote(n.id), fields.Quote(part.toPort)),
				Detail:  "`$` is the whole input, so nothing else can fill a part of it.",
				Subject: fields.KeyOf(n.with, plan.WholePort), Context: part.toRange(), Node: n.id, Edge: part.String(),
			})
		} else if !hasWhole && whole != nil && len(n.with.Fields) > 0 {
			u.Report(diag.Diagnostic{
				Code: diag.PlanPortConflict, Summary: fmt.Sprintf("an edge into `$` of %s beside `with`", fields.Quote(n.id)),
				Detail:  "`$` is the whole input, so nothing else can fill a part of it.",
				Subject: whole.toRange(), Context: n.with.Fields[0].Key.Range(), Node: n.id, Edge: whole.String(),
			})
		}
	}
}
