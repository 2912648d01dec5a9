package payload

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	failurepb "go.temporal.io/api/failure/v1"
	historypb "go.temporal.io/api/history/v1"
	querypb "go.temporal.io/api/query/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/converter"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"chimera.ai/engine/blob"
	"chimera.ai/engine/contract"
)

func payloads(ps ...*commonpb.Payload) *commonpb.Payloads { return &commonpb.Payloads{Payloads: ps} }

func referenceTo(data string) *commonpb.Payload {
	return &commonpb.Payload{Data: []byte(data), Metadata: map[string][]byte{"encoding": []byte("json/protobuf"), "messageType": []byte(messageReference)}}
}

func started(kind, continued string) *historypb.HistoryEvent {
	return &historypb.HistoryEvent{Attributes: &historypb.HistoryEvent_WorkflowExecutionStartedEventAttributes{
		WorkflowExecutionStartedEventAttributes: &historypb.WorkflowExecutionStartedEventAttributes{
			WorkflowType: &commonpb.WorkflowType{Name: kind}, ContinuedExecutionRunId: continued,
			Input: payloads(referenceTo("input")),
			Memo:  &commonpb.Memo{Fields: map[string]*commonpb.Payload{"m": referenceTo("memo")}},
		},
	}}
}

func signaled() *historypb.HistoryEvent {
	return &historypb.HistoryEvent{Attributes: &historypb.HistoryEvent_WorkflowExecutionSignaledEventAttributes{
		WorkflowExecutionSignaledEventAttributes: &historypb.WorkflowExecutionSignaledEventAttributes{Input: payloads(referenceTo("signal"))},
	}}
}

// asks gives events of what a run has asked others.
func asks() []*historypb.HistoryEvent {
	return []*historypb.HistoryEvent{
		{Attributes: &historypb.HistoryEvent_ActivityTaskScheduledEventAttributes{
			ActivityTaskScheduledEventAttributes: &historypb.ActivityTaskScheduledEventAttributes{Input: payloads(referenceTo("call"))},
		}},
		{Attributes: &historypb.HistoryEvent_StartChildWorkflowExecutionInitiatedEventAttributes{
			StartChildWorkflowExecutionInitiatedEventAttributes: &historypb.StartChildWorkflowExecutionInitiatedEventAttributes{Input: payloads(referenceTo("call"))},
		}},
	}
}

func isHidden(p *commonpb.Payload) bool { return encodingOf(p) == encodingUnread }

// What clients send is hidden, and what the run asks others; what the run itself reads
// is not.
func TestReferencesAreHidden(t *testing.T) {
	for _, c := range []struct {
		name, kind, continued string
		input, memo           bool
	}{
		{"a start", contract.WorkflowType, "", true, true},
		{"a continued run", contract.WorkflowType, "before", false, true},
		{"another's workflow", "other", "", false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := &hider{runs: map[string]bool{}}
			task := &workflowservice.PollWorkflowTaskQueueResponse{
				WorkflowType: &commonpb.WorkflowType{Name: c.kind}, WorkflowExecution: &commonpb.WorkflowExecution{RunId: "r"}, NextPageToken: []byte("more"),
				History: &historypb.History{Events: append(asks(), started(c.kind, c.continued), signaled())},
				Queries: map[string]*querypb.WorkflowQuery{"q": {QueryArgs: payloads(referenceTo("q"))}},
				Query:   &querypb.WorkflowQuery{QueryArgs: payloads(referenceTo("q"))},
			}
			require.NoError(t, h.task(t.Context(), task))
			call, child := task.History.Events[0].GetActivityTaskScheduledEventAttributes(), task.History.Events[1].GetStartChildWorkflowExecutionInitiatedEventAttributes()
			require.Equal(t, c.memo, isHidden(call.Input.Payloads[0]))
			require.Equal(t, c.memo, isHidden(child.Input.Payloads[0]))
			at := task.History.Events[2].GetWorkflowExecutionStartedEventAttributes()
			require.Equal(t, c.input, isHidden(at.Input.Payloads[0]))
			require.Equal(t, c.memo, isHidden(at.Memo.Fields["m"]))
			require.Equal(t, c.memo, isHidden(task.History.Events[3].GetWorkflowExecutionSignaledEventAttributes().Input.Payloads[0]))
			require.Equal(t, c.memo, isHidden(task.Queries["q"].QueryArgs.Payloads[0]))
			require.Equal(t, c.memo, isHidden(task.Query.QueryArgs.Payloads[0]))

			next := &historypb.History{Events: []*historypb.HistoryEvent{signaled()}}
			require.NoError(t, h.page(t.Context(), "r", next))
			require.Equal(t, c.memo, isHidden(next.Events[0].GetWorkflowExecutionSignaledEventAttributes().Input.Payloads[0]), "the next page of the same run")

			first := &historypb.History{Events: []*historypb.HistoryEvent{started(c.kind, c.continued)}}
			require.NoError(t, h.page(t.Context(), "s", first))
			require.Equal(t, c.input, isHidden(first.Events[0].GetWorkflowExecutionStartedEventAttributes().Input.Payloads[0]))
			require.Equal(t, c.memo, h.knows("s"))
		})
	}
	h := &hider{runs: map[string]bool{}}
	require.NoError(t, h.task(t.Context(), nil))
	require.NoError(t, h.task(t.Context(), &workflowservice.PollWorkflowTaskQueueResponse{WorkflowType: &commonpb.WorkflowType{Name: contract.WorkflowType}}))
	require.NoError(t, h.page(t.Context(), "r", nil))
}

