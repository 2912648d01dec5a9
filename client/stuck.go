package client

import (
	"context"
	"encoding/json"
	"errors"
	"regexp"
	"slices"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/api/enums/v1"
	failurepb "go.temporal.io/api/failure/v1"
	historypb "go.temporal.io/api/history/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/converter"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/internal/excerpt"
)

const (
	// lookBack bounds how many events are read to find why a workflow task failed, since
	// others may have arrived after it.
	lookBack = 1000
	// maxCause bounds the part of a cause that is shown, in bytes.
	maxCause = 2000
)

// Reason is why a run does not go on, for programs.
type Reason string

// The reasons.
const (
	// ReasonNoWorker: no worker polls the queue of the run's workflow tasks.
	ReasonNoWorker Reason = "no_worker"
	// ReasonNoCurrent: there are workers, but none of their builds is the current one.
	ReasonNoCurrent Reason = "no_current_build"
	// ReasonStore: a worker answers, but the store does not.
	ReasonStore Reason = "store"
	// ReasonValue: a value that the run needs cannot be read.
	ReasonValue Reason = "value"
	// ReasonHistory: the workers' build does not take up the run's history.
	ReasonHistory Reason = "history"
	// ReasonSilent: a worker took the task, and has not answered.
	ReasonSilent Reason = "silent"
	// ReasonUntaken: there are workers, but none takes the task, or somebody else has taken
	// it.
	ReasonUntaken Reason = "untaken"
	// ReasonTask: the task fails for another reason.
	ReasonTask Reason = "task"
)

// Stuck describes why a run makes no progress while its workflow task is retried.
type Stuck struct {
	// Attempt is the number of the current attempt, from 1.
	Attempt int `json:"attempt"`
	// Since is when that began, if it is known.
	Since  time.Time `json:"since,omitzero"`
	Reason Reason    `json:"reason"`
	// Kind is the kind of the error, if it has one.
	Kind contract.Kind `json:"kind,omitempty"`
	// Cause is the cause of the first attempt: Temporal records no later ones.
	Cause string `json:"cause"`
	// Hint says what an operator can do about it, including command lines.
	Hint string `json:"hint"`
}

// Stuck returns why a run makes no progress, or nil if no reason is known.
func (c *Client) Stuck(ctx context.Context, id string) (*Stuck, error) {
	bounded, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	d, err := c.described(bounded, id)
	if err != nil {
		return nil, err
	}
	return c.examine(bounded, d, silent)
}

// reply is the result of querying a run for its state.
type reply int

const (
	// silent reports that it was not asked, or that nobody has answered.
	silent reply = iota
	// refused reports that a worker has answered that it cannot take up the run.
	refused
	answered
)

// examine reports why a described run does not go on, or nil if nothing is known to hold
// it.
func (c *Client) examine(ctx context.Context, d *workflowservice.DescribeWorkflowExecutionResponse, said reply) (*Stuck, error) {
	answered := said == answered
	info, task := d.GetWorkflowExecutionInfo(), d.GetPendingWorkflowTask()
	if info.GetStatus() != enums.WORKFLOW_EXECUTION_STATUS_RUNNING || !answered && !startsAt(d).IsZero() {
		return nil, nil
	}
	again := task.GetAttempt() > 1
	waits := task.GetState() == enums.PENDING_WORKFLOW_TASK_STATE_SCHEDULED
	if !again && !waits && answered {
		return nil, nil
	}
	var event *historypb.HistoryEvent
	if again {
		var err error
		if event, err = c.lastFailure(ctx, info.GetExecution()); err != nil {
			return nil, &CallError{"reading the history", err}
		}
	}
	queue := d.GetExecutionConfig().GetTaskQueue().GetName()
	workers, err := c.pollers(ctx, queue)
	if err != nil {
		return nil, &CallError{"looking for workers", err}
	}
	if answered && workers == 0 { // it has just been there
		workers = 1
	}
	found := c.hold(info.GetExecution().GetWorkflowId(), queue, workers, event)
	if found == nil && event == nil && BuildOf(info) == (Build{}) {
		build, err := c.unplaced(ctx)
		if err != nil {
			return nil, &CallError{"looking for the current build", err}
		}
		found = unplaced(build)
	}
	if found == nil && event == nil && !answered && waits && time.Since(task.GetScheduledTime().AsTime()) > untakenAfter {
		if found, err = c.untaken(ctx, info); err != nil {
			return nil, &CallError{"looking for workers", err}
		}
	}
	if found == nil && said == refused && task == nil {
		found = &Stuck{
			Reason: ReasonHistory, Since: info.GetExecutionTime().AsTime(),
			Cause: "no worker can take up the run's history, and none is asked to",
			Hint:  c.otherHistory(info.GetExecution().GetWorkflowId()),
		}
	}
	if found == nil {
		return nil, nil
	}
	found.Attempt = int(max(task.GetAttempt(), 1))
	switch {
	case event != nil && found.Reason != ReasonNoWorker:
		found.Since = event.GetEventTime().AsTime()
	case task != nil: // else it sleeps, and nobody would wake it
		found.Since = task.GetOriginalScheduledTime().AsTime()
	}
	return found, nil
}

