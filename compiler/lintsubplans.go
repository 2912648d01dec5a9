package compiler

import (
	"fmt"
	"strings"

	"chimera.ai/engine/catalog"
	"chimera.ai/engine/diag"
	"chimera.ai/engine/internal/fields"
)

// reference is how a plan is called: name@version, or "" if either is missing.
func (d *document) reference() string {
	if d.name == nil || d.version == nil {
		return ""
	}
	return d.name.Text + "@" + d.version.Text
}

// lintSubplans checks the other documents of a file: each is called, by its
// name and version, and none calls itself through others.
func (u *unit) lintSubplans() {
	if len(u.docs) == 0 {
		return
	}
	byRef := map[string]int{}
	used := map[int]bool{0: true}
	var refs []string
	for i, doc := range u.docs {
		ref := doc.reference()
		if ref == "" {
			continue
		}
		if first, taken := byRef[ref]; taken {
			u.Report(diag.Diagnostic{
				Code: diag.PlanDuplicateID, Summary: fmt.Sprintf("the file holds a plan %s already", fields.Quote(ref)),
				Subject: doc.name.Range(), Context: u.docs[first].name.Range(),
			})
			used[i] = true
			continue
		}
		byRef[ref] = i
		refs = append(refs, ref)
	}
	calls := &digraph{out: make([][]arc, len(u.docs))}
	at := map[[2]int]*node{}
	for i, doc := range u.docs {
		for _, n := range doc.nodes {
			if n.templateAt != nil {
				// Refused, but it says which plan is meant.
				if ref, ok := strings.CutPrefix(n.templateAt.Text, catalog.PlanProvider+"/"); ok {
					if target, ok := byRef[ref]; ok {
						used[target] = true
					}
				}
			}
			if !n.subplan() || n.operation == "" || n.operationAt == nil {
				continue
			}
			target, ok := byRef[n.operation]
			if !ok {
				if len(u.docs) > 1 {
					u.Report(diag.Diagnostic{
						Code: diag.TrustOperation, Summary: fmt.Sprintf("the file holds no plan %s", fields.Quote(n.operation)),
						Detail:  "A sub-plan is a further document of the same file, called by `name@version`.",
						Subject: n.operationAt.Range(), Node: n.id, Suggestion: u.Near(n.operation, refs),
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
		u.Report(diag.Diagnostic{
			Code: diag.PlanCycle, Summary: fmt.Sprintf("the plan %s calls itself", fields.Quote(u.docs[path[0]].reference())),
			Detail:  "Plans do not recurse. Use a `cycles` policy for a loop.",
			Subject: n.operationAt.Range(), Node: n.id,
		})
	}
	for i, doc := range u.docs {
		if !used[i] && doc.name != nil {
			u.Report(diag.Diagnostic{
				Code: diag.PlanUnreachable, Summary: fmt.Sprintf("no node calls the plan %s", fields.Quote(doc.reference())),
				Detail:  "The first document of a file is the plan, the others are its sub-plans: nodes with `provider_type: skill`, `provider_name: plan` and `operation: name@version` call them.",
				Subject: doc.name.Range(),
			})
		}
	}
}
