package host_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	failurepb "go.temporal.io/api/failure/v1"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"google.golang.org/protobuf/types/known/durationpb"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/host"
	"chimera.ai/engine/internal/lengthy"
	"chimera.ai/engine/internal/stage"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/payload"
	"chimera.ai/engine/skills"
	"chimera.ai/engine/store"
)

// rogue is a client without keys that may poll any queue.
type rogue struct {
	t *testing.T
	client.Client
}

// takes polls for an activity of a run, as a worker of tools does.
func (r rogue) takes(workflow string) *workflowservice.PollActivityTaskQueueResponse {
	r.t.Helper()
	return r.takesFrom(contract.QueueTools, workflow)
}

// takesFrom polls a queue for an activity of a run, or of any if workflow is "".
func (r rogue) takesFrom(queue, workflow string) *workflowservice.PollActivityTaskQueueResponse {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), 2*time.Minute)
	defer cancel()
	for {
		task, err := r.WorkflowService().PollActivityTaskQueue(ctx, &workflowservice.PollActivityTaskQueueRequest{
			Namespace: client.DefaultNamespace, TaskQueue: &taskqueuepb.TaskQueue{Name: queue}, Identity: "rogue",
		})
		require.NoError(r.t, err)
		if len(task.GetTaskToken()) > 0 {
			if workflow != "" {
				require.Equal(r.t, workflow, task.GetWorkflowExecution().GetWorkflowId())
			}
			return task
		}
	}
}

func (r rogue) answers(task *workflowservice.PollActivityTaskQueueResponse, result *commonpb.Payloads) {
	r.t.Helper()
	_, err := r.WorkflowService().RespondActivityTaskCompleted(r.t.Context(), &workflowservice.RespondActivityTaskCompletedRequest{
		Namespace: client.DefaultNamespace, TaskToken: task.GetTaskToken(), Result: result, Identity: "rogue",
	})
	require.NoError(r.t, err)
}

func (r rogue) fails(task *workflowservice.PollActivityTaskQueueResponse, failure *failurepb.Failure) {
	r.t.Helper()
	_, err := r.WorkflowService().RespondActivityTaskFailed(r.t.Context(), &workflowservice.RespondActivityTaskFailedRequest{
		Namespace: client.DefaultNamespace, TaskToken: task.GetTaskToken(), Failure: failure, Identity: "rogue",
	})
	require.NoError(r.t, err)
}

// unserved is a run of one node that calls the toolbox, in a deployment that seals and
// has no worker for tools until serve is called.
type unserved struct {
	box     *toolbox
	engine  *host.Host
	sealing payload.Sealing
	serve   func()
}

func startUnserved(t *testing.T, node string) (unserved, rogue, client.WorkflowRun) {
	t.Helper()
	u := unserved{box: newToolbox(t), sealing: sealing(t, keys(t, "k1")...)}
	options := store.Options{Dir: filepath.Join(t.TempDir(), "store")}
	of := func(role host.Role) *host.Host {
		return stage.Host(t, u.box.put(host.Options{Roles: []host.Role{role}, Sealing: u.sealing, Store: options}))
	}
	u.engine, u.serve = of(host.RoleEngine), func() { of(host.RoleTools) }
	r := rogue{t, stranger(t)}
	return u, r, stage.Start(t, r, source("", []string{node}, []string{"$input.x -> a.x", "a.x -> $output.x"}), `{"x":"forged"}`)
}

// TestARequestIsTakenForNoAnswer: whoever may poll a queue has the sealed request
// of an activity at hand, and gives it as the answer, or as the words of a failure.
// Neither is one, and the node runs at a worker.
func TestARequestIsTakenForNoAnswer(t *testing.T) {
	stage.Parallel(t)
	u, r, run := startUnserved(t, "a box/echo 60000")

	task := r.takes(run.GetID())
	r.answers(task, task.GetInput())
	task = r.takes(run.GetID())
	r.fails(task, &failurepb.Failure{
		Message: "Encoded failure", EncodedAttributes: task.GetInput().GetPayloads()[0],
		FailureInfo: &failurepb.Failure_ApplicationFailureInfo{ApplicationFailureInfo: &failurepb.ApplicationFailureInfo{
			Type: string(contract.ToolError), NonRetryable: true, Details: task.GetInput(),
		}},
	})
	require.Zero(t, u.box.calls("echo"))
	u.serve()
	var result map[string]string
	require.NoError(t, stage.Await(t, u.engine.Client(), run, &result))
	require.Equal(t, map[string]string{"x": "echo of a tool"}, result)
	require.Equal(t, 1, u.box.calls("echo"))
}