// TestAnAnswerHasOneReference: whoever may answer an activity, or end a workflow, names
// one large value as often as a message has room for. It is read once.
func TestAnAnswerHasOneReference(t *testing.T) {
	ours := func() *commonpb.Payload {
		return referenceTo(`{"driverName":"chimera-blob","claimData":{"digest":"sha256:00","size":"9"}}`)
	}
	failure := func() *failurepb.Failure {
		var f *failurepb.Failure
		for range 3 {
			f = &failurepb.Failure{EncodedAttributes: ours(), Cause: f, FailureInfo: &failurepb.Failure_ApplicationFailureInfo{
				ApplicationFailureInfo: &failurepb.ApplicationFailureInfo{Details: payloads(ours(), ours())},
			}}
		}
		return f
	}
	left := func(m proto.Message) int {
		n := 0
		require.NoError(t, visit(t.Context(), m, func(p *commonpb.Payload) *commonpb.Payload {
			if isReference(p) {
				n++
			}
			return p
		}))
		return n
	}
	for name, c := range map[string]struct {
		event *historypb.HistoryEvent
		ends  bool
		left  int
	}{
		"a result": {&historypb.HistoryEvent{Attributes: &historypb.HistoryEvent_ActivityTaskCompletedEventAttributes{
			ActivityTaskCompletedEventAttributes: &historypb.ActivityTaskCompletedEventAttributes{Result: payloads(ours(), ours(), ours())},
		}}, false, 1},
		"a failure": {&historypb.HistoryEvent{Attributes: &historypb.HistoryEvent_ActivityTaskFailedEventAttributes{
			ActivityTaskFailedEventAttributes: &historypb.ActivityTaskFailedEventAttributes{Failure: failure()},
		}}, false, 1},
		"the failure before": {&historypb.HistoryEvent{Attributes: &historypb.HistoryEvent_ActivityTaskStartedEventAttributes{
			ActivityTaskStartedEventAttributes: &historypb.ActivityTaskStartedEventAttributes{LastFailure: failure()},
		}}, false, 1},
		"the end of a child": {&historypb.HistoryEvent{Attributes: &historypb.HistoryEvent_ChildWorkflowExecutionCompletedEventAttributes{
			ChildWorkflowExecutionCompletedEventAttributes: &historypb.ChildWorkflowExecutionCompletedEventAttributes{Result: payloads(ours(), ours())},
		}}, false, 1},
		"an end that succeeds": {&historypb.HistoryEvent{Attributes: &historypb.HistoryEvent_WorkflowExecutionCompletedEventAttributes{
			WorkflowExecutionCompletedEventAttributes: &historypb.WorkflowExecutionCompletedEventAttributes{Result: payloads(ours(), ours())},
		}, EventType: enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED}, true, 1},
		"an end that fails": {&historypb.HistoryEvent{Attributes: &historypb.HistoryEvent_WorkflowExecutionFailedEventAttributes{
			WorkflowExecutionFailedEventAttributes: &historypb.WorkflowExecutionFailedEventAttributes{Failure: failure()},
		}, EventType: enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_FAILED}, true, 1},
		"the run's own state": {&historypb.HistoryEvent{Attributes: &historypb.HistoryEvent_WorkflowExecutionContinuedAsNewEventAttributes{
			WorkflowExecutionContinuedAsNewEventAttributes: &historypb.WorkflowExecutionContinuedAsNewEventAttributes{Input: payloads(ours(), ours())},
		}}, false, 2},
	} {
		t.Run(name, func(t *testing.T) {
			history := &historypb.History{Events: []*historypb.HistoryEvent{c.event}}
			if c.ends {
				reply := &workflowservice.GetWorkflowExecutionHistoryResponse{History: history}
				require.NoError(t, References(nil)(t.Context(), "", nil, reply, nil, func(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error { return nil }))
			} else {
				h := &hider{runs: map[string]bool{"r": true}}
				require.NoError(t, h.page(t.Context(), "r", history))
			}
			require.Equal(t, c.left, left(c.event))
		})
	}
}

// FuzzReference: a reference is what a client has written.
func FuzzReference(f *testing.F) {
	f.Add([]byte(nil))
	f.Add([]byte("\n\x00"))
	for _, p := range []*commonpb.Payload{
		referenceTo(`{"driverName":"chimera-blob","claimData":{"digest":"sha256:00","size":"9"}}`), referenceTo(`{`),
		{Data: []byte(`{"driver_name":"chimera-blob"}`), Metadata: map[string][]byte{"encoding": []byte(encodingReferenceOld)}},
	} {
		b, err := encode(p)
		require.NoError(f, err)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		_, err := Arguments{Store: nowhere{}}.Argument(t.Context(), "w", b)
		var e *contract.Error
		require.ErrorAs(t, err, &e)
		require.Contains(t, []contract.Kind{contract.Contract, contract.TooLarge}, e.Kind)
	})
}

