package host_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"

	"chimera.ai/engine/internal/lengthy"
	"chimera.ai/engine/internal/stage"
)

// TestACancelWhileTheEndIsWritten: a run is cancelled whose success is on its way to the ledger.
// Temporal discards the workflow task, and the next one knows of the cancellation first. The run
// has succeeded all the same, and its effect is not undone.
func TestACancelWhileTheEndIsWritten(t *testing.T) {
	lengthy.Skip(t)
	stage.Parallel(t)
	a := actBy(t, "book", strings.Replace(stage.Pages, "case $1 in", `case $1 in
look) echo "look" >> "$LINES_FILE"; while ! [ -e "$LINES_FILE-look" ]; do sleep 0.01; done; echo '{"there":true}' ;;`, 1), stage.SagaCatalog, stage.SagaPolicy)
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
