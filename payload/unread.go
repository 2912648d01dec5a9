package payload

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"sync"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/proxy"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/converter"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"chimera.ai/engine/blob"
	"chimera.ai/engine/contract"
)

// The SDK reads what a history has by reference before any workflow code runs. A
// value that cannot be read fails the workflow task, again and again: right for
// what the run has stored itself, since that comes back with the store, and wrong
// for what a client has sent, which may never have been in this store. So a worker
// is not shown what clients send by reference, but a payload that stands for it.
// The start's argument is handed on as a [contract.Unread], which an activity
// reads; nothing of the rest is ever read. So is an argument that a client has
// sealed, with a key that the workers may not have yet, or nobody has. What a run has
// asked activities and children is hidden too: only those read it, and where it is
// lost, the run asks again.
const encodingUnread = "binary/chimera-unread"

// MaxArgument bounds a start's argument that is stored, in bytes.
const MaxArgument = 128 << 20

// HideReferences gives the option of a worker's connection to Temporal that hides
// what clients send by reference to workflows of the engine: with starts, signals,
// queries and updates. Whoever reads histories of such runs by the same connection
// has it hidden too. Of what answers an activity one reference is shown, since all that
// are shown are in memory together. What an attempt has reported
// is not shown to the next one, which does not ask.
func HideReferences() grpc.DialOption {
	h := &hider{runs: map[string]bool{}}
	return grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		if err := invoke(ctx, method, req, reply, cc, opts...); err != nil {
			return err
		}
		switch r := reply.(type) {
		case *workflowservice.PollActivityTaskQueueResponse:
			r.HeartbeatDetails = nil // anybody may have reported it
		case *workflowservice.PollWorkflowTaskQueueResponse:
			return h.task(ctx, r)
		case *workflowservice.RespondWorkflowTaskCompletedResponse:
			return h.task(ctx, r.GetWorkflowTask())
		case *workflowservice.StartWorkflowExecutionResponse:
			return h.task(ctx, r.GetEagerWorkflowTask())
		case *workflowservice.GetWorkflowExecutionHistoryResponse:
			asked, _ := req.(*workflowservice.GetWorkflowExecutionHistoryRequest)
			return h.page(ctx, asked.GetExecution().GetRunId(), r.GetHistory())
		}
		return nil
	})
}

// hider hides references from workers.
type hider struct {
	mu sync.Mutex
	// runs are those of our type whose history may have more pages than the first,
	// which alone names the type.
	runs   map[string]bool
	oldest []string
}

// maxHidden bounds the runs that a hider knows. The SDK reads what it has
// forgotten.
const maxHidden = 10_000

func (h *hider) remember(run string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.runs[run] {
		return
	}
	if len(h.oldest) == maxHidden {
		delete(h.runs, h.oldest[0])
		h.oldest = h.oldest[1:]
	}
	h.runs[run] = true
	h.oldest = append(h.oldest, run)
}

func (h *hider) knows(run string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.runs[run]
}

func (h *hider) task(ctx context.Context, task *workflowservice.PollWorkflowTaskQueueResponse) error {
	if !ourType(task.GetWorkflowType().GetName()) {
		return nil
	}
	if len(task.GetNextPageToken()) > 0 {
		h.remember(task.GetWorkflowExecution().GetRunId())
	}
	if q := task.GetQuery(); q != nil {
		if err := hide(ctx, q); err != nil {
			return err
		}
	}
	for _, q := range task.GetQueries() {
		if err := hide(ctx, q); err != nil {
			return err
		}
	}
	for _, update := range task.GetMessages() {
		if err := hide(ctx, update); err != nil {
			return err
		}
	}
	return hideEvents(ctx, task.GetHistory())
}

func (h *hider) page(ctx context.Context, run string, page *historypb.History) error {
	if len(page.GetEvents()) == 0 {
		return nil
	}
	if started := page.GetEvents()[0].GetWorkflowExecutionStartedEventAttributes(); started != nil {
		if !ourType(started.GetWorkflowType().GetName()) {
			return nil
		}
		h.remember(run)
	} else if !h.knows(run) {
		return nil
	}
	return hideEvents(ctx, page)
}

// ourType reports whether workflows of a type are the engine's.
func ourType(name string) bool { return name == contract.WorkflowType || name == contract.WorkflowCall }

// HideHistory returns the history of a run as [HideReferences] shows it to a
// worker, or the same one if it is not a run of the engine.
func HideHistory(ctx context.Context, history *historypb.History) (*historypb.History, error) {
	if len(history.GetEvents()) == 0 || !ourType(history.GetEvents()[0].GetWorkflowExecutionStartedEventAttributes().GetWorkflowType().GetName()) {
		return history, nil
	}
	hidden := proto.CloneOf(history)
	return hidden, hideEvents(ctx, hidden)
}