// startsAt returns when the first workflow task is due of a run that has not begun, such
// as one started with a delay. It returns zero if the run has begun.
func startsAt(d *workflowservice.DescribeWorkflowExecutionResponse) time.Time {
	at := d.GetWorkflowExecutionInfo().GetExecutionTime().AsTime()
	if d.GetPendingWorkflowTask() != nil || !at.After(time.Now()) {
		return time.Time{}
	}
	return at
}

// untakenAfter is how long a workflow task may wait although there are workers before
// that is reported: even a busy worker takes it within seconds.
const untakenAfter = time.Minute

// untaken returns the cause for a run whose workflow task no worker takes, or nil if the
// build that the run is pinned to has no worker.
func (c *Client) untaken(ctx context.Context, info *workflowpb.WorkflowExecutionInfo) (*Stuck, error) {
	if build := BuildOf(info); build != (Build{}) {
		builds, err := c.builds(ctx)
		if err != nil || !slices.Contains(builds, build) {
			return nil, err
		}
	}
	id := info.GetExecution().GetWorkflowId()
	return &Stuck{
		Reason: ReasonUntaken, Cause: "no worker has taken the run's workflow task",
		Hint: "Look whether the workers are there, and have room. Where they go on with other runs, somebody has answered for this one and sent its task to a queue of their own: " + c.takeUp(id),
	}, nil
}

// answeredByAnother is the cause for a run that waits for nothing.
const answeredByAnother = "its workflow task was completed, and not by a worker of the engine"

// asleepFor is longer than a run waits for anything without a stated end, unless somebody
// else keeps answering for the ledger.
const asleepFor = 3 * time.Minute

// unwoken returns the cause for a run that nothing will wake, since its workflow task is
// completed and it has requested nothing. It returns nil if the run has a task, waits
// for something, or is paused.
func (c *Client) unwoken(ctx context.Context, d *workflowservice.DescribeWorkflowExecutionResponse, state *contract.State, now time.Time) (*Stuck, error) {
	info := d.GetWorkflowExecutionInfo()
	if state.Paused != nil || info.GetStatus() != enums.WORKFLOW_EXECUTION_STATUS_RUNNING || d.GetPendingWorkflowTask() != nil || !startsAt(d).IsZero() ||
		len(d.GetPendingActivities())+len(d.GetPendingChildren()) > 0 {
		return nil, nil
	}
	found := &Stuck{
		Attempt: 1, Since: info.GetExecutionTime().AsTime(), Reason: ReasonUntaken, Cause: answeredByAnother,
		Hint: "Somebody has answered for this run, and nothing wakes it: " + c.takeUp(info.GetExecution().GetWorkflowId()),
	}
	if state.State == contract.RunLoading && len(state.Waiting) == 0 {
		return found, nil
	}
	for _, w := range state.Waiting {
		if until, err := time.Parse(time.RFC3339, w.Until); err == nil && now.Sub(until) < asleepFor {
			return nil, nil
		}
	}
	last, err := c.lastEvent(ctx, info.GetExecution())
	if err != nil {
		return nil, &CallError{"reading the history", err}
	}
	if found.Since = last.GetEventTime().AsTime(); now.Sub(found.Since) < asleepFor {
		return nil, nil
	}
	return found, nil
}

