package client

import (
	"cmp"
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	commandpb "go.temporal.io/api/command/v1"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/api/enums/v1"
	failurepb "go.temporal.io/api/failure/v1"
	historypb "go.temporal.io/api/history/v1"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	sdk "go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/host"
	"chimera.ai/engine/internal/devserver"
	"chimera.ai/engine/internal/stage"
	"chimera.ai/engine/store"
)

func TestMain(m *testing.M) { stage.Main(m) }

// dial starts a server of the test's own, which runs beside others, and gives a client of it.
func dial(t *testing.T) sdk.Client {
	t.Parallel()
	server, err := devserver.Start(t.Context(), devserver.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Stop(context.WithoutCancel(t.Context()))) })
	c, err := sdk.DialContext(t.Context(), sdk.Options{HostPort: server.Address})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

// imitate has a worker of the test take the engine's place.
func imitate(t *testing.T, c sdk.Client, plan any) {
	w := worker.New(c, contract.QueueEngine, worker.Options{})
	w.RegisterWorkflowWithOptions(plan, workflow.RegisterOptions{Name: contract.WorkflowType})
	require.NoError(t, w.Start())
	t.Cleanup(w.Stop)
}

// TestWhyARunIsHeld: each cause is told apart by types, never by wording.
func TestWhyARunIsHeld(t *testing.T) {
	failed := func(cause enums.WorkflowTaskFailedCause, typ string) *historypb.HistoryEvent {
		return &historypb.HistoryEvent{
			EventType: enums.EVENT_TYPE_WORKFLOW_TASK_FAILED,
			Attributes: &historypb.HistoryEvent_WorkflowTaskFailedEventAttributes{WorkflowTaskFailedEventAttributes: &historypb.WorkflowTaskFailedEventAttributes{
				Cause: cause, Failure: &failurepb.Failure{Message: "so it is", FailureInfo: &failurepb.Failure_ApplicationFailureInfo{
					ApplicationFailureInfo: &failurepb.ApplicationFailureInfo{Type: typ},
				}},
			}},
		}
	}
	timedOut := &historypb.HistoryEvent{EventType: enums.EVENT_TYPE_WORKFLOW_TASK_TIMED_OUT}
	const unhandled = enums.WORKFLOW_TASK_FAILED_CAUSE_WORKFLOW_WORKER_UNHANDLED_FAILURE
	for name, c := range map[string]struct {
		workers      int
		event        *historypb.HistoryEvent
		reason       Reason
		kind         contract.Kind
		cause, hints string
		queue        string
	}{
		"nobody":        {0, nil, ReasonNoWorker, "", "no worker polls the queue chimera", "role engine", ""},
		"nobody left":   {0, failed(unhandled, "PanicError"), ReasonNoWorker, "", "no worker polls the queue chimera", "role engine", ""},
		"other queue":   {0, nil, ReasonNoWorker, "", "no worker polls the queue q", "belong on the queue chimera", "q"},
		"silent":        {1, timedOut, ReasonSilent, contract.WorkerLost, "did not answer in time", "chimera terminate r", ""},
		"panic":         {1, failed(unhandled, "PanicError"), ReasonTask, "", "PanicError: so it is", "chimera terminate r", ""},
		"store away":    {1, failed(unhandled, "store_unavailable"), ReasonStore, contract.StoreUnavailable, "so it is", "goes on by itself", ""},
		"value gone":    {1, failed(enums.WORKFLOW_TASK_FAILED_CAUSE_EXTERNAL_STORAGE_FAILURE, "wrapError"), ReasonValue, "", "so it is", "chimera terminate r", ""},
		"another build": {1, failed(enums.WORKFLOW_TASK_FAILED_CAUSE_NON_DETERMINISTIC_ERROR, "PanicError"), ReasonHistory, "", "so it is", "build that began it", ""},
		"limit":         {1, failed(enums.WORKFLOW_TASK_FAILED_CAUSE_PENDING_ACTIVITIES_LIMIT_EXCEEDED, ""), ReasonTask, "", "so it is", "fault of the engine", ""},
		"an event came": {1, failed(enums.WORKFLOW_TASK_FAILED_CAUSE_UNHANDLED_COMMAND, ""), "", "", "", "", ""},
		"nothing known": {1, nil, "", "", "", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := New(nil, Options{}).hold("r", cmp.Or(c.queue, contract.QueueEngine), c.workers, c.event)
			if c.reason == "" {
				require.Nil(t, s)
				return
			}
			require.NotNil(t, s)
			require.Equal(t, c.reason, s.Reason)
			require.Equal(t, c.kind, s.Kind)
			require.Contains(t, s.Cause, c.cause)
			require.Contains(t, s.Hint, c.hints)
		})
	}
}

// open is a codec for payloads that are sealed without a key.
type open struct{ converter.PayloadCodec }

func (open) Decode(ps []*commonpb.Payload) ([]*commonpb.Payload, error) { return ps, nil }

