package graph

import (
	"fmt"
	"strings"
)

// shapes of Mermaid nodes by class, around a quoted label.
var shapes = map[string][2]string{
	"virtual":      {"([", "])"},
	"pure":         {"[", "]"},
	"staged":       {"(", ")"},
	"committing":   {"{{", "}}"},
	"irreversible": {"[[", "]]"},
}

func (d *picture) mermaid() []byte {
	var b strings.Builder
	b.WriteString("flowchart TD\n")
	inside := make([]bool, len(d.p.Nodes))
	for i := range d.p.Barriers {
		fmt.Fprintf(&b, "  subgraph b%d[\"%s\"]\n", i, mermaidText(barrierText(&d.p.Barriers[i])))
		for _, n := range d.p.Barriers[i].Members {
			inside[n] = true
			d.mermaidNode(&b, "    ", n)
		}
		b.WriteString("  end\n")
	}
	for i := range d.p.Nodes {
		if !inside[i] {
			d.mermaidNode(&b, "  ", i)
		}
	}
	links := map[*style][]string{}
	var tainted []string
	for i := range d.lines {
		l := &d.lines[i]
		label := l.label
		if label != "" {
			label = "|\"" + mermaidText(label) + "\"|"
		}
		fmt.Fprintf(&b, "  n%d %s%s n%d\n", l.from, l.style.arrow, label, l.to)
		links[l.style] = append(links[l.style], fmt.Sprint(i))
		if l.tainted {
			tainted = append(tainted, fmt.Sprint(i))
		}
	}
	d.mermaidLegend(&b)
	for _, l := range append([]look{virtual}, looksInOrder()...) {
		fmt.Fprintf(&b, "  classDef %s fill:%s,stroke:%s,color:#212121\n", l.class, l.fill, l.stroke)
	}
	var undo []string
	for i := range d.p.Nodes {
		if d.p.Nodes[i].Undoes > 0 {
			undo = append(undo, fmt.Sprintf("n%d", i))
		}
	}
	if len(undo) > 0 {
		fmt.Fprintf(&b, "  classDef undo stroke-dasharray:6 4\n  class %s undo\n", strings.Join(undo, ","))
	}
	for i := range d.p.Barriers {
		fmt.Fprintf(&b, "  style b%d fill:%s,stroke:%s,color:#212121\n", i, gate.fill, gate.stroke)
	}
	for _, s := range styles {
		if len(links[s]) > 0 {
			fmt.Fprintf(&b, "  linkStyle %s stroke:%s\n", strings.Join(links[s], ","), s.stroke)
		}
	}
	if len(tainted) > 0 {
		fmt.Fprintf(&b, "  linkStyle %s stroke:%s,stroke-width:4px\n", strings.Join(tainted, ","), halo)
	}
	return []byte(b.String())
}

func (d *picture) mermaidNode(b *strings.Builder, indent string, i int) {
	class := lookOf(&d.p.Nodes[i]).class
	lines := make([]string, len(d.texts[i]))
	for j, s := range d.texts[i] {
		lines[j] = mermaidText(s)
	}
	fmt.Fprintf(b, "%sn%d%s\"%s\"%s:::%s\n", indent, i, shapes[class][0], strings.Join(lines, "<br/>"), shapes[class][1], class)
}

// mermaidLegend shows the classes as nodes, and explains the rest in words, since Mermaid
// would count links of a legend among those of the plan.
func (d *picture) mermaidLegend(b *strings.Builder) {
	b.WriteString("  subgraph legend\n")
	classes, undo := d.classes()
	for _, c := range classes {
		fmt.Fprintf(b, "    legend_%s%s\"%s\"%s:::%s\n", c, shapes[string(c)][0], c, shapes[string(c)][1], c)
	}
	fmt.Fprintf(b, "    legend_lines[\"%s\"]:::virtual\n  end\n", strings.Join(d.words(undo, mermaidText), "<br/>"))
}

func looksInOrder() []look {
	out := make([]look, len(order))
	for i, c := range order {
		out[i] = looks[c]
	}
	return out
}

// mermaidText replaces everything but letters, digits and a few harmless signs by
// Mermaid's character codes, so that no name can end a label or start markup.
func mermaidText(s string) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', strings.ContainsRune(" _-./$?=", r):
			b.WriteRune(r)
		default:
			fmt.Fprintf(&b, "#%d;", r)
		}
	}
	return b.String()
}
