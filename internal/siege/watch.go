package siege

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"

	"chimera.ai/engine/contract"
)

// Bounds of a history: half of Temporal's own.
const (
	maxEvents = 51_200 / 2
	maxBytes  = 25 << 20
	// maxAttempts bounds the attempts of a workflow task, and the workflow tasks of a run that
	// time out, outside of outages. A task that is too much for its time fails each time, and
	// on a busy machine any fails now and then.
	maxAttempts = 5
)

// times are the times at which things may go wrong: stores are away, workers dead.
type times struct {
	mu sync.Mutex
	// now counts what is wrong at the moment; since then, nothing is.
	now   int
	since time.Time
	// ever has what was wrong at some time.
	ever map[string]bool
}

// grace is how long an outage is felt after its end: a task of a dead worker ends
// after ten seconds, and is tried again.
const grace = 30 * time.Second

func (o *times) begin(what string) (end func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ever == nil {
		o.ever = map[string]bool{}
	}
	o.now++
	o.ever[what] = true
	return func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.now--
		o.since = time.Now()
	}
}

func (o *times) bad() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.now > 0 || !o.since.IsZero() && time.Since(o.since) < grace
}

func (o *times) had(what string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.ever[what]
}

func (o *times) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.ever) == 0 {
		return "nothing"
	}
	return strings.Join(slices.Sorted(maps.Keys(o.ever)), ", ")
}

// histories is what the histories of a run's executions say.
type histories struct {
	// failures opens what is sealed; nil where nothing is.
	failures   converter.FailureConverter
	executions int
	events     int64
	bytes      int64
	longest    int64
	failed     map[string]int
	// why has the last failure of each cause.
	why map[string]string
	// last is the cause of the event before, if that is a failed workflow task.
	last enumspb.WorkflowTaskFailedCause
	// burst counts the events of answers that came right after it.
	burst          int
	timedOut       int
	signals        int
	unaccountedFor []string
}