// TestSealedCause: the message of a failure that is sealed is opened by the codec, and
// by nothing else.
func TestSealedCause(t *testing.T) {
	f := &failurepb.Failure{
		Message: "Encoded failure", EncodedAttributes: &commonpb.Payload{Data: []byte(`{"message": "boom"}`)},
		FailureInfo: &failurepb.Failure_ApplicationFailureInfo{ApplicationFailureInfo: &failurepb.ApplicationFailureInfo{Type: "PanicError"}},
	}
	require.Equal(t, "PanicError: boom", told(f, open{}))
	require.Equal(t, "PanicError: its message is sealed, and this process has no key to open it (payload.keys)", told(f, nil))
	f.EncodedAttributes.Data = []byte("no JSON")
	require.Contains(t, told(f, open{}), "sealed")
}

// answer has somebody else complete the next workflow task with commands.
func answer(t *testing.T, c sdk.Client, commands ...*commandpb.Command) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	task, err := c.WorkflowService().PollWorkflowTaskQueue(ctx, &workflowservice.PollWorkflowTaskQueueRequest{
		Namespace: "default", TaskQueue: &taskqueuepb.TaskQueue{Name: contract.QueueEngine}, Identity: "somebody",
	})
	require.NoError(t, err)
	_, err = c.WorkflowService().RespondWorkflowTaskCompleted(t.Context(), &workflowservice.RespondWorkflowTaskCompletedRequest{
		TaskToken: task.GetTaskToken(), Namespace: "default", Identity: "somebody", Commands: commands,
	})
	require.NoError(t, err)
}

// TestAHistoryOfAnother: somebody has answered for a run with a timer that the engine
// never starts. Workers cannot take it up, and nothing asks them to.
func TestAHistoryOfAnother(t *testing.T) {
	c := dial(t)
	_, err := c.ExecuteWorkflow(t.Context(), sdk.StartWorkflowOptions{ID: "r", TaskQueue: contract.QueueEngine}, contract.WorkflowType)
	require.NoError(t, err)
	answer(t, c, &commandpb.Command{
		CommandType: enums.COMMAND_TYPE_START_TIMER,
		Attributes: &commandpb.Command_StartTimerCommandAttributes{StartTimerCommandAttributes: &commandpb.StartTimerCommandAttributes{
			TimerId: "forged", StartToFireTimeout: durationpb.New(100 * 365 * 24 * time.Hour),
		}},
	})
	imitate(t, c, func(ctx workflow.Context) error {
		if err := workflow.SetQueryHandler(ctx, contract.QueryState, func() (contract.State, error) { return contract.State{}, nil }); err != nil {
			return err
		}
		return workflow.Await(ctx, func() bool { return false })
	})
	s, err := New(c, Options{}).Status(t.Context(), "r")
	require.NoError(t, err)
	require.NoError(t, s.StuckUnknown)
	require.NotNil(t, s.Stuck)
	require.Equal(t, ReasonHistory, s.Stuck.Reason)
	require.Contains(t, s.Stuck.Hint, "temporal workflow reset --type LastWorkflowTask --reason untaken --workflow-id r ")
}

// TestARunThatNothingWakes: somebody has completed a workflow task of a run with nothing.
// What it waited for is over, and it was not told.
func TestARunThatNothingWakes(t *testing.T) {
	c := dial(t)
	_, err := c.ExecuteWorkflow(t.Context(), sdk.StartWorkflowOptions{ID: "r", TaskQueue: contract.QueueEngine}, contract.WorkflowType)
	require.NoError(t, err)
	answer(t, c)
	d, err := c.DescribeWorkflowExecution(t.Context(), "r", "")
	require.NoError(t, err)
	now := time.Now()
	waits := func(until time.Time) *contract.State {
		return &contract.State{State: contract.RunRunning, Waiting: []contract.Wait{{Kind: contract.WaitRetry, Until: until.UTC().Format(time.RFC3339)}}}
	}
	runs := New(c, Options{})
	for name, e := range map[string]struct {
		until, now time.Time
		found      bool
	}{
		"long over":              {now, now.Add(time.Hour), true},
		"not over":               {now.Add(time.Hour), now.Add(time.Hour), false},
		"something has happened": {now.Add(-time.Hour), now, false},
	} {
		found, err := runs.unwoken(t.Context(), d, waits(e.until), e.now)
		require.NoError(t, err)
		require.Equal(t, e.found, found != nil, name)
	}
	d.PendingChildren = []*workflowpb.PendingChildExecutionInfo{{}}
	found, err := runs.unwoken(t.Context(), d, waits(now), now.Add(time.Hour))
	require.NoError(t, err)
	require.Nil(t, found)
}