// takeUp says how a run that somebody has answered for can go on.
func (c *Client) takeUp(id string) string {
	return "temporal workflow reset --type LastWorkflowTask --reason untaken --workflow-id " + quoted(id) + " takes the run up where it stands. Else: " + c.byForce(id)
}

// byForce says how to end a run that cannot end by itself.
func (c *Client) byForce(id string) string {
	return c.options.Command("terminate", quoted(id)) + " ends the run; then nothing is compensated."
}

// otherHistory says what to do about a history that no worker takes up.
func (c *Client) otherHistory(id string) string {
	return "Run a worker of the build that began it. Where that is the one that is there, somebody has answered for this run: " + c.takeUp(id)
}

// plainWord matches text that a shell takes literally, as one word.
var plainWord = regexp.MustCompile(`^[0-9A-Za-z_./:@%+=,-]+$`)

// unplaced returns the cause for a run that does not begin since no build is current, or
// nil if no build could be.
func unplaced(b Build) *Stuck {
	if b == (Build{}) {
		return nil
	}
	return &Stuck{
		Reason: ReasonNoCurrent, Cause: "no build of the worker deployment " + b.Deployment + " is current",
		Hint: "Make one current, and the run begins by itself: temporal worker deployment set-current-version --deployment-name " + b.Deployment + " --build-id " + b.ID,
	}
}

// lastEvent returns the last event of a run's history.
func (c *Client) lastEvent(ctx context.Context, run *commonpb.WorkflowExecution) (*historypb.HistoryEvent, error) {
	answer, err := c.temporal.WorkflowService().GetWorkflowExecutionHistoryReverse(ctx, &workflowservice.GetWorkflowExecutionHistoryReverseRequest{
		Namespace: c.options.Namespace, Execution: run, MaximumPageSize: 1,
	})
	if err != nil {
		return nil, err
	}
	for _, e := range answer.GetHistory().GetEvents() {
		return e, nil
	}
	return nil, errors.New("the history is empty")
}

// lastFailure returns the event of the last workflow task that failed, or nil if none
// has failed since one was completed.
func (c *Client) lastFailure(ctx context.Context, run *commonpb.WorkflowExecution) (*historypb.HistoryEvent, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	var page []byte
	for seen := 0; seen < lookBack; {
		answer, err := c.temporal.WorkflowService().GetWorkflowExecutionHistoryReverse(ctx, &workflowservice.GetWorkflowExecutionHistoryReverseRequest{
			Namespace: c.options.Namespace, Execution: run, MaximumPageSize: 100, NextPageToken: page,
		})
		if err != nil {
			return nil, err
		}
		for _, e := range answer.GetHistory().GetEvents() {
			switch e.GetEventType() {
			case enums.EVENT_TYPE_WORKFLOW_TASK_FAILED, enums.EVENT_TYPE_WORKFLOW_TASK_TIMED_OUT:
				return e, nil
			case enums.EVENT_TYPE_WORKFLOW_TASK_COMPLETED:
				return nil, nil
			}
		}
		seen += len(answer.GetHistory().GetEvents())
		if page = answer.GetNextPageToken(); len(page) == 0 {
			break
		}
	}
	return nil, nil
}

