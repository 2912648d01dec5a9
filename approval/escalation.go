package approval

import (
	"fmt"
	"time"

	"chimera.ai/engine/ledger"
	"chimera.ai/engine/plan"
)

// Of reads what people are asked at a barrier, as the barrier stands, and returns it with its
// digest. The error wraps [ErrInvalid], also if the barrier is another than the request's.
func Of(b *ledger.Barrier) (*Request, string, error) {
	r, digest, err := ParseRequest(b.Request)
	if err != nil {
		return nil, "", err
	}
	at := r.EscalatesAt()
	if r.Barrier != b.ID || (at == nil) != (b.EscalatesAt == nil) || at != nil && *at != *b.EscalatesAt || at == nil && b.EscalatedAt != nil {
		return nil, "", fmt.Errorf("%w: the ledger has another barrier", ErrInvalid)
	}
	r.Escalated = b.EscalatedAt != nil
	return r, digest, nil
}

// EscalatesAt is when the groups of the rule's escalation are asked, too, or nil.
func (r *Request) EscalatesAt() *ledger.Time {
	if r.Rule.FollowUp.EscalateAfterMS == 0 {
		return nil
	}
	at := ledger.At(r.Opened.Time().Add(time.Duration(r.Rule.FollowUp.EscalateAfterMS) * time.Millisecond))
	return &at
}

// Asked are the groups that must be met as the barrier stands, sorted by role.
func (r *Request) Asked() []plan.Group {
	if !r.Escalated {
		return r.Rule.Groups
	}
	return plan.Most(r.Rule.Groups, r.Rule.FollowUp.To)
}

// asks returns a refusal unless somebody is asked for a role, and may be asked at the instant
// at which it was signed.
func (r *Request) asks(p *Payload) error {
	for _, g := range r.Asked() {
		if g.Role != p.Role {
			continue
		}
		// Once it is time to escalate, nobody approves before that is done. So whoever may
		// keep it from the ledger gains nothing. Clocks of signer and ledger may differ.
		if at := r.EscalatesAt(); at != nil && !r.Escalated && p.Decision == Approve && p.Issued.Time().After(at.Time().Add(2*skew)) {
			return refuse(NotValid, "it was signed at %s, and the barrier had to be escalated at %s", p.Issued, at)
		}
		return nil
	}
	for _, g := range r.Rule.FollowUp.To {
		if g.Role == p.Role {
			return refuse(Ineligible, "the role %s is asked from %s on, if too few have approved by then", p.Role, r.EscalatesAt())
		}
	}
	return refuse(Ineligible, "nobody asks for the role %.80q", p.Role)
}
