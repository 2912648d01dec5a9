package host_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	sdkpb "go.temporal.io/api/sdk/v1"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	updatepb "go.temporal.io/api/update/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"chimera.ai/engine/blob"
	"chimera.ai/engine/contract"
	"chimera.ai/engine/host"
	"chimera.ai/engine/internal/lengthy"
	"chimera.ai/engine/internal/stage"
	"chimera.ai/engine/payload"
	"chimera.ai/engine/skills"
	"chimera.ai/engine/store"
)

// long is a start whose argument is stored by reference.
func long() contract.Start {
	return contract.Start{
		Source: source("", []string{"a engine/pass 900"}, []string{"$input.x -> a.x", "a.x -> $output.x"}),
		Input:  json.RawMessage(`{"x":"` + strings.Repeat("long ", 4<<10) + `"}`),
	}
}

func begin(t *testing.T, c client.Client, args ...any) client.WorkflowRun {
	t.Helper()
	run, err := c.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{TaskQueue: contract.QueueEngine}, contract.WorkflowType, args...)
	require.NoError(t, err)
	return run
}

// raw starts a run with payloads as they are.
func raw(t *testing.T, c client.Client, change func(*workflowservice.StartWorkflowExecutionRequest), ps ...*commonpb.Payload) client.WorkflowRun {
	t.Helper()
	request := &workflowservice.StartWorkflowExecutionRequest{
		Namespace: stage.Temporal(t).Namespace, WorkflowId: "raw-" + strings.ReplaceAll(t.Name(), "/", "-"), RequestId: "once",
		Input:        &commonpb.Payloads{Payloads: ps},
		WorkflowType: &commonpb.WorkflowType{Name: contract.WorkflowType}, TaskQueue: &taskqueuepb.TaskQueue{Name: contract.QueueEngine},
	}
	if change != nil {
		change(request)
	}
	begun, err := c.WorkflowService().StartWorkflowExecution(t.Context(), request)
	require.NoError(t, err)
	return c.GetWorkflow(t.Context(), request.WorkflowId, begun.GetRunId())
}

// reference is a payload that says that its value lies elsewhere.
func reference(data string) *commonpb.Payload {
	return &commonpb.Payload{Data: []byte(data), Metadata: map[string][]byte{
		"encoding": []byte("json/protobuf"), "messageType": []byte("temporal.api.sdk.v1.ExternalStorageReference"),
	}}
}

func inline(data string) *commonpb.Payload {
	return &commonpb.Payload{Data: []byte(data), Metadata: map[string][]byte{"encoding": []byte("json/plain")}}
}

// lost refers to what no store has.
var lost = fmt.Sprintf(`{"driverName":"chimera-blob","claimData":{"digest":%q,"size":"20000"}}`, blob.Digest([]byte("never stored")))

// healthy checks that no workflow task of a run has failed, except one that an
// event overtook.
func healthy(t *testing.T, c client.Client, run client.WorkflowRun) {
	t.Helper()
	for _, event := range events(t, c, run, enumspb.EVENT_TYPE_WORKFLOW_TASK_FAILED) {
		require.Equal(t, enumspb.WORKFLOW_TASK_FAILED_CAUSE_UNHANDLED_COMMAND, event.GetWorkflowTaskFailedEventAttributes().GetCause(), event)
	}
}

// TestAStartFromAnotherStore: a client whose store is not that of the workers
// starts a run whose argument they cannot read. The run ends, and says so.
func TestAStartFromAnotherStore(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]payload.Sealing{"plain": {}, "sealed": sealing(t, keys(t, "k1")...)} {
		t.Run(name, func(t *testing.T) {
			if name == "plain" {
				lengthy.Skip(t)
			}
			stage.Parallel(t)
			h := stage.Host(t, host.Options{ArgumentWithin: time.Second, Sealing: s})
			elsewhere := stage.DialSealed(t, stage.Temporal(t).Address, store.Options{Dir: t.TempDir()}, s)
			run := begin(t, elsewhere, long())
			f := stage.FailureOf(t, stage.Await(t, h.Client(), run, nil))
			require.Equal(t, contract.Contract, f.Kind)
			require.Contains(t, f.Message, "is not in this deployment's store")
			require.Contains(t, f.Message, "send the argument inline")
			require.Equal(t, contract.RunFailed, stage.State(t, h.Client(), run).State)
			healthy(t, h.Client(), run)

			run = begin(t, h.Client(), long())
			require.NoError(t, stage.Await(t, h.Client(), run, nil), "the same store has it")
		})
	}
}

