package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/api/enums/v1"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"
	sdk "go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"chimera.ai/engine/client"
	"chimera.ai/engine/contract"
	"chimera.ai/engine/host"
	"chimera.ai/engine/internal/devserver"
	"chimera.ai/engine/internal/lengthy"
	"chimera.ai/engine/internal/stage"
	"chimera.ai/engine/payload"
	"chimera.ai/engine/store"
)

// TestADelayedStart: a run that has not begun, since it was started with a delay, says
// when it does, whoever is there.
func TestADelayedStart(t *testing.T) {
	c := stand(t, payload.Sealing{})
	_, err := c.ExecuteWorkflow(t.Context(), sdk.StartWorkflowOptions{ID: "r", TaskQueue: contract.QueueEngine, StartDelay: time.Hour}, contract.WorkflowType)
	require.NoError(t, err)
	for range 2 {
		out, said, code := cli("status", "r", "--format", "json")
		require.Equal(t, exitDone, code, said)
		var r client.Status
		require.NoError(t, json.Unmarshal([]byte(out), &r))
		require.NotNil(t, r.StartsAt)
		require.Equal(t, r.StartTime.Add(time.Hour), *r.StartsAt)
		require.Nil(t, r.Stuck)
		out, said, _ = cli("status", "r")
		require.Regexp(t, `(?m)^begins +\d`, out)
		require.Contains(t, said, "has not begun")
		imitate(t, c, func(workflow.Context) error { return nil })
	}
}

// TestATaskThatWasAnswered: somebody has completed the first workflow task of a run with
// nothing. No task is left for a worker, and the run says that it is loading, for ever.
func TestATaskThatWasAnswered(t *testing.T) {
	c := stand(t, payload.Sealing{})
	run, err := c.ExecuteWorkflow(t.Context(), sdk.StartWorkflowOptions{ID: "r", TaskQueue: contract.QueueEngine}, contract.WorkflowType)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	task, err := c.WorkflowService().PollWorkflowTaskQueue(ctx, &workflowservice.PollWorkflowTaskQueueRequest{
		Namespace: "default", TaskQueue: &taskqueuepb.TaskQueue{Name: contract.QueueEngine}, Identity: "somebody",
	})
	require.NoError(t, err)
	_, err = c.WorkflowService().RespondWorkflowTaskCompleted(t.Context(), &workflowservice.RespondWorkflowTaskCompletedRequest{
		TaskToken: task.GetTaskToken(), Namespace: "default", Identity: "somebody",
	})
	require.NoError(t, err)
	imitate(t, c, func(ctx workflow.Context) error {
		if err := workflow.SetQueryHandler(ctx, contract.QueryState, func() (contract.State, error) {
			return contract.State{State: contract.RunLoading}, nil
		}); err != nil {
			return err
		}
		local := workflow.WithLocalActivityOptions(ctx, workflow.LocalActivityOptions{StartToCloseTimeout: time.Minute})
		return workflow.ExecuteLocalActivity(local, func(context.Context) error { return nil }).Get(ctx, nil)
	})
	out, said, code := cli("status", "r", "--format", "json")
	require.Equal(t, exitDone, code, said)
	var r client.Status
	require.NoError(t, json.Unmarshal([]byte(out), &r))
	require.NotNil(t, r.Stuck)
	require.Equal(t, client.ReasonUntaken, r.Stuck.Reason)
	require.Contains(t, r.Stuck.Hint, "temporal workflow reset --type LastWorkflowTask --reason untaken --workflow-id r ")

	_, err = c.ResetWorkflowExecution(t.Context(), &workflowservice.ResetWorkflowExecutionRequest{
		Namespace: "default", WorkflowExecution: &commonpb.WorkflowExecution{WorkflowId: "r", RunId: run.GetRunID()},
		WorkflowTaskFinishEventId: 4, RequestId: "1", Reason: "untaken",
	})
	require.NoError(t, err)
	require.NoError(t, c.GetWorkflow(t.Context(), "r", "").Get(t.Context(), nil))
}

// lines is a standard error that a test waits on.
type lines struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.String()
}

