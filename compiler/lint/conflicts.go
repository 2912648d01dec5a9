package lint

import (
	"fmt"

	"chimera.ai/engine/diag"
	"chimera.ai/engine/internal/fields"
	"chimera.ai/engine/plan"
)

// lintConflicts refuses edges that exclude each other: two required ones into one
// port, and one into `$` beside any other.
func (l *linter) lintConflicts(doc *Document) {
	for i, n := range doc.Nodes {
		required := map[string]*Edge{}
		var whole, part *Edge
		for _, at := range doc.In[i] {
			e := doc.Edges[at]
			if !e.Carries() {
				continue
			}
			if e.ToPort == plan.WholePort {
				whole = e
			} else {
				part = e
			}
			if !e.Required {
				continue
			}
			if first := required[e.ToPort]; first != nil {
				l.Report(diag.Diagnostic{
					Code: diag.PlanPortConflict, Summary: fmt.Sprintf("two required edges into port %s of %s", fields.Quote(e.ToPort), fields.Quote(n.ID)),
					Detail:  "A port takes one value. Alternatives are edges with `required: false`: the first delivered one in the order of the file is taken.",
					Subject: e.ToRange(), Context: first.ToRange(), Node: n.ID, Edge: e.String(), Suggestion: "required: false", Edits: l.Set(e.At, "required", false),
				})
				continue
			}
			required[e.ToPort] = e
		}
		if whole != nil && part != nil {
			l.Report(diag.Diagnostic{
				Code: diag.PlanPortConflict, Summary: fmt.Sprintf("an edge into `$` of %s beside one into %s", fields.Quote(n.ID), fields.Quote(part.ToPort)),
				Detail:  "`$` is the whole input, so nothing else can fill a part of it.",
				Subject: whole.ToRange(), Context: part.ToRange(), Node: n.ID, Edge: whole.String(),
			})
		}
		if n.With == nil || (whole == nil && part == nil) {
			continue
		}
		if hasWhole := n.WithPort(plan.WholePort) != nil; hasWhole && part != nil {
			l.Report(diag.Diagnostic{
				Code: diag.PlanPortConflict, Summary: fmt.Sprintf("`with` gives `$` of %s, and an edge fills %s", fields.Quote(n.ID), fields.Quote(part.ToPort)),
				Detail:  "`$` is the whole input, so nothing else can fill a part of it.",
				Subject: fields.KeyOf(n.With, plan.WholePort), Context: part.ToRange(), Node: n.ID, Edge: part.String(),
			})
		} else if !hasWhole && whole != nil && len(n.With.Fields) > 0 {
			l.Report(diag.Diagnostic{
				Code: diag.PlanPortConflict, Summary: fmt.Sprintf("an edge into `$` of %s beside `with`", fields.Quote(n.ID)),
				Detail:  "`$` is the whole input, so nothing else can fill a part of it.",
				Subject: whole.ToRange(), Context: n.With.Fields[0].Key.Range(), Node: n.ID, Edge: whole.String(),
			})
		}
	}
}
