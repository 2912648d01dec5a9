package main

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/api/enums/v1"
	failurepb "go.temporal.io/api/failure/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/workflowservice/v1"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/payload"
	"chimera.ai/engine/plan"
)

// The record of a local activity, as Temporal's library for Go writes it.
const (
	localMarker = "LocalActivity"
	localData   = "data"
	localResult = "result"
)

// exchanges is the JSON answer of status --values: what a node got and gave.
type exchanges struct {
	Run       string `json:"run"`
	RunID     string `json:"run_id"`
	Plan      string `json:"plan"`
	Node      string `json:"node"`
	Operation string `json:"operation"`
	// Partial: the first executions of the run are not retained any more.
	Partial bool       `json:"partial,omitempty"`
	Calls   []exchange `json:"calls"`
}

// exchange is one request to run the node, and its answer.
type exchange struct {
	// Execution is the run id of the execution that asked.
	Execution string `json:"execution"`
	// Local: the request is not recorded, just the answer.
	Local     bool       `json:"local,omitempty"`
	StartTime *time.Time `json:"start_time,omitempty"`
	EndTime   *time.Time `json:"end_time,omitempty"`
	// Attempts counts the calls made, where it is known.
	Attempts int `json:"attempts,omitempty"`
	// Got is what the edges brought, and Input the plan's input where the node
	// reads it.
	Got   []brought       `json:"got,omitempty"`
	Input json.RawMessage `json:"input,omitempty"`
	// Gave has the output ports that something reads, and the digests are those of
	// the whole input and output in the ledger.
	Gave         map[string]json.RawMessage `json:"gave,omitempty"`
	InputDigest  string                     `json:"input_digest,omitempty"`
	OutputDigest string                     `json:"output_digest,omitempty"`
	Failure      *contract.ErrorPayload     `json:"failure,omitempty"`
}

// brought is a value that an edge has delivered, before its transform.
type brought struct {
	Edge   string                 `json:"edge"`
	Value  json.RawMessage        `json:"value,omitempty"`
	Output json.RawMessage        `json:"output,omitempty"`
	Error  *contract.ErrorPayload `json:"error,omitempty"`
}

// values shows what a node of a run got and gave, from the run's history and the
// deployment's store.
func (p *Program) values(ctx context.Context, conn *connection, id, node string) error {
	bounded, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	described, err := conn.DescribeWorkflowExecution(bounded, id, "")
	if err != nil {
		return conn.refused("run "+id, err)
	}
	info := described.GetWorkflowExecutionInfo()
	if name := info.GetType().GetName(); name != contract.WorkflowType {
		return negative("%s is a workflow of type %s, not a run of a plan", id, name)
	}
	s := &search{
		conn: conn, reader: payload.NewReader(conn.blobs, conn.sealing.Keys), id: id, node: node,
		found: exchanges{Run: id, RunID: info.GetExecution().GetRunId(), Node: node, Calls: []exchange{}},
	}
	if err := s.all(ctx); err != nil {
		return err
	}
	if s.plan == nil {
		return negative("the plan of the run %s is not known (yet): no node has been called", id)
	}
	if p.json() {
		return p.document(s.found)
	}
	p.exchanged(&s.found)
	return nil
}

// exchanged writes the values for people.
func (p *Program) exchanged(all *exchanges) {
	p.printf("node  %s  %s\n", printable(all.Node), printable(all.Operation))
	if all.Partial {
		p.say("the first executions of this run are not retained any more: calls may be missing")
	}
	if len(all.Calls) == 0 {
		p.say("it has not been called, or its calls have not ended")
	}
	for i, c := range all.Calls {
		p.printf("\ncall %d", i+1)
		if c.StartTime != nil {
			p.printf("  %s", c.StartTime.Local().Format(time.DateTime))
		}
		if c.Attempts > 1 {
			p.printf("  %s", plural(c.Attempts, "attempt"))
		}
		p.printf("\n")
		line := func(name string, value []byte) {
			if len(value) > 0 {
				p.printf("    %s: %s\n", printable(name), printable(string(value)))
			}
		}
		switch {
		case c.Local:
			p.printf("  got: not recorded of a local node, but for the digest %s\n", c.InputDigest)
		default:
			p.printf("  got\n")
		}
		for _, g := range c.Got {
			line(g.Edge, g.Value)
			line(g.Edge+" (the whole output)", g.Output)
			if g.Error != nil {
				line(g.Edge, []byte(string(g.Error.Kind)+": "+g.Error.Message))
			}
		}
		line("the plan's input", c.Input)
		switch {
		case c.Failure != nil:
			p.printf("  failed (%s): %s\n", c.Failure.Kind, printable(c.Failure.Message))
			line("details", c.Failure.Details)
		case c.EndTime == nil:
			p.printf("  and has not answered yet\n")
		default:
			p.printf("  gave  (the whole has the digest %s)\n", c.OutputDigest)
			for _, port := range slices.Sorted(maps.Keys(c.Gave)) {
				line(port, c.Gave[port])
			}
		}
	}
}

