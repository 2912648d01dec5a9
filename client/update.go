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
	// Bounds of the wait before an update is sent again.
	minUpdateWait = 200 * time.Millisecond
	maxUpdateWait = 2 * time.Second
)

// repeat sends an update to a run by send, which returns the answer's code and detail. As
// long as ctx lasts it is sent again where the run could not look at it. what names what the
// update brings.
func repeat(ctx context.Context, run, what string, send func() (code, detail string, err error)) error {
	wait := minUpdateWait
	for {
		code, detail, err := send()
		switch {
		case err == nil && code != contract.CodeAgain:
			return nil
		case err != nil && !passing(err):
			return err
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			if err == nil {
				err = &CallError{"run " + run, errors.New("it did not look at the " + what + " in time: " + detail)}
			}
			return err
		case <-timer.C:
			wait = min(2*wait, maxUpdateWait)
		}
	}
}

// passing reports whether an error of an update may be over soon.
func passing(err error) bool {
	return errors.As(err, new(*serviceerror.ResourceExhausted)) || errors.As(err, new(*serviceerror.Unavailable)) ||
		errors.As(err, new(*serviceerror.WorkflowNotReady)) || errors.As(err, new(*sdk.WorkflowUpdateServiceTimeoutOrCanceledError)) ||
		errors.Is(err, context.DeadlineExceeded)
}

// update sends an update once, and reads its answer.
func (c *Client) update(ctx context.Context, run, name string, argument json.RawMessage, answer any) error {
	u, err := c.temporal.UpdateWorkflow(ctx, sdk.UpdateWorkflowOptions{
		WorkflowID: run, UpdateName: name, Args: []any{contract.Argument(argument)}, WaitForStage: sdk.WorkflowUpdateStageCompleted,
	})
	if err != nil {
		return err
	}
	return u.Get(ctx, answer)
}