// TestAnAnswerIsReplayedForNoOther: what one node has answered is given as the
// answer of another node of the same type. It is refused, and the node runs at a
// worker.
func TestAnAnswerIsReplayedForNoOther(t *testing.T) {
	lengthy.Skip(t)
	stage.Parallel(t)
	box, pass := newToolbox(t), make(chan struct{})
	options, s := store.Options{Dir: filepath.Join(t.TempDir(), "store")}, sealing(t, keys(t, "k1")...)
	engine := stage.Host(t, box.put(host.Options{Roles: []host.Role{host.RoleEngine}, Sealing: s, Store: options, Skills: []skills.Skill{
		skill("gate", func(ctx context.Context, input json.RawMessage) (json.RawMessage, error) {
			select {
			case <-pass:
			case <-ctx.Done():
			}
			return input, ctx.Err()
		}),
	}}))
	tools := func() *host.Host {
		return stage.Host(t, box.put(host.Options{Roles: []host.Role{host.RoleTools}, Sealing: s, Store: options}))
	}
	first := tools()
	r := rogue{t, stranger(t)}
	run := stage.Start(t, r, source("", []string{"a box/echo 60000", "gate test/gate 60000", "b box/echo 60000"}, []string{
		"$input.x -> a.x", "a.x -> gate.x", "gate.x -> b.x", "b.x -> $output.x",
	}), `{"x":1}`)
	var answer *commonpb.Payloads
	stage.Until(t, "the first node has answered", func() bool {
		for _, e := range events(t, engine.Client(), run, enumspb.EVENT_TYPE_ACTIVITY_TASK_COMPLETED) {
			answer = e.GetActivityTaskCompletedEventAttributes().GetResult()
		}
		return answer != nil
	})
	require.NoError(t, first.Close())
	close(pass)
	r.answers(r.takes(run.GetID()), answer)
	require.Equal(t, 1, box.calls("echo"))
	tools()
	require.NoError(t, stage.Await(t, engine.Client(), run, nil))
	require.Equal(t, 2, box.calls("echo"), "each node was called")
}

// TestAReferenceIsNoAnswer: a reference to nothing, to what is no payload, or into a
// store of another kind, is given as the answer of a node, as the details of its
// failure, and with its heartbeat. It counts as a lost worker.
func TestAReferenceIsNoAnswer(t *testing.T) {
	lengthy.Skip(t)
	stage.Parallel(t)
	u, r, run := startUnserved(t, "a box/echo 60000")
	stray, err := u.engine.Store().Blobs.Put(t.Context(), []byte("no payload"))
	require.NoError(t, err)
	gone := pointer(`{"driverName":"chimera-blob","claimData":{"digest":"sha256:` + strings.Repeat("0", 64) + `"}}`)
	for _, answer := range []*commonpb.Payloads{gone, pointer(`{"driverName":"chimera-blob","claimData":{"digest":"` + stray + `"}}`), pointer(`{"driverName":"elsewhere"}`), pointer("no JSON")} {
		r.answers(r.takes(run.GetID()), answer)
	}
	task := r.takes(run.GetID())
	_, err = r.WorkflowService().RecordActivityTaskHeartbeat(t.Context(), &workflowservice.RecordActivityTaskHeartbeatRequest{
		Namespace: client.DefaultNamespace, TaskToken: task.GetTaskToken(), Details: gone, Identity: "rogue",
	})
	require.NoError(t, err)
	r.fails(task, &failurepb.Failure{
		Message: "Encoded failure", EncodedAttributes: gone.GetPayloads()[0],
		FailureInfo: &failurepb.Failure_ApplicationFailureInfo{ApplicationFailureInfo: &failurepb.ApplicationFailureInfo{
			Type: string(contract.ToolError), Details: gone, NextRetryDelay: durationpb.New(365 * 24 * time.Hour),
		}},
	})
	u.serve()
	require.NoError(t, stage.Await(t, u.engine.Client(), run, nil))
	require.Equal(t, 1, u.box.calls("echo"))
	require.Empty(t, events(t, u.engine.Client(), run, enumspb.EVENT_TYPE_WORKFLOW_TASK_FAILED))
}

