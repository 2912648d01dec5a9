package workflows

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/plan"
)

// past is the history of a child, which grows by events and by tasks.
type past struct {
	t      *testing.T
	events []*historypb.HistoryEvent
	// task is the last workflow task that has ended.
	task int64
}

func (p *past) payload(v any) *commonpb.Payloads {
	p.t.Helper()
	all, err := converter.GetDefaultDataConverter().ToPayloads(v)
	require.NoError(p.t, err)
	return all
}

func (p *past) add(kind enumspb.EventType, e *historypb.HistoryEvent) int64 {
	e.EventId, e.EventType, e.EventTime = int64(len(p.events)+1), kind, timestamppb.New(time.Unix(1_700_000_000, 0))
	p.events = append(p.events, e)
	return e.EventId
}

func (p *past) works() {
	id := p.add(enumspb.EVENT_TYPE_WORKFLOW_TASK_SCHEDULED, &historypb.HistoryEvent{Attributes: &historypb.HistoryEvent_WorkflowTaskScheduledEventAttributes{
		WorkflowTaskScheduledEventAttributes: &historypb.WorkflowTaskScheduledEventAttributes{TaskQueue: &taskqueuepb.TaskQueue{Name: "q"}}}})
	p.add(enumspb.EVENT_TYPE_WORKFLOW_TASK_STARTED, &historypb.HistoryEvent{Attributes: &historypb.HistoryEvent_WorkflowTaskStartedEventAttributes{
		WorkflowTaskStartedEventAttributes: &historypb.WorkflowTaskStartedEventAttributes{ScheduledEventId: id}}})
	p.task = p.add(enumspb.EVENT_TYPE_WORKFLOW_TASK_COMPLETED, &historypb.HistoryEvent{Attributes: &historypb.HistoryEvent_WorkflowTaskCompletedEventAttributes{
		WorkflowTaskCompletedEventAttributes: &historypb.WorkflowTaskCompletedEventAttributes{ScheduledEventId: id, StartedEventId: id + 1}}})
}

// calls begins the history: the child has scheduled the call of an effect.
func (p *past) calls() (scheduled int64) {
	request := contract.ChildCall{
		Call: contract.Call{Request: "request", Permit: new(contract.Permit)}, Activity: "bank/pay", Queue: "q", ActivityID: "a",
		StartMS: 1000, TimeoutMS: 600_000, HeartbeatMS: 10_000, Attempts: 1,
	}
	p.add(enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED, &historypb.HistoryEvent{Attributes: &historypb.HistoryEvent_WorkflowExecutionStartedEventAttributes{
		WorkflowExecutionStartedEventAttributes: &historypb.WorkflowExecutionStartedEventAttributes{
			WorkflowType: &commonpb.WorkflowType{Name: contract.WorkflowCall}, TaskQueue: &taskqueuepb.TaskQueue{Name: "q"}, Input: p.payload(request),
			WorkflowTaskTimeout: durationpb.New(10 * time.Second), FirstExecutionRunId: "run", OriginalExecutionRunId: "run", Attempt: 1,
			ParentWorkflowExecution: &commonpb.WorkflowExecution{WorkflowId: "parent", RunId: "parent"}, ParentWorkflowNamespace: "default",
		}}})
	p.works()
	return p.add(enumspb.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED, &historypb.HistoryEvent{Attributes: &historypb.HistoryEvent_ActivityTaskScheduledEventAttributes{
		ActivityTaskScheduledEventAttributes: &historypb.ActivityTaskScheduledEventAttributes{
			ActivityId: "a", ActivityType: &commonpb.ActivityType{Name: "bank/pay"}, TaskQueue: &taskqueuepb.TaskQueue{Name: "q"}, WorkflowTaskCompletedEventId: p.task,
		}}})
}

func (p *past) recalled() {
	p.add(enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED, &historypb.HistoryEvent{Attributes: &historypb.HistoryEvent_WorkflowExecutionSignaledEventAttributes{
		WorkflowExecutionSignaledEventAttributes: &historypb.WorkflowExecutionSignaledEventAttributes{SignalName: contract.SignalRecall, Input: p.payload(nil)}}})
}

