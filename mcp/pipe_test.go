//go:build unix

package mcp

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/contract"
)

// TestServerThatEndsUnread: what became of a server that no longer reads is the same as of one that
// ends before it answers, and nothing was sent to it.
func TestServerThatEndsUnread(t *testing.T) {
	s := Server{Command: "/bin/sh", Args: []string{"-c", "exec 0<&-; echo deaf >&2; sleep 0.3"}}
	c, err := spawn("h", s, Options{}.withDefaults())
	require.NoError(t, err)
	defer c.close()
	require.Eventually(t, func() bool { return strings.Contains(c.link.(*pipe).tail.String(), "deaf") }, 10*time.Second, time.Millisecond)
	answer := c.roundTrip(t.Context(), "ping", nil)
	require.NotNil(t, answer.err)
	require.Equal(t, contract.Unsent, answer.err.Kind)
	require.Equal(t, "MCP server h: it ended (exit status 0) before it answered", answer.err.Message)
}
