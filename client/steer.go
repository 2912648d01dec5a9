package client

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/temporal"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/trust"
)

// OrderTime is how long a signed order is valid.
const OrderTime = 10 * time.Minute

// Order completes an order to a run, which somebody is about to sign: the run, a nonce, and
// the validity, from now for [OrderTime]. The caller's states the deployment and its audience,
// what the run is told, by whom and why. The error is an [EndedError] if the run has ended.
func (c *Client) Order(ctx context.Context, id string, o trust.Order) (trust.Order, error) {
	bounded, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	info, err := c.going(bounded, id)
	if err != nil {
		return o, err
	}
	now := time.Now()
	o.Namespace, o.WorkflowID, o.Origin = c.options.Namespace, id, info.GetFirstRunId()
	if o.Origin == "" {
		o.Origin = info.GetExecution().GetRunId()
	}
	o.Nonce, o.Issued, o.Expires = trust.Nonce(), ledger.At(now), ledger.At(now.Add(OrderTime))
	return o, nil
}

// Pause lets a run start nothing new, by the update chimera.pause: what is in flight ends, and
// people may sign. The argument is the JSON of a [contract.Asked], or the envelope of a signed
// [trust.Order]. The answer comes once the ledger has it; its Code is
// [contract.CodeUnchanged] if the run is paused already. As long as ctx lasts the order is
// sent again where the run could not look at it. The error is an [EndedError] if the run has
// ended.
func (c *Client) Pause(ctx context.Context, id string, argument json.RawMessage) (contract.Steering, error) {
	return c.steer(ctx, id, contract.UpdatePause, argument)
}

// Resume lets a paused run go on, by the update chimera.resume, like [Client.Pause].
func (c *Client) Resume(ctx context.Context, id string, argument json.RawMessage) (contract.Steering, error) {
	return c.steer(ctx, id, contract.UpdateResume, argument)
}

func (c *Client) steer(ctx context.Context, id, update string, argument json.RawMessage) (s contract.Steering, err error) {
	err = repeat(ctx, id, "order", func() (string, string, error) {
		s, err = c.steerOnce(ctx, id, update, argument)
		return s.Code, s.Detail, err
	})
	return s, err
}

// steerOnce sends an order once. What the run's validator refuses is an answer with its code.
func (c *Client) steerOnce(ctx context.Context, id, update string, argument json.RawMessage) (s contract.Steering, err error) {
	bounded, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	err = c.update(bounded, id, update, argument, &s)
	var refused *temporal.ApplicationError
	switch {
	case err == nil:
		return s, nil
	case errors.As(err, &refused):
		s = contract.Steering{Code: refused.Type(), Detail: refused.Message()}
		return s, nil
	case errors.As(err, new(*serviceerror.NotFound)):
		if _, gone := c.going(bounded, id); gone != nil {
			return s, gone
		}
	}
	return s, &CallError{"run " + id, err}
}
