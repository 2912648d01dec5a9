package client

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/api/enums/v1"
	failurepb "go.temporal.io/api/failure/v1"
	historypb "go.temporal.io/api/history/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/plan"
)

// The record of a local activity, as Temporal's library for Go writes it.
const (
	localMarker = "LocalActivity"
	localData   = "data"
	localResult = "result"
)

// search looks for the calls of one node in the histories of a run.
type search struct {
	client   *Client
	from     Reader
	id, node string

	// started is the start of the first execution, or nil if it is not retained.
	started *historypb.HistoryEvent

	plan  *plan.Plan
	index int
	found Exchanges
	// open holds the calls that have not ended, and children that make calls, by the event
	// that scheduled them.
	open map[int64]int
}

// all searches every execution of the run, in order.
func (s *search) all(ctx context.Context) error {
	var runs []string
	for run := s.found.RunID; run != ""; {
		answer, err := s.page(ctx, s.id, run, nil, 1)
		if err != nil && len(runs) > 0 && isGone(err) {
			s.found.Partial = true
			break
		}
		if err != nil {
			return &CallError{"the history of " + s.id, err}
		}
		runs = append(runs, run)
		first := answer.GetHistory().GetEvents()
		if len(first) == 0 {
			break
		}
		if run = first[0].GetWorkflowExecutionStartedEventAttributes().GetContinuedExecutionRunId(); run == "" {
			s.started = first[0]
		}
	}
	for _, run := range slices.Backward(runs) {
		if err := s.execution(ctx, s.id, run, run); err != nil {
			return err
		}
	}
	return nil
}

func (s *search) page(ctx context.Context, workflow, run string, token []byte, size int32) (*workflowservice.GetWorkflowExecutionHistoryResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return s.client.temporal.WorkflowService().GetWorkflowExecutionHistory(ctx, &workflowservice.GetWorkflowExecutionHistoryRequest{
		Namespace: s.client.options.Namespace, Execution: &commonpb.WorkflowExecution{WorkflowId: workflow, RunId: run},
		MaximumPageSize: size, NextPageToken: token,
	})
}

// execution searches the history of one execution of a workflow. asked is the run id of
// the execution that requested its calls: its own, or that of a child workflow's run.
func (s *search) execution(ctx context.Context, workflow, run, asked string) error {
	outer := s.open
	s.open = map[int64]int{}
	defer func() { s.open = outer }()
	var token []byte
	for {
		answer, err := s.page(ctx, workflow, run, token, 1000)
		if err != nil && workflow != s.id && isGone(err) {
			s.found.Partial = true
			return nil
		}
		if err != nil {
			return &CallError{"the history of " + workflow, err}
		}
		for _, e := range answer.GetHistory().GetEvents() {
			if err := s.event(ctx, asked, e); err != nil {
				return err
			}
		}
		if token = answer.GetNextPageToken(); len(token) == 0 {
			return nil
		}
	}
}

// event processes an event.
func (s *search) event(ctx context.Context, run string, e *historypb.HistoryEvent) error {
	switch e.GetEventType() {
	case enums.EVENT_TYPE_MARKER_RECORDED:
		return s.marker(ctx, run, e)
	case enums.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED:
		return s.scheduled(ctx, run, e)
	case enums.EVENT_TYPE_START_CHILD_WORKFLOW_EXECUTION_INITIATED:
		return s.initiated(ctx, e)
	case enums.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_STARTED:
		a := e.GetChildWorkflowExecutionStartedEventAttributes()
		if _, ok := s.open[a.GetInitiatedEventId()]; ok {
			child := a.GetWorkflowExecution()
			return s.execution(ctx, child.GetWorkflowId(), child.GetRunId(), run)
		}
	case enums.EVENT_TYPE_ACTIVITY_TASK_STARTED:
		a := e.GetActivityTaskStartedEventAttributes()
		if c := s.call(a.GetScheduledEventId(), nil); c != nil {
			c.Attempts = int(a.GetAttempt())
		}
	case enums.EVENT_TYPE_ACTIVITY_TASK_COMPLETED:
		a := e.GetActivityTaskCompletedEventAttributes()
		if c := s.call(a.GetScheduledEventId(), e); c != nil {
			return s.outcome(ctx, c, a.GetResult().GetPayloads())
		}
	case enums.EVENT_TYPE_ACTIVITY_TASK_FAILED:
		a := e.GetActivityTaskFailedEventAttributes()
		if c := s.call(a.GetScheduledEventId(), e); c != nil {
			c.Failure = s.failure(ctx, a.GetFailure(), contract.ToolError)
		}
	case enums.EVENT_TYPE_ACTIVITY_TASK_TIMED_OUT:
		a := e.GetActivityTaskTimedOutEventAttributes()
		if c := s.call(a.GetScheduledEventId(), e); c != nil {
			c.Failure = s.failure(ctx, a.GetFailure(), contract.WorkerLost)
		}
	case enums.EVENT_TYPE_ACTIVITY_TASK_CANCELED:
		if c := s.call(e.GetActivityTaskCanceledEventAttributes().GetScheduledEventId(), e); c != nil {
			c.Failure = &contract.ErrorPayload{Kind: contract.Cancelled, Message: "the call was cancelled", Node: s.node, Attempts: c.Attempts}
		}
	}
	return nil
}