func (p *past) cancelled() {
	p.add(enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_CANCEL_REQUESTED, &historypb.HistoryEvent{Attributes: &historypb.HistoryEvent_WorkflowExecutionCancelRequestedEventAttributes{
		WorkflowExecutionCancelRequestedEventAttributes: &historypb.WorkflowExecutionCancelRequestedEventAttributes{}}})
}

// versioned: the child has found that it follows the rule.
func (p *past) versioned() {
	p.add(enumspb.EVENT_TYPE_MARKER_RECORDED, &historypb.HistoryEvent{Attributes: &historypb.HistoryEvent_MarkerRecordedEventAttributes{
		MarkerRecordedEventAttributes: &historypb.MarkerRecordedEventAttributes{MarkerName: "Version", WorkflowTaskCompletedEventId: p.task,
			Details: map[string]*commonpb.Payloads{"change-id": p.payload(recallChange), "version": p.payload(1)}}}})
	attribute := p.payload([]string{recallChange + "-1"}).Payloads[0]
	attribute.Metadata["type"] = []byte("KeywordList")
	p.add(enumspb.EVENT_TYPE_UPSERT_WORKFLOW_SEARCH_ATTRIBUTES, &historypb.HistoryEvent{Attributes: &historypb.HistoryEvent_UpsertWorkflowSearchAttributesEventAttributes{
		UpsertWorkflowSearchAttributesEventAttributes: &historypb.UpsertWorkflowSearchAttributesEventAttributes{WorkflowTaskCompletedEventId: p.task,
			SearchAttributes: &commonpb.SearchAttributes{IndexedFields: map[string]*commonpb.Payload{"TemporalChangeVersion": attribute}}}}})
}

func (p *past) requestsCancel(scheduled int64) int64 {
	return p.add(enumspb.EVENT_TYPE_ACTIVITY_TASK_CANCEL_REQUESTED, &historypb.HistoryEvent{Attributes: &historypb.HistoryEvent_ActivityTaskCancelRequestedEventAttributes{
		ActivityTaskCancelRequestedEventAttributes: &historypb.ActivityTaskCancelRequestedEventAttributes{ScheduledEventId: scheduled, WorkflowTaskCompletedEventId: p.task}}})
}

// ends: the call was cancelled; started is 0 if no worker had taken it.
func (p *past) ends(scheduled, request, started int64) {
	p.add(enumspb.EVENT_TYPE_ACTIVITY_TASK_CANCELED, &historypb.HistoryEvent{Attributes: &historypb.HistoryEvent_ActivityTaskCanceledEventAttributes{
		ActivityTaskCanceledEventAttributes: &historypb.ActivityTaskCanceledEventAttributes{ScheduledEventId: scheduled, StartedEventId: started, LatestCancelRequestedEventId: request}}})
}

// reports: the child has told its run, and has ended.
func (p *past) reports() {
	id := p.add(enumspb.EVENT_TYPE_SIGNAL_EXTERNAL_WORKFLOW_EXECUTION_INITIATED, &historypb.HistoryEvent{Attributes: &historypb.HistoryEvent_SignalExternalWorkflowExecutionInitiatedEventAttributes{
		SignalExternalWorkflowExecutionInitiatedEventAttributes: &historypb.SignalExternalWorkflowExecutionInitiatedEventAttributes{
			WorkflowTaskCompletedEventId: p.task, Namespace: "default", WorkflowExecution: &commonpb.WorkflowExecution{WorkflowId: "parent"}, SignalName: contract.SignalReport}}})
	//lint:ignore SA1019 the SDK finds the command by it
	p.events[id-1].GetSignalExternalWorkflowExecutionInitiatedEventAttributes().Control = strconv.FormatInt(id, 10)
	p.add(enumspb.EVENT_TYPE_EXTERNAL_WORKFLOW_EXECUTION_SIGNALED, &historypb.HistoryEvent{Attributes: &historypb.HistoryEvent_ExternalWorkflowExecutionSignaledEventAttributes{
		ExternalWorkflowExecutionSignaledEventAttributes: &historypb.ExternalWorkflowExecutionSignaledEventAttributes{InitiatedEventId: id, WorkflowExecution: &commonpb.WorkflowExecution{WorkflowId: "parent"}}}})
	p.works()
	p.add(enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED, &historypb.HistoryEvent{Attributes: &historypb.HistoryEvent_WorkflowExecutionCompletedEventAttributes{
		WorkflowExecutionCompletedEventAttributes: &historypb.WorkflowExecutionCompletedEventAttributes{WorkflowTaskCompletedEventId: p.task}}})
}

