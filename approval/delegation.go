package approval

import (
	"slices"
	"time"

	"chimera.ai/engine/ledger"
	"chimera.ai/engine/trust"
)

const (
	// DelegationFormat is the format of delegations, and DelegationType the type of their
	// envelopes.
	DelegationFormat = "chimera.ai/approval/delegation/v1"
	DelegationType   = "application/vnd.chimera.delegation.v1+json"
	// MaxDelegation bounds how long a delegation is valid.
	MaxDelegation = 90 * 24 * time.Hour
	// MaxDelegationBytes bounds its envelope.
	MaxDelegationBytes = 16 << 10
)

// Delegation lets another sign in roles of the one who gives it. It gives nothing on: who
// has it cannot delegate.
type Delegation struct {
	Format     string         `json:"format"`
	Deployment string         `json:"deployment"`
	Audience   trust.Audience `json:"audience"`
	// Delegator and Delegate are ids of signers; the delegator signs it.
	Delegator string   `json:"delegator"`
	Delegate  string   `json:"delegate"`
	Roles     []string `json:"roles"`
	// Agents are those for whose actions it is, none for all.
	Agents    []string    `json:"agents,omitempty"`
	Nonce     string      `json:"nonce"`
	NotBefore ledger.Time `json:"not_before"`
	Expires   ledger.Time `json:"expires"`
}

// Unsigned returns the envelope of a delegation without a signature. The format may be left
// out.
func (d *Delegation) Unsigned() (*trust.Envelope, error) {
	d.Format = DelegationFormat
	raw, err := trust.Encode(d)
	if err != nil {
		return nil, err
	}
	return &trust.Envelope{Type: DelegationType, Payload: raw}, nil
}

// Check returns an error unless the delegation, once the delegator has signed it, counts in a
// state from its beginning to its end: the delegator has all its roles and a key that is valid
// for so long, and the delegate is another signer. The error is a [Refusal].
func (d *Delegation) Check(s trust.State) error {
	if d.Delegator == d.Delegate || len(d.Roles) == 0 {
		return refuse(BadDelegation, "it lets %.120q sign for %.120q in %d roles", d.Delegate, d.Delegator, len(d.Roles))
	}
	if err := d.life(); err != nil {
		return err
	}
	begin, last := d.NotBefore.Time(), d.Expires.Time().Add(-time.Millisecond)
	from, err := enrolled(s, d.Delegator, begin, last)
	if err != nil {
		return refuse(BadDelegation, "who gives it: %s", err)
	}
	for _, role := range d.Roles {
		if !from.Has(role) {
			return refuse(BadDelegation, "%s, who gives it, does not have the role %s", d.Delegator, role)
		}
	}
	if _, err := enrolled(s, d.Delegate, begin, begin); err != nil {
		return refuse(BadDelegation, "who gets it: %s", err)
	}
	return nil
}

// life checks how long the delegation is valid.
func (d *Delegation) life() error {
	if life := d.Expires.Time().Sub(d.NotBefore.Time()); life <= 0 || life > MaxDelegation {
		return refuse(BadDelegation, "it is valid for %s; that must be some time, and at most %s", life, MaxDelegation)
	}
	return nil
}

// Delegator returns the signer who lets another sign a request in a role, by the envelope of a
// delegation, if that was valid when the other signed, and is at an instant; the zero time
// leaves out the latter. The error is a [Refusal].
func Delegator(s trust.State, r *Request, envelope []byte, delegate, role string, signed, at time.Time) (id string, from trust.Signer, err error) {
	if r.Rule.Alone {
		return "", from, refuse(BadDelegation, "here nobody signs for another")
	}
	if len(envelope) > MaxDelegationBytes {
		return "", from, refuse(BadDelegation, "the delegation has %d bytes, more than %d", len(envelope), MaxDelegationBytes)
	}
	e, err := trust.ParseEnvelope(envelope, DelegationType)
	if err != nil {
		return "", from, refuse(BadDelegation, "%s", err)
	}
	var d Delegation
	if err := trust.Decode(e.Payload, &d); err != nil {
		return "", from, refuse(BadDelegation, "%s", err)
	}
	switch {
	case d.Format != DelegationFormat || d.Deployment != r.Deployment || d.Audience != r.Audience:
		return "", from, refuse(BadDelegation, "it is of another form, deployment or audience")
	case d.Delegate != delegate || d.Delegator == delegate:
		return "", from, refuse(BadDelegation, "it lets %.120q sign, not %s", d.Delegate, delegate)
	case !slices.Contains(d.Roles, role):
		return "", from, refuse(BadDelegation, "it is not for the role %s", role)
	case len(d.Agents) > 0 && !slices.Contains(d.Agents, r.Agent):
		return "", from, refuse(BadDelegation, "it is not for the agent %.120q", r.Agent)
	}
	if err := d.life(); err != nil {
		return "", from, err
	}
	switch {
	case !trust.IsNonce(d.Nonce):
		return "", from, refuse(BadDelegation, "its nonce is not 32 hex digits")
	case signed.Before(d.NotBefore.Time()) || !signed.Before(d.Expires.Time()) || !at.IsZero() && !at.Before(d.Expires.Time()):
		return "", from, refuse(BadDelegation, "it is valid from %s to %s", d.NotBefore, d.Expires)
	}
	if from, err = enrolled(s, d.Delegator, signed, at); err != nil {
		return "", from, refuse(BadDelegation, "who gives it: %s", err)
	}
	switch {
	case !from.Has(role):
		return "", from, refuse(BadDelegation, "%s, who gives it, does not have the role %s", d.Delegator, role)
	case !from.Signed(e):
		return "", from, refuse(BadDelegation, "%s, who is said to give it, has not signed it", d.Delegator)
	}
	return d.Delegator, from, nil
}
