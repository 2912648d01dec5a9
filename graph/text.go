package graph

import (
	"fmt"

	"chimera.ai/engine/internal/draw"
	"chimera.ai/engine/plan"
)

// barrierText returns the title of the nodes that wait at a barrier.
func barrierText(b *plan.Barrier) string {
	text := b.ID
	if text == "" {
		text = "approval"
	}
	for i, g := range b.Groups {
		if i == 0 {
			text += ": "
		} else {
			text += " + "
		}
		text += fmt.Sprintf("%d × %s", g.Min, g.Role)
	}
	return draw.Visible(text, maxLabel)
}

// tainted reports whether a node's result, or the decision to run it, is tainted.
func (d *picture) tainted(i int) bool {
	n := &d.p.Nodes[i]
	return n.Taint.Any() || d.marks != nil && (d.marks.Nodes[i].Value || d.marks.Nodes[i].Decision)
}
