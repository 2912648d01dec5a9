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
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/host"
	"chimera.ai/engine/internal/lengthy"
	"chimera.ai/engine/internal/stage"
	"chimera.ai/engine/skills"
	"chimera.ai/engine/store"
)

// nobodys is a payload that names a key that nobody has, for the place that another
// one is sealed for.
func nobodys(context string) *commonpb.Payload {
	return &commonpb.Payload{Data: []byte("anything that does not open, of any length"), Metadata: map[string][]byte{
		"encoding": []byte("binary/chimera-sealed"), "chimera-key": []byte("nobody"), "chimera-context": []byte(context),
	}}
}

// atGate is a skill that answers with x when a gate is opened.
func atGate(gate <-chan struct{}, x string) skills.Skill {
	return skill("gate", func(ctx context.Context, _ json.RawMessage) (json.RawMessage, error) {
		select {
		case <-gate:
			return json.Marshal(map[string]string{"x": x})
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	})
}

// unheld checks that no workflow task of a run has failed for lack of a key.
func unheld(t *testing.T, c client.Client, run client.WorkflowRun) {
	t.Helper()
	for _, event := range events(t, c, run, enumspb.EVENT_TYPE_WORKFLOW_TASK_FAILED) {
		require.NotEqual(t, enumspb.WORKFLOW_TASK_FAILED_CAUSE_WORKFLOW_WORKER_UNHANDLED_FAILURE, event.GetWorkflowTaskFailedEventAttributes().GetCause(), event)
	}
}

// TestAKeyThatNobodyHas is named by whoever may answer an activity: by its result, its
// failure, its heartbeat, and the cause of its timeout. None of it holds the run up.
func TestAKeyThatNobodyHas(t *testing.T) {
	lengthy.Skip(t)
	box := newToolbox(t)
	options, s := store.Options{Dir: filepath.Join(t.TempDir(), "store")}, sealing(t, keys(t, "k1")...)
	engine := stage.Host(t, box.put(host.Options{Roles: []host.Role{host.RoleEngine}, Sealing: s, Store: options}))
	r := rogue{t, stranger(t)}
	run := stage.Start(t, r, source("", []string{"a box/echo 60000"}, []string{"$input.x -> a.x", "a.x -> $output.x"}), `{"x":"forged"}`)

	forged := func(sort string) *commonpb.Payload {
		place, err := json.Marshal([]string{"activity", client.DefaultNamespace, run.GetID(), "box/echo", sort})
		require.NoError(t, err)
		return nobodys(string(place))
	}
	fails := func(typ string, cause *failurepb.Failure) *failurepb.Failure {
		return &failurepb.Failure{
			Message: "Encoded failure", EncodedAttributes: forged("failure"), Cause: cause,
			FailureInfo: &failurepb.Failure_ApplicationFailureInfo{ApplicationFailureInfo: &failurepb.ApplicationFailureInfo{
				Type: typ, NonRetryable: true, Details: &commonpb.Payloads{Payloads: []*commonpb.Payload{forged("details")}},
			}},
		}
	}
	r.answers(r.takes(run.GetID()), &commonpb.Payloads{Payloads: []*commonpb.Payload{forged("")}})
	r.fails(r.takes(run.GetID()), fails(string(contract.ToolError), nil))
	r.fails(r.takes(run.GetID()), fails(string(contract.ToolError), fails("", nil)))
	r.fails(r.takes(run.GetID()), fails(string(contract.StoreUnavailable), nil))
	task := r.takes(run.GetID())
	_, err := r.WorkflowService().RecordActivityTaskHeartbeat(t.Context(), &workflowservice.RecordActivityTaskHeartbeatRequest{
		Namespace: client.DefaultNamespace, TaskToken: task.GetTaskToken(), Identity: "rogue",
		Details: &commonpb.Payloads{Payloads: []*commonpb.Payload{forged("beat")}},
	})
	require.NoError(t, err)
	r.answers(task, &commonpb.Payloads{Payloads: []*commonpb.Payload{forged("")}})
	require.Zero(t, box.calls("echo"))
	stage.Host(t, box.put(host.Options{Roles: []host.Role{host.RoleTools}, Sealing: s, Store: options}))
	var result map[string]string
	require.NoError(t, stage.Await(t, engine.Client(), run, &result))
	require.Equal(t, map[string]string{"x": "echo of a tool"}, result)
	unheld(t, engine.Client(), run)
}

// TestAReportWithAKeyThatNobodyHas: so is a report by whoever may send a signal.
func TestAReportWithAKeyThatNobodyHas(t *testing.T) {
	lengthy.Skip(t)
	gate := make(chan struct{})
	h := stage.Host(t, host.Options{ContinueAfter: 60, Sealing: sealing(t, keys(t, "k1")...), Skills: []skills.Skill{atGate(gate, "true")}})
	r := rogue{t, stranger(t)}
	run, _ := longCall(t, h)
	place, err := json.Marshal([]string{"workflow", client.DefaultNamespace, run.GetID(), "", "report"})
	require.NoError(t, err)
	require.NoError(t, r.signals(run.GetID(), contract.SignalReport, &commonpb.Payloads{Payloads: []*commonpb.Payload{nobodys(string(place))}}))
	close(gate)
	var result map[string]string
	require.NoError(t, stage.Await(t, h.Client(), run, &result))
	require.Equal(t, "true", result["x"])
	unheld(t, h.Client(), run)
}

// TestAStartSealedWithAnotherKey: a start that names a key that the workers lack
// waits for it, for a bounded time, and then fails; none that it brings beside its
// argument is waited for.
func TestAStartSealedWithAnotherKey(t *testing.T) {
	lengthy.Skip(t)
	h := stage.Host(t, host.Options{ArgumentWithin: time.Second, Sealing: sealing(t, keys(t, "k1")...)})
	good := inline(`{"source":"x"}`)
	for name, c := range map[string]struct {
		change func(*workflowservice.StartWorkflowExecutionRequest)
		sealed func(string) []*commonpb.Payload
		kind   contract.Kind
		want   string
	}{
		"its argument": {nil, func(at string) []*commonpb.Payload { return []*commonpb.Payload{nobodys(at)} }, contract.StoreUnavailable, `no key "nobody"`},
		"a state": {nil, func(at string) []*commonpb.Payload {
			return []*commonpb.Payload{good, inline("null"), nobodys(at)}
		}, contract.Contract, "arguments cannot be read"},
		"a plan": {nil, func(at string) []*commonpb.Payload { return []*commonpb.Payload{good, nobodys(at)} }, contract.Contract, "arguments cannot be read"},
	} {
		t.Run(name, func(t *testing.T) {
			id := "raw-" + filepath.Base(t.Name())
			place, err := json.Marshal([]string{"workflow", client.DefaultNamespace, id, "", ""})
			require.NoError(t, err)
			run := raw(t, h.Client(), func(r *workflowservice.StartWorkflowExecutionRequest) { r.WorkflowId = id }, c.sealed(string(place))...)
			f := stage.FailureOf(t, stage.Await(t, h.Client(), run, nil))
			require.Equal(t, c.kind, f.Kind)
			require.Contains(t, f.Message, c.want)
			unheld(t, h.Client(), run)
		})
	}
	t.Run("a sealed argument is read", func(t *testing.T) {
		run := begin(t, h.Client(), map[string]any{"source": long().Source, "input": map[string]any{"x": "1"}})
		var result map[string]string
		require.NoError(t, stage.Await(t, h.Client(), run, &result))
		require.Equal(t, "1", result["x"])
	})
}

// TestAnAnswerHasTheKeyOfItsRequest, whichever key is the first of who answers: so
// workers may be told of a new key one after the other, in any order.
func TestAnAnswerHasTheKeyOfItsRequest(t *testing.T) {
	lengthy.Skip(t)
	box := newToolbox(t)
	old, fresh := keys(t, "old")[0], keys(t, "new")[0]
	options := store.Options{Dir: filepath.Join(t.TempDir(), "store")}
	engine := stage.Host(t, box.put(host.Options{Roles: []host.Role{host.RoleEngine}, Sealing: sealing(t, old), Store: options}))
	stage.Host(t, box.put(host.Options{Roles: []host.Role{host.RoleTools}, Sealing: sealing(t, fresh, old), Store: options}))
	run := stage.Start(t, stranger(t), source("", []string{"a box/echo 60000"}, []string{"$input.x -> a.x", "a.x -> $output.x"}), `{"x":"1"}`)
	require.NoError(t, stage.Await(t, engine.Client(), run, nil))
	require.Equal(t, 1, box.calls("echo"))
	unheld(t, engine.Client(), run)
}
