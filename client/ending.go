package client

import (
	"context"
	"encoding/json"
	"errors"

	"go.temporal.io/sdk/temporal"

	"chimera.ai/engine/contract"
)

// Ending is how a run ended. A run that was terminated, or timed out in Temporal, has
// failed.
type Ending struct {
	State   contract.RunState `json:"state"`
	Output  json.RawMessage   `json:"output,omitempty"`
	Failure *contract.Failure `json:"failure,omitempty"`
}

// wait waits for a run's end.
func (c *Client) wait(ctx context.Context, run Run) (Ending, error) {
	var output json.RawMessage
	err := c.temporal.GetWorkflow(ctx, run.ID, run.RunID).Get(ctx, &output)
	if err == nil {
		return Ending{State: contract.RunSucceeded, Output: output}, nil
	}
	var ended *temporal.WorkflowExecutionError
	if !errors.As(err, &ended) {
		return Ending{}, &CallError{"waiting for the run", err}
	}
	return failed(err), nil
}

// failed reads how a run that did not succeed ended.
func failed(err error) Ending {
	e := Ending{State: contract.RunFailed, Failure: &contract.Failure{
		Kind: contract.FailedKind, Message: err.Error(), Compensated: []string{}, NotCompensated: []string{},
	}}
	var application *temporal.ApplicationError
	var cancelled *temporal.CanceledError
	var terminated *temporal.TerminatedError
	var timeout *temporal.TimeoutError
	var details interface {
		HasDetails() bool
		Details(...any) error
	}
	switch {
	case errors.As(err, &cancelled):
		e.State = contract.RunCancelled
		e.Failure.Kind, e.Failure.Message = contract.Cancelled, "the run was cancelled"
		details = cancelled
	case errors.As(err, &application):
		e.Failure.Message = application.Message()
		details = application
	case errors.As(err, &terminated):
		e.Failure.Message = "the run was terminated from outside; nothing was compensated"
	case errors.As(err, &timeout):
		e.Failure.Kind, e.Failure.Message = contract.Deadline, "Temporal ended the run at its timeout"
	}
	if details != nil && details.HasDetails() {
		var f contract.Failure
		if details.Details(&f) == nil && f.Kind != "" {
			e.Failure = &f
		}
	}
	return e
}