// search looks for the calls of one node in the histories of a run.
type search struct {
	conn     *connection
	reader   *payload.Reader
	id, node string

	plan  *plan.Plan
	index int
	found exchanges
	// open has calls that have not ended, by the event that scheduled them.
	open map[int64]int
}

// all searches every execution of the run, the first one first.
func (s *search) all(ctx context.Context) error {
	var runs []string
	for run := s.found.RunID; run != ""; {
		answer, err := s.page(ctx, run, nil, 1)
		if err != nil && len(runs) > 0 && isGone(err) {
			s.found.Partial = true
			break
		}
		if err != nil {
			return s.conn.refused("the history of "+s.id, err)
		}
		runs = append(runs, run)
		first := answer.GetHistory().GetEvents()
		if len(first) == 0 {
			break
		}
		run = first[0].GetWorkflowExecutionStartedEventAttributes().GetContinuedExecutionRunId()
	}
	for _, run := range slices.Backward(runs) {
		if err := s.execution(ctx, run); err != nil {
			return err
		}
	}
	return nil
}

func (s *search) page(ctx context.Context, run string, token []byte, size int32) (*workflowservice.GetWorkflowExecutionHistoryResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return s.conn.WorkflowService().GetWorkflowExecutionHistory(ctx, &workflowservice.GetWorkflowExecutionHistoryRequest{
		Namespace: s.conn.namespace, Execution: &commonpb.WorkflowExecution{WorkflowId: s.id, RunId: run},
		MaximumPageSize: size, NextPageToken: token,
	})
}

func (s *search) execution(ctx context.Context, run string) error {
	s.open = map[int64]int{}
	var token []byte
	for {
		answer, err := s.page(ctx, run, token, 1000)
		if err != nil {
			return s.conn.refused("the history of "+s.id, err)
		}
		for _, e := range answer.GetHistory().GetEvents() {
			if err := s.event(ctx, run, e); err != nil {
				return err
			}
		}
		if token = answer.GetNextPageToken(); len(token) == 0 {
			return nil
		}
	}
}