// replayed is what the child of a history reports.
func (p *past) replayed() contract.Report {
	p.t.Helper()
	var told contract.Report
	replayer := worker.NewWorkflowReplayer()
	replayer.RegisterWorkflowWithOptions(func(ctx workflow.Context, request contract.ChildCall) (contract.Report, error) {
		report, err := Call(ctx, request)
		told = report
		return report, err
	}, workflow.RegisterOptions{Name: contract.WorkflowCall})
	require.NoError(p.t, replayer.ReplayWorkflowHistory(nil, &historypb.History{Events: p.events}))
	require.NotNil(p.t, told.Failure)
	return told
}

// TestChildrenThatAreCancelled: the call of an effect is awaited when its child is cancelled or recalled, in
// what has happened since there is that rule; before, its child did not wait. One that was recalled before a
// worker had taken it was not sent.
func TestChildrenThatAreCancelled(t *testing.T) {
	for name, c := range map[string]struct {
		happens func(p *past)
		want    contract.Kind
	}{
		"cancelled in an earlier build": {func(p *past) {
			scheduled := p.calls()
			p.cancelled()
			p.works()
			p.requestsCancel(scheduled)
			p.reports()
		}, contract.WorkerLost},
		"recalled in an earlier build, and cancelled": {func(p *past) {
			scheduled := p.calls()
			p.recalled()
			p.works()
			p.cancelled()
			p.works()
			p.requestsCancel(scheduled)
			p.reports()
		}, contract.WorkerLost},
		"recalled": {func(p *past) {
			scheduled := p.calls()
			p.recalled()
			p.works()
			p.versioned()
			p.ends(scheduled, p.requestsCancel(scheduled), 0)
			p.works()
			p.reports()
		}, contract.Unsent},
		"cancelled": {func(p *past) {
			scheduled := p.calls()
			p.cancelled()
			p.works()
			p.versioned()
			p.ends(scheduled, p.requestsCancel(scheduled), 0)
			p.works()
			p.reports()
		}, contract.WorkerLost},
		"cancelled by its worker": {func(p *past) {
			scheduled := p.calls()
			p.recalled()
			p.works()
			p.versioned()
			request := p.requestsCancel(scheduled)
			started := p.add(enumspb.EVENT_TYPE_ACTIVITY_TASK_STARTED, &historypb.HistoryEvent{Attributes: &historypb.HistoryEvent_ActivityTaskStartedEventAttributes{
				ActivityTaskStartedEventAttributes: &historypb.ActivityTaskStartedEventAttributes{ScheduledEventId: scheduled}}})
			p.ends(scheduled, request, started)
			p.works()
			p.reports()
		}, contract.Cancelled},
	} {
		t.Run(name, func(t *testing.T) {
			p := &past{t: t}
			c.happens(p)
			require.Equal(t, c.want, p.replayed().Failure.Error.Kind)
		})
	}
}

// TestReportsOfRecalledEffects: what a child says of an effect in a run that is about to end is noted, however
// it would be repeated otherwise.
func TestReportsOfRecalledEffects(t *testing.T) {
	for name, report := range map[string]contract.Report{
		"unsent":  {Failure: &contract.CallFailure{Error: contract.ErrorPayload{Kind: contract.Unsent, Message: "no"}}},
		"lost":    {Failure: &contract.CallFailure{Error: contract.ErrorPayload{Kind: contract.WorkerLost, Message: "no"}}},
		"unknown": {Outcome: &contract.Outcome{Request: "request", Unknown: "decision"}},
	} {
		t.Run(name, func(t *testing.T) {
			inRun(t, plan.Retry{MaxAttempts: 5, On: []contract.Kind{contract.Unsent}}, func(r *run) {
				r.phase, r.recalled = unwinding, true
				report.Request = "request"
				noted := len(r.journal.entries)
				r.takeReport(&wait{kind: waitChild, node: 1, request: "request", decided: true, permit: new(contract.Permit), child: new(contract.Child)}, &report)
				require.Empty(t, r.sleeping)
				require.Empty(t, r.again)
				require.Empty(t, r.parked)
				require.Len(t, r.journal.entries, noted+1)
				require.Equal(t, contract.Failed, r.journal.entries[noted].State)
			})
		})
	}
}
