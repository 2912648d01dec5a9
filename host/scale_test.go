package host_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/host"
	"chimera.ai/engine/internal/stage"
)

// Ten thousand nodes, in a hundred chains of a hundred: the plan and its source
// go by reference, and the history is continued several times.
func TestTenThousandNodes(t *testing.T) {
	h := stage.Host(t, host.Options{})
	var nodes, edges []string
	for c := range 100 {
		for i := range 100 {
			nodes = append(nodes, fmt.Sprintf("c%dn%d engine/pass 900", c, i))
			if i > 0 {
				edges = append(edges, fmt.Sprintf("c%dn%d.x -> c%dn%d.x", c, i-1, c, i))
			}
		}
		edges = append(edges, fmt.Sprintf("$input.x -> c%dn0.x", c), fmt.Sprintf("c%dn99 -> $output", c))
	}
	edges = append(edges, "c99n99.x -> $output.x")
	run := stage.Start(t, h.Client(), source("", nodes, edges), `{"x":"through"}`)
	first := run.GetRunID()
	var result json.RawMessage
	require.NoError(t, stage.Await(t, h.Client(), run, &result))
	require.JSONEq(t, `{"x":"through"}`, string(result))
	require.NotEqual(t, first, run.GetRunID(), "the run continued as new")
	state := stage.State(t, h.Client(), run)
	require.Equal(t, contract.Counts{Succeeded: 10_000}, state.Counts)
	require.True(t, state.Truncated)
	require.Len(t, state.Nodes, 1000)
}
