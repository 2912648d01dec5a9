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
)

const (
	// heldChildren bounds the child workflows of a run that are looked at.
	heldChildren = 20
	// heldLate is how late Temporal may be to end what is in flight.
	heldLate = time.Minute
	// heldOff is longer than any wait between two attempts that the engine asks for.
	heldOff = 2 * time.Minute
)

// Held is an activity that a run waits for and that somebody has paused, put off, or
// changed the options of, in Temporal. A paused one has no timeouts: the run waits for
// it until its deadline, and beyond that where it is about to end. Or it is a workflow
// that makes a call of the run, and is pinned to a build that no worker has.
type Held struct {
	// Workflow is that of the activity: the run, or a child that makes a call of it.
	Workflow string `json:"workflow"`
	// Activity is empty where the workflow itself is held.
	Activity string `json:"activity,omitempty"`
	// Since is when it was paused, or was to be over.
	Since time.Time `json:"since,omitzero"`
	Cause string    `json:"cause"`
	// Hint says what an operator can do about it.
	Hint string `json:"hint"`
}

// heldIn gives the activities of a run, and of its calls in workflows of their own,
// that Temporal is told to hold.
func (c *Client) heldIn(ctx context.Context, d *workflowservice.DescribeWorkflowExecutionResponse, state *contract.State) ([]Held, error) {
	if d.GetWorkflowExecutionInfo().GetStatus() != enums.WORKFLOW_EXECUTION_STATUS_RUNNING {
		return nil, nil
	}
	all := heldOf(d, time.Now())
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
		all = append(all, heldOf(child, time.Now())...)
		if build := c.pinned(ctx, child.GetWorkflowExecutionInfo()); build != nil && build.Alone {
			all = append(all, Held{
				Workflow: w.Detail, Cause: "is of the build " + build.String() + ", and no worker of it is there",
				Hint: c.options.Command("upgrade", w.Detail) + " moves the call to another build, or a worker of its own takes it up.",
			})
		}
	}
	return all, nil
}

// heldOf gives the held activities of one workflow.
func heldOf(d *workflowservice.DescribeWorkflowExecutionResponse, now time.Time) []Held {
	var all []Held
	for _, a := range d.GetPendingActivities() {
		h := Held{Workflow: d.GetWorkflowExecutionInfo().GetExecution().GetWorkflowId(), Activity: a.GetActivityId()}
		at := fmt.Sprintf("--workflow-id %s --activity-id %s", h.Workflow, h.Activity)
		queue, over, next := a.GetActivityOptions().GetTaskQueue().GetName(), a.GetExpirationTime(), a.GetNextAttemptScheduleTime()
		switch {
		case a.GetPaused():
			h.Cause, h.Hint = "was paused"+pauser(a.GetPauseInfo()), "temporal activity unpause "+at+" lets it go on."
			if t := a.GetPauseInfo().GetPauseTime(); t != nil {
				h.Since = t.AsTime()
			}
		case queue != "" && !slices.Contains([]string{contract.QueueEngine, contract.QueueTools, contract.QueueJournal}, queue):
			h.Cause = "was moved to the queue " + queue + ", which is none of Chimera's"
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
		}
		all = append(all, h)
	}
	return all
}

// pauser says who has paused an activity, and why.
func pauser(info *workflow.PendingActivityInfo_PauseInfo) string {
	by, why := info.GetManual().GetIdentity(), info.GetManual().GetReason()
	if rule := info.GetRule(); rule != nil {
		by, why = "the rule "+rule.GetRuleId(), rule.GetReason()
	}
	text := ""
	if by != "" {
		text += " by " + clip(by, maxCause)
	}
	if why != "" {
		text += " (" + clip(why, maxCause) + ")"
	}
	return text
}
