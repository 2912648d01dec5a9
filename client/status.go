package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflow/v1"

	"chimera.ai/engine/contract"
)

// States of a run that only Temporal knows of, beside those of package contract.
const (
	Terminated contract.RunState = "terminated"
	TimedOut   contract.RunState = "timed_out"
)

// Status is what is known of a run.
type Status struct {
	Run   string            `json:"run"`
	RunID string            `json:"run_id"`
	State contract.RunState `json:"state"`
	// StartTime is when the run's first execution started, and Executions counts
	// them, where the run says so.
	StartTime  time.Time  `json:"start_time"`
	Executions int        `json:"executions,omitempty"`
	CloseTime  *time.Time `json:"close_time,omitempty"`
	// UI is the address of the run's web page, for the caller to set.
	UI string `json:"ui,omitempty"`
	// StartsAt is when the run begins, where it was started with a delay.
	StartsAt *time.Time `json:"starts_at,omitempty"`
	// Stuck is why the run makes no progress, if that is known.
	Stuck *Stuck `json:"stuck,omitempty"`
	// Held lists the activities that the run waits for and that somebody has paused,
	// or whose options somebody has changed.
	Held []Held `json:"held,omitempty"`
	// Build is the build that the run is pinned to.
	Build *Build `json:"build,omitempty"`
	// Detail is the answer of the run itself, or nil if no worker answers for it.
	Detail *contract.State `json:"detail"`
	// Output and Failure are the result of the run.
	Output  json.RawMessage   `json:"output,omitempty"`
	Failure *contract.Failure `json:"failure,omitempty"`

	// Unread says why the result of the run is not known, such as that of a large output
	// while the store is unavailable. StuckUnknown and HeldUnknown say why Stuck and Held
	// are not known.
	Unread       error `json:"-"`
	StuckUnknown error `json:"-"`
	HeldUnknown  error `json:"-"`
}

// Status returns the status of a run, as the server and the run report it.
func (c *Client) Status(ctx context.Context, id string) (*Status, error) {
	bounded, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	d, err := c.described(bounded, id)
	if err != nil {
		return nil, err
	}
	info := d.GetWorkflowExecutionInfo()
	s := &Status{Run: id, RunID: info.GetExecution().GetRunId(), State: stateOf(info)}
	if s.StartTime, err = c.begun(bounded, info); err != nil {
		return nil, &CallError{"run " + id, err}
	}
	if t := info.GetCloseTime(); t != nil {
		closed := t.AsTime()
		s.CloseTime = &closed
		var e Ending
		e, s.Unread = c.wait(bounded, Run{id, s.RunID})
		s.Output, s.Failure = e.Output, e.Failure
	}
	s.Build = c.pinned(bounded, info)
	said := silent
	state, err := c.query(ctx, id)
	if err != nil && !errors.As(err, new(*serviceerror.QueryFailed)) && c.attended(bounded, info) {
		state, err = c.ask(bounded, id)
	}
	if err == nil {
		said = answered
		s.Detail = &state
		if s.CloseTime == nil {
			s.State = state.State
		} else {
			cutOff(s.Detail)
		}
		s.Executions = state.Executions
		// The first execution may no longer be retained.
		if t, err := time.Parse(time.RFC3339, state.StartedAt); err == nil && t.Before(s.StartTime) {
			s.StartTime = t
		}
	} else if ctx.Err() != nil {
		return nil, fmt.Errorf("asking the run %s for its state: %w", id, ctx.Err())
	} else if errors.As(err, new(*serviceerror.QueryFailed)) {
		said = refused
	}
	if at := startsAt(d); s.Detail == nil && s.CloseTime == nil && !at.IsZero() {
		s.StartsAt = &at
	}
	// Queries are refused while a workflow task fails.
	s.Stuck, s.StuckUnknown = c.examine(ctx, d, said)
	if s.Stuck == nil && s.StuckUnknown == nil && s.Detail != nil {
		s.Stuck, s.StuckUnknown = c.unwoken(bounded, d, s.Detail, time.Now())
	}
	s.Held, s.HeldUnknown = c.heldIn(bounded, d, s.Detail)
	return s, nil
}

// query queries a run for its state.
func (c *Client) query(ctx context.Context, id string) (contract.State, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return c.ask(ctx, id)
}

// attended reports whether a worker polls for a run that goes on: if so, it is slow to
// answer, and may be waited for.
func (c *Client) attended(ctx context.Context, info *workflow.WorkflowExecutionInfo) bool {
	if info.GetStatus() != enums.WORKFLOW_EXECUTION_STATUS_RUNNING {
		return false
	}
	workers, err := c.pollers(ctx, info.GetTaskQueue())
	return err == nil && workers > 0
}

// ask queries a run for its state until ctx ends.
func (c *Client) ask(ctx context.Context, id string) (contract.State, error) {
	var state contract.State
	value, err := c.temporal.QueryWorkflow(ctx, id, "", contract.QueryState)
	if err != nil {
		return state, err
	}
	return state, value.Get(&state)
}

// cutOff corrects the state of a run that has ended: nobody waits for what was under
// way. The run itself knows only of an end that it made, not of one made by Temporal or
// by somebody who answered for a worker.
func cutOff(s *contract.State) {
	s.Waiting, s.Paused, s.Barriers = nil, nil, nil
	s.Counts.Dropped += s.Counts.Running + s.Counts.Pending
	s.Counts.Running, s.Counts.Pending = 0, 0
	for i := range s.Nodes {
		if n := &s.Nodes[i]; n.State == contract.Running || n.State == contract.Pending {
			n.State = contract.Dropped
		}
	}
}

// stateOf returns a run's state according to Temporal.
func stateOf(info *workflow.WorkflowExecutionInfo) contract.RunState {
	switch info.GetStatus() {
	case enums.WORKFLOW_EXECUTION_STATUS_COMPLETED:
		return contract.RunSucceeded
	case enums.WORKFLOW_EXECUTION_STATUS_FAILED:
		return contract.RunFailed
	case enums.WORKFLOW_EXECUTION_STATUS_CANCELED:
		return contract.RunCancelled
	case enums.WORKFLOW_EXECUTION_STATUS_TERMINATED:
		return Terminated
	case enums.WORKFLOW_EXECUTION_STATUS_TIMED_OUT:
		return TimedOut
	default: // running, paused, continued as new: the run goes on
		return contract.RunRunning
	}
}
