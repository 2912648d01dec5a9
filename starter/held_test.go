package main

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	activitypb "go.temporal.io/api/activity/v1"
	commonpb "go.temporal.io/api/common/v1"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	"google.golang.org/protobuf/types/known/fieldmaskpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/payload"
)

// TestACallOfABuildThatIsGone: a run waits for a call whose workflow is pinned to a
// build that no worker has, and says so.
func TestACallOfABuildThatIsGone(t *testing.T) {
	c := stand(t, payload.Sealing{})
	start := func(id, typ string, override client.VersioningOverride) {
		_, err := c.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: id, TaskQueue: contract.QueueEngine, VersioningOverride: override}, typ)
		require.NoError(t, err)
	}
	start("run", contract.WorkflowType, nil)
	start("run/call", contract.WorkflowCall, &client.PinnedVersioningOverride{Version: worker.WorkerDeploymentVersion{DeploymentName: "test", BuildID: "gone"}})
	start("run/other", contract.WorkflowCall, nil)
	d, err := c.DescribeWorkflowExecution(t.Context(), "run", "")
	require.NoError(t, err)
	all, err := heldIn(t.Context(), &connection{Client: c, namespace: client.DefaultNamespace}, d, &contract.State{Waiting: []contract.Wait{
		{Kind: contract.WaitChild, Detail: "run/call"}, {Kind: contract.WaitChild, Detail: "run/other"},
	}})
	require.NoError(t, err)
	require.Len(t, all, 1)
	require.Equal(t, "run/call is of the build test:gone, and no worker of it is there", all[0].describe())
	require.Contains(t, all[0].Hint, "chimera upgrade run/call")
}

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
	_, err := c.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: "held", TaskQueue: contract.QueueEngine}, contract.WorkflowType)
	require.NoError(t, err)
	status := func() report {
		out, _, code := cli("status", "held", "--format", "json")
		require.Equal(t, exitDone, code)
		var r report
		require.NoError(t, json.Unmarshal([]byte(out), &r))
		return r
	}
	require.Empty(t, status().Held)
	pause := func(id, activity string) {
		require.Eventually(t, func() bool {
			_, err := c.WorkflowService().PauseActivity(t.Context(), &workflowservice.PauseActivityRequest{
				Namespace: client.DefaultNamespace, Execution: &commonpb.WorkflowExecution{WorkflowId: id}, Identity: "olga", Reason: "the tool is down",
				Activity: &workflowservice.PauseActivityRequest_Id{Id: activity},
			})
			return err == nil
		}, time.Minute, 20*time.Millisecond)
	}
	pause("held", "node/a")
	pause("held/child", "node/c")
	_, err = c.WorkflowService().UpdateActivityOptions(t.Context(), &workflowservice.UpdateActivityOptionsRequest{
		Namespace: client.DefaultNamespace, Execution: &commonpb.WorkflowExecution{WorkflowId: "held"}, Identity: "olga",
		Activity:        &workflowservice.UpdateActivityOptionsRequest_Id{Id: "node/b"},
		ActivityOptions: &activitypb.ActivityOptions{TaskQueue: &taskqueuepb.TaskQueue{Name: "elsewhere"}},
		UpdateMask:      &fieldmaskpb.FieldMask{Paths: []string{"task_queue.name"}},
	})
	require.NoError(t, err)

	all := status().Held
	require.Len(t, all, 3)
	of := map[string]held{}
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

// TestHeldBeyondItsTime: what Temporal should have ended by now was given more time.
func TestHeldBeyondItsTime(t *testing.T) {
	over := time.Unix(1000, 0)
	d := &workflowservice.DescribeWorkflowExecutionResponse{PendingActivities: []*workflowpb.PendingActivityInfo{{
		ActivityId: "engine/close/end#1", ExpirationTime: timestamppb.New(over),
		ActivityOptions: &activitypb.ActivityOptions{TaskQueue: &taskqueuepb.TaskQueue{Name: contract.QueueJournal}},
	}}}
	require.Empty(t, heldOf(d, over.Add(heldLate)))
	all := heldOf(d, over.Add(heldLate+1))
	require.Len(t, all, 1)
	require.True(t, over.Equal(all[0].Since))
	require.Contains(t, all[0].Hint, "restore_original")
}

// TestHeldOff: whoever answers an attempt says when the next one is.
func TestHeldOff(t *testing.T) {
	now := time.Unix(1000, 0)
	d := &workflowservice.DescribeWorkflowExecutionResponse{PendingActivities: []*workflowpb.PendingActivityInfo{{
		ActivityId: "engine/journal#1", NextAttemptScheduleTime: timestamppb.New(now.Add(heldOff)),
	}}}
	require.Empty(t, heldOf(d, now))
	all := heldOf(d, now.Add(-1))
	require.Len(t, all, 1)
	require.Contains(t, all[0].Cause, "was put off until "+now.Add(heldOff).Local().Format(time.DateTime))
	require.Contains(t, all[0].Hint, "temporal activity reset")
}
