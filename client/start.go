package client

import (
	"context"
	"errors"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	sdk "go.temporal.io/sdk/client"

	"chimera.ai/engine/contract"
)

// Request is a run to start.
type Request struct {
	// ID is the run's workflow id, which is given once; without one Temporal makes it.
	ID string
	// Summary is a line about the run for Temporal's web pages. Where payloads are
	// sealed, it takes a key.
	Summary string
	// Start names the plan, or holds its source, and the plan's input.
	Start contract.Start
}

// Start starts a run. An [ExistsError] says that a workflow has or had its id. After a
// [CallError] whether the run was started may not be known: it can be asked for by its
// id.
func (c *Client) Start(ctx context.Context, r Request) (Run, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	run, err := c.temporal.ExecuteWorkflow(ctx, sdk.StartWorkflowOptions{
		ID:                                       r.ID,
		TaskQueue:                                contract.QueueEngine,
		WorkflowIDReusePolicy:                    enums.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE,
		WorkflowExecutionErrorWhenAlreadyStarted: true,
		StaticSummary:                            r.Summary,
	}, contract.WorkflowType, r.Start)
	var twice *serviceerror.WorkflowExecutionAlreadyStarted
	switch {
	case errors.As(err, &twice):
		return Run{}, c.exists(ctx, r.ID)
	case err != nil:
		return Run{}, &CallError{"starting " + r.ID, err}
	}
	return Run{run.GetID(), run.GetRunID()}, nil
}

// exists says what has an id already.
func (c *Client) exists(ctx context.Context, id string) error {
	e := &ExistsError{Run: id}
	if d, err := c.temporal.DescribeWorkflowExecution(ctx, id, ""); err == nil {
		info := d.GetWorkflowExecutionInfo()
		e.Type = info.GetType().GetName()
		if e.Type == contract.WorkflowType {
			e.State = stateOf(info)
		}
	}
	return e
}
