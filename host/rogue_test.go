package host_test

import (
	"context"
	"encoding/json"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	failurepb "go.temporal.io/api/failure/v1"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/host"
	"chimera.ai/engine/internal/stage"
	"chimera.ai/engine/skills"
	"chimera.ai/engine/store"
)

// rogue is a client that may poll the queue of tools, and has no key.
type rogue struct {
	t *testing.T
	client.Client
}

// takes polls for an activity of a run, as a worker does.
func (r rogue) takes(workflow string) *workflowservice.PollActivityTaskQueueResponse {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), 2*time.Minute)
	defer cancel()
	for {
		task, err := r.WorkflowService().PollActivityTaskQueue(ctx, &workflowservice.PollActivityTaskQueueRequest{
			Namespace: client.DefaultNamespace, TaskQueue: &taskqueuepb.TaskQueue{Name: contract.QueueTools}, Identity: "rogue",
		})
		require.NoError(r.t, err)
		if len(task.GetTaskToken()) > 0 {
			require.Equal(r.t, workflow, task.GetWorkflowExecution().GetWorkflowId())
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

// TestARequestIsTakenForNoAnswer: whoever may poll a queue has the sealed request
// of an activity at hand, and gives it as the answer, or as the words of a failure.
// Neither is one, and the node runs at a worker.
func TestARequestIsTakenForNoAnswer(t *testing.T) {
	box := newToolbox(t)
	kept, s := store.Options{Dir: filepath.Join(t.TempDir(), "store")}, sealing(t, keys(t, "k1")...)
	engine := stage.Host(t, box.put(host.Options{Roles: []host.Role{host.RoleEngine}, Sealing: s, Store: kept}))
	r := rogue{t, stranger(t)}
	run := stage.Start(t, r, source("", []string{"a box/echo 60000"}, []string{"$input.x -> a.x", "a.x -> $output.x"}), `{"x":"forged"}`)

	task := r.takes(run.GetID())
	r.answers(task, task.GetInput())
	task = r.takes(run.GetID())
	r.fails(task, &failurepb.Failure{
		Message: "Encoded failure", EncodedAttributes: task.GetInput().GetPayloads()[0],
		FailureInfo: &failurepb.Failure_ApplicationFailureInfo{ApplicationFailureInfo: &failurepb.ApplicationFailureInfo{
			Type: string(contract.ToolError), NonRetryable: true, Details: task.GetInput(),
		}},
	})
	require.Zero(t, box.calls("echo"))
	stage.Host(t, box.put(host.Options{Roles: []host.Role{host.RoleTools}, Sealing: s, Store: kept}))
	var result map[string]string
	require.NoError(t, stage.Await(t, engine.Client(), run, &result))
	require.Equal(t, map[string]string{"x": "echo of a tool"}, result)
	require.Equal(t, 1, box.calls("echo"))
}

// TestAnAnswerIsReplayedForNoOther: what one node has answered is given as the
// answer of another node of the same type. It is refused, and the node runs at a
// worker.
func TestAnAnswerIsReplayedForNoOther(t *testing.T) {
	box, pass := newToolbox(t), make(chan struct{})
	kept, s := store.Options{Dir: filepath.Join(t.TempDir(), "store")}, sealing(t, keys(t, "k1")...)
	engine := stage.Host(t, box.put(host.Options{Roles: []host.Role{host.RoleEngine}, Sealing: s, Store: kept, Skills: []skills.Skill{
		skill("gate", func(ctx context.Context, input json.RawMessage) (json.RawMessage, error) {
			select {
			case <-pass:
			case <-ctx.Done():
			}
			return input, ctx.Err()
		}),
	}}))
	tools := func() *host.Host {
		return stage.Host(t, box.put(host.Options{Roles: []host.Role{host.RoleTools}, Sealing: s, Store: kept}))
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
