//go:build unix

package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/internal/lengthy"
	"chimera.ai/engine/internal/npm"
)

// clientVar makes the test binary the client that the protocol's conformance suite tests: it gets
// the server's address as its last argument.
const clientVar = "MCP_TEST_CLIENT"

// conformer does what a scenario asks of a client, and returns the exit code.
func conformer(url, scenario string) int {
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	defer cancel()
	p := NewPool(map[string]Server{"h": {URL: url, Addresses: here}}, quiet)
	defer p.Close()
	_, err := p.Tools(ctx, "h")
	if err == nil {
		switch scenario {
		case "tools_call":
			_, err = p.Call(ctx, "h", "add_numbers", json.RawMessage(`{"a":2,"b":3}`))
		case "sse-retry":
			_, err = p.Call(ctx, "h", "test_reconnection", nil)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// check is what the suite found in one respect.
type check struct {
	ID, Status, ErrorMessage string
	Details                  struct{ TooEarly bool }
}

// conformance runs a scenario of the suite on the client.
func conformance(t *testing.T, scenario string) map[string][]check {
	t.Helper()
	dir := t.TempDir()
	suite := filepath.Join(npm.Dir(t), "node_modules", "@modelcontextprotocol", "conformance", "dist", "index.js")
	require.NotContains(t, os.Args[0], " ", "the suite splits the command at spaces")
	ctx, cancel := context.WithTimeout(t.Context(), 3*bound)
	defer cancel()
	cmd := exec.CommandContext(ctx, npm.Node(t), suite, "client", "--command", os.Args[0], "--scenario", scenario, "--timeout", fmt.Sprint(2*bound.Milliseconds()), "--output-dir", dir)
	cmd.Env = append(os.Environ(), clientVar+"=1")
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	files, err := filepath.Glob(filepath.Join(dir, scenario+"-*", "checks.json"))
	require.NoError(t, err)
	require.Len(t, files, 1, "%s", out)
	raw, err := os.ReadFile(files[0])
	require.NoError(t, err)
	var all []check
	require.NoError(t, json.Unmarshal(raw, &all))
	byID := map[string][]check{}
	for _, c := range all {
		byID[c.ID] = append(byID[c.ID], c)
	}
	return byID
}

func TestConformance(t *testing.T) {
	for scenario, must := range map[string][]string{
		// The suite passes this one if the client does nothing.
		"initialize": {"mcp-client-initialization"},
		"tools_call": {"tool-add-numbers"},
	} {
		t.Run(scenario, func(t *testing.T) {
			if scenario == "initialize" {
				lengthy.Skip(t) // the other begins so, too
			}
			all := conformance(t, scenario)
			for _, id := range must {
				require.Contains(t, all, id)
			}
			for id, checks := range all {
				for _, c := range checks {
					t.Log(id, c.Status)
					if c.Status != "INFO" { // what was sent
						require.Equal(t, "SUCCESS", c.Status, "%s: %s", id, c.ErrorMessage)
					}
				}
			}
		})
	}
	t.Run("sse-retry", func(t *testing.T) {
		lengthy.Skip(t)
		all := conformance(t, "sse-retry")
		for _, id := range []string{"client-sse-graceful-reconnect", "client-sse-last-event-id"} {
			require.Len(t, all[id], 1)
			require.Equal(t, "SUCCESS", all[id][0].Status, all[id][0].ErrorMessage)
		}
		// A busy machine may be late.
		require.Len(t, all["client-sse-retry-timing"], 1)
		require.False(t, all["client-sse-retry-timing"][0].Details.TooEarly)
		t.Log(all["client-sse-retry-timing"])
	})
}
