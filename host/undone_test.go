package host_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/internal/stage"
)

// TestUndoneBesideLocalNodes: however many local nodes are in flight when a run fails, its
// effects are undone.
func TestUndoneBesideLocalNodes(t *testing.T) {
	stage.Parallel(t)
	a := actBy(t, "book", pages, sagaCatalog, sagaPolicy)
	var nodes, edges []string
	for n := range 40 {
		nodes = append(nodes, fmt.Sprintf(`{id: s%d, template: engine/sleep, with: {ms: 500}, timeout_ms: 1000}`, n))
		edges = append(edges, fmt.Sprintf(`first -> s%d`, n))
	}
	digest := a.publish(t, `{apiVersion: chimera/v1, kind: Plan, name: beside, version: "1", agent: tester, allow: [pure, committing], limits: {max_parallel: 100},
  input_schema: {type: object, properties: {line: {type: string}}, required: [line]}, output_schema: {type: object},
  nodes: [{id: first, template: book/write, commit_policy: {}}, {id: back, template: book/erase, commit_policy: {rollback: {none: "gone"}}},
    {id: last, template: engine/fail, with: {message: "it ends here"}}, `+strings.Join(nodes, ", ")+`],
  edges: [$input.line -> first.line, first -> last, {from_node: first, from_port: $compensate, to_node: back, to_port: line, edge_type: error, required: true, transform: "${args.line}"}, `+strings.Join(edges, ", ")+`]}`)
	run := a.start(t, "beside", digest, `{"line":"a"}`)
	f := failureOf(t, stage.Await(t, a.h.Client(), run, nil))
	require.Equal(t, contract.ToolError, f.Kind, f.Message)
	require.Equal(t, []string{"first"}, f.Compensated)
	a.replays(t, run)
}

// TestACancelWhileTheEndIsWritten: a run is cancelled whose success is on its way to the ledger.
// Temporal discards the workflow task, and the next one knows of the cancellation first. The run
// has succeeded all the same, and its effect is not undone.
func TestACancelWhileTheEndIsWritten(t *testing.T) {
	stage.Parallel(t)
	a := actBy(t, "book", strings.Replace(pages, "case $1 in", `case $1 in
look) echo "look" >> "$LINES_FILE"; while ! [ -e "$LINES_FILE-look" ]; do sleep 0.05; done; echo '{"there":true}' ;;`, 1), sagaCatalog, sagaPolicy)
	run := a.start(t, "ends", a.publish(t, `{apiVersion: chimera/v1, kind: Plan, name: ends, version: "1", agent: tester, allow: [pure, committing],
  input_schema: {type: object, properties: {line: {type: string}}, required: [line]}, output_schema: {type: object, properties: {there: {type: boolean}}},
  nodes: [{id: first, template: book/write, commit_policy: {}}, {id: back, template: book/erase, commit_policy: {rollback: {none: "gone"}}}, {id: look, template: book/look}],
  edges: [$input.line -> first.line, first -> look, $input.line -> look.line, look.there -> $output.there,
    {from_node: first, from_port: $compensate, to_node: back, to_port: line, edge_type: error, required: true, transform: "${args.line}"}]}`), `{"line":"a"}`)
	stage.Until(t, "the last call is made", func() bool { return len(a.written(t)) == 2 })
	free := a.locked(t)
	require.NoError(t, os.WriteFile(a.lines+"-look", nil, 0o600))
	stage.Until(t, "the end is being written", func() bool {
		about, err := a.h.Client().DescribeWorkflowExecution(t.Context(), run.GetID(), "")
		require.NoError(t, err)
		return len(about.GetPendingActivities()) == 0 && about.GetPendingWorkflowTask().GetState() == enumspb.PENDING_WORKFLOW_TASK_STATE_STARTED
	})
	require.NoError(t, a.h.Client().CancelWorkflow(t.Context(), run.GetID(), ""))
	free()
	require.NoError(t, stage.Await(t, a.h.Client(), run, nil))
	require.NotEmpty(t, events(t, a.h.Client(), run, enumspb.EVENT_TYPE_WORKFLOW_TASK_FAILED), "the task was discarded")
	require.Len(t, a.written(t), 2)
	a.replays(t, run)
}
