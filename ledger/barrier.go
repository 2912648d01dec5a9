package ledger

import (
	"fmt"
	"slices"
)

// What follows are the moves of a barrier, and the use of what was signed at it. They change
// nothing but the value that they return, so stores, guardians and explorers share them.

// Ends says how an open barrier ends by now, by what its valid signatures say: that somebody
// has rejected it, or that enough people have approved it. One that does not end yet stays
// [BarrierOpen].
func (b *Barrier) Ends(rejected, met bool, now Time) BarrierState {
	switch {
	case b.State.Closed():
		return b.State
	case rejected:
		return BarrierRejected
	case met:
		return BarrierApproved
	case b.over(now):
		return BarrierExpired
	}
	return BarrierOpen
}

// over reports that the barrier's time has passed.
func (b *Barrier) over(now Time) bool { return !now.Time().Before(b.ExpiresAt.Time()) }

// Close ends a barrier. One that has ended stays as it is, and changed is false. Nothing is
// approved once the barrier's time has passed, and nothing expires before: that is
// [ErrConflict].
func (b Barrier) Close(end BarrierState, reason string, now Time) (out Barrier, changed bool, err error) {
	switch {
	case !end.Closed():
		return b, false, fmt.Errorf("%w: a barrier is not closed as %.40q", ErrInvalid, string(end))
	case b.State.Closed():
		return b, false, nil
	case end == BarrierApproved && b.over(now):
		return b, false, fmt.Errorf("%w: it has expired at %s", ErrConflict, b.ExpiresAt)
	case end == BarrierExpired && !b.over(now):
		return b, false, fmt.Errorf("%w: it expires at %s", ErrConflict, b.ExpiresAt)
	}
	b.State, b.Reason, b.ClosedAt = end, reason, &now
	return b, true, nil
}

// Approve closes a barrier as approved. escalated says whether it was escalated when the
// signatures were counted; if that has changed since, they are to be counted again, and the
// error wraps [ErrConflict].
func (b Barrier) Approve(reason string, escalated bool, now Time) (out Barrier, changed bool, err error) {
	if !b.State.Closed() && escalated != (b.EscalatedAt != nil) {
		return b, false, fmt.Errorf("%w: whether it was escalated has changed", ErrConflict)
	}
	return b.Close(BarrierApproved, reason, now)
}

// Counts reports whether effects wait at a barrier, or were approved there.
func (b *Barrier) Counts() bool { return b.State == BarrierOpen || b.State == BarrierApproved }

// Awaits returns how an invocation waits at a barrier, or nil if the barrier is not about it.
func (b *Barrier) Awaits(invocation string) *Awaited {
	for i := range b.Actions {
		if b.Actions[i].Invocation == invocation {
			return &b.Actions[i]
		}
	}
	return nil
}

// Use returns an error unless an approval counts for an action of an invocation at a barrier,
// or at any if that is "". by is the invocation that has used it for that action before, or
// "": an approval is used once for each of its actions. covered says that it counts for the
// action although it does not list that, which undoes one that it lists.
func (a *Approval) Use(barrier, action, invocation, by string, covered bool) error {
	switch {
	case !a.Accepted:
		return fmt.Errorf("%w: approval %s was refused", ErrConflict, a.ID)
	case barrier != "" && a.Barrier != barrier:
		return fmt.Errorf("%w: approval %s is of another barrier", ErrConflict, a.ID)
	case !covered && !slices.Contains(a.Actions, action):
		return fmt.Errorf("%w: approval %s is of other actions", ErrConflict, a.ID)
	case by != "" && by != invocation:
		return fmt.Errorf("%w: approval %s is used up", ErrConflict, a.ID)
	}
	return nil
}
