//go:build unix

package mcp

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/contract"
)

// TestServerThatEndsUnread: what became of a server that no longer reads is the same as of one that
// ends before it answers, and nothing was sent to it.
func TestServerThatEndsUnread(t *testing.T) {
	gate := filepath.Join(t.TempDir(), "gate")
	s := Server{Command: "/bin/sh", Args: []string{"-c", `exec 0<&-; echo deaf >&2; while [ ! -e "$0" ]; do sleep 0.01; done`, gate}}
	c, err := spawn("h", s, Options{settle: bound}.withDefaults())
	require.NoError(t, err)
	defer c.close()
	require.Eventually(t, func() bool { return strings.Contains(c.link.(*pipe).tail.String(), "deaf") }, bound, time.Millisecond)
	answers := make(chan reply, 1)
	go func() { answers <- c.roundTrip(t.Context(), "ping", nil) }()
	require.Eventually(t, func() bool { return !c.usable() }, bound, time.Millisecond)
	require.NoError(t, os.WriteFile(gate, nil, 0o600))
	answer := <-answers
	require.NotNil(t, answer.err)
	require.Equal(t, contract.Unsent, answer.err.Kind)
	require.Equal(t, "MCP server h: it ended (exit status 0) before it answered", answer.err.Message)
}