// TestArgumentsThatCannotBeRead: whatever a client sends, the run ends by a
// failure of the closed set, and no workflow task fails.
func TestArgumentsThatCannotBeRead(t *testing.T) {
	lengthy.Skip(t)
	stage.Parallel(t)
	opened := make(chan struct{})
	h := stage.Host(t, host.Options{ArgumentWithin: time.Second, Skills: []skills.Skill{gate(opened)}})
	waits := source("", []string{"a test/gate 60000"}, []string{"$input.x -> a.x", "a.x -> $output.x"})
	good := inline(`{"source":"x"}`)
	// As a worker ran it, a run replays where it is moved to another build.
	other := stage.Dial(t, stage.Temporal(t).Address, t.TempDir())
	replays := func(t *testing.T, run client.WorkflowRun) {
		t.Helper()
		healthy(t, h.Client(), run)
		whole, err := host.History(t.Context(), other, run.GetID(), run.GetRunID())
		require.NoError(t, err)
		require.NoError(t, host.NewReplayer(h.Store().Blobs, payload.Sealing{}).Replay(client.DefaultNamespace, run.GetID(), whole))
	}
	for name, c := range map[string]struct {
		change func(*workflowservice.StartWorkflowExecutionRequest)
		args   []*commonpb.Payload
		kind   contract.Kind
		want   string
	}{
		"another store's reference": {nil, []*commonpb.Payload{reference(`{"driverName":"s3","claimData":{"key":"k"}}`)}, contract.Contract, `a store of the kind "s3"`},
		"a broken reference":        {nil, []*commonpb.Payload{reference(`{`)}, contract.Contract, "cannot be read"},
		"a reference to nothing":    {nil, []*commonpb.Payload{reference(lost)}, contract.Contract, "is not in this deployment's store"},
		"a reference to too much":   {nil, []*commonpb.Payload{reference(strings.Replace(lost, "20000", "2000000000", 1))}, contract.TooLarge, "has 2000000000 bytes"},
		"a forged stand-in":         {nil, []*commonpb.Payload{inline(`{"chimera.unread":"AAAA"}`)}, contract.Contract, "not a reference"},
		"no JSON":                   {nil, []*commonpb.Payload{{Data: []byte{1}, Metadata: map[string][]byte{"encoding": []byte("no/such")}}}, contract.Contract, "arguments cannot be read"},
		"bytes":                     {nil, []*commonpb.Payload{{Data: []byte{1}, Metadata: map[string][]byte{"encoding": []byte("binary/plain")}}}, contract.Contract, "start"},
		"nothing":                   {nil, nil, contract.Contract, "not a JSON object"},
		"a second argument":         {nil, []*commonpb.Payload{good, inline(`"more"`)}, contract.Contract, "arguments cannot be read (a start has one"},
		"a second list":             {nil, []*commonpb.Payload{good, inline(`[1]`)}, contract.Contract, "arguments cannot be read"},
		"a third argument":          {nil, []*commonpb.Payload{good, inline(`null`), inline(`7`)}, contract.Contract, "arguments cannot be read"},
		"a long second argument":    {nil, []*commonpb.Payload{good, reference(lost)}, contract.Contract, "for the start's first argument only"},
		"a header": {func(r *workflowservice.StartWorkflowExecutionRequest) {
			r.Header = &commonpb.Header{Fields: map[string]*commonpb.Payload{"h": reference(lost)}}
		}, []*commonpb.Payload{good}, contract.Contract, "does not compile"},
		"a memo": {func(r *workflowservice.StartWorkflowExecutionRequest) {
			r.Memo = &commonpb.Memo{Fields: map[string]*commonpb.Payload{"m": reference(lost)}}
		}, []*commonpb.Payload{good}, contract.Contract, "does not compile"},
		"a last result": {func(r *workflowservice.StartWorkflowExecutionRequest) {
			r.LastCompletionResult = &commonpb.Payloads{Payloads: []*commonpb.Payload{reference(lost)}}
		}, []*commonpb.Payload{good}, contract.Contract, "does not compile"},
		"a summary": {func(r *workflowservice.StartWorkflowExecutionRequest) {
			r.UserMetadata = &sdkpb.UserMetadata{Summary: reference(lost), Details: reference(`{"driverName":"s3","claimData":{"key":"k"}}`)}
		}, []*commonpb.Payload{good}, contract.Contract, "does not compile"},
	} {
		t.Run(name, func(t *testing.T) {
			run := raw(t, h.Client(), c.change, c.args...)
			f := stage.FailureOf(t, stage.Await(t, h.Client(), run, nil))
			require.Equal(t, c.kind, f.Kind)
			require.Contains(t, f.Message, c.want)
			require.Equal(t, []string{}, f.Compensated)
			replays(t, run)
		})
	}
	t.Run("signals and queries", func(t *testing.T) {
		run := stage.Start(t, h.Client(), waits, `{"x":1}`)
		service, execution := h.Client().WorkflowService(), &commonpb.WorkflowExecution{WorkflowId: run.GetID()}
		_, err := service.SignalWorkflowExecution(t.Context(), &workflowservice.SignalWorkflowExecutionRequest{
			Namespace: stage.Temporal(t).Namespace, WorkflowExecution: execution, SignalName: "any",
			Input: &commonpb.Payloads{Payloads: []*commonpb.Payload{reference(lost)}},
		})
		require.NoError(t, err)
		opened <- struct{}{}
		require.NoError(t, stage.Await(t, h.Client(), run, nil))
		replays(t, run)
	})
	t.Run("updates", func(t *testing.T) {
		run := stage.Start(t, h.Client(), waits, `{"x":1}`)
		for i, p := range []*commonpb.Payload{reference(lost), reference(`{"driverName":"s3"}`), reference(`{`)} {
			answer, err := h.Client().WorkflowService().UpdateWorkflowExecution(t.Context(), &workflowservice.UpdateWorkflowExecutionRequest{
				Namespace: stage.Temporal(t).Namespace, WorkflowExecution: &commonpb.WorkflowExecution{WorkflowId: run.GetID()},
				WaitPolicy: &updatepb.WaitPolicy{LifecycleStage: enumspb.UPDATE_WORKFLOW_EXECUTION_LIFECYCLE_STAGE_COMPLETED},
				Request: &updatepb.Request{Meta: &updatepb.Meta{UpdateId: fmt.Sprint(i)}, Input: &updatepb.Input{
					Name: "any", Args: &commonpb.Payloads{Payloads: []*commonpb.Payload{p}},
					Header: &commonpb.Header{Fields: map[string]*commonpb.Payload{"h": p}},
				}},
			})
			require.NoError(t, err)
			require.Contains(t, answer.GetOutcome().GetFailure().GetMessage(), "any", "nobody takes it")
		}
		opened <- struct{}{}
		require.NoError(t, stage.Await(t, h.Client(), run, nil))
		replays(t, run)
	})
}