// call returns the call of the node that an event scheduled, or nil; end is the event
// that ends it.
func (s *search) call(scheduled int64, end *historypb.HistoryEvent) *Exchange {
	i, ok := s.open[scheduled]
	if !ok {
		return nil
	}
	c := &s.found.Calls[i]
	if end != nil {
		at := end.GetEventTime().AsTime()
		c.EndTime = &at
	}
	return c
}

// scheduled processes the request for an ordinary activity, if it is one of the node's.
func (s *search) scheduled(ctx context.Context, run string, e *historypb.HistoryEvent) error {
	a := e.GetActivityTaskScheduledEventAttributes()
	name, in := a.GetActivityType().GetName(), a.GetInput().GetPayloads()
	if len(in) == 0 || s.plan != nil && name != s.found.Operation || isInternal(name) {
		return nil
	}
	var call contract.Call
	if err := s.from.Read(ctx, in[0], &call); err != nil {
		return &UnreadableError{s.id, err}
	}
	if ours, err := s.asks(ctx, &call); err != nil || !ours || call.Undo != "" {
		return err // what is asked of an effect that is to be undone is no call
	}
	if err := s.from.Give(ctx, s.id, call.Values()...); err != nil {
		return &UnreadableError{s.id, err}
	}
	at := e.GetEventTime().AsTime()
	c := Exchange{Execution: run, StartTime: &at, Input: call.Input}
	for _, d := range call.Deliveries {
		if d.Edge < 0 || d.Edge >= len(s.plan.Edges) {
			return fmt.Errorf("the history of %s does not fit its plan", s.id)
		}
		c.Got = append(c.Got, Brought{Edge: s.plan.EdgeString(d.Edge), Value: d.Value, Output: d.Output, Error: d.Error})
	}
	s.open[e.GetEventId()] = len(s.found.Calls)
	s.found.Calls = append(s.found.Calls, c)
	return nil
}

// initiated processes the start of a child workflow that makes a call of the node.
func (s *search) initiated(ctx context.Context, e *historypb.HistoryEvent) error {
	a := e.GetStartChildWorkflowExecutionInitiatedEventAttributes()
	in := a.GetInput().GetPayloads()
	if a.GetWorkflowType().GetName() != contract.WorkflowCall || len(in) == 0 {
		return nil
	}
	var child contract.ChildCall
	if err := s.from.Read(ctx, in[0], &child); err != nil {
		return &UnreadableError{s.id, err}
	}
	ours, err := s.asks(ctx, &child.Call)
	if ours {
		s.open[e.GetEventId()] = -1 // its calls are in its own history
	}
	return err
}

// asks reports whether a call is one of the node's, and loads the plan that it names if
// none is known.
func (s *search) asks(ctx context.Context, call *contract.Call) (bool, error) {
	if s.plan == nil {
		compiled, err := s.from.Plan(ctx, call.Plan)
		if err != nil {
			return false, &UnreadableError{s.id, err}
		}
		if err := s.know(compiled); err != nil {
			return false, err
		}
	}
	return call.Node == s.index && call.Node >= 0, nil
}

// isInternal reports whether an activity is one of the engine's own.
func isInternal(name string) bool {
	return slices.Contains([]string{
		contract.ActivityLoad, contract.ActivityLocal, contract.ActivityRoute, contract.ActivityJournal, contract.ActivitySteer, contract.ActivityClose, contract.ActivityChild,
	}, name)
}

// marker processes the record of a local activity: the plan, or an answer of the node.
func (s *search) marker(ctx context.Context, run string, e *historypb.HistoryEvent) error {
	a := e.GetMarkerRecordedEventAttributes()
	data, result := a.GetDetails()[localData].GetPayloads(), a.GetDetails()[localResult].GetPayloads()
	if a.GetMarkerName() != localMarker || len(data) == 0 {
		return nil
	}
	var record struct {
		ActivityType string
		Attempt      int
	}
	if err := s.from.Read(ctx, data[0], &record); err != nil {
		return &UnreadableError{s.id, err}
	}
	switch {
	case record.ActivityType == contract.ActivityLoad && s.plan == nil && len(result) > 0:
		var loaded *plan.Loaded
		if err := s.from.Read(ctx, result[0], &loaded); err != nil {
			return &UnreadableError{s.id, err}
		}
		if loaded.Plan == nil {
			return &UnreadableError{s.id, loaded.Err}
		}
		return s.know(loaded.Plan)
	case record.ActivityType != contract.ActivityLocal:
		return nil
	}
	var summary string
	if p := e.GetUserMetadata().GetSummary(); p == nil {
		return nil
	} else if err := s.from.Read(ctx, p, &summary); err != nil {
		return &UnreadableError{s.id, err}
	}
	if summary != s.node || s.plan == nil {
		return nil
	}
	at := e.GetEventTime().AsTime()
	s.found.Calls = append(s.found.Calls, Exchange{Execution: run, Local: true, EndTime: &at, Attempts: record.Attempt})
	c := &s.found.Calls[len(s.found.Calls)-1]
	if f := a.GetFailure(); f != nil {
		c.Failure = s.failure(ctx, f, contract.ToolError)
		return nil
	}
	return s.outcome(ctx, c, result)
}

