package client

import (
	"context"
	"encoding/json"

	"chimera.ai/engine/contract"
)

// Sign sends a signature to a run by the update chimera.sign, and returns what became of it.
// As long as ctx lasts it is sent again if the run could not look at it: since it began
// another execution, or because others send so many. [contract.Verdict.Accepted] says whether
// it counts.
func (c *Client) Sign(ctx context.Context, id string, envelope json.RawMessage) (v contract.Verdict, err error) {
	err = repeat(ctx, id, "signature", func() (string, string, error) {
		v, err = c.signOnce(ctx, id, envelope)
		return v.Code, v.Detail, err
	})
	return v, err
}

// signOnce sends a signature once.
func (c *Client) signOnce(ctx context.Context, id string, envelope json.RawMessage) (v contract.Verdict, err error) {
	bounded, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if err := c.update(bounded, id, contract.UpdateSign, envelope, &v); err != nil {
		return v, &CallError{"run " + id, err}
	}
	return v, nil
}
