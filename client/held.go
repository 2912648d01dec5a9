package client

import (
	"context"
	"fmt"
	"slices"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/internal/excerpt"
)

const (
	// heldChildren bounds the child workflows of a run that are examined.
	heldChildren = 20
	// heldLate is how late Temporal may be in ending an activity.
	heldLate = time.Minute
	// heldOff is longer than any wait between two attempts that the engine asks for.
	heldOff = 2 * time.Minute
)

// Held is an activity that a run waits for and that somebody has paused or delayed in
// Temporal, or whose options somebody has changed there. A paused activity has no timeouts:
// the run waits for it until its deadline, and longer if it is about to end. A Held may also
// be a workflow that makes a call of the run and makes no progress, such as one pinned to a
// build that has no worker.
type Held struct {
	// Workflow is the activity's workflow: the run, or a child that makes one of its calls.
	Workflow string `json:"workflow"`
	// Activity is empty if the workflow itself is held.
	Activity string `json:"activity,omitempty"`
	// Since is when the activity was paused, or when it should have ended.
	Since time.Time `json:"since,omitzero"`
	Cause string    `json:"cause"`
	// Hint says what an operator can do about it.
	Hint string `json:"hint"`
}

// heldIn returns the held activities of a run and of its calls in workflows of their
// own.
func (c *Client) heldIn(ctx context.Context, d *workflowservice.DescribeWorkflowExecutionResponse, state *contract.State) ([]Held, error) {
	if d.GetWorkflowExecutionInfo().GetStatus() != enums.WORKFLOW_EXECUTION_STATUS_RUNNING {
		return nil, nil
	}
	all := c.heldOf(d, time.Now())
	if state == nil {
		return all, nil
	}
	children := 0
	for _, w := range state.Waiting {
		if w.Kind != contract.WaitChild || children == heldChildren {
			continue
		}
		children++
		child, err := c.temporal.DescribeWorkflowExecution(ctx, w.Detail, "")
		if isGone(err) {
			continue
		}
		if err != nil {
			return all, &CallError{"child " + w.Detail, err}
		}
		all = append(all, c.heldOf(child, time.Now())...)
		if build := c.pinned(ctx, child.GetWorkflowExecutionInfo()); build != nil && build.Alone {
			all = append(all, Held{
				Workflow: w.Detail, Cause: "is of the build " + build.String() + ", and no worker of it is there",
				Hint: build.Hint,
			})
			continue
		}
		held, err := c.stranded(ctx, child)
		if err != nil {
			return all, err
		}
		if held != nil {
			all = append(all, *held)
		}
	}
	return all, nil
}

// stranded returns the workflow of a call if it does not go on: its workflow task is not
// taken, keeps failing, or was completed so that nothing wakes it.
func (c *Client) stranded(ctx context.Context, d *workflowservice.DescribeWorkflowExecutionResponse) (*Held, error) {
	info, task := d.GetWorkflowExecutionInfo(), d.GetPendingWorkflowTask()
	if info.GetStatus() != enums.WORKFLOW_EXECUTION_STATUS_RUNNING {
		return nil, nil
	}
	id := info.GetExecution().GetWorkflowId()
	h := Held{Workflow: id, Hint: "temporal workflow terminate --workflow-id " + quoted(id) + " has the call made again."}
	if task != nil {
		s, err := c.examine(ctx, d, silent)
		if s == nil || s.Reason == ReasonNoWorker || err != nil { // the run itself lacks one
			return nil, err
		}
		if h.Cause, h.Since = s.Cause, s.Since; s.Reason == ReasonStore {
			h.Hint = s.Hint
		}
		return &h, nil
	}
	if len(d.GetPendingActivities()) > 0 {
		return nil, nil
	}
	last, err := c.lastEvent(ctx, info.GetExecution())
	if err != nil {
		return nil, &CallError{"reading the history", err}
	}
	switch last.GetEventType() {
	case enums.EVENT_TYPE_WORKFLOW_TASK_COMPLETED, enums.EVENT_TYPE_MARKER_RECORDED:
		h.Cause, h.Since = answeredByAnother, last.GetEventTime().AsTime()
		return &h, nil
	}
	return nil, nil
}

// queues are the task queues on which activities of runs are.
var queues = []string{contract.QueueEngine, contract.QueueTools, contract.QueueJournal, contract.QueueGuardian, contract.QueueEffects}

// heldOf returns the held activities of one workflow.
func (c *Client) heldOf(d *workflowservice.DescribeWorkflowExecutionResponse, now time.Time) []Held {
	var all []Held
	for _, a := range d.GetPendingActivities() {
		h := Held{Workflow: d.GetWorkflowExecutionInfo().GetExecution().GetWorkflowId(), Activity: a.GetActivityId()}
		at := fmt.Sprintf("--workflow-id %s --activity-id %s", quoted(h.Workflow), quoted(h.Activity))
		queue, over, next := a.GetActivityOptions().GetTaskQueue().GetName(), a.GetExpirationTime(), a.GetNextAttemptScheduleTime()
		elsewhere := queue != "" && !slices.Contains(queues, queue)
		switch {
		case a.GetPaused():
			h.Cause, h.Hint = "was paused"+pauser(a.GetPauseInfo()), "temporal activity unpause "+at+" lets it go on."
			if t := a.GetPauseInfo().GetPauseTime(); t != nil {
				h.Since = t.AsTime()
			}
		case elsewhere:
			h.Cause = "is on the queue " + queue + ", which is none of Chimera's"
		case over != nil && now.Sub(over.AsTime()) > heldLate:
			h.Cause, h.Since = "was to be over, and its timeouts were changed", over.AsTime()
		case next != nil && next.AsTime().Sub(now) > heldOff:
			h.Cause = "was put off until " + next.AsTime().Local().Format(time.DateTime) + " by whoever failed it last"
			h.Hint = "temporal activity reset " + at + " has it tried again now."
		default:
			continue
		}
		if h.Hint == "" {
			// Temporal's command line (of server 1.29.1) has a flag for that, and does not send it.
			h.Hint = "UpdateActivityOptions of Temporal's API, with restore_original, undoes that for the activity " + h.Activity + " of the workflow " + h.Workflow + "."
			if elsewhere {
				h.Hint += " Where nobody has moved it, somebody has answered for the run, and asked for it: " + c.takeUp(h.Workflow)
			}
		}
		all = append(all, h)
	}
	return all
}

// pauser describes who has paused an activity, and why.
func pauser(info *workflow.PendingActivityInfo_PauseInfo) string {
	by, why := info.GetManual().GetIdentity(), info.GetManual().GetReason()
	if rule := info.GetRule(); rule != nil {
		by, why = "the rule "+rule.GetRuleId(), rule.GetReason()
	}
	text := ""
	if by != "" {
		text += " by " + excerpt.Runes(by, maxCause)
	}
	if why != "" {
		text += " (" + excerpt.Runes(why, maxCause) + ")"
	}
	return text
}
