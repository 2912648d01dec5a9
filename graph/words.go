package graph

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"chimera.ai/engine/internal/draw"
)

// inWords returns the picture for a terminal: a line for each node, with what it calls, the
// nodes that it follows, and what a label says of it.
func (d *picture) inWords() []byte {
	sources := make([][]string, len(d.p.Nodes))
	seen := map[[2]string]bool{}
	for i := range d.lines {
		l := &d.lines[i]
		from := d.source(l)
		if key := [2]string{fmt.Sprint(l.to), from}; !seen[key] {
			seen[key] = true
			sources[l.to] = append(sources[l.to], from)
		}
	}
	waits := make([]string, len(d.p.Nodes))
	for i := range d.p.Barriers {
		for _, n := range d.p.Barriers[i].Members {
			waits[n] = "waits for people at " + barrierText(&d.p.Barriers[i])
		}
	}
	var b bytes.Buffer
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for i, texts := range d.texts {
		var more []string
		if len(sources[i]) > 0 {
			more = append(more, "from "+strings.Join(sources[i], ", "))
		}
		operation := ""
		if len(texts) > 1 {
			operation = texts[1]
			more = append(more, texts[2:]...)
		}
		if waits[i] != "" {
			more = append(more, waits[i])
		}
		line := texts[0] + "\t" + operation + "\t" + strings.Join(more, "; ")
		_, _ = fmt.Fprintln(w, strings.TrimRight(line, "\t"))
	}
	_ = w.Flush() // a buffer takes everything
	if slices.ContainsFunc(d.lines, func(l line) bool { return l.optional }) {
		b.WriteString("? not required\n")
	}
	if _, tainted := d.used(); tainted {
		b.WriteString(warning + " tainted: nobody vouches for it\n")
	}
	return b.Bytes()
}

// source returns the node where a line begins, and what the line is unless it is data.
func (d *picture) source(l *line) string {
	text := draw.Visible(d.p.Nodes[l.from].ID, maxName)
	if l.style != data && l.style != conditional {
		text += " (" + l.style.name + ")"
	}
	if l.condition != "" {
		text += " [" + draw.Visible(l.condition, maxLabel) + "]"
	}
	if l.optional {
		text += " ?"
	}
	return text
}
