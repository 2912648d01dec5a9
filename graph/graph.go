// Package graph draws a compiled plan as Mermaid, DOT or SVG.
//
// In every format a node's colour and shape say its effect class, and an edge's
// line its type: data is solid, control is dotted, conditional is dashed and
// carries its condition, error is red. An edge that its target does not require
// is lighter, or marked "?". $input and $output are round.
//
// Names come from plan authors, who are not trusted: every name is escaped for
// its format, bounded, and stripped of what cannot be seen. The text of a
// picture depends on the plan alone.
package graph

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"chimera.ai/engine/plan"
)

// Format is a way to write a picture.
type Format string

// The formats.
const (
	Mermaid Format = "mermaid"
	DOT     Format = "dot"
	SVG     Format = "svg"
)

// Formats lists the formats, the default first.
func Formats() []Format { return []Format{Mermaid, DOT, SVG} }

// ErrTooLarge says that a plan has more nodes or edges than a picture shows.
var ErrTooLarge = errors.New("the plan is too large to draw")

// Bounds of a picture. Nobody reads a larger one, and drawing it takes memory.
const (
	// MaxNodes and MaxEdges bound Mermaid and DOT.
	MaxNodes = 20_000
	MaxEdges = 50_000
	// MaxDrawn bounds the nodes and edges of an SVG, which is laid out here.
	MaxDrawn = 5_000
)

// Render draws p. Its errors are an unknown format, ErrTooLarge, and a plan that
// does not verify.
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
		return mermaid(p), nil
	case DOT:
		return dot(p), nil
	case SVG:
		return svg(p), nil
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
	looks   = map[plan.EffectClass]look{
		plan.Pure:         {"pure", "#e3f2fd", "#1565c0"},
		plan.Staged:       {"staged", "#fff8e1", "#b28704"},
		plan.Committing:   {"committing", "#ffe0b2", "#d84315"},
		plan.Irreversible: {"irreversible", "#ffcdd2", "#b71c1c"},
	}
	order = []plan.EffectClass{plan.Pure, plan.Staged, plan.Committing, plan.Irreversible}
)

func lookOf(n *plan.Node) look {
	if n.Kind != plan.KindCall {
		return virtual
	}
	return looks[n.Effect]
}

// colours of edges by type.
var strokes = map[plan.EdgeType]string{
	plan.Data: "#37474f", plan.Control: "#78909c", plan.Conditional: "#6a1b9a", plan.Error: "#c62828",
}

// Longest texts of a picture, in characters.
const (
	maxName  = 48
	maxLabel = 60
)

// nodeLines are the lines of a node's label.
func nodeLines(n *plan.Node) []string {
	lines := []string{visible(n.ID, maxName)}
	if n.Kind != plan.KindCall {
		return lines
	}
	lines = append(lines, visible(n.Activity(), maxName))
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
	return lines
}

// edgeLabel is what stands at an edge: its ports where they say something, and
// its condition.
func edgeLabel(e *plan.Edge) string {
	var parts []string
	switch {
	case e.Type == plan.Error:
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
	return visible(strings.Join(parts, " "), maxLabel)
}

// visible writes a name on one line: white space is one blank, other characters
// that cannot be seen are written as code points, and what is too long is cut.
func visible(s string, most int) string {
	var b strings.Builder
	count, blank := 0, false
	for _, r := range s {
		if count >= most {
			b.WriteRune('…')
			break
		}
		if r == ' ' || r == '\t' || r == '\n' || r == '\r' {
			blank = b.Len() > 0
			continue
		}
		if blank {
			b.WriteByte(' ')
			blank = false
			count++
		}
		if strconv.IsPrint(r) && r != 0xFFFD {
			b.WriteRune(r)
		} else {
			fmt.Fprintf(&b, "U+%04X", r)
		}
		count++
	}
	return b.String()
}
