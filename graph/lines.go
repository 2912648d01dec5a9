package graph

import (
	"strings"

	"chimera.ai/engine/internal/draw"
	"chimera.ai/engine/plan"
)

// style is how lines of one kind are drawn.
type style struct {
	// name is what the legend calls it.
	name, stroke string
	// dash is the pattern of SVG, look the style of Graphviz and arrow the link of
	// Mermaid.
	dash, look, arrow string
	width             float64
}

// The kinds of lines.
var (
	data         = &style{"data", "#37474f", "", "solid", "-->", 1.2}
	control      = &style{"control", "#78909c", "2 4", "dotted", "-.->", 1.2}
	conditional  = &style{"conditional", "#6a1b9a", "7 4", "dashed", "-.->", 1.2}
	failure      = &style{"error", "#c62828", "", "bold", "-->", 2}
	compensation = &style{"compensation", "#ad1457", "10 3 2 3", "dashed", "-.->", 2}
	precheck     = &style{"precheck", "#00796b", "2 3", "dotted", "-.->", 1.6}
	verify       = &style{"verify", "#5d4037", "1 3", "dotted", "-.->", 1.2}

	styles = []*style{data, control, conditional, failure, compensation, precheck, verify}
)

// halo is the colour under lines that carry or decide something tainted.
const halo = "#ffb300"

// line is one arrow: an edge, or the call of a node that verifies an effect.
type line struct {
	from, to int
	style    *style
	// label is drawn beside the line, title is shown when the pointer is over it.
	label, title string
	// condition distinguishes lines of one kind between two nodes.
	condition string
	optional  bool
	tainted   bool
}

// linesOf lists the arrows of a plan: its edges in their order, then the calls.
func linesOf(p *plan.Plan, marks *plan.Marks) []line {
	lines := make([]line, 0, len(p.Edges))
	for i := range p.Edges {
		e := &p.Edges[i]
		l := line{
			from: e.From, to: e.To, style: styleOf(e), label: edgeLabel(e), title: draw.Visible(p.EdgeString(i), 4*maxName),
			condition: e.When, optional: !e.Required,
		}
		if e.Otherwise {
			l.condition = "otherwise"
		}
		if marks != nil {
			l.tainted = marks.Edges[i].Value || marks.Edges[i].Decision
		}
		if l.tainted {
			l.label = strings.TrimSpace(l.label + " " + warning)
		}
		lines = append(lines, l)
	}
	for i := range p.Nodes {
		if c := p.Nodes[i].Commit; c != nil && c.Verify != nil {
			lines = append(lines, line{
				from: i, to: c.Verify.Node, style: verify, label: verify.name,
				title: draw.Visible(p.Nodes[c.Verify.Node].ID+" verifies "+p.Nodes[i].ID, 4*maxName),
			})
		}
	}
	return lines
}

func styleOf(e *plan.Edge) *style {
	switch {
	case e.Implicit:
		return precheck
	case e.FromPort == plan.CompensatePort:
		return compensation
	}
	switch e.Type {
	case plan.Control:
		return control
	case plan.Conditional:
		return conditional
	case plan.Error:
		return failure
	case plan.Data:
	}
	return data
}

// edgeLabel returns the label of an edge: its ports, if they are informative, and its
// condition.
func edgeLabel(e *plan.Edge) string {
	var parts []string
	switch {
	case e.Implicit:
		return precheck.name
	case e.Type == plan.Error && (e.ToPort == plan.StartPort || e.ToPort == plan.WholePort):
		parts = append(parts, e.FromPort)
	case e.FromPort == plan.DonePort && e.ToPort == plan.StartPort:
	case e.FromPort == e.ToPort:
		parts = append(parts, e.FromPort)
	case e.ToPort == plan.StartPort:
		parts = append(parts, e.FromPort)
	default:
		parts = append(parts, e.FromPort+" → "+e.ToPort)
	}
	switch {
	case e.Otherwise:
		parts = append(parts, "[otherwise]")
	case e.When != "":
		parts = append(parts, "["+e.When+"]")
	}
	if !e.Required {
		parts = append(parts, "?")
	}
	return draw.Visible(strings.Join(parts, " "), maxLabel)
}

// used lists the styles of a picture's lines, in the order of the legend, and
// whether one is tainted.
func (d *picture) used() (out []*style, tainted bool) {
	seen := map[*style]bool{}
	for i := range d.lines {
		seen[d.lines[i].style] = true
		tainted = tainted || d.lines[i].tainted
	}
	for _, s := range styles {
		if seen[s] {
			out = append(out, s)
		}
	}
	for i := range d.p.Nodes {
		tainted = tainted || d.tainted(i)
	}
	return out, tainted
}

// classes returns the effect classes of a picture, from harmless to irreversible, and
// whether a node undoes an effect.
func (d *picture) classes() (out []plan.EffectClass, undo bool) {
	seen := map[plan.EffectClass]bool{}
	for i := range d.p.Nodes {
		seen[d.p.Nodes[i].Effect] = true
		undo = undo || d.p.Nodes[i].Undoes > 0
	}
	for _, c := range order {
		if seen[c] {
			out = append(out, c)
		}
	}
	return out, undo
}
