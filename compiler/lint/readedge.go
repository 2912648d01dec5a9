package lint

import (
	"slices"

	"chimera.ai/engine/diag"
	"chimera.ai/engine/internal/fields"
	"chimera.ai/engine/internal/syntax"
	"chimera.ai/engine/plan"
)

// readEdge reads one entry of the list of edges in any of its forms. It returns nil if it is
// none.
func (l *linter) readEdge(doc *Document, v *syntax.Value) []*Edge {
	switch {
	case v.Kind == syntax.String:
		return l.readArrow(v, &Edge{At: v, Form: FormArrow, From: -1, To: -1, Shaped: true})
	case v.Get("edge") != nil, v.Kind == syntax.Map && v.Get("from_node") == nil && slices.ContainsFunc(v.Fields, func(f syntax.Field) bool { return syntax.Slip(f.Key.Text, "edge") }):
		return l.readArrowMap(v)
	}
	if v.Kind != syntax.Map {
		l.Report(diag.Diagnostic{
			Code: diag.PlanSchema, Summary: "an edge is a map or a short form such as `a.x -> b.y`, not " + fields.KindOf(v),
			Subject: v.Range(),
		})
		return nil
	}
	if l.foreignEdge(doc, v) {
		return nil
	}
	r := l.Read(v, edgeFields, "")
	e := &Edge{At: v, From: -1, To: -1, Shaped: r.Complete}
	text := func(name string, into *string, at *diag.Range) {
		if x := r.Get(name); x != nil {
			*into, *at = x.Text, x.Range()
		}
	}
	text("from_node", &e.FromNode, &e.fromNodeAt)
	text("from_port", &e.FromPort, &e.FromPortAt)
	text("to_node", &e.ToNode, &e.toNodeAt)
	text("to_port", &e.ToPort, &e.ToPortAt)
	if x := r.Get("edge_type"); x != nil {
		e.kindAt = x.Range()
		e.Kind = plan.EdgeType(l.Word(x, "edge_type", edgeTypes))
		e.Shaped = e.Shaped && e.Kind != ""
	}
	if x := r.Get("required"); x != nil {
		e.Required, e.RequiredAt = x.Text == "true", x.Range()
	}
	l.readEdgeOptions(e, r)
	return []*Edge{e}
}
