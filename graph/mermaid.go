package graph

import (
	"fmt"
	"strings"

	"chimera.ai/engine/plan"
)

// shapes of Mermaid nodes by class, around a quoted label.
var shapes = map[string][2]string{
	"virtual":      {"([", "])"},
	"pure":         {"[", "]"},
	"staged":       {"(", ")"},
	"committing":   {"{{", "}}"},
	"irreversible": {"[[", "]]"},
}

func mermaid(p *plan.Plan) []byte {
	var b strings.Builder
	b.WriteString("flowchart TD\n")
	for i := range p.Nodes {
		n := &p.Nodes[i]
		class := lookOf(n).class
		lines := nodeLines(n)
		for j := range lines {
			lines[j] = mermaidText(lines[j])
		}
		fmt.Fprintf(&b, "  n%d%s\"%s\"%s:::%s\n", i, shapes[class][0], strings.Join(lines, "<br/>"), shapes[class][1], class)
	}
	links := map[plan.EdgeType][]string{}
	for i := range p.Edges {
		e := &p.Edges[i]
		arrow := "-->"
		if e.Type == plan.Control || e.Type == plan.Conditional {
			arrow = "-.->"
		}
		label := edgeLabel(e)
		if label != "" {
			label = "|\"" + mermaidText(label) + "\"|"
		}
		fmt.Fprintf(&b, "  n%d %s%s n%d\n", e.From, arrow, label, e.To)
		links[e.Type] = append(links[e.Type], fmt.Sprint(i))
	}
	for _, l := range append([]look{virtual}, looksInOrder()...) {
		fmt.Fprintf(&b, "  classDef %s fill:%s,stroke:%s,color:#212121\n", l.class, l.fill, l.stroke)
	}
	for _, t := range []plan.EdgeType{plan.Data, plan.Control, plan.Conditional, plan.Error} {
		if len(links[t]) > 0 {
			fmt.Fprintf(&b, "  linkStyle %s stroke:%s\n", strings.Join(links[t], ","), strokes[t])
		}
	}
	return []byte(b.String())
}

func looksInOrder() []look {
	out := make([]look, len(order))
	for i, c := range order {
		out[i] = looks[c]
	}
	return out
}

// mermaidText writes everything but letters, digits and a few harmless signs as
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