// TestAReferenceIsNoReason: an attempt fails with references to nothing and into a
// store of another kind, and the next succeeds: the history has the failure with the
// start of the last attempt.
func TestAReferenceIsNoReason(t *testing.T) {
	lengthy.Skip(t)
	stage.Parallel(t)
	u, r, run := startUnserved(t, "a box/echo 60000 retry_policy: {max_retries: 3, on: [tool_error], initial_ms: 1}")
	for _, elsewhere := range []string{`{"driverName":"elsewhere"}`, "no JSON"} {
		r.fails(r.takes(run.GetID()), &failurepb.Failure{
			Message: "Encoded failure", EncodedAttributes: pointer(elsewhere).GetPayloads()[0],
			FailureInfo: &failurepb.Failure_ApplicationFailureInfo{ApplicationFailureInfo: &failurepb.ApplicationFailureInfo{
				Type: string(contract.ToolError), Details: pointer(elsewhere),
			}},
		})
	}
	u.serve()
	require.NoError(t, stage.Await(t, u.engine.Client(), run, nil))
	require.Empty(t, events(t, u.engine.Client(), run, enumspb.EVENT_TYPE_WORKFLOW_TASK_FAILED))
	whole, err := host.History(t.Context(), r, run.GetID(), run.GetRunID())
	require.NoError(t, err)
	require.NoError(t, host.NewReplayer(u.engine.Store().Blobs, u.sealing).Replay(client.DefaultNamespace, run.GetID(), whole))
}

// TestAHeartbeatReachesNoAttempt: an attempt reports a reference into a store of another
// kind, and fails. The next attempt is not asked to read it, and answers.
func TestAHeartbeatReachesNoAttempt(t *testing.T) {
	lengthy.Skip(t)
	stage.Parallel(t)
	u, r, run := startUnserved(t, "a box/echo 9000 retry_policy: {max_retries: 3, on: [tool_error], initial_ms: 1}")
	task := r.takes(run.GetID())
	_, err := r.WorkflowService().RecordActivityTaskHeartbeat(t.Context(), &workflowservice.RecordActivityTaskHeartbeatRequest{
		Namespace: client.DefaultNamespace, TaskToken: task.GetTaskToken(), Details: pointer(`{"driverName":"elsewhere"}`), Identity: "rogue",
	})
	require.NoError(t, err)
	r.fails(task, &failurepb.Failure{Message: "again", FailureInfo: &failurepb.Failure_ApplicationFailureInfo{
		ApplicationFailureInfo: &failurepb.ApplicationFailureInfo{Type: string(contract.ToolError)},
	}})
	u.serve()
	require.NoError(t, stage.Await(t, u.engine.Client(), run, nil))
	require.Equal(t, 1, u.box.calls("echo"))
	begun := events(t, u.engine.Client(), run, enumspb.EVENT_TYPE_ACTIVITY_TASK_STARTED)
	require.Len(t, begun, 1)
	require.EqualValues(t, 2, begun[0].GetActivityTaskStartedEventAttributes().GetAttempt())
}