// hold reports why a run does not go on, from the workers that poll its queue and the
// event of the failed workflow task, if any. It returns nil if that is no cause.
func (c *Client) hold(id, queue string, workers int, event *historypb.HistoryEvent) *Stuck {
	terminate := c.byForce(id)
	switch {
	case workers == 0 && queue != contract.QueueEngine:
		return &Stuck{
			Reason: ReasonNoWorker, Cause: "no worker polls the queue " + queue,
			Hint: "Runs belong on the queue " + contract.QueueEngine + ": start it again there. " + terminate,
		}
	case workers == 0:
		return &Stuck{
			Reason: ReasonNoWorker, Cause: "no worker polls the queue " + queue,
			Hint: "Start a worker with the role engine, or look at the log of the one that should run; the run then goes on by itself.",
		}
	}
	if event == nil {
		return nil
	}
	if event.GetEventType() == enums.EVENT_TYPE_WORKFLOW_TASK_TIMED_OUT {
		return &Stuck{
			Reason: ReasonSilent, Kind: contract.WorkerLost, Cause: "a worker took the run's workflow task and did not answer in time",
			Hint: "The task is tried again. Where that goes on, a worker dies at it, or is overloaded: its log says more. " + terminate,
		}
	}
	failed := event.GetWorkflowTaskFailedEventAttributes()
	s := &Stuck{Reason: ReasonTask, Cause: told(failed.GetFailure(), c.options.Codec)}
	if kind := contract.Kind(failed.GetFailure().GetApplicationFailureInfo().GetType()); kind.Valid() {
		s.Kind = kind
	}
	switch cause := failed.GetCause(); {
	case cause == enums.WORKFLOW_TASK_FAILED_CAUSE_UNHANDLED_COMMAND,
		cause == enums.WORKFLOW_TASK_FAILED_CAUSE_RESET_WORKFLOW,
		cause == enums.WORKFLOW_TASK_FAILED_CAUSE_FORCE_CLOSE_COMMAND:
		return nil // an event arrived meanwhile, or the run was reset: the next attempt proceeds
	case s.Kind == contract.StoreUnavailable:
		s.Reason = ReasonStore
		s.Hint = "The workers' store does not answer or lacks a value that the run needs, or a worker lacks a key (payload.keys). The run goes on by itself once that is right: see store.* and payload.* of the workers, and their log. Where it never will be: " + terminate
	case cause == enums.WORKFLOW_TASK_FAILED_CAUSE_EXTERNAL_STORAGE_FAILURE:
		s.Reason = ReasonValue
		s.Hint = "A value that the run needs cannot be read from the workers' store: whoever started the run had another store, or the value was deleted. Bring it back, or: " + terminate
	case cause == enums.WORKFLOW_TASK_FAILED_CAUSE_NON_DETERMINISTIC_ERROR:
		s.Reason = ReasonHistory
		s.Hint = c.otherHistory(id)
	default:
		s.Hint = "This is a fault of the engine, or of the workers' configuration: the worker's log says more, and a worker of a build without the fault takes the run up where it stands. Where somebody has answered for this run: " + c.takeUp(id)
	}
	return s
}

// told returns the message of a failure, opened by the codec if possible.
func told(f *failurepb.Failure, codec converter.PayloadCodec) string {
	text := f.GetMessage()
	if sealed := f.GetEncodedAttributes(); sealed != nil {
		text = "its message is sealed, and this process has no key to open it (payload.keys)"
		if said, ok := unsealed(sealed, codec); ok {
			text = said
		}
	}
	if typ := f.GetApplicationFailureInfo().GetType(); typ != "" {
		text = typ + ": " + text
	}
	return excerpt.Runes(text, maxCause)
}

// unsealed returns the message in the sealed attributes of a failure.
func unsealed(sealed *commonpb.Payload, codec converter.PayloadCodec) (message string, ok bool) {
	if codec == nil {
		return "", false
	}
	opened, err := codec.Decode([]*commonpb.Payload{sealed})
	if err != nil || len(opened) != 1 {
		return "", false
	}
	var said struct {
		Message string `json:"message"`
	}
	err = json.Unmarshal(opened[0].GetData(), &said)
	return said.Message, err == nil
}
