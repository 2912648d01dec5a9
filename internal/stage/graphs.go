package stage

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/contract"
)

// Graph is one run of a plan whose every resolution is known.
type Graph struct {
	// Plan names a file of compiler/testdata/graphs, without ".yaml".
	Plan  string
	Input string
	// Output is the run's result in JSON, or "" if the run fails.
	Output string
	// Failure is the kind and node of the failure, if the run fails.
	Failure contract.Failure
	// Nodes has the state of every node at the end.
	Nodes map[string]contract.NodeState
}

const (
	succeeded = contract.Succeeded
	failed    = contract.Failed
	skipped   = contract.Skipped
)

// Graphs are the plans that show how edges resolve, with the inputs that take
// them each way.
func Graphs() []Graph {
	type nodes = map[string]contract.NodeState
	return []Graph{
		{Plan: "diamond", Input: `{"n":11}`, Output: `{"size":"large"}`,
			Nodes: nodes{"split": succeeded, "large": succeeded, "small": skipped, "merge": succeeded}},
		{Plan: "diamond", Input: `{"n":3}`, Output: `{"size":"small"}`,
			Nodes: nodes{"split": succeeded, "large": skipped, "small": succeeded, "merge": succeeded}},
		{Plan: "optional_merge", Input: `{"name":"Ada","nick":"A"}`, Output: `{"name":"Ada","call":"A"}`,
			Nodes: nodes{"nick": succeeded, "merge": succeeded}},
		{Plan: "optional_merge", Input: `{"name":"Ada"}`, Output: `{"name":"Ada","call":"nobody"}`,
			Nodes: nodes{"nick": skipped, "merge": succeeded}},
		{Plan: "error_and_normal", Input: `{"text":"short"}`, Output: `{"text":"short"}`,
			Nodes: nodes{"narrow": succeeded, "either": succeeded}},
		{Plan: "error_and_normal", Input: `{"text":"longer than allowed"}`, Output: `{"text":"invalid_output"}`,
			Nodes: nodes{"narrow": failed, "either": succeeded}},
		{Plan: "error_into_skipped", Input: `{"help":true}`, Output: `{"said":"broken"}`,
			Nodes: nodes{"broken": failed, "helper": succeeded, "rescue": succeeded}},
		{Plan: "error_into_skipped", Input: `{"help":false}`, Failure: contract.Failure{Kind: contract.ToolError, Node: "broken", Message: "broken"},
			Nodes: nodes{"broken": failed, "helper": skipped, "rescue": skipped}},
		{Plan: "skipped_source", Input: `{"go":true,"left":true}`, Output: `{"way":"left"}`,
			Nodes: nodes{"choose": succeeded, "left": succeeded, "right": skipped, "merge": succeeded}},
		{Plan: "skipped_source", Input: `{"go":true,"left":false}`, Output: `{"way":"right"}`,
			Nodes: nodes{"choose": succeeded, "left": skipped, "right": succeeded, "merge": succeeded}},
		{Plan: "skipped_source", Input: `{"go":false,"left":true}`, Output: `{"way":"none"}`,
			Nodes: nodes{"choose": skipped, "left": skipped, "right": skipped, "merge": succeeded}},
		{Plan: "uncertain_output", Input: `{"n":11}`, Failure: contract.Failure{Kind: contract.Contract}},
	}
}

// Source reads the graph's plan. Tests run in the folder of their package, one
// below the module's.
func (g Graph) Source(t testing.TB) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "compiler", "testdata", "graphs", g.Plan+".yaml"))
	require.NoError(t, err)
	return string(b)
}

// Check compares the end of a run of the graph with the expected one.
func (g Graph) Check(t testing.TB, output string, failure *contract.Failure, state contract.State) {
	t.Helper()
	if g.Output != "" {
		require.Nil(t, failure)
		require.JSONEq(t, g.Output, output)
	} else {
		require.NotNil(t, failure)
		require.Equal(t, g.Failure.Kind, failure.Kind)
		require.Equal(t, g.Failure.Node, failure.Node)
		require.Contains(t, failure.Message, g.Failure.Message)
	}
	require.Len(t, state.Nodes, len(g.Nodes))
	for _, n := range state.Nodes {
		require.Equal(t, g.Nodes[n.ID], n.State, n.ID)
	}
}
