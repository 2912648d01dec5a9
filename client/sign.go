package client

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"go.temporal.io/api/serviceerror"
	sdk "go.temporal.io/sdk/client"

	"chimera.ai/engine/contract"
)

const (
	// Bounds of the wait before a signature is sent again.
	minSignWait = 200 * time.Millisecond
	maxSignWait = 2 * time.Second
)

// Sign sends a signature to a run by the update chimera.sign, and returns what became of it.
// As long as ctx lasts it is sent again if the run could not look at it: since it began
// another execution, or because others send so many. [contract.Verdict.Accepted] says whether
// it counts.
func (c *Client) Sign(ctx context.Context, id string, envelope json.RawMessage) (contract.Verdict, error) {
	wait := minSignWait
	for {
		v, err := c.signOnce(ctx, id, envelope)
		switch {
		case err == nil && v.Code != contract.CodeAgain:
			return v, nil
		case err != nil && !passing(err):
			return v, err
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			if err == nil {
				err = &CallError{"run " + id, errors.New("it did not look at the signature in time: " + v.Detail)}
			}
			return v, err
		case <-timer.C:
			wait = min(2*wait, maxSignWait)
		}
	}
}

// passing reports whether an error of an update may be over soon.
func passing(err error) bool {
	return errors.As(err, new(*serviceerror.ResourceExhausted)) || errors.As(err, new(*serviceerror.Unavailable)) ||
		errors.As(err, new(*serviceerror.WorkflowNotReady)) || errors.Is(err, context.DeadlineExceeded)
}

// signOnce sends a signature once.
func (c *Client) signOnce(ctx context.Context, id string, envelope json.RawMessage) (v contract.Verdict, err error) {
	bounded, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	u, err := c.temporal.UpdateWorkflow(bounded, sdk.UpdateWorkflowOptions{
		WorkflowID: id, UpdateName: contract.UpdateSign, Args: []any{envelope}, WaitForStage: sdk.WorkflowUpdateStageCompleted,
	})
	if err == nil {
		err = u.Get(bounded, &v)
	}
	if err != nil {
		return v, &CallError{"run " + id, err}
	}
	return v, nil
}