// read follows a chain of executions from its first.
func (h *histories) read(ctx context.Context, c client.Client, id, first string) error {
	for run := first; run != ""; {
		about, err := c.DescribeWorkflowExecution(ctx, id, run)
		if err != nil {
			return err
		}
		info := about.GetWorkflowExecutionInfo()
		h.executions++
		h.events += info.GetHistoryLength()
		h.bytes += info.GetHistorySizeBytes()
		h.longest = max(h.longest, info.GetHistoryLength())
		if info.GetHistoryLength() > maxEvents || info.GetHistorySizeBytes() > maxBytes {
			h.unaccountedFor = append(h.unaccountedFor, fmt.Sprintf("the execution %s has %d events and %d bytes", run, info.GetHistoryLength(), info.GetHistorySizeBytes()))
		}
		next := ""
		h.last = enumspb.WORKFLOW_TASK_FAILED_CAUSE_UNSPECIFIED
		it := c.GetWorkflowHistory(ctx, id, run, false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
		for it.HasNext() {
			event, err := it.Next()
			if err != nil {
				return err
			}
			next = h.event(event)
		}
		run = next
	}
	return nil
}

func (h *histories) event(e *historypb.HistoryEvent) (next string) {
	last := h.last
	if last == enumspb.WORKFLOW_TASK_FAILED_CAUSE_FORCE_CLOSE_COMMAND {
		// What waited for a discarded task comes right after it. So many answers are a
		// burst, which costs nothing but the task: local activities run only while fewer
		// can come.
		if answers(e) {
			if h.burst++; h.burst == maxAnswers {
				h.forgive(last)
			}
			return ""
		}
		if e.GetEventType() == enumspb.EVENT_TYPE_TIMER_FIRED || e.GetEventType() == enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_CANCEL_REQUESTED {
			return "" // the deadline, or a cancel, comes in between
		}
		if h.burst < maxAnswers {
			h.why[last.String()] = fmt.Sprintf("%d events of answers came right after it, then %s", h.burst, e.GetEventType())
		}
	}
	h.last, h.burst = enumspb.WORKFLOW_TASK_FAILED_CAUSE_UNSPECIFIED, 0
	switch e.GetEventType() {
	case enumspb.EVENT_TYPE_WORKFLOW_TASK_FAILED:
		a := e.GetWorkflowTaskFailedEventAttributes()
		if h.failed == nil {
			h.failed, h.why = map[string]int{}, map[string]string{}
		}
		h.failed[a.GetCause().String()]++
		h.last = a.GetCause()
		if m := a.GetFailure().GetMessage(); m != "" {
			h.why[a.GetCause().String()] = m
		}
		if h.failures != nil && a.GetFailure() != nil {
			h.why[a.GetCause().String()] = h.failures.FailureToError(a.GetFailure()).Error()
		}
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_TERMINATED:
		// A reset, or who terminates, ends the workflow task that is in hand.
		if last == enumspb.WORKFLOW_TASK_FAILED_CAUSE_FORCE_CLOSE_COMMAND {
			h.forgive(last)
		}
	case enumspb.EVENT_TYPE_WORKFLOW_TASK_TIMED_OUT:
		// One that nobody has started goes from a busy worker to any.
		if e.GetWorkflowTaskTimedOutEventAttributes().GetTimeoutType() != enumspb.TIMEOUT_TYPE_SCHEDULE_TO_START {
			h.timedOut++
		}
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED:
		h.signals++
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW:
		return e.GetWorkflowExecutionContinuedAsNewEventAttributes().GetNewExecutionRunId()
	default:
	}
	return ""
}

// maxAnswers is how many events of answers may come during a workflow task with local
// activities: an activity brings two, its start and its end, and so does a child, its
// report and its end.
const maxAnswers = 90

// answers reports whether an event belongs to an answer.
func answers(e *historypb.HistoryEvent) bool {
	switch e.GetEventType() {
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED:
		return e.GetWorkflowExecutionSignaledEventAttributes().GetSignalName() == contract.SignalReport
	case enumspb.EVENT_TYPE_ACTIVITY_TASK_STARTED, enumspb.EVENT_TYPE_ACTIVITY_TASK_COMPLETED, enumspb.EVENT_TYPE_ACTIVITY_TASK_FAILED,
		enumspb.EVENT_TYPE_ACTIVITY_TASK_TIMED_OUT, enumspb.EVENT_TYPE_ACTIVITY_TASK_CANCELED,
		enumspb.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_STARTED, enumspb.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_COMPLETED,
		enumspb.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_FAILED, enumspb.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_CANCELED:
		return true
	}
	return false
}

// forgive takes back a failed workflow task that is explained.
func (h *histories) forgive(cause enumspb.WorkflowTaskFailedCause) {
	if h.failed[cause.String()]--; h.failed[cause.String()] == 0 {
		delete(h.failed, cause.String())
	}
}

// judge says which failures of workflow tasks nothing explains.
func (h *histories) judge(o *times, flooded bool) []string {
	findings := h.unaccountedFor
	for cause, n := range h.failed {
		switch cause {
		case enumspb.WORKFLOW_TASK_FAILED_CAUSE_UNHANDLED_COMMAND.String(), enumspb.WORKFLOW_TASK_FAILED_CAUSE_RESET_WORKFLOW.String():
			continue
		case enumspb.WORKFLOW_TASK_FAILED_CAUSE_FORCE_CLOSE_COMMAND.String():
			if flooded {
				continue
			}
		case enumspb.WORKFLOW_TASK_FAILED_CAUSE_WORKFLOW_WORKER_UNHANDLED_FAILURE.String():
			if o.had("store") {
				continue
			}
		case enumspb.WORKFLOW_TASK_FAILED_CAUSE_RESET_STICKY_TASK_QUEUE.String():
			if o.had("kill") {
				continue
			}
		}
		findings = append(findings, fmt.Sprintf("%d workflow tasks failed by %s (%.300s)", n, cause, h.why[cause]))
	}
	if h.timedOut > maxAttempts && !o.had("kill") && !o.had("store") {
		findings = append(findings, fmt.Sprintf("%d workflow tasks timed out", h.timedOut))
	}
	return findings
}

// pending says what a run is at.
func pending(about *workflowservice.DescribeWorkflowExecutionResponse) string {
	var b strings.Builder
	info := about.GetWorkflowExecutionInfo()
	fmt.Fprintf(&b, "%s, %d events, %d bytes, %d activities, %d children pending", info.GetStatus(), info.GetHistoryLength(), info.GetHistorySizeBytes(),
		len(about.GetPendingActivities()), len(about.GetPendingChildren()))
	if task := about.GetPendingWorkflowTask(); task != nil {
		fmt.Fprintf(&b, "; workflow task %s, attempt %d, scheduled %s", task.GetState(), task.GetAttempt(), task.GetScheduledTime().AsTime().Format(time.TimeOnly))
	}
	for i, a := range about.GetPendingActivities() {
		if i == 5 {
			break
		}
		fmt.Fprintf(&b, "; %s %s %s attempt %d %.200s", a.GetActivityId(), a.GetActivityType().GetName(), a.GetState(), a.GetAttempt(), a.GetLastFailure().GetMessage())
	}
	return b.String()
}
