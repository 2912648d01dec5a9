package host_test

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"chimera.ai/engine/blob"
	"chimera.ai/engine/contract"
	"chimera.ai/engine/host"
	"chimera.ai/engine/internal/stage"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/skills"
	"chimera.ai/engine/store"
)

// TestResetsOfARefusedRun: a run that the ledger has refused replays whatever task it is
// reset to. Where it had ended with that by then it ends so again; before, it goes on,
// and can be reset again.
func TestResetsOfARefusedRun(t *testing.T) {
	stage.Parallel(t)
	sealed := sealing(t, keys(t, "a")...)
	dir := filepath.Join(t.TempDir(), "store")
	opened, released := make(chan struct{}), make(chan struct{})
	h := stage.Host(t, host.Options{ContinueAfter: 60, Sealing: sealed, Store: store.Options{Dir: dir}, Skills: []skills.Skill{
		gate(opened),
		skill("long", func(ctx context.Context, _ json.RawMessage) (json.RawMessage, error) {
			select {
			case <-released:
				return json.RawMessage(`{"x":2}`), nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}),
	}})
	c := h.Client()
	// A call of up to ten seconds needs no child; however often it is made, it waits for the test.
	// The chain takes so long that its outcomes are written before it ends.
	nodes := []string{"long test/long 60000 retry_policy: {max_retries: 60}", "first test/gate 9000 retry_policy: {max_retries: 60, initial_ms: 1, on: [timeout]}"}
	edges := []string{"$input.x -> long.x", "$input.x -> first.x", "first -> n0", "long.x -> $output.x", "n7 -> $output"}
	for i := range 8 {
		nodes = append(nodes, fmt.Sprintf("n%d engine/sleep 900 with: {ms: 100}, %s", i, sleeping))
		if i > 0 {
			edges = append(edges, fmt.Sprintf("n%d -> n%d", i-1, i))
		}
	}
	first := stage.Start(t, c, source("", nodes, edges), `{"x":1}`)
	stage.Until(t, "both calls are made", func() bool {
		s := stage.State(t, c, first)
		return s.Counts.Running == 2 && len(s.Waiting) > 0 && s.Waiting[0].Kind == contract.WaitChild
	})
	require.NoError(t, h.Store().Ledger.RecordOutcomes(t.Context(), first.GetID(), first.GetRunID(), []ledger.Outcome{
		{Node: "n0", Visit: 1, Kind: ledger.NodeSkipped, Activity: "engine/sleep"},
	}))
	close(opened)
	require.Equal(t, contract.Conflict, stage.FailureOf(t, stage.Await(t, c, first, nil)).Kind)
	require.NotEmpty(t, events(t, c, first, enumspb.EVENT_TYPE_REQUEST_CANCEL_EXTERNAL_WORKFLOW_EXECUTION_INITIATED), "its child is cancelled")

	values, err := blob.Open(filepath.Join(dir, "blobs"))
	require.NoError(t, err)
	// reset resets a run to a task, and returns its result when it has ended.
	reset := func(of client.WorkflowRun, task int64) client.WorkflowRun {
		t.Helper()
		answer, err := c.ResetWorkflowExecution(t.Context(), &workflowservice.ResetWorkflowExecutionRequest{
			Namespace: stage.Temporal(t).Namespace, WorkflowExecution: &commonpb.WorkflowExecution{WorkflowId: of.GetID(), RunId: of.GetRunID()},
			Reason: "test", WorkflowTaskFinishEventId: task, RequestId: uuid.NewString(),
		})
		require.NoError(t, err)
		run := c.GetWorkflow(t.Context(), of.GetID(), answer.GetRunId())
		stage.Until(t, "it has ended", func() bool {
			for _, event := range events(t, c, run, enumspb.EVENT_TYPE_WORKFLOW_TASK_FAILED) {
				require.NotEqual(t, enumspb.WORKFLOW_TASK_FAILED_CAUSE_NON_DETERMINISTIC_ERROR, event.GetWorkflowTaskFailedEventAttributes().GetCause())
			}
			about, err := c.DescribeWorkflowExecution(t.Context(), run.GetID(), run.GetRunID())
			require.NoError(t, err)
			return about.GetWorkflowExecutionInfo().GetStatus() != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING
		})
		whole, err := host.History(t.Context(), c, run.GetID(), run.GetRunID())
		require.NoError(t, err)
		require.NoError(t, host.NewReplayer(values, sealed).Replay("default", run.GetID(), whole))
		return run
	}
	last := func(of client.WorkflowRun) int64 {
		tasks := events(t, c, of, enumspb.EVENT_TYPE_WORKFLOW_TASK_COMPLETED)
		return tasks[len(tasks)-1].GetEventId()
	}

	again := reset(first, last(first))
	require.Equal(t, contract.Conflict, stage.FailureOf(t, stage.Await(t, c, again, nil)).Kind)
	again = reset(again, last(again))
	require.Equal(t, contract.Conflict, stage.FailureOf(t, stage.Await(t, c, again, nil)).Kind)

	refusals := events(t, c, first, enumspb.EVENT_TYPE_ACTIVITY_TASK_FAILED)
	require.Len(t, refusals, 1)
	var seen int64
	for _, event := range events(t, c, first, enumspb.EVENT_TYPE_WORKFLOW_TASK_COMPLETED) {
		if seen = event.GetEventId(); seen > refusals[0].GetEventId() {
			break
		}
	}
	require.Less(t, seen, last(first))
	// Nobody waits for it any longer.
	started := events(t, c, first, enumspb.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_STARTED)
	require.Len(t, started, 1)
	child := started[0].GetChildWorkflowExecutionStartedEventAttributes().GetWorkflowExecution()
	stage.Until(t, "the child has ended", func() bool {
		about, err := c.DescribeWorkflowExecution(t.Context(), child.GetWorkflowId(), child.GetRunId())
		require.NoError(t, err)
		return about.GetWorkflowExecutionInfo().GetStatus() != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING
	})
	close(released)
	again = reset(first, seen)
	require.NoError(t, stage.Await(t, c, again, nil))
	again = reset(again, last(again))
	require.NoError(t, stage.Await(t, c, again, nil))
}