// hideEvents hides what clients have sent to a run and what the run has asked others,
// and of what was answered to it the references that nobody can ever read, and all but
// the first.
func hideEvents(ctx context.Context, history *historypb.History) error {
	for _, event := range history.GetEvents() {
		var err error
		switch a := event.GetAttributes().(type) {
		case *historypb.HistoryEvent_WorkflowExecutionStartedEventAttributes:
			err = hideStart(ctx, event, a.WorkflowExecutionStartedEventAttributes)
		case *historypb.HistoryEvent_WorkflowExecutionSignaledEventAttributes:
			err = hide(ctx, event)
		case *historypb.HistoryEvent_ActivityTaskCompletedEventAttributes:
			// Most events with payloads are of these types, and are handled without a walk
			// through the message.
			ps := a.ActivityTaskCompletedEventAttributes.GetResult().GetPayloads()
			first := one(unreadForeign)
			for i, p := range ps {
				ps[i] = first(p)
			}
		case *historypb.HistoryEvent_ActivityTaskScheduledEventAttributes:
			// Only the activity reads its request.
			ps := a.ActivityTaskScheduledEventAttributes.GetInput().GetPayloads()
			for i, p := range ps {
				ps[i] = unread(p)
			}
		case *historypb.HistoryEvent_StartChildWorkflowExecutionInitiatedEventAttributes:
			err = hide(ctx, event) // as the child alone does
		case *historypb.HistoryEvent_ActivityTaskStartedEventAttributes:
			// It has why the last attempt failed.
			if a.ActivityTaskStartedEventAttributes.GetLastFailure() != nil {
				err = visit(ctx, event, one(unreadForeign))
			}
		case *historypb.HistoryEvent_WorkflowTaskScheduledEventAttributes, *historypb.HistoryEvent_WorkflowTaskStartedEventAttributes,
			*historypb.HistoryEvent_WorkflowTaskCompletedEventAttributes,
			*historypb.HistoryEvent_TimerStartedEventAttributes, *historypb.HistoryEvent_TimerFiredEventAttributes,
			*historypb.HistoryEvent_MarkerRecordedEventAttributes:
			// These have what the run itself has written, or nothing.
		case *historypb.HistoryEvent_WorkflowExecutionContinuedAsNewEventAttributes:
			err = visit(ctx, event, unreadForeign) // a plan and a state
		default:
			err = visit(ctx, event, one(unreadForeign))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// hideStart hides what the start of a run has from clients: all but what the engine
// has written itself.
func hideStart(ctx context.Context, event *historypb.HistoryEvent, started *historypb.WorkflowExecutionStartedEventAttributes) error {
	input := started.Input
	if own(started) {
		started.Input = nil
	}
	err := hide(ctx, event)
	for i, p := range started.GetInput().GetPayloads() {
		switch {
		case !isSealed(p):
		case i == 0:
			started.Input.Payloads[i] = unreadOf(p)
		default:
			started.Input.Payloads[i] = nothing()
		}
	}
	started.Input = input
	return err
}

// own reports whether a workflow has its input from the engine: a run's state, or
// what a run asks of a child. A retry or a cron schedule gives it the client's again.
func own(started *historypb.WorkflowExecutionStartedEventAttributes) bool {
	switch started.GetInitiator() {
	case enumspb.CONTINUE_AS_NEW_INITIATOR_RETRY, enumspb.CONTINUE_AS_NEW_INITIATOR_CRON_SCHEDULE:
		return false
	}
	if started.GetWorkflowType().GetName() == contract.WorkflowCall {
		return started.GetParentWorkflowExecution() != nil
	}
	return started.GetContinuedExecutionRunId() != ""
}

// hide replaces all references in a message.
func hide(ctx context.Context, m proto.Message) error { return visit(ctx, m, unread) }

func visit(ctx context.Context, m proto.Message, replace func(*commonpb.Payload) *commonpb.Payload) error {
	return proxy.VisitPayloads(ctx, m, proxy.VisitPayloadsOptions{
		SkipSearchAttributes: true,
		Visitor: func(_ *proxy.VisitPayloadsContext, ps []*commonpb.Payload) ([]*commonpb.Payload, error) {
			hidden := make([]*commonpb.Payload, len(ps))
			for i, p := range ps {
				hidden[i] = replace(p)
			}
			return hidden, nil
		},
	})
}

// unread returns the replacement for a reference, and any other payload unchanged.
func unread(p *commonpb.Payload) *commonpb.Payload {
	if !isReference(p) {
		return p
	}
	return unreadOf(p)
}

// unreadOf returns the replacement for a payload that an activity may read.
func unreadOf(p *commonpb.Payload) *commonpb.Payload {
	b, err := encode(p)
	if err != nil {
		b = nil // a reference to nothing
	}
	return &commonpb.Payload{
		Metadata: map[string][]byte{converter.MetadataEncoding: []byte(encodingUnread)},
		Data:     b,
	}
}

// unreadForeign returns the replacement for a reference that is not into our store,
// and any other payload unchanged.
func unreadForeign(p *commonpb.Payload) *commonpb.Payload {
	if _, ours := referenceOf(p); ours || !isReference(p) {
		return p
	}
	return nothing()
}

// one returns a replacement that keeps at most one of the references that replace
// keeps. No answer has more.
func one(replace func(*commonpb.Payload) *commonpb.Payload) func(*commonpb.Payload) *commonpb.Payload {
	seen := false
	return func(p *commonpb.Payload) *commonpb.Payload {
		p = replace(p)
		if !isReference(p) {
			return p
		}
		if seen {
			return nothing()
		}
		seen = true
		return p
	}
}

// handOn passes the start's argument to a workflow unread. It reports whether p is
// one that was hidden.
func (c sealer) handOn(p *commonpb.Payload, target any) (bool, error) {
	if encodingOf(p) != encodingUnread {
		return false, nil
	}
	if c.scope.place != placeWorkflow || !c.blocks {
		return true, refusal("it is nothing that is read here (%s)", c.scope)
	}
	start, ok := target.(*json.RawMessage)
	if !ok {
		return true, contract.Errorf(contract.Contract, "it is sealed, or a reference into a store, which is taken for the start's first argument only")
	}
	raw, err := json.Marshal(contract.Unread{Reference: p.GetData()})
	*start = raw
	return true, err
}

// Arguments reads the arguments of starts that histories have by reference, or sealed.
type Arguments struct {
	Store     blob.Store
	Sealing   Sealing
	Namespace string
}

// claimOf reads a reference, in either form.
func claimOf(reference []byte) (converter.StorageDriverClaim, error) {
	var claim converter.StorageDriverClaim
	p, err := decode(reference)
	if err != nil || !isReference(p) {
		return claim, contract.Errorf(contract.Contract, "what stands for the start's argument is not a reference into a store")
	}
	name, data, err := referred(p)
	if err != nil {
		return claim, contract.Errorf(contract.Contract, "the start's argument is stored by a reference that cannot be read")
	}
	if name != driverName {
		return claim, contract.Errorf(contract.Contract, "the start's argument lies in a store of the kind %.80q, which this deployment does not have", name)
	}
	if size, err := strconv.ParseInt(data[claimSize], 10, 64); err == nil && size > MaxArgument {
		return claim, contract.Errorf(contract.TooLarge, "the start's argument has %d bytes; the most are %d", size, MaxArgument)
	}
	claim.ClaimData = data
	return claim, nil
}

// unreadable assigns the failure to read an argument its kind.
func unreadable(err error) error {
	var e *contract.Error
	switch {
	case errors.Is(err, errNoKey):
		return contract.Errorf(contract.StoreUnavailable, "the start's argument is sealed, and cannot be read: %w", err)
	case errors.Is(err, blob.ErrNotFound):
		return contract.Errorf(contract.Contract,
			"the start's argument is stored by reference, and its value is not in this deployment's store (%w): start the run from where the same store is configured, or send the argument inline", err)
	case errors.Is(err, blob.ErrCorrupt):
		return contract.Errorf(contract.Contract,
			"the start's argument is stored by reference, and its value is damaged (%w): start the run again, or send the argument inline", err)
	case errors.As(err, &e) && e.Kind == contract.StoreUnavailable:
		return contract.Errorf(contract.StoreUnavailable, "the start's argument is stored by reference, and its value cannot be read: %w", err)
	}
	return contract.Errorf(contract.Contract, "the start's argument is sealed, or stored by reference, and its value is not taken: %w", err)
}

// ended shows a client how a workflow ended.
func ended(ctx context.Context, page *historypb.History, keys *Keyring) error {
	for _, e := range page.GetEvents() {
		switch e.GetEventType() {
		case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED:
			resolvable(e.GetWorkflowExecutionCompletedEventAttributes().GetResult().GetPayloads(), keys)
		case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_FAILED, enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_CANCELED:
		default:
			continue
		}
		if err := visit(ctx, e, one(func(p *commonpb.Payload) *commonpb.Payload { return p })); err != nil {
			return err
		}
	}
	return nil
}
