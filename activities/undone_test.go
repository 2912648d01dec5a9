package activities_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/internal/stage"
)

// TestUndoneBesideLocalNodes: however many local nodes are in flight when a run fails, its
// effects are undone.
func TestUndoneBesideLocalNodes(t *testing.T) {
	t.Parallel()
	a := stage.ActBy(t, "book", stage.Pages, stage.SagaCatalog, stage.SagaPolicy)
	var nodes, edges []string
	for n := range 40 {
		nodes = append(nodes, fmt.Sprintf(`{id: s%d, template: engine/sleep, with: {ms: 500}, timeout_ms: 1000}`, n))
		edges = append(edges, fmt.Sprintf(`first -> s%d`, n))
	}
	digest := a.Publish(t, `{apiVersion: chimera/v1, kind: Plan, name: beside, version: "1", agent: tester, allow: [pure, committing], limits: {max_parallel: 100},
  input_schema: {type: object, properties: {line: {type: string}}, required: [line]}, output_schema: {type: object},
  nodes: [{id: first, template: book/write, commit_policy: {}}, {id: back, template: book/erase, commit_policy: {rollback: {none: "gone"}}},
    {id: last, template: engine/fail, with: {message: "it ends here"}}, `+strings.Join(nodes, ", ")+`],
  edges: [$input.line -> first.line, first -> last, {from_node: first, from_port: $compensate, to_node: back, to_port: line, edge_type: error, required: true, transform: "${args.line}"}, `+strings.Join(edges, ", ")+`]}`)
	run := a.Start(t, "beside", digest, `{"line":"a"}`)
	f := stage.FailureOf(t, stage.Await(t, a.Client(), run, nil))
	require.Equal(t, contract.ToolError, f.Kind, f.Message)
	require.Equal(t, []string{"first"}, f.Compensated)
}
