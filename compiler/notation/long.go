package notation

import (
	"fmt"

	"chimera.ai/engine/catalog"
	"chimera.ai/engine/compiler/lint"
	"chimera.ai/engine/diag"
	"chimera.ai/engine/internal/syntax"
	"chimera.ai/engine/plan"
)

// Expand returns the plans of a file in their long notation, with comments that say of what
// short form an edge is part. follow asks for schemas that follow from the plan even if it has no
// short form. The text is nil if the file cannot be read, and the diagnostics say why; they warn
// where comments are lost.
func Expand(src diag.Source, cat *catalog.Catalog, follow bool) ([]byte, diag.Diagnostics, error) {
	g, ds := read(src, cat, follow)
	if g == nil {
		return nil, ds, nil
	}
	docs := longs(g)
	want := meaning(docs)
	e := &editor{text: src.Text}
	for i, doc := range g.Documents {
		e.expand(doc, docs[i])
	}
	if text, ds := rewritten(src, g, cat, want, e.result(), docs); text != nil {
		return text, ds, nil
	}
	return nil, nil, beyond(src, emit(docs, src.Text), cat)
}

// entry is a field of a map.
func entry(at *syntax.Value, key string, v *syntax.Value) syntax.Field {
	return syntax.Field{Key: at.TextAs(key), Value: v}
}

// long returns the long notation of a plan.
func long(doc *lint.Document) *syntax.Value {
	var out []syntax.Field
	var edges []*syntax.Value
	for _, e := range doc.Edges {
		edges = append(edges, longEdge(e))
	}
	wrote := false
	for _, f := range doc.At.Fields {
		switch f.Key.Text {
		case "output":
			continue
		case "nodes":
			var nodes []*syntax.Value
			for _, n := range doc.Nodes {
				if n.Kind == plan.KindCall && (n.Written() || n.Made) {
					nodes = append(nodes, longNode(n))
				}
			}
			out = append(out, syntax.Field{Key: f.Key, Value: f.Value.ListAs(nodes)})
			continue
		case "edges":
			f.Value, wrote = f.Value.ListAs(edges), true
		}
		out = append(out, f)
	}
	if !wrote && len(edges) > 0 {
		out = append(out, entry(doc.At, "edges", doc.At.ListAs(edges)))
	}
	return doc.At.MapAs(out)
}

// longEdge returns an edge as a map of its six fields and of what else it has.
func longEdge(e *lint.Edge) *syntax.Value {
	if e.Form == lint.FormLong {
		return e.At
	}
	at := e.At
	out := []syntax.Field{
		entry(at, "from_node", at.TextAs(e.FromNode)), entry(at, "from_port", at.TextAs(e.FromPort)),
		entry(at, "to_node", at.TextAs(e.ToNode)), entry(at, "to_port", at.TextAs(e.ToPort)),
		entry(at, "edge_type", at.TextAs(string(e.Kind))), entry(at, "required", at.ScalarAs(syntax.Bool, fmt.Sprint(e.Required))),
	}
	switch {
	case e.When != nil:
		out = append(out, entry(at, "when", e.When))
	case e.Otherwise:
		out = append(out, entry(at, "when", at.TextAs("otherwise")))
	}
	if e.Transform != nil {
		out = append(out, entry(at, "transform", e.Transform))
	}
	if e.Check != nil {
		out = append(out, entry(at, "check", e.Check))
	}
	return at.MapAs(out)
}

// longNode returns a node without its short forms.
func longNode(n *lint.Node) *syntax.Value {
	if n.Made {
		at := n.At
		out := []syntax.Field{entry(at, "id", at.TextAs(n.ID)), entry(at, "template", at.TextAs(catalog.OperationName(catalog.EngineProvider, "pass")))}
		return at.MapAs(append(out, schemasOf(n)...))
	}
	var out []syntax.Field
	for _, f := range n.At.Fields {
		if v, keep := longField(n, f); keep {
			out = append(out, syntax.Field{Key: f.Key, Value: v})
		}
	}
	return n.At.MapAs(append(out, schemasOf(n)...))
}

// longField returns a field of a node in the long notation, and whether it remains.
func longField(n *lint.Node, f syntax.Field) (v *syntax.Value, keep bool) {
	switch f.Key.Text {
	case "after", "when", "otherwise_of":
		return nil, false
	case "with":
		return n.With, n.With != nil
	case "commit_policy":
		if n.Commit != nil && n.Commit.Undo != nil {
			var rest []syntax.Field
			for _, g := range f.Value.Fields {
				if g.Key.Text != "rollback" {
					rest = append(rest, g)
				}
			}
			return f.Value.MapAs(rest), true
		}
	}
	return f.Value, true
}

// schemasOf returns the schemas of a node that follow from the plan.
func schemasOf(n *lint.Node) (out []syntax.Field) {
	if !n.Followed {
		return nil
	}
	for _, f := range []struct {
		name string
		c    *lint.Schema
	}{{"input_schema", n.Input}, {"output_schema", n.Output}} {
		if n.At.Get(f.name) == nil && f.c != nil {
			out = append(out, entry(n.At, f.name, n.At.AnyAs(written(f.c))))
		}
	}
	return out
}

// written returns a schema as a plan writes it, without the definitions of the plan.
func written(c *lint.Schema) any {
	v := c.Decoded()
	if m, is := v.(map[string]any); is && len(c.Uses) > 0 {
		delete(m, "defs")
	}
	return v
}
