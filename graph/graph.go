// Package graph draws a compiled plan as Mermaid, DOT or SVG, or describes it in words.
//
// In every format a node's colour and shape show its effect class, and a line shows
// its kind: data is solid, control is dotted, conditional is dashed and carries its
// condition, error is red; compensation, prechecks and the calls that verify an
// effect have lines of their own. A line that its target does not require is
// lighter, or marked "?". $input and $output are round. Nodes that wait for people
// at one barrier are grouped under its name and the groups that sign; nodes that
// undo an effect have a dashed border. What nobody vouches for (tainted values and
// decisions) has a warning sign, and its lines are highlighted. A legend explains
// what the picture uses.
//
// Names come from plan authors, who are not trusted: every name is escaped for
// its format, bounded, and stripped of invisible characters. The text of a
// picture depends on the plan alone.
package graph

import (
	"errors"
	"fmt"
	"strings"

	"chimera.ai/engine/internal/draw"
	"chimera.ai/engine/plan"
)

// Format is the format of a picture.
type Format string

// The formats.
const (
	Mermaid Format = "mermaid"
	DOT     Format = "dot"
	SVG     Format = "svg"
	Words   Format = "words"
)

// ErrTooLarge reports a plan with more nodes or edges than a picture shows.
var ErrTooLarge = errors.New("the plan is too large to draw")

// Bounds of a picture. Nobody reads a larger one, and drawing it takes memory.
const (
	// MaxNodes and MaxEdges bound all but SVG.
	MaxNodes = 20_000
	MaxEdges = 50_000
	// MaxDrawn bounds the nodes and edges of an SVG, which is laid out here.
	MaxDrawn = 5_000
)

// Render draws p. It returns an error if the format is unknown, if the plan does not
// verify, or, as [ErrTooLarge], if the plan is too large.
func Render(p *plan.Plan, f Format) ([]byte, error) {
	if err := p.Verify(); err != nil {
		return nil, fmt.Errorf("draw plan: %w", err)
	}
	nodes, edges := MaxNodes, MaxEdges
	if f == SVG {
		nodes, edges = MaxDrawn, MaxDrawn
	}
	if len(p.Nodes) > nodes || len(p.Edges) > edges {
		return nil, fmt.Errorf("draw plan: %w: %d nodes and %d edges, at most %d and %d as %s", ErrTooLarge, len(p.Nodes), len(p.Edges), nodes, edges, f)
	}
	switch f {
	case Mermaid:
		return newPicture(p).mermaid(), nil
	case DOT:
		return newPicture(p).dot(), nil
	case SVG:
		return newPicture(p).svg(), nil
	case Words:
		return newPicture(p).inWords(), nil
	}
	return nil, fmt.Errorf("draw plan: unknown format %q", string(f))
}

// look is how the nodes of one class are drawn.
type look struct {
	class        string
	fill, stroke string
}

var (
	virtual = look{"virtual", "#eceff1", "#546e7a"}
	gate    = look{"gate", "#f1f8e9", "#558b2f"}
	looks   = map[plan.EffectClass]look{
		plan.Pure:         {"pure", "#e3f2fd", "#1565c0"},
		plan.Staged:       {"staged", "#fff8e1", "#b28704"},
		plan.Committing:   {"committing", "#ffe0b2", "#d84315"},
		plan.Irreversible: {"irreversible", "#ffcdd2", "#b71c1c"},
	}
	order = []plan.EffectClass{plan.Pure, plan.Staged, plan.Committing, plan.Irreversible}
)

// Longest texts of a picture, in characters.
const (
	maxName  = 48
	maxLabel = 60
)

// warning marks what is tainted.
const warning = "⚠"

// picture holds the parts of a plan that are drawn.
type picture struct {
	p *plan.Plan
	// marks says what is tainted; it is nil if that decides nothing.
	marks *plan.Marks
	lines []line
	// texts are the lines of each node's label.
	texts [][]string
}

func newPicture(p *plan.Plan) *picture {
	d := &picture{p: p, marks: marksOf(p), texts: make([][]string, len(p.Nodes))}
	d.lines = linesOf(p, d.marks)
	visits := map[int]int{}
	for i := range p.Loops {
		visits[p.Loops[i].Header] = p.Loops[i].MaxIterations
	}
	verifies := map[int]string{}
	for i := range p.Nodes {
		if c := p.Nodes[i].Commit; c != nil && c.Verify != nil && verifies[c.Verify.Node] == "" {
			verifies[c.Verify.Node] = p.Nodes[i].ID
		}
	}
	for i := range p.Nodes {
		d.texts[i] = d.nodeLines(i)
		if n := visits[i]; n > 0 {
			d.texts[i] = append(d.texts[i], fmt.Sprintf("loop, at most %d visits", n))
		}
		if p.Nodes[i].Called {
			d.texts[i] = append(d.texts[i], draw.Visible("verifies "+verifies[i], maxName))
		}
	}
	return d
}

// marksOf returns the marks that a picture shows. There are none for a plan without
// effects, for which it does not matter whether anybody vouches for its values.
func marksOf(p *plan.Plan) *plan.Marks {
	for i := range p.Nodes {
		if e := p.Nodes[i].Effect; e != "" && e != plan.Pure {
			return p.Marks
		}
	}
	return nil
}

// nodeLines returns the lines of a node's label that depend on the node alone.
func (d *picture) nodeLines(i int) []string {
	n := &d.p.Nodes[i]
	lines := []string{draw.Visible(n.ID, maxName)}
	if d.tainted(i) {
		lines[0] += " " + warning
	}
	if n.Kind != plan.KindCall {
		return lines
	}
	lines = append(lines, draw.Visible(n.Activity(), maxName))
	var more []string
	if n.Effect != plan.Pure {
		more = append(more, string(n.Effect))
	}
	if n.Mode == plan.Prob {
		more = append(more, "prob")
	}
	if n.Trust == plan.ManualReview {
		more = append(more, "manual review")
	}
	if len(more) > 0 {
		lines = append(lines, strings.Join(more, ", "))
	}
	if f := n.ForEach; f != nil {
		lines = append(lines, draw.Visible(fmt.Sprintf("for each %s, at most %d", f.Port, f.MaxItems), maxName))
	}
	for _, c := range []*plan.Cost{n.Estimate, n.Cost} {
		if c != nil && c.Amount != "" {
			lines = append(lines, draw.Visible("costs "+c.Amount+" "+c.Currency, maxName))
		}
	}
	if n.Undoes > 0 {
		lines = append(lines, draw.Visible("undoes "+d.p.Nodes[n.Undoes].ID, maxName))
	}
	if n.Taint.Any() {
		what := append([]string(nil), n.Taint.Ports...)
		if n.Taint.Decision {
			what = append(what, "decision")
		}
		text := "tainted: " + strings.Join(what, ", ")
		if n.Taint.Accepted {
			text = "accepted, " + text
		}
		lines = append(lines, draw.Visible(text, maxName))
	}
	return lines
}
