package client

import (
	"context"

	"go.temporal.io/api/common/v1"
	"go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
)

// Cancel asks a run to end: its calls in flight are cancelled, and it ends by itself.
// [Client.Stuck] reports why that has no effect yet. Cancel returns the execution that was
// asked. The error is an [EndedError] if the run has already ended.
func (c *Client) Cancel(ctx context.Context, id string) (Run, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	info, err := c.going(ctx, id)
	if err != nil {
		return Run{}, err
	}
	run := Run{id, info.GetExecution().GetRunId()}
	if err := c.temporal.CancelWorkflow(ctx, id, run.RunID); err != nil {
		return Run{}, &CallError{"cancelling " + id, err}
	}
	return run, nil
}

// Terminate ends a run that cannot end by itself: nothing is compensated, and calls in
// flight end by themselves. The history records the reason. Terminate returns the
// execution that was found. The error is an [EndedError] if the run has already ended.
func (c *Client) Terminate(ctx context.Context, id, reason string) (Run, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	info, err := c.going(ctx, id)
	if err != nil {
		return Run{}, err
	}
	ask := &workflowservice.TerminateWorkflowExecutionRequest{
		Namespace: c.options.Namespace, Reason: reason, Identity: c.options.Identity,
		// This ends the run's latest execution, even if it has continued as new meanwhile,
		// but not another run that was started under the same id.
		WorkflowExecution: &common.WorkflowExecution{WorkflowId: id}, FirstExecutionRunId: info.GetFirstRunId(),
	}
	if ask.FirstExecutionRunId == "" {
		ask.WorkflowExecution.RunId = info.GetExecution().GetRunId()
	}
	if _, err := c.temporal.WorkflowService().TerminateWorkflowExecution(ctx, ask); err != nil {
		return Run{}, &CallError{"terminating " + id, err}
	}
	return Run{id, info.GetExecution().GetRunId()}, nil
}

// going describes a run, and refuses one that has ended.
func (c *Client) going(ctx context.Context, id string) (*workflow.WorkflowExecutionInfo, error) {
	d, err := c.described(ctx, id)
	if err != nil {
		return nil, err
	}
	info := d.GetWorkflowExecutionInfo()
	if info.GetCloseTime() != nil {
		return nil, &EndedError{Run: id, State: stateOf(info)}
	}
	return info, nil
}
