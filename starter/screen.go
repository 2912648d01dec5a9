package main

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/internal/excerpt"
)

// screen shows the successive states of a run. It may be used concurrently.
type screen struct {
	mu    sync.Mutex
	w     io.Writer
	fd    int
	moves bool
	color bool
	// quiet suppresses all but notes, and answered those about people whom the run waits for.
	quiet, answered bool
	// drawn is the number of lines of the list to redraw.
	drawn int
	// seen holds the state of each node as last shown.
	seen map[string]contract.NodeState
	// noted is the last note, or "" if a state was shown since.
	noted string
}

func newScreen(w io.Writer) *screen {
	fd, ok := terminal(w)
	return &screen{w: w, fd: fd, moves: ok, color: color(w), seen: map[string]contract.NodeState{}}
}

// show shows a state.
func (s *screen) show(state contract.State, elapsed time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.noted = ""
	if s.quiet {
		return
	}
	if !s.moves {
		s.changes(state)
		return
	}
	width, height, err := term.GetSize(s.fd)
	if err != nil || width < 20 || height < 5 {
		width, height = 80, 24
	}
	lines := []string{headline(state, elapsed)}
	nodes := chosen(state.Nodes, height-4)
	for _, n := range nodes {
		lines = append(lines, s.line(n, width))
	}
	if hidden := total(state.Counts) - len(nodes); hidden > 0 {
		lines = append(lines, fmt.Sprintf("  … and %d more", hidden))
	}
	var b strings.Builder
	if s.drawn > 0 {
		fmt.Fprintf(&b, "\x1b[%dA", s.drawn)
	}
	b.WriteString("\r\x1b[J") // from here to the end of the screen
	for i, line := range lines {
		if i == 0 {
			line = excerpt.Runes(line, width-1)
		}
		b.WriteString(line)
		b.WriteByte('\n')
	}
	s.drawn = len(lines)
	_, _ = io.WriteString(s.w, b.String())
}

// note writes a line that stays, unless it was the last thing written.
func (s *screen) note(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.noted == text {
		return
	}
	s.noted = text
	_, _ = fmt.Fprintln(s.w, text)
	s.drawn = 0
}

// changes writes a line for each node whose state has changed.
func (s *screen) changes(state contract.State) {
	for _, n := range state.Nodes {
		if n.State == contract.Pending || s.seen[n.ID] == n.State {
			continue
		}
		s.seen[n.ID] = n.State
		_, _ = fmt.Fprintln(s.w, strings.TrimRight(describe(n), " "))
	}
}

func headline(state contract.State, elapsed time.Duration) string {
	name := state.Plan
	if name == "" {
		name = "the plan"
	}
	c := state.Counts
	done := c.Succeeded + c.Failed + c.Skipped + c.Dropped
	return fmt.Sprintf("%s  %s  %d of %s  %s", printable(name), state.State, done, plural(total(c), "node"), elapsed.Round(100*time.Millisecond))
}

func total(c contract.Counts) int {
	return c.Pending + c.Running + c.Succeeded + c.Failed + c.Skipped + c.Dropped
}

// chosen returns the nodes for which there is room, in plan order: running and failed
// ones take precedence over those that are done or pending.
func chosen(nodes []contract.NodeStatus, room int) []contract.NodeStatus {
	if len(nodes) <= room {
		return nodes
	}
	rank := func(s contract.NodeState) int {
		switch s {
		case contract.Running, contract.Failed:
			return 0
		case contract.Succeeded:
			return 1
		case contract.Pending, contract.Skipped, contract.Dropped:
			return 2
		}
		return 2
	}
	keep := make([]bool, len(nodes))
	for r := 0; r <= 2 && room > 0; r++ {
		for i := len(nodes) - 1; i >= 0 && room > 0; i-- { // the latest of each rank
			if rank(nodes[i].State) == r {
				keep[i] = true
				room--
			}
		}
	}
	var out []contract.NodeStatus
	for i, n := range nodes {
		if keep[i] {
			out = append(out, n)
		}
	}
	return out
}

func describe(n contract.NodeStatus) string {
	text := fmt.Sprintf("  %-9s %s  %s", n.State, n.ID, n.Operation)
	if n.Error != nil {
		text += fmt.Sprintf("  %s: %s", n.Error.Kind, n.Error.Message)
	}
	return printable(strings.ReplaceAll(text, "\n", " "))
}

func (s *screen) line(n contract.NodeStatus, width int) string {
	text := excerpt.Runes(describe(n), width-1)
	if !s.color {
		return text
	}
	tone := ""
	switch n.State {
	case contract.Running:
		tone = "36"
	case contract.Succeeded:
		tone = "32"
	case contract.Failed:
		tone = "31"
	case contract.Pending, contract.Skipped, contract.Dropped:
		tone = "2"
	}
	return "\x1b[" + tone + "m" + text + "\x1b[0m"
}