// nowhere has no blob.
type nowhere struct{}

func (nowhere) Put(context.Context, []byte) (string, error) { return "", blob.ErrNotFound }

func (nowhere) Check(context.Context) error { return blob.ErrNotFound }

func (nowhere) Get(context.Context, string) ([]byte, error) { return nil, blob.ErrNotFound }

// TestALostResult: a client with keys hears that the value of a large result is not in
// the store.
func TestALostResult(t *testing.T) {
	ring, err := ParseKeys([]string{"k:" + strings.Repeat("0123456789abcdef", 4)})
	require.NoError(t, err)
	data, err := json.Marshal(contract.Reference{Ref: contract.Ref{Digest: "sha256:" + strings.Repeat("0", 64)}})
	require.NoError(t, err)
	p := &commonpb.Payload{Metadata: map[string][]byte{"encoding": []byte("json/plain")}, Data: append(data, referenceMark...)}
	resolvable([]*commonpb.Payload{p}, ring)
	claim, ok := referenceOf(p)
	require.True(t, ok)
	_, err = driver{nowhere{}, Sealing{Keys: ring}}.Retrieve(converter.StorageDriverRetrieveContext{}, []converter.StorageDriverClaim{{ClaimData: claim}})
	require.ErrorIs(t, err, blob.ErrNotFound)
}

// TestAReportIsNeverPlain: a client that asks for what a child workflow has returned
// takes no report that is not sealed: anybody who polls for workflow tasks can end it.
func TestAReportIsNeverPlain(t *testing.T) {
	ring, err := ParseKeys([]string{"k:" + strings.Repeat("0123456789abcdef", 4)})
	require.NoError(t, err)
	at := converter.WorkflowSerializationContext{Namespace: "default", WorkflowID: "child"}
	in := func(s Sealing) converter.DataConverter {
		return converter.WithDataConverterSerializationContext(NewConverter(nil, s), at)
	}
	report := contract.Report{Request: "r", Outcome: &contract.Outcome{}}
	var read contract.Report
	plain, err := in(Sealing{}).ToPayload(report)
	require.NoError(t, err)
	require.ErrorIs(t, in(Sealing{Keys: ring}).FromPayload(plain, &read), ErrRefused)
	sealed, err := in(Sealing{Keys: ring}).ToPayload(report)
	require.NoError(t, err)
	require.NoError(t, in(Sealing{Keys: ring}).FromPayload(sealed, &read))
	report.SealedWith = "k"
	require.Equal(t, report, read)
}
