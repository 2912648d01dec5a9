package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/contract"
)

func node(id string, s contract.NodeState) contract.NodeStatus {
	return contract.NodeStatus{ID: id, Operation: "p/" + id, State: s}
}

func stateWith(nodes ...contract.NodeStatus) contract.State {
	s := contract.State{Plan: "demo@1", State: contract.RunRunning, Nodes: nodes}
	for _, n := range nodes {
		switch n.State {
		case contract.Pending:
			s.Counts.Pending++
		case contract.Running:
			s.Counts.Running++
		case contract.Succeeded:
			s.Counts.Succeeded++
		case contract.Failed:
			s.Counts.Failed++
		case contract.Skipped:
			s.Counts.Skipped++
		case contract.Dropped:
			s.Counts.Dropped++
		}
	}
	return s
}

// TestLines: without a terminal, one line for each change and nothing else.
func TestLines(t *testing.T) {
	var b bytes.Buffer
	s := newScreen(&b)
	s.show(stateWith(node("a", contract.Running), node("b", contract.Pending)), 0)
	s.show(stateWith(node("a", contract.Running), node("b", contract.Pending)), 0)
	s.note("waiting")
	s.note("waiting")
	failed := node("b", contract.Failed)
	failed.Error = &contract.ErrorPayload{Kind: contract.ToolError, Message: "two\nlines \x1b[31mred"}
	s.show(stateWith(node("a", contract.Succeeded), failed), 0)
	s.note("waiting")
	require.Equal(t, "  running   a  p/a\nwaiting\n  succeeded a  p/a\n"+
		"  failed    b  p/b  tool_error: two lines \uFFFD[31mred\nwaiting\n", b.String())
}

// TestMovingList: each list replaces the previous one, and no line is wider than
// the terminal.
func TestMovingList(t *testing.T) {
	var b bytes.Buffer
	s := &screen{w: &b, fd: -1, moves: true, color: true} // no size: 80 by 24
	s.show(stateWith(node("a", contract.Running), node(strings.Repeat("long", 50), contract.Pending)), 1500*time.Millisecond)
	first := b.String()
	require.Contains(t, first, "demo@1  running  0 of 2 nodes  1.5s\n")
	require.Contains(t, first, "\x1b[36m  running   a  p/a\x1b[0m\n")
	for line := range strings.Lines(first) {
		line = strings.NewReplacer("\x1b[36m", "", "\x1b[2m", "", "\x1b[0m", "", "\r\x1b[J", "", "\n", "").Replace(line)
		require.LessOrEqual(t, len([]rune(line)), 79)
	}
	b.Reset()
	s.show(stateWith(node("a", contract.Succeeded)), 2*time.Second)
	require.True(t, strings.HasPrefix(b.String(), "\x1b[3A\r\x1b[J"), "%q", b.String())
	b.Reset()
	s.note("stays")
	s.show(stateWith(node("a", contract.Succeeded)), 2*time.Second)
	require.Equal(t, "stays\n\r\x1b[Jdemo@1  running  1 of 1 node  2s\n\x1b[32m  succeeded a  p/a\x1b[0m\n", b.String())
}

// TestRoom: of many nodes, those in motion and those that failed are shown, in
// plan order.
func TestRoom(t *testing.T) {
	var nodes []contract.NodeStatus
	for i := range 100 {
		state := contract.Pending
		switch {
		case i == 7:
			state = contract.Failed
		case i < 50:
			state = contract.Succeeded
		case i < 53:
			state = contract.Running
		}
		nodes = append(nodes, node(string(rune('A'+i)), state))
	}
	var got []string
	for _, n := range chosen(nodes, 6) {
		got = append(got, n.ID)
	}
	require.Equal(t, []string{nodes[7].ID, nodes[48].ID, nodes[49].ID, nodes[50].ID, nodes[51].ID, nodes[52].ID}, got)
	require.Len(t, chosen(nodes, 100), 100)
	require.Empty(t, chosen(nodes, 0))
}
