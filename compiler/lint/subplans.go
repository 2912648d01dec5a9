package lint

import (
	"fmt"
	"strings"

	"chimera.ai/engine/catalog"
	"chimera.ai/engine/diag"
	"chimera.ai/engine/internal/fields"
)

// Reference is name@version, by which a node calls the plan, or "" if either is
// missing.
func (d *Document) Reference() string {
	if d.Name == nil || d.Version == nil {
		return ""
	}
	return d.Name.Text + "@" + d.Version.Text
}

// lintSubplans checks that every other document of the file is called, and that
// none calls itself, directly or through others.
func (l *linter) lintSubplans() {
	if len(l.Documents) == 0 {
		return
	}
	byRef := map[string]int{}
	used := map[int]bool{0: true}
	var refs []string
	for i, doc := range l.Documents {
		ref := doc.Reference()
		if ref == "" {
			continue
		}
		if first, taken := byRef[ref]; taken {
			l.Report(diag.Diagnostic{
				Code: diag.PlanDuplicateID, Summary: fmt.Sprintf("the file holds a plan %s already", fields.Quote(ref)),
				Subject: doc.Name.Range(), Context: l.Documents[first].Name.Range(),
			})
			used[i] = true
			continue
		}
		byRef[ref] = i
		refs = append(refs, ref)
	}
	calls := &digraph{out: make([][]arc, len(l.Documents))}
	at := map[[2]int]*Node{}
	for i, doc := range l.Documents {
		for _, n := range doc.Nodes {
			if n.TemplateAt != nil {
				// The call is refused, but shows which plan is meant.
				if ref, ok := strings.CutPrefix(n.TemplateAt.Text, catalog.PlanProvider+"/"); ok {
					if target, ok := byRef[ref]; ok {
						used[target] = true
					}
				}
			}
			if !n.Subplan() || n.Operation == "" || n.OperationAt == nil {
				continue
			}
			target, ok := byRef[n.Operation]
			if !ok {
				if len(l.Documents) > 1 {
					meant := l.Near(n.Operation, refs)
					l.Report(diag.Diagnostic{
						Code: diag.TrustOperation, Summary: fmt.Sprintf("the file holds no plan %s", fields.Quote(n.Operation)),
						Detail:  "A sub-plan is a further document of the same file, called by `name@version`.",
						Subject: n.OperationAt.Range(), Node: n.ID, Suggestion: meant, Edits: l.Replace(n.OperationAt.Range(), meant),
					})
				}
				continue
			}
			used[target] = true
			if at[[2]int{i, target}] == nil {
				at[[2]int{i, target}] = n
				calls.out[i] = append(calls.out[i], arc{target, -1})
			}
		}
	}
	for _, comp := range calls.components(func(int) bool { return true }) {
		path, _ := calls.round(comp)
		n := at[[2]int{path[len(path)-1], path[0]}]
		l.Report(diag.Diagnostic{
			Code: diag.PlanCycle, Summary: fmt.Sprintf("the plan %s calls itself", fields.Quote(l.Documents[path[0]].Reference())),
			Detail: "Plans do not recurse. Use a `cycles` policy for a loop.", Subject: n.OperationAt.Range(), Node: n.ID,
		})
	}
	for i, doc := range l.Documents {
		if !used[i] && doc.Name != nil {
			l.Report(diag.Diagnostic{
				Code: diag.PlanUnreachable, Summary: fmt.Sprintf("no node calls the plan %s", fields.Quote(doc.Reference())),
				Detail:  "The first document of a file is the plan, the others are its sub-plans: nodes with `provider_type: skill`, `provider_name: plan` and `operation: name@version` call them.",
				Subject: doc.Name.Range(),
			})
		}
	}
}