// event takes what one event says of the node.
func (s *search) event(ctx context.Context, run string, e *historypb.HistoryEvent) error {
	switch e.GetEventType() {
	case enums.EVENT_TYPE_MARKER_RECORDED:
		return s.marker(ctx, run, e)
	case enums.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED:
		return s.scheduled(ctx, run, e)
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

// call is the call of the node that an event scheduled, or nil; end is the event
// that ends it.
func (s *search) call(scheduled int64, end *historypb.HistoryEvent) *exchange {
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

// scheduled takes the request for an ordinary activity, if it is one of the node's.
func (s *search) scheduled(ctx context.Context, run string, e *historypb.HistoryEvent) error {
	a := e.GetActivityTaskScheduledEventAttributes()
	name, in := a.GetActivityType().GetName(), a.GetInput().GetPayloads()
	if len(in) == 0 || s.plan != nil && name != s.found.Operation || isInternal(name) {
		return nil
	}
	var call contract.Call
	if err := s.reader.Read(ctx, in[0], &call); err != nil {
		return s.unreadable(err)
	}
	if s.plan == nil {
		compiled, err := s.reader.Plan(ctx, call.Plan)
		if err != nil {
			return s.unreadable(err)
		}
		if err := s.know(compiled); err != nil {
			return err
		}
	}
	if call.Node != s.index || call.Node < 0 {
		return nil
	}
	at := e.GetEventTime().AsTime()
	c := exchange{Execution: run, StartTime: &at, Input: call.Input}
	for _, d := range call.Deliveries {
		if d.Edge < 0 || d.Edge >= len(s.plan.Edges) {
			return unanswered("the history of %s does not fit its plan", s.id)
		}
		c.Got = append(c.Got, brought{Edge: s.plan.EdgeString(d.Edge), Value: d.Value, Output: d.Output, Error: d.Error})
	}
	s.open[e.GetEventId()] = len(s.found.Calls)
	s.found.Calls = append(s.found.Calls, c)
	return nil
}

// isInternal reports whether an activity is one of the engine's own.
func isInternal(name string) bool {
	return slices.Contains([]string{
		contract.ActivityLoad, contract.ActivityLocal, contract.ActivityRoute, contract.ActivityJournal, contract.ActivityClose,
	}, name)
}

// marker takes the record of a local activity: the plan, or an answer of the node.
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
	if err := s.reader.Read(ctx, data[0], &record); err != nil {
		return s.unreadable(err)
	}
	switch {
	case record.ActivityType == contract.ActivityLoad && s.plan == nil && len(result) > 0:
		var loaded *plan.Loaded
		if err := s.reader.Read(ctx, result[0], &loaded); err != nil {
			return s.unreadable(err)
		}
		return s.know(loaded.Plan)
	case record.ActivityType != contract.ActivityLocal:
		return nil
	}
	var summary string
	if p := e.GetUserMetadata().GetSummary(); p == nil {
		return nil
	} else if err := s.reader.Read(ctx, p, &summary); err != nil {
		return s.unreadable(err)
	}
	if summary != s.node || s.plan == nil {
		return nil
	}
	at := e.GetEventTime().AsTime()
	s.found.Calls = append(s.found.Calls, exchange{Execution: run, Local: true, EndTime: &at, Attempts: record.Attempt})
	c := &s.found.Calls[len(s.found.Calls)-1]
	if f := a.GetFailure(); f != nil {
		c.Failure = s.failure(ctx, f, contract.ToolError)
		return nil
	}
	return s.outcome(ctx, c, result)
}

// know takes the plan of the run, and finds the node in it.
func (s *search) know(p *plan.Plan) error {
	s.plan, s.found.Plan = p, p.Name+"@"+p.Version
	var names []string
	for i := range p.Nodes {
		names = append(names, p.Nodes[i].ID)
	}
	if s.index = slices.Index(names, s.node); s.index < 0 {
		return negative("the plan %s has no node %s", s.found.Plan, s.node).meant("", s.node, names, "chimera status lists its nodes.")
	}
	s.found.Operation = p.Nodes[s.index].Activity()
	return nil
}

// outcome takes what a call gave.
func (s *search) outcome(ctx context.Context, c *exchange, result []*commonpb.Payload) error {
	var out contract.Outcome
	if len(result) == 0 {
		return nil
	}
	if err := s.reader.Read(ctx, result[0], &out); err != nil {
		return s.unreadable(err)
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
	e := &contract.ErrorPayload{Kind: kind, Message: told(f, s.conn.sealing.Keys), Node: s.node}
	if info := f.GetApplicationFailureInfo(); info != nil {
		if k := contract.Kind(info.GetType()); k.Valid() {
			e.Kind = k
			e.Message = strings.TrimPrefix(e.Message, string(k)+": ")
		}
		var details contract.ErrorDetails
		if ps := info.GetDetails().GetPayloads(); len(ps) > 0 && s.reader.Read(ctx, ps[0], &details) == nil {
			e.Attempts, e.Details = details.Attempts, details.Details
		}
	}
	return e
}

// unreadable is the failure of a value that cannot be read here.
func (s *search) unreadable(err error) error {
	return unanswered("the values of the run %s cannot be read here: %s", s.id, err).
		withHint("It takes the deployment's store (store.*) and, where payloads are sealed, its keys (payload.keys).")
}
