package main

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	activitypb "go.temporal.io/api/activity/v1"
	commonpb "go.temporal.io/api/common/v1"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"
	sdk "go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"chimera.ai/engine/client"
	"chimera.ai/engine/contract"
	"chimera.ai/engine/payload"
)

// TestWhatIsHeld: an operator pauses a call of a run in Temporal, and one that a child
// makes, and moves one to another queue. All of them are told, with the way out.
func TestWhatIsHeld(t *testing.T) {
	c := stand(t, payload.Sealing{})
	call := func(ctx workflow.Context, id string) error {
		return workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
			TaskQueue: contract.QueueTools, ActivityID: id, StartToCloseTimeout: time.Minute,
		}), "box/echo").Get(ctx, nil)
	}
	w := worker.New(c, contract.QueueEngine, worker.Options{})
	w.RegisterWorkflowWithOptions(func(ctx workflow.Context, _ contract.Start) error {
		if err := workflow.SetQueryHandler(ctx, contract.QueryState, func() (contract.State, error) {
			return contract.State{State: contract.RunRunning, Waiting: []contract.Wait{{Kind: contract.WaitChild, Detail: "held/child"}}}, nil
		}); err != nil {
			return err
		}
		child := workflow.ExecuteChildWorkflow(workflow.WithChildOptions(ctx, workflow.ChildWorkflowOptions{WorkflowID: "held/child"}), contract.WorkflowCall)
		workflow.Go(ctx, func(ctx workflow.Context) { _ = call(ctx, "node/b") })
		if err := call(ctx, "node/a"); err != nil {
			return err
		}
		return child.Get(ctx, nil)
	}, workflow.RegisterOptions{Name: contract.WorkflowType})
	w.RegisterWorkflowWithOptions(func(ctx workflow.Context) error { return call(ctx, "node/c") }, workflow.RegisterOptions{Name: contract.WorkflowCall})
	require.NoError(t, w.Start())
	t.Cleanup(w.Stop)
	_, err := c.ExecuteWorkflow(t.Context(), sdk.StartWorkflowOptions{ID: "held", TaskQueue: contract.QueueEngine}, contract.WorkflowType)
	require.NoError(t, err)
	status := func() client.Status {
		out, _, code := cli("status", "held", "--format", "json")
		require.Equal(t, exitDone, code)
		var r client.Status
		require.NoError(t, json.Unmarshal([]byte(out), &r))
		return r
	}
	require.Empty(t, status().Held)
	pause := func(id, activity string) {
		require.Eventually(t, func() bool {
			_, err := c.WorkflowService().PauseActivity(t.Context(), &workflowservice.PauseActivityRequest{
				Namespace: sdk.DefaultNamespace, Execution: &commonpb.WorkflowExecution{WorkflowId: id}, Identity: "olga", Reason: "the tool is down",
				Activity: &workflowservice.PauseActivityRequest_Id{Id: activity},
			})
			return err == nil
		}, 5*time.Minute, 20*time.Millisecond)
	}
	pause("held", "node/a")
	pause("held/child", "node/c")
	_, err = c.WorkflowService().UpdateActivityOptions(t.Context(), &workflowservice.UpdateActivityOptionsRequest{
		Namespace: sdk.DefaultNamespace, Execution: &commonpb.WorkflowExecution{WorkflowId: "held"}, Identity: "olga",
		Activity:        &workflowservice.UpdateActivityOptionsRequest_Id{Id: "node/b"},
		ActivityOptions: &activitypb.ActivityOptions{TaskQueue: &taskqueuepb.TaskQueue{Name: "elsewhere"}},
		UpdateMask:      &fieldmaskpb.FieldMask{Paths: []string{"task_queue.name"}},
	})
	require.NoError(t, err)

	all := status().Held
	require.Len(t, all, 3)
	of := map[string]client.Held{}
	for _, h := range all {
		of[h.Workflow+" "+h.Activity] = h
	}
	require.Equal(t, "was paused by olga (the tool is down)", of["held node/a"].Cause)
	require.Contains(t, of["held node/a"].Hint, "temporal activity unpause --workflow-id held --activity-id node/a")
	require.False(t, of["held node/a"].Since.IsZero())
	require.Contains(t, of["held/child node/c"].Hint, "--workflow-id held/child --activity-id node/c")
	require.Contains(t, of["held node/b"].Cause, "elsewhere")
	require.Contains(t, of["held node/b"].Hint, "restore_original, undoes that for the activity node/b of the workflow held.")
	out, _, _ := cli("status", "held")
	require.Contains(t, out, "node/a was paused by olga (the tool is down), since ")
	require.Contains(t, out, of["held node/b"].Hint)
}
