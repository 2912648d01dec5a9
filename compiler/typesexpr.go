package compiler

import (
	"fmt"
	"slices"
	"strings"

	"chimera.ai/engine/diag"
	"chimera.ai/engine/expr"
	"chimera.ai/engine/internal/embedded"
	"chimera.ai/engine/internal/fields"
	"chimera.ai/engine/plan"
)

// scopes are what the expressions of an edge may read.
func (e *typedEdge) scopes() (when, transform expr.Scope) {
	switch {
	case e.kind != plan.Error:
		return expr.When, expr.Transform
	case e.fromPort == plan.CompensatePort:
		return expr.ErrorWhen, expr.Compensate
	}
	return expr.ErrorWhen, expr.ErrorTransform
}

// compileConditions compiles the conditions of a document's edges.
func (u *unit) compileConditions(doc *typedDocument) {
	var all []embedded.Source
	for _, e := range doc.edges {
		if e.shaped && e.when != nil && strings.TrimSpace(e.when.Text) != "" {
			when, _ := e.scopes()
			all = append(all, embedded.Source{Text: e.when.Text, Scope: when})
		}
	}
	u.CompilePredicates(all)
}

// typeExpressions compiles the expressions of an edge.
func (u *unit) typeExpressions(e *typedEdge) {
	when, transform := e.scopes()
	e.predicate = u.Predicate(e.when, when, "", e.String())
	if e.predicate != nil && e.kind == plan.Conditional && e.fromPort == plan.DonePort && e.predicate.Reads("value") {
		u.Report(diag.Diagnostic{
			Code: diag.TypeExpr, Summary: "`$done` has no value",
			Detail:  "The condition of an edge from `$done` reads `output` (the whole output of the node) and `input` (the plan's).",
			Subject: e.when.Range(), Edge: e.String(), Suggestion: "output",
		})
		e.predicate = nil
	}
	switch {
	case e.transform == nil:
		return
	case e.adapter():
		u.findAdapter(e, transform)
		return
	}
	e.template = u.Template(e.transform, transform, "", e.String())
}

// typeNode compiles the expressions of a node, and checks constants that fill
// its ports.
func (u *unit) typeNode(n *typedNode) {
	if n.with != nil {
		for i := range n.with.Fields {
			key, val := n.with.Fields[i].Key, n.with.Fields[i].Value
			t := u.Template(val, expr.With, n.id, "")
			if t == nil {
				n.sound = false
				continue
			}
			n.fills = append(n.fills, fill{port: key.Text, template: t})
		}
	}
	if v := n.verify; v != nil {
		if v.with != nil {
			v.args = u.Template(v.with, expr.Compensate, n.id, "")
		}
		if v.executed != nil && strings.TrimSpace(v.executed.Text) == "" {
			u.Report(diag.Diagnostic{Code: diag.PlanSyntax, Summary: "the expression is empty", Subject: v.executed.Range(), Node: n.id})
		}
		v.predicate = u.Predicate(v.executed, expr.When, n.id, "")
		if v.output != nil {
			v.result = u.Template(v.output, expr.Transform, n.id, "")
		}
	}
}

// constantFits validates a constant against the port that it fills.
func (u *unit) constantFits(n *typedNode, name string, t *embedded.Template, at diag.Range, edge string) bool {
	s := u.wants(n, name)
	if s == nil {
		return true
	}
	err := s.Validate(t.Value)
	if list, ok := t.Value.([]any); err == nil && ok && n.splits(name) && n.most() >= 0 && len(list) > n.most() {
		err = fmt.Errorf("it has %d elements, and for_each takes at most %d", len(list), n.most())
	}
	if err == nil {
		return true
	}
	u.Report(diag.Diagnostic{
		Code: diag.TypeNotContained, Summary: fmt.Sprintf("the constant does not fit the port %s of %s", fields.Quote(name), fields.Quote(n.id)),
		Detail: fields.Sentence(err.Error()), Subject: at, Node: n.id, Edge: edge, Witness: fields.Clip(string(t.Raw), 400),
	})
	return false
}

// isNode reports whether a plan of the file has a node of that name, or the name
// is what other languages of workflows have for all nodes.
func (u *unit) isNode(name string) bool {
	return slices.Contains([]string{"nodes", "node", "steps", "outputs"}, name) ||
		slices.ContainsFunc(u.typed, func(d *typedDocument) bool { _, there := d.index[name]; return there })
}
