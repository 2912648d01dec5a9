package client

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	activitypb "go.temporal.io/api/activity/v1"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	sdk "go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	"google.golang.org/protobuf/types/known/timestamppb"

	"chimera.ai/engine/contract"
)

// TestACallOfABuildThatIsGone: a run waits for a call whose workflow is pinned to a
// build that no worker has, and says so.
func TestACallOfABuildThatIsGone(t *testing.T) {
	c := dial(t)
	start := func(id, typ string, override sdk.VersioningOverride) {
		_, err := c.ExecuteWorkflow(t.Context(), sdk.StartWorkflowOptions{ID: id, TaskQueue: contract.QueueEngine, VersioningOverride: override}, typ)
		require.NoError(t, err)
	}
	start("run", contract.WorkflowType, nil)
	start("run/call", contract.WorkflowCall, &sdk.PinnedVersioningOverride{Version: worker.WorkerDeploymentVersion{DeploymentName: "test", BuildID: "gone"}})
	start("run/other", contract.WorkflowCall, nil)
	d, err := c.DescribeWorkflowExecution(t.Context(), "run", "")
	require.NoError(t, err)
	all, err := New(c, Options{}).heldIn(t.Context(), d, &contract.State{Waiting: []contract.Wait{
		{Kind: contract.WaitChild, Detail: "run/call"}, {Kind: contract.WaitChild, Detail: "run/other"},
	}})
	require.NoError(t, err)
	require.Len(t, all, 1)
	require.Equal(t, "run/call", all[0].Workflow)
	require.Equal(t, "is of the build test:gone, and no worker of it is there", all[0].Cause)
	require.Contains(t, all[0].Hint, "chimera upgrade run/call")

	imitate(t, c, func(workflow.Context) error { return nil })
	require.Eventually(t, func() bool {
		d, err := c.DescribeWorkflowExecution(t.Context(), "run/call", "")
		require.NoError(t, err)
		build := New(c, Options{}).pinned(t.Context(), d.GetWorkflowExecutionInfo())
		return build.Alone && strings.Contains(build.Hint, "temporal workflow update-options --versioning-override-behavior unspecified --workflow-id run/call ")
	}, 5*time.Minute, 10*time.Millisecond)
	_, err = c.UpdateWorkflowExecutionOptions(t.Context(), sdk.UpdateWorkflowExecutionOptionsRequest{
		WorkflowId: "run/call", WorkflowExecutionOptionsChanges: sdk.WorkflowExecutionOptionsChanges{VersioningOverride: &sdk.VersioningOverrideChange{}},
	})
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		d, err := c.DescribeWorkflowExecution(t.Context(), "run/call", "")
		require.NoError(t, err)
		return d.GetPendingWorkflowTask().GetAttempt() > 1 // a worker has it, and knows no such workflow
	}, 5*time.Minute, 10*time.Millisecond)
}

// TestACallThatNothingWakes: somebody has completed the workflow task of a call with
// nothing. What its run's status says to do has the call made again.
func TestACallThatNothingWakes(t *testing.T) {
	c := dial(t)
	_, err := c.ExecuteWorkflow(t.Context(), sdk.StartWorkflowOptions{ID: "it's a call", TaskQueue: contract.QueueEngine}, contract.WorkflowCall)
	require.NoError(t, err)
	described := func() *workflowservice.DescribeWorkflowExecutionResponse {
		d, err := c.DescribeWorkflowExecution(t.Context(), "it's a call", "")
		require.NoError(t, err)
		return d
	}
	runs := New(c, Options{})
	h, err := runs.stranded(t.Context(), described())
	require.NoError(t, err)
	require.Nil(t, h)
	answer(t, c)
	h, err = runs.stranded(t.Context(), described())
	require.NoError(t, err)
	require.Equal(t, answeredByAnother, h.Cause)
	require.Contains(t, h.Hint, `temporal workflow terminate --workflow-id 'it'\''s a call' `)
}

// TestHeldBeyondItsTime: a call that Temporal should have ended by now was given
// more time.
func TestHeldBeyondItsTime(t *testing.T) {
	over := time.Unix(1000, 0)
	d := &workflowservice.DescribeWorkflowExecutionResponse{PendingActivities: []*workflowpb.PendingActivityInfo{{
		ActivityId: "engine/close/end#1", ExpirationTime: timestamppb.New(over),
		ActivityOptions: &activitypb.ActivityOptions{TaskQueue: &taskqueuepb.TaskQueue{Name: contract.QueueJournal}},
	}}}
	require.Empty(t, New(nil, Options{}).heldOf(d, over.Add(heldLate)))
	all := New(nil, Options{}).heldOf(d, over.Add(heldLate+1))
	require.Len(t, all, 1)
	require.True(t, over.Equal(all[0].Since))
	require.Contains(t, all[0].Hint, "restore_original")
}

// TestHeldElsewhere: an activity on a queue of Chimera's is not held.
func TestHeldElsewhere(t *testing.T) {
	for queue, held := range map[string]bool{
		contract.QueueEngine: false, contract.QueueTools: false, contract.QueueJournal: false,
		contract.QueueGuardian: false, contract.QueueEffects: false, "theirs": true, "": false,
	} {
		all := New(nil, Options{}).heldOf(&workflowservice.DescribeWorkflowExecutionResponse{PendingActivities: []*workflowpb.PendingActivityInfo{{
			ActivityId: "node/pay", ActivityOptions: &activitypb.ActivityOptions{TaskQueue: &taskqueuepb.TaskQueue{Name: queue}},
		}}}, time.Unix(1000, 0))
		require.Equal(t, held, len(all) == 1, "on the queue %q: %v", queue, all)
	}
}

// TestHeldOff: the answer to an attempt says when the next one is due.
func TestHeldOff(t *testing.T) {
	now := time.Unix(1000, 0)
	d := &workflowservice.DescribeWorkflowExecutionResponse{PendingActivities: []*workflowpb.PendingActivityInfo{{
		ActivityId: "engine/journal#1", NextAttemptScheduleTime: timestamppb.New(now.Add(heldOff)),
	}}}
	require.Empty(t, New(nil, Options{}).heldOf(d, now))
	all := New(nil, Options{}).heldOf(d, now.Add(-1))
	require.Len(t, all, 1)
	require.Contains(t, all[0].Cause, "was put off until "+now.Add(heldOff).Local().Format(time.DateTime))
	require.Contains(t, all[0].Hint, "temporal activity reset")
}
