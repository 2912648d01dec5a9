package graph

import (
	"fmt"
	"strings"

	"chimera.ai/engine/internal/draw"
)

// dotShapes are Graphviz shapes by class.
var dotShapes = map[string]string{
	"virtual": "oval", "pure": "box", "staged": "note", "committing": "hexagon", "irreversible": "octagon",
}

func (d *picture) dot() []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "digraph %s {\n", dotText(draw.Visible(d.p.Name+"@"+d.p.Version, maxName)))
	b.WriteString("  rankdir=TB;\n  fontname=\"Helvetica\";\n  node [style=filled, fontname=\"Helvetica\", fontcolor=\"#212121\"];\n  edge [fontname=\"Helvetica\", fontsize=10];\n")
	inside := make([]bool, len(d.p.Nodes))
	for i := range d.p.Barriers {
		fmt.Fprintf(&b, "  subgraph cluster_b%d {\n    label=%s;\n    style=\"rounded,filled\";\n    fillcolor=\"%s\";\n    color=\"%s\";\n",
			i, dotText(barrierText(&d.p.Barriers[i])), gate.fill, gate.stroke)
		for _, n := range d.p.Barriers[i].Members {
			inside[n] = true
			d.dotNode(&b, "    ", n)
		}
		b.WriteString("  }\n")
	}
	for i := range d.p.Nodes {
		if !inside[i] {
			d.dotNode(&b, "  ", i)
		}
	}
	for i := range d.lines {
		l := &d.lines[i]
		colour := l.style.stroke
		if l.tainted {
			// Two lines beside each other.
			colour += ":" + halo
		}
		fmt.Fprintf(&b, "  n%d -> n%d [style=%s, color=\"%s\"", l.from, l.to, l.style.look, colour)
		if l.label != "" {
			fmt.Fprintf(&b, ", label=%s", dotText(l.label))
		}
		if l.optional {
			b.WriteString(", arrowhead=empty")
		}
		b.WriteString("];\n")
	}
	d.dotLegend(&b)
	b.WriteString("}\n")
	return []byte(b.String())
}

func (d *picture) dotNode(b *strings.Builder, indent string, i int) {
	n := &d.p.Nodes[i]
	l := lookOf(n)
	more := ""
	if n.Undoes > 0 {
		more += ", style=\"filled,dashed\""
	}
	if n.ForEach != nil {
		more += ", peripheries=2"
	}
	fmt.Fprintf(b, "%sn%d [label=%s, shape=%s, fillcolor=\"%s\", color=\"%s\"%s];\n",
		indent, i, dotText(strings.Join(d.texts[i], "\n")), dotShapes[l.class], l.fill, l.stroke, more)
}

// dotLegend shows the classes as nodes, and explains the rest in words.
func (d *picture) dotLegend(b *strings.Builder) {
	b.WriteString("  subgraph cluster_legend {\n    label=\"legend\";\n    color=\"#b0bec5\";\n    fontsize=10;\n    node [fontsize=10];\n")
	classes, undo := d.classes()
	for _, c := range classes {
		l := looks[c]
		fmt.Fprintf(b, "    legend_%s [label=\"%s\", shape=%s, fillcolor=\"%s\", color=\"%s\"];\n", c, c, dotShapes[l.class], l.fill, l.stroke)
	}
	fmt.Fprintf(b, "    legend_lines [label=%s, shape=plaintext, fillcolor=\"#ffffff\"];\n  }\n",
		dotText(strings.Join(d.words(undo, func(s string) string { return s }), "\n")))
}

// dotText returns a quoted string of DOT, in which a line end is escaped as \n.
func dotText(s string) string {
	s = strings.ReplaceAll(s, `\`, `\\`)
	s = strings.ReplaceAll(s, `"`, `\"`)
	return `"` + strings.ReplaceAll(s, "\n", `\n`) + `"`
}
