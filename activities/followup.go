package activities

import (
	"context"
	"errors"
	"time"

	"chimera.ai/engine/approval"
	"chimera.ai/engine/contract"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/trust"
)

// followUp records what is due at a barrier while people have not approved: more groups are
// asked, and people are reminded. Whoever asks for it, the store's clock decides.
func (g *Guardian) followUp(ctx context.Context, s trust.State, b ledger.Barrier) (ledger.Barrier, error) {
	now := time.Now()
	if !dueAt(b.Escalates(), now) && !dueAt(b.RemindsAt(), now) {
		return b, nil
	}
	r, digest, err := approval.Of(&b)
	if err != nil {
		return b, contract.Errorf(contract.Blocked, "%w", err)
	}
	votes, _, err := g.votes(ctx, s, r, digest, now)
	if err != nil {
		return b, err
	}
	if _, ends := r.Objection(votes); ends || r.Count(votes).Met() {
		return b, nil // nobody is waited for any more
	}
	for _, x := range []struct {
		at *ledger.Time
		do func(context.Context, string) (ledger.Barrier, error)
	}{{b.Escalates(), g.Store.EscalateBarrier}, {b.RemindsAt(), g.Store.RemindBarrier}} {
		if !dueAt(x.at, now) {
			continue
		}
		after, err := x.do(ctx, b.ID)
		switch {
		case errors.Is(err, ledger.ErrConflict):
			// By the store's clock it is not time yet, or another worker has done it.
			if after, err = g.Store.Barrier(ctx, b.ID); err != nil {
				return b, refusal(err)
			}
		case err != nil:
			return b, refusal(err)
		}
		b = after
	}
	return b, nil
}

func dueAt(at *ledger.Time, now time.Time) bool { return at != nil && !now.Before(at.Time()) }

// followed is what has followed at a barrier, and when the guardian is to be asked next, in
// Unix milliseconds; 0 is not before it expires.
func followed(b *ledger.Barrier, r *approval.Request) (f contract.Followed, nextMS int64) {
	for _, at := range []*ledger.Time{b.Escalates(), b.RemindsAt()} {
		if at != nil && at.Time().Before(b.ExpiresAt.Time()) && (nextMS == 0 || at.Time().UnixMilli() < nextMS) {
			nextMS = at.Time().UnixMilli()
		}
	}
	if f.Reminded = b.Reminded; b.RemindedAt != nil {
		f.RemindedMS = b.RemindedAt.Time().UnixMilli()
	}
	if b.EscalatedAt != nil {
		f.EscalatedMS = b.EscalatedAt.Time().UnixMilli()
		for _, x := range r.Rule.FollowUp.To {
			f.To = append(f.To, contract.Group{Role: x.Role, Min: x.Min})
		}
	}
	return f, nextMS
}

// escalated reads from the ledger whether a barrier was escalated, whose request has a rule
// that escalates: whoever asks could say otherwise.
func (a *Acting) escalated(ctx context.Context, r *approval.Request, digest string) error {
	if r.EscalatesAt() == nil {
		return nil
	}
	b, err := a.Ledger.Barrier(ctx, r.Barrier)
	if errors.Is(err, ledger.ErrNotFound) {
		return contract.Errorf(contract.Blocked, "the ledger has no barrier %.120q", r.Barrier)
	}
	if err != nil {
		return refusal(err)
	}
	stands, asked, err := approval.Of(&b)
	if err != nil {
		return contract.Errorf(contract.Blocked, "%w", err)
	}
	if asked != digest || b.State != ledger.BarrierApproved {
		return contract.Errorf(contract.Blocked, "by the ledger, people have not approved it at the barrier %.120q", r.Barrier)
	}
	r.Escalated = stands.Escalated
	return nil
}