// TestTheStoreIsAwayAtAStart: a start waits for a store that is away, for a
// bounded time; meanwhile it can be cancelled.
func TestTheStoreIsAwayAtAStart(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		within time.Duration
		then   func(t *testing.T, h *host.Host, run client.WorkflowRun, back func())
	}{
		"it comes back": {0, func(t *testing.T, h *host.Host, run client.WorkflowRun, back func()) {
			back()
			require.NoError(t, stage.Await(t, h.Client(), run, nil))
		}},
		"the run is cancelled": {0, func(t *testing.T, h *host.Host, run client.WorkflowRun, _ func()) {
			require.NoError(t, h.Client().CancelWorkflow(t.Context(), run.GetID(), run.GetRunID()))
			require.True(t, temporal.IsCanceledError(stage.Await(t, h.Client(), run, nil)))
			require.Equal(t, contract.RunCancelled, stage.State(t, h.Client(), run).State)
		}},
		"it stays away": {time.Second, func(t *testing.T, h *host.Host, run client.WorkflowRun, _ func()) {
			f := stage.FailureOf(t, stage.Await(t, h.Client(), run, nil))
			require.Equal(t, contract.StoreUnavailable, f.Kind)
			require.Contains(t, f.Message, "its value cannot be read")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			stage.Parallel(t)
			log, dir, elsewhere := new(lines), filepath.Join(t.TempDir(), "store"), t.TempDir()
			h := stage.Host(t, host.Options{
				Store: store.Options{Dir: dir}, ArgumentWithin: c.within,
				Logger: slog.New(slog.NewTextHandler(log, nil)),
			})
			blobs := filepath.Join(dir, "blobs")
			require.NoError(t, os.Rename(blobs, blobs+".away"))
			require.NoError(t, os.WriteFile(blobs, nil, 0o600))
			run := begin(t, stage.Dial(t, stage.Temporal(t).Address, elsewhere), long())
			stage.Until(t, "the start waits", func() bool { return strings.Contains(log.String(), "a start waits for its argument") })
			c.then(t, h, run, func() {
				require.NoError(t, os.Remove(blobs))
				require.NoError(t, os.Rename(blobs+".away", blobs))
				require.NoError(t, os.CopyFS(blobs, os.DirFS(filepath.Join(elsewhere, "blobs"))))
			})
			healthy(t, h.Client(), run)
		})
	}
}
