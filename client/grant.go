package client

import (
	"fmt"
	"time"

	"chimera.ai/engine/ledger"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/schemas"
	"chimera.ai/engine/trust"
)

// GrantTime is how long a start grant is valid: a run that no worker takes up within it
// does not begin.
const GrantTime = time.Hour

// Grant adds a start grant to a request, signed with a key that may act for the agent.
// The caller's grant states the deployment and its audience, the digest of the plan, the
// agent and the requester. Grant fills in the rest: the run, its input, a nonce, and the
// validity, from now for [GrantTime]. The error is [trust.ErrInvalid] if such a grant is
// impossible, such as for an id that is too long.
func (c *Client) Grant(key *trust.Key, r *Request, g trust.Grant) error {
	text := r.Start.Input
	if len(text) == 0 {
		text = []byte("{}")
	}
	input, err := schemas.Decode(text)
	if err != nil {
		return fmt.Errorf("the input is not JSON: %w", err)
	}
	canonical, err := plan.Canonical(input)
	if err != nil {
		return fmt.Errorf("the input: %w", err)
	}
	now := time.Now()
	g.Namespace, g.WorkflowID, g.Input = c.options.Namespace, r.ID, plan.DigestOf(canonical)
	g.Nonce, g.Issued, g.Expires = trust.Nonce(), ledger.At(now), ledger.At(now.Add(GrantTime))
	signed, err := trust.SignGrant(key, g)
	if err != nil {
		return err
	}
	r.Start.Grant = signed
	return nil
}
