package host_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/host"
	"chimera.ai/engine/internal/lengthy"
	"chimera.ai/engine/internal/stage"
)

var huge = flag.Bool("huge", false, "a plan of 10,000 nodes is run")

// TestThousandsOfNodes, in chains of a hundred: the plan and its source go by
// reference, and the history is continued.
func TestThousandsOfNodes(t *testing.T) {
	lengthy.Skip(t)
	stage.Parallel(t)
	chains, o := 25, host.Options{ContinueAfter: 500}
	if *huge {
		chains, o.ContinueAfter = 100, 0
	}
	h := stage.Host(t, o)
	var nodes, edges []string
	for c := range chains {
		for i := range 100 {
			nodes = append(nodes, fmt.Sprintf("c%dn%d engine/pass 900", c, i))
			if i > 0 {
				edges = append(edges, fmt.Sprintf("c%dn%d.x -> c%dn%d.x", c, i-1, c, i))
			}
		}
		edges = append(edges, fmt.Sprintf("$input.x -> c%dn0.x", c), fmt.Sprintf("c%dn99 -> $output", c))
	}
	edges = append(edges, fmt.Sprintf("c%dn99.x -> $output.x", chains-1))
	run := stage.Start(t, h.Client(), source("", nodes, edges), `{"x":"through"}`)
	first := run.GetRunID()
	var result json.RawMessage
	require.NoError(t, stage.Await(t, h.Client(), run, &result))
	require.JSONEq(t, `{"x":"through"}`, string(result))
	require.NotEqual(t, first, run.GetRunID(), "the run continued as new")
	state := stage.State(t, h.Client(), run)
	require.Equal(t, contract.Counts{Succeeded: 100 * chains}, state.Counts)
	require.True(t, state.Truncated)
	require.Len(t, state.Nodes, 1000)
}