// TestARunWhoseTaskFails: every command reports a run that no worker can continue,
// with the cause and what to do, and waiting for it continues.
func TestARunWhoseTaskFails(t *testing.T) {
	t.Run("plain", func(t *testing.T) { testTaskFails(t, payload.Sealing{}, "boom") })
	t.Run("sealed", func(t *testing.T) {
		lengthy.Skip(t)
		ring, err := payload.ParseKeys([]string{"a:" + strings.Repeat("0123456789abcdef", 4)})
		require.NoError(t, err)
		testTaskFails(t, payload.Sealing{Keys: ring}, "its message is sealed")
	})
}

// stand starts a server of the test's own, which commands in this process find,
// and gives a client of it.
func stand(t *testing.T, sealing payload.Sealing) sdk.Client {
	server, err := devserver.Start(t.Context(), devserver.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Stop(context.WithoutCancel(t.Context()))) })
	t.Chdir(t.TempDir())
	t.Setenv("CHIMERA_TEMPORAL_ADDRESS", server.Address)
	c, err := host.Dial(t.Context(), sdk.Options{HostPort: server.Address}, nil, sealing, nil)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

// cli runs a command, and returns its output and exit code.
func cli(args ...string) (string, string, int) {
	var out, said bytes.Buffer
	code := run(args, strings.NewReader(""), &out, &said)
	return out.String(), said.String(), code
}

// imitate has a worker of the test take the engine's place.
func imitate(t *testing.T, c sdk.Client, plan any) {
	w := worker.New(c, contract.QueueEngine, worker.Options{})
	w.RegisterWorkflowWithOptions(plan, workflow.RegisterOptions{Name: contract.WorkflowType})
	require.NoError(t, w.Start())
	t.Cleanup(w.Stop)
}

func testTaskFails(t *testing.T, sealing payload.Sealing, cause string) {
	c := stand(t, sealing)
	_, err := c.ExecuteWorkflow(t.Context(), sdk.StartWorkflowOptions{ID: "early", TaskQueue: contract.QueueEngine}, contract.WorkflowType)
	require.NoError(t, err)
	var r client.Status
	status := func(id string) {
		out, _, code := cli("status", id, "--format", "json")
		require.Equal(t, exitDone, code)
		r = client.Status{}
		require.NoError(t, json.Unmarshal([]byte(out), &r))
	}
	status("early")
	require.NotNil(t, r.Stuck)
	require.Equal(t, client.ReasonNoWorker, r.Stuck.Reason)
	require.Equal(t, 1, r.Stuck.Attempt)

	imitate(t, c, func(workflow.Context, contract.Start) error { panic("boom") })

	// Queries are refused from the third attempt on.
	require.Eventually(t, func() bool { status("early"); return r.Stuck != nil && r.Stuck.Attempt >= 3 }, 5*time.Minute, 100*time.Millisecond)
	require.Equal(t, client.ReasonTask, r.Stuck.Reason)
	require.Contains(t, r.Stuck.Cause, cause)
	require.Contains(t, r.Stuck.Hint, "chimera terminate early")
	require.False(t, r.Stuck.Since.IsZero())
	require.Nil(t, r.Detail)
	require.Equal(t, contract.RunRunning, r.State)
	out, said, _ := cli("status", "early")
	require.Contains(t, out, "only the first is recorded")
	require.Contains(t, out, cause)
	require.Contains(t, said, "its nodes are not known")

	_, said, code := cli("cancel", "early")
	require.Equal(t, exitDone, code)
	require.Contains(t, said, "without effect so far")
	require.Contains(t, said, cause)
	require.Contains(t, said, "chimera terminate early")

	const plan = `{"apiVersion":"chimera/v1","kind":"Plan","name":"p","version":"1","agent":"a","input_schema":{"type":"object"},"output_schema":{"type":"object"},
		"nodes":[{"id":"a","template":"engine/pass"}],"edges":["a.$ -> $output.$"]}`
	var waited lines
	ended := make(chan int, 1)
	go func() {
		ended <- cliWith(plan, &waited, "start", "-", "--id", "late", "--wait", "--format", "json")
	}()
	require.Eventually(t, func() bool { return strings.Contains(waited.String(), "the run does not go on") }, 5*time.Minute, 50*time.Millisecond)
	require.Contains(t, waited.String(), cause)
	select {
	case code := <-ended:
		require.Fail(t, "it waits no more", "exit code %d: %s", code, waited.String())
	default:
	}
	require.NoError(t, c.TerminateWorkflow(t.Context(), "late", "", "the test is over"))
	require.Equal(t, exitNegative, <-ended)
	require.Equal(t, 1, strings.Count(waited.String(), "the run does not go on"))
}