// know sets the plan of the run, and finds the node in it.
func (s *search) know(p *plan.Plan) error {
	s.plan, s.found.Plan = p, p.Name+"@"+p.Version
	var names []string
	for i := range p.Nodes {
		names = append(names, p.Nodes[i].ID)
	}
	if s.index = slices.Index(names, s.node); s.index < 0 {
		return &NodeError{Plan: s.found.Plan, Node: s.node, Nodes: names}
	}
	if n := &p.Nodes[s.index]; n.Kind != plan.KindInput && n.Kind != plan.KindOutput {
		s.found.Operation = n.Activity()
	}
	return nil
}

// given records the plan's input, the output of $input, from the run's start event.
func (s *search) given(ctx context.Context) error {
	in := s.started.GetWorkflowExecutionStartedEventAttributes().GetInput().GetPayloads()
	if len(in) == 0 {
		return nil
	}
	var start contract.Start
	if err := s.from.Read(ctx, in[0], &start); err != nil {
		return &UnreadableError{s.id, err}
	}
	if len(start.Input) == 0 {
		start.Input = json.RawMessage("{}")
	}
	at := s.started.GetEventTime().AsTime()
	s.whole(s.started.GetWorkflowExecutionStartedEventAttributes().GetOriginalExecutionRunId(), at, start.Input)
	return nil
}

// result takes the plan's output, which is that of $output, of a run that has ended
// with one.
func (s *search) result(ctx context.Context, info *workflowpb.WorkflowExecutionInfo) error {
	s.found.Calls = []Exchange{}
	if info.GetStatus() != enums.WORKFLOW_EXECUTION_STATUS_COMPLETED {
		return nil
	}
	bounded, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	e, err := s.client.wait(bounded, Run{s.id, s.found.RunID})
	if err != nil {
		return err
	}
	s.whole(s.found.RunID, info.GetCloseTime().AsTime(), e.Output)
	return nil
}

// whole is all that there is to say of $input and $output.
func (s *search) whole(run string, at time.Time, value json.RawMessage) {
	s.found.Calls = []Exchange{{Execution: run, EndTime: &at, Gave: map[string]json.RawMessage{plan.WholePort: value}}}
}

// outcome takes what a call gave.
func (s *search) outcome(ctx context.Context, c *Exchange, result []*commonpb.Payload) error {
	var out contract.Outcome
	if len(result) == 0 {
		return nil
	}
	if err := s.from.Read(ctx, result[0], &out); err != nil {
		return &UnreadableError{s.id, err}
	}
	values := make([]*contract.Value, len(out.Values))
	for i := range out.Values {
		values[i] = &out.Values[i]
	}
	if err := s.from.Give(ctx, s.id, values...); err != nil {
		return &UnreadableError{s.id, err}
	}
	c.InputDigest, c.OutputDigest, c.Attempts = out.Input, out.Output, max(c.Attempts, out.Attempts)
	for i, port := range s.plan.Nodes[s.index].OutPorts {
		if i < len(out.Values) && out.Values[i] != nil {
			if c.Gave == nil {
				c.Gave = map[string]json.RawMessage{}
			}
			c.Gave[port] = out.Values[i]
		}
	}
	return nil
}

// failure takes why a call failed; kind is that of what says none.
func (s *search) failure(ctx context.Context, f *failurepb.Failure, kind contract.Kind) *contract.ErrorPayload {
	e := &contract.ErrorPayload{Kind: kind, Message: told(f, s.client.options.Codec), Node: s.node}
	if info := f.GetApplicationFailureInfo(); info != nil {
		if k := contract.Kind(info.GetType()); k.Valid() {
			e.Kind = k
			e.Message = strings.TrimPrefix(e.Message, string(k)+": ")
		}
		var details contract.ErrorDetails
		if ps := info.GetDetails().GetPayloads(); len(ps) > 0 && s.from.Read(ctx, ps[0], &details) == nil {
			e.Attempts, e.Details = details.Attempts, details.Details
		}
	}
	return e
}
