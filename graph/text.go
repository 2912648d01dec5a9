package graph

import (
	"fmt"
	"strconv"
	"strings"

	"chimera.ai/engine/plan"
)

// visible returns a name on one line: white space becomes one space, other invisible
// characters become code points, and what is too long is cut.
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
	return visible(text, maxLabel)
}

// tainted reports whether a node's result, or the decision to run it, is tainted.
func (d *picture) tainted(i int) bool {
	n := &d.p.Nodes[i]
	return n.Taint.Any() || d.marks != nil && (d.marks.Nodes[i].Value || d.marks.Nodes[i].Decision)
}