// cliWith runs a command whose standard error is watched meanwhile.
func cliWith(stdin string, said *lines, args ...string) int {
	return run(args, strings.NewReader(stdin), new(bytes.Buffer), said)
}

// TestARunWhosePlanIsGone: it says that it waits for the store, and goes on once the
// plan is back.
func TestARunWhosePlanIsGone(t *testing.T) {
	lengthy.Skip(t)
	ring, err := payload.ParseKeys([]string{"a:" + strings.Repeat("0123456789abcdef", 4)})
	require.NoError(t, err)
	for name, sealing := range map[string]payload.Sealing{"plain": {}, "sealed": {Keys: ring}} {
		t.Run(name, func(t *testing.T) {
			c := stand(t, sealing)
			dir := t.TempDir()
			engine := func() *host.Host {
				h, err := host.New(t.Context(), host.Options{
					Client: sdk.Options{HostPort: os.Getenv("CHIMERA_TEMPORAL_ADDRESS")}, Store: store.Options{Dir: dir}, Sealing: sealing,
					Logger: slog.New(slog.DiscardHandler),
				})
				require.NoError(t, err)
				require.NoError(t, h.Start())
				return h
			}
			h := engine()
			const plan = `{"apiVersion":"chimera/v1","kind":"Plan","name":"p","version":"1","agent":"a","input_schema":{"type":"object"},"output_schema":{"type":"object"},
				"nodes":[{"id":"s","template":"engine/sleep","timeout_ms":3600000,"with":{"ms":3500000}}],"edges":[]}`
			run, err := c.ExecuteWorkflow(t.Context(), sdk.StartWorkflowOptions{ID: "r", TaskQueue: contract.QueueEngine}, contract.WorkflowType, contract.Start{Source: plan})
			require.NoError(t, err)
			stage.Until(t, "it runs", func() bool {
				v, err := c.QueryWorkflow(t.Context(), "r", "", contract.QueryState)
				var s contract.State
				return err == nil && v.Get(&s) == nil && s.Counts.Running == 1
			})
			require.NoError(t, h.Close())
			files, err := filepath.Glob(filepath.Join(dir, "blobs", "*", "*"))
			require.NoError(t, err)
			require.Len(t, files, 1)
			require.NoError(t, os.Rename(files[0], files[0]+".gone"))
			h = engine()
			defer func() { require.NoError(t, h.Close()) }()
			require.NoError(t, c.SignalWorkflow(t.Context(), "r", "", "wake", nil))
			var r client.Status
			stage.Until(t, "it is stuck", func() bool {
				out, _, _ := cli("status", "r", "--format", "json")
				r = client.Status{}
				return json.Unmarshal([]byte(out), &r) == nil && r.Stuck != nil && r.Stuck.Attempt > 1
			})
			require.Equal(t, client.ReasonStore, r.Stuck.Reason)
			require.Equal(t, contract.StoreUnavailable, r.Stuck.Kind)
			if sealing.Keys == nil {
				require.Contains(t, r.Stuck.Cause, filepath.Base(files[0]))
			}
			require.NoError(t, os.Rename(files[0]+".gone", files[0]))
			require.NoError(t, c.CancelWorkflow(t.Context(), "r", ""))
			require.Error(t, stage.Await(t, c, run, nil))
			d, err := c.DescribeWorkflowExecution(t.Context(), "r", "")
			require.NoError(t, err)
			require.Equal(t, enums.WORKFLOW_EXECUTION_STATUS_CANCELED, d.GetWorkflowExecutionInfo().GetStatus())
		})
	}
}

func TestStuckInALine(t *testing.T) {
	s := client.Stuck{Attempt: 4, Since: time.Unix(0, 0), Cause: "a\nb", Hint: "do"}
	require.Equal(t, fmt.Sprintf("since %s: a b  (the first attempt of its workflow task; this is attempt 4, and only the first is recorded)",
		time.Unix(0, 0).Local().Format(time.DateTime)), stuckAt(&s))
	s = client.Stuck{Attempt: 1, Cause: "a", Hint: "do"}
	require.Equal(t, "a", stuckAt(&s))
	require.Equal(t, "the run does not go on: a\ndo", standstill(&s))
}
