package graph

import (
	"fmt"
	"strings"

	"chimera.ai/engine/plan"
)

// dotShapes are Graphviz shapes by class.
var dotShapes = map[string]string{
	"virtual": "oval", "pure": "box", "staged": "note", "committing": "hexagon", "irreversible": "octagon",
}

// dotStyles are Graphviz line styles by edge type.
var dotStyles = map[plan.EdgeType]string{
	plan.Data: "solid", plan.Control: "dotted", plan.Conditional: "dashed", plan.Error: "bold",
}

func dot(p *plan.Plan) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "digraph %s {\n", dotText(visible(p.Name+"@"+p.Version, maxName)))
	b.WriteString("  rankdir=TB;\n  node [style=filled, fontname=\"Helvetica\", fontcolor=\"#212121\"];\n  edge [fontname=\"Helvetica\", fontsize=10];\n")
	for i := range p.Nodes {
		n := &p.Nodes[i]
		l := lookOf(n)
		fmt.Fprintf(&b, "  n%d [label=%s, shape=%s, fillcolor=\"%s\", color=\"%s\"];\n", i, dotText(strings.Join(nodeLines(n), "\n")), dotShapes[l.class], l.fill, l.stroke)
	}
	for i := range p.Edges {
		e := &p.Edges[i]
		fmt.Fprintf(&b, "  n%d -> n%d [style=%s, color=\"%s\"", e.From, e.To, dotStyles[e.Type], strokes[e.Type])
		if label := edgeLabel(e); label != "" {
			fmt.Fprintf(&b, ", label=%s", dotText(label))
		}
		if !e.Required {
			b.WriteString(", arrowhead=empty")
		}
		b.WriteString("];\n")
	}
	b.WriteString("}\n")
	return []byte(b.String())
}

// dotText writes a quoted string of DOT; a line end becomes its escape \n.
func dotText(s string) string {
	s = strings.ReplaceAll(s, `\`, `\\`)
	s = strings.ReplaceAll(s, `"`, `\"`)
	return `"` + strings.ReplaceAll(s, "\n", `\n`) + `"`
}
