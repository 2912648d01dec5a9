package host_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/protobuf/proto"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/host"
	"chimera.ai/engine/internal/stage"
	"chimera.ai/engine/ledger"
)

// TestAReferenceBringsNothingElsewhere: a client that may only write to Temporal
// starts a run with a reference that it has copied out of another run's history.
// The run never begins, and the other one's value is nowhere in it.
func TestAReferenceBringsNothingElsewhere(t *testing.T) {
	h := stage.Host(t, host.Options{})
	text := source("", []string{"a engine/pass 60000"}, []string{"$input.x -> a.x", "a.x -> $output.x"})
	run := stage.Start(t, h.Client(), text, `{"x":"`+strings.Repeat("confidential ", 2000)+`"}`)
	var out json.RawMessage
	require.NoError(t, stage.Await(t, h.Client(), run, &out))
	require.Contains(t, string(out), "confidential")

	// The worker's own connection hides references.
	service := stage.Dial(t, stage.Temporal(t).Address, t.TempDir()).WorkflowService()
	raw, err := service.GetWorkflowExecutionHistory(t.Context(), &workflowservice.GetWorkflowExecutionHistoryRequest{
		Namespace: stage.Temporal(t).Namespace, Execution: &commonpb.WorkflowExecution{WorkflowId: run.GetID(), RunId: run.GetRunID()}, MaximumPageSize: 1,
	})
	require.NoError(t, err)
	input := raw.GetHistory().GetEvents()[0].GetWorkflowExecutionStartedEventAttributes().GetInput()
	require.NotContains(t, string(input.GetPayloads()[0].GetData()), "confidential", "the history has a reference only")

	whole, err := proto.Marshal(input.GetPayloads()[0])
	require.NoError(t, err)
	forged, err := json.Marshal(contract.Unread{Reference: whole})
	require.NoError(t, err)
	for name, p := range map[string]*commonpb.Payload{
		"the reference":         input.GetPayloads()[0],
		"what stands for it":    {Data: whole, Metadata: map[string][]byte{"encoding": []byte("binary/chimera-unread")}},
		"what the run is given": {Data: forged, Metadata: map[string][]byte{"encoding": []byte("json/plain")}},
	} {
		t.Run(name, func(t *testing.T) {
			id := "thief-of-" + run.GetID() + "-" + strings.ReplaceAll(name, " ", "-")
			thief, err := service.StartWorkflowExecution(t.Context(), &workflowservice.StartWorkflowExecutionRequest{
				Namespace: stage.Temporal(t).Namespace, WorkflowId: id, RequestId: "once", Input: &commonpb.Payloads{Payloads: []*commonpb.Payload{p}},
				WorkflowType: &commonpb.WorkflowType{Name: contract.WorkflowType}, TaskQueue: &taskqueuepb.TaskQueue{Name: contract.QueueEngine},
			})
			require.NoError(t, err)
			stolen := h.Client().GetWorkflow(t.Context(), id, thief.GetRunId())
			err = stage.Await(t, h.Client(), stolen, nil)
			require.Equal(t, contract.Contract, stage.FailureOf(t, err).Kind)
			require.ErrorContains(t, err, "stored for another workflow")
			require.NotContains(t, err.Error(), "confidential")
			require.Empty(t, events(t, h.Client(), stolen, enumspb.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED))
			_, err = h.Store().Ledger.Run(t.Context(), stolen.GetID(), "")
			require.ErrorIs(t, err, ledger.ErrNotFound)
		})
	}
}