// TestATaskThatNobodyTakes: somebody has answered for a run, and sent its next task to
// a queue of their own, for years. What status says to do takes it up again.
func TestATaskThatNobodyTakes(t *testing.T) {
	c := dial(t)
	run, err := c.ExecuteWorkflow(t.Context(), sdk.StartWorkflowOptions{ID: "r", TaskQueue: contract.QueueEngine}, contract.WorkflowType)
	require.NoError(t, err)
	sticky := &taskqueuepb.TaskQueue{Name: "nowhere", Kind: enums.TASK_QUEUE_KIND_STICKY, NormalName: contract.QueueEngine}
	poll := func(queue *taskqueuepb.TaskQueue) []byte {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		task, err := c.WorkflowService().PollWorkflowTaskQueue(ctx, &workflowservice.PollWorkflowTaskQueueRequest{
			Namespace: "default", TaskQueue: queue, Identity: "somebody",
		})
		require.NoError(t, err)
		return task.GetTaskToken()
	}
	require.Empty(t, poll(sticky)) // else the server knows that nobody is there
	_, err = c.WorkflowService().RespondWorkflowTaskCompleted(t.Context(), &workflowservice.RespondWorkflowTaskCompletedRequest{
		TaskToken: poll(&taskqueuepb.TaskQueue{Name: contract.QueueEngine}), Namespace: "default", Identity: "somebody",
		StickyAttributes:           &taskqueuepb.StickyExecutionAttributes{WorkerTaskQueue: sticky, ScheduleToStartTimeout: durationpb.New(10 * 365 * 24 * time.Hour)},
		ForceCreateNewWorkflowTask: true,
	})
	require.NoError(t, err)
	imitate(t, c, func(workflow.Context) error { return nil })

	runs := New(c, Options{})
	var found *Stuck
	since := time.Now().Add(-time.Hour).Truncate(time.Second)
	require.Eventually(t, func() bool {
		d, err := c.DescribeWorkflowExecution(t.Context(), "r", "")
		require.NoError(t, err)
		at := d.GetPendingWorkflowTask()
		require.Equal(t, enums.PENDING_WORKFLOW_TASK_STATE_SCHEDULED, at.GetState())
		at.ScheduledTime, at.OriginalScheduledTime = timestamppb.New(since), timestamppb.New(since)
		found, err = runs.examine(t.Context(), d, silent)
		require.NoError(t, err)
		return found != nil && found.Reason != ReasonNoWorker
	}, 5*time.Minute, 10*time.Millisecond)
	require.Equal(t, ReasonUntaken, found.Reason)
	require.WithinDuration(t, since, found.Since, 0)
	require.Contains(t, found.Hint, "temporal workflow reset --type LastWorkflowTask --reason untaken --workflow-id r ")
	require.Contains(t, found.Hint, "chimera terminate r")

	reset, err := c.ResetWorkflowExecution(t.Context(), &workflowservice.ResetWorkflowExecutionRequest{
		Namespace: "default", WorkflowExecution: &commonpb.WorkflowExecution{WorkflowId: "r", RunId: run.GetRunID()},
		WorkflowTaskFinishEventId: 4, RequestId: "1", Reason: "untaken",
	})
	require.NoError(t, err)
	require.NoError(t, c.GetWorkflow(t.Context(), "r", reset.GetRunId()).Get(t.Context(), nil))
}

const sleeper = `{apiVersion: chimera/v1, kind: Plan, name: sleeper, version: "1", agent: tester,
  input_schema: {type: object}, output_schema: {type: object},
  nodes: [{id: nap, template: engine/sleep, timeout_ms: 3600000, with: {ms: 3500000}}], edges: [nap -> $output]}`

// TestNoBuildIsCurrent: workers are there, and Temporal gives new runs to none.
func TestNoBuildIsCurrent(t *testing.T) {
	t.Parallel()
	server, err := devserver.Start(t.Context(), devserver.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Stop(context.Background())) })
	dir := t.TempDir()
	h, err := host.New(t.Context(), host.Options{
		Client: sdk.Options{HostPort: server.Address}, Store: store.Options{Dir: dir},
		Deployment: host.Deployment{Name: "test", Build: "a"}, Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, h.Close()) })
	require.NoError(t, h.Start())
	_, err = h.Client().ExecuteWorkflow(t.Context(), sdk.StartWorkflowOptions{ID: "nap", TaskQueue: contract.QueueEngine},
		contract.WorkflowType, contract.Start{Source: sleeper})
	require.NoError(t, err)
	runs := New(h.Client(), Options{})
	look := func() *Stuck {
		d, err := h.Client().DescribeWorkflowExecution(t.Context(), "nap", "")
		require.NoError(t, err)
		found, err := runs.examine(t.Context(), d, silent)
		if err != nil { // the deployment is not registered yet
			return nil
		}
		return found
	}
	require.Eventually(t, func() bool { f := look(); return f != nil && f.Reason == ReasonNoCurrent }, 5*time.Minute, 10*time.Millisecond)
	f := look()
	require.Equal(t, "no build of the worker deployment test is current", f.Cause)
	require.Contains(t, f.Hint, "--deployment-name test --build-id a")
	require.WithinDuration(t, time.Now(), f.Since, time.Hour)
	_, err = h.Client().WorkerDeploymentClient().GetHandle("test").SetCurrentVersion(t.Context(), sdk.WorkerDeploymentSetCurrentVersionOptions{BuildID: "a"})
	require.NoError(t, err)
	require.Eventually(t, func() bool { _, err := runs.query(t.Context(), "nap"); return err == nil && look() == nil }, 5*time.Minute, 10*time.Millisecond)
}