// TestAnAnswerIsBounded: a worker that has the keys answers a probe that it was not
// asked for, which counts as a lost worker, and then says what no worker of ours would of
// attempts and digests.
func TestAnAnswerIsBounded(t *testing.T) {
	lengthy.Skip(t)
	stage.Parallel(t)
	s := sealing(t, keys(t, "k1")...)
	box := newToolbox(t)
	h := stage.Host(t, box.put(host.Options{Roles: []host.Role{host.RoleEngine}, Sealing: s}))
	r := rogue{t, stranger(t)}
	run := stage.Start(t, r, source("", []string{"a box/echo 60000"}, []string{"$input.x -> a.x", "a.x -> $output.x"}), `{"x":1}`)
	sealed := converter.WithDataConverterSerializationContext(payload.NewConverter(nil, s), converter.ActivitySerializationContext{
		Namespace: client.DefaultNamespace, WorkflowID: run.GetID(), ActivityType: "box/echo", TaskQueue: contract.QueueTools,
	})
	for _, out := range []contract.Outcome{
		{Probed: true},
		{Values: []contract.Value{contract.Value("2")}, Held: []bool{true}, Attempts: math.MaxInt, Input: "none", Output: strings.Repeat("x", 200_000)},
	} {
		task := r.takes(run.GetID())
		var call contract.Call
		require.NoError(t, sealed.FromPayloads(task.GetInput(), &call))
		out.Request = call.Request
		answer, err := sealed.ToPayloads(out)
		require.NoError(t, err)
		r.answers(task, answer)
	}
	require.NoError(t, stage.Await(t, r, run, nil))
	require.Len(t, events(t, h.Client(), run, enumspb.EVENT_TYPE_TIMER_STARTED), 2, "the deadline, and the wait for another worker")
	outcomes := told(t, h.Store(), run).Outcomes
	require.Len(t, outcomes, 1)
	require.Less(t, outcomes[0].Attempts, math.MaxInt32)
	require.Empty(t, outcomes[0].InputDigest+outcomes[0].OutputDigest)
}

// pointer is a payload that refers to a value in a store.
func pointer(data string) *commonpb.Payloads {
	return &commonpb.Payloads{Payloads: []*commonpb.Payload{{
		Metadata: map[string][]byte{"encoding": []byte("json/protobuf"), "messageType": []byte("temporal.api.sdk.v1.ExternalStorageReference")},
		Data:     []byte(data),
	}}}
}

// signals sends a payload as a signal. The server takes none for a moment while a
// workflow continues as new.
func (r rogue) signals(workflow, name string, input *commonpb.Payloads) error {
	_, err := r.WorkflowService().SignalWorkflowExecution(r.t.Context(), &workflowservice.SignalWorkflowExecutionRequest{
		Namespace: client.DefaultNamespace, WorkflowExecution: &commonpb.WorkflowExecution{WorkflowId: workflow}, SignalName: name, Input: input, Identity: "rogue",
	})
	return err
}

// longCall starts a run of one long call, beside a chain, that has continued as new
// with the call in flight, and gives the call's child workflow.
func longCall(t *testing.T, h *host.Host) (run client.WorkflowRun, child string) {
	t.Helper()
	nodes, edges := []string{"long test/gate 3600000 retry_policy: {max_retries: 40}"}, []string{"$input.x -> long.x", "$input.x -> n0.x", "long.x -> $output.x"}
	for i := range 40 {
		nodes = append(nodes, fmt.Sprintf("n%d engine/pass 2000", i))
		if i > 0 {
			edges = append(edges, fmt.Sprintf("n%d.x -> n%d.x", i-1, i))
		}
	}
	run = stage.Start(t, h.Client(), source("", nodes, append(edges, "n39 -> $output")), `{"x":1}`)
	stage.Until(t, "all but the long call have ended", func() bool { return stage.State(t, h.Client(), run).Counts.Succeeded == 40 })
	for _, w := range stage.State(t, h.Client(), run).Waiting {
		if w.Kind == contract.WaitChild {
			child = w.Detail
		}
	}
	require.NotEmpty(t, child)
	about, err := h.Client().DescribeWorkflowExecution(t.Context(), run.GetID(), "")
	require.NoError(t, err)
	require.NotEqual(t, run.GetRunID(), about.GetWorkflowExecutionInfo().GetExecution().GetRunId(), "the run has continued as new")
	return run, child
}

