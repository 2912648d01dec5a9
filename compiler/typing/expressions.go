package typing

import (
	"slices"
	"strings"

	"chimera.ai/engine/diag"
	"chimera.ai/engine/expr"
	"chimera.ai/engine/internal/embedded"
	"chimera.ai/engine/plan"
)

// compileConditions compiles the conditions of a document's edges.
func (check *checker) compileConditions(doc *Document) {
	var all []embedded.Source
	for _, e := range doc.Edges {
		if e.Shaped && e.When != nil && strings.TrimSpace(e.When.Text) != "" {
			when, _ := e.scopes()
			all = append(all, embedded.Source{Text: e.When.Text, Scope: when})
		}
	}
	check.CompilePredicates(all)
}

// typeExpressions compiles the expressions of an edge.
func (check *checker) typeExpressions(e *Edge) {
	when, transform := e.scopes()
	e.Predicate = check.Predicate(e.When, when, "", e.String())
	if e.Predicate != nil && e.Kind == plan.Conditional && e.FromPort == plan.DonePort && e.Predicate.Reads("value") {
		check.Report(diag.Diagnostic{
			Code: diag.TypeExpr, Summary: "`$done` has no value",
			Detail:  "The condition of an edge from `$done` reads `output` (the whole output of the node) and `input` (the plan's).",
			Subject: e.When.Range(), Edge: e.String(), Suggestion: "output",
		})
		e.Predicate = nil
	}
	switch {
	case e.Transform == nil:
	case e.adapter():
		check.findAdapter(e, transform)
	default:
		e.Template = check.Template(e.Transform, transform, "", e.String())
	}
}

// typeNode compiles the expressions of a node.
func (check *checker) typeNode(n *Node) {
	if n.With != nil {
		for i := range n.With.Fields {
			key, val := n.With.Fields[i].Key, n.With.Fields[i].Value
			t := check.Template(val, expr.With, n.ID, "")
			if t == nil {
				n.sound = false
				continue
			}
			n.Fills = append(n.Fills, fill{Port: key.Text, Template: t})
		}
	}
	if v := n.Verify; v != nil {
		if v.With != nil {
			v.Args = check.Template(v.With, expr.Compensate, n.ID, "")
		}
		if v.Executed != nil && strings.TrimSpace(v.Executed.Text) == "" {
			check.Report(diag.Diagnostic{Code: diag.PlanSyntax, Summary: "the expression is empty", Subject: v.Executed.Range(), Node: n.ID})
		}
		v.predicate = check.Predicate(v.Executed, expr.When, n.ID, "")
		if v.Output != nil {
			v.Result = check.Template(v.Output, expr.Transform, n.ID, "")
		}
	}
}

// isNode reports whether a plan of the file has a node of that name, or other
// workflow languages use the name for all nodes.
func (check *checker) isNode(name string) bool {
	return slices.Contains([]string{"nodes", "node", "steps", "outputs"}, name) ||
		slices.ContainsFunc(check.Documents, func(d *Document) bool { _, there := d.Index[name]; return there })
}