// TestAReportIsBounded: where nothing is sealed, whoever may signal reports what no
// worker would. The run takes of it what it would take of a worker, and ends.
func TestAReportIsBounded(t *testing.T) {
	lengthy.Skip(t)
	stage.Parallel(t)
	h := stage.Host(t, host.Options{ContinueAfter: 60, Skills: []skills.Skill{atGate(nil, "")}})
	r := rogue{t, stranger(t)}
	run, child := longCall(t, h)
	about, err := r.DescribeWorkflowExecution(t.Context(), child, "")
	require.NoError(t, err)
	long := strings.Repeat("<", 200_000)
	forged, err := converter.GetDefaultDataConverter().ToPayloads(contract.Report{
		Request: strings.TrimPrefix(child, run.GetID()+"/"),
		Child:   contract.Child{Workflow: child, Run: about.GetWorkflowExecutionInfo().GetExecution().GetRunId()},
		Failure: &contract.CallFailure{Error: contract.ErrorPayload{Kind: contract.Kind(long[:100_000]), Message: long, Attempts: math.MaxInt}},
	})
	require.NoError(t, err)
	require.NoError(t, r.signals(run.GetID(), contract.SignalReport, forged))
	f := stage.FailureOf(t, stage.Await(t, h.Client(), run, nil))
	require.Equal(t, contract.ServerError, f.Kind)
	require.Less(t, len(f.Message), 5000)
	require.Equal(t, ledger.RunFailed, told(t, h.Store(), run).State)
	require.Empty(t, events(t, h.Client(), run, enumspb.EVENT_TYPE_WORKFLOW_TASK_FAILED))
}

// TestReportsAreFlooded: whoever may signal sends reports of all sorts to a run that
// waits for one, and references to the child that is to report. The run drops them
// all, continues as new among them, and ends by its own child's report.
func TestReportsAreFlooded(t *testing.T) {
	lengthy.Skip(t)
	t.Parallel()
	for name, large := range map[string]string{"small": "true", "large": strings.Repeat("true ", 4<<10)} {
		t.Run(name, func(t *testing.T) {
			stage.Parallel(t)
			gate := make(chan struct{})
			h := stage.Host(t, host.Options{ContinueAfter: 60, Sealing: sealing(t, keys(t, "k1")...), Skills: []skills.Skill{atGate(gate, large)}})
			r := rogue{t, stranger(t)}
			run, child := longCall(t, h)
			about, err := r.DescribeWorkflowExecution(t.Context(), child, "")
			require.NoError(t, err)
			request := strings.TrimPrefix(child, run.GetID()+"/")
			forged := contract.Report{
				Request: request, Child: contract.Child{Workflow: child, Run: about.GetWorkflowExecutionInfo().GetExecution().GetRunId()},
				Outcome: &contract.Outcome{Values: []contract.Value{contract.Value(`"forged"`)}, Held: []bool{true}, Request: request},
			}
			plain, err := converter.GetDefaultDataConverter().ToPayloads(forged)
			require.NoError(t, err)
			other, err := converter.GetDefaultDataConverter().ToPayloads(contract.Report{Request: request, Child: forged.Child})
			require.NoError(t, err)
			huge, err := converter.GetDefaultDataConverter().ToPayloads(strings.Repeat("x", 100_000))
			require.NoError(t, err)
			gone := pointer(`{"driverName":"chimera-blob","claimData":{"digest":"sha256:` + strings.Repeat("0", 64) + `"}}`)
			sorts := []*commonpb.Payloads{plain, other, huge, gone, nil, {Payloads: []*commonpb.Payload{{Data: []byte{0}}}}}
			require.NoError(t, r.signals(child, contract.SignalReport, gone))
			require.NoError(t, r.signals(child, "anything", gone))
			for i := range 300 {
				stage.Until(t, "it is taken", func() bool {
					return r.signals(run.GetID(), contract.SignalReport, sorts[i%len(sorts)]) == nil
				})
			}
			close(gate)
			for i := range 100 {
				if _, err := r.QueryWorkflow(t.Context(), run.GetID(), "", contract.QueryState, gone.GetPayloads()[0]); err != nil {
					break
				}
				_ = r.SignalWorkflow(t.Context(), run.GetID(), "", contract.SignalReport, i) // it may have ended
			}
			var result map[string]string
			require.NoError(t, stage.Await(t, h.Client(), run, &result))
			require.Equal(t, large, result["x"])
		})
	}
}
