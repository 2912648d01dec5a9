package approval

import (
	"slices"
	"time"

	"chimera.ai/engine/ledger"
)

// ValidAt is the instant for which [Verify] verifies a signature that arrives now, at a barrier
// in a state. It is the zero time if the barrier is approved: there a signature that has
// counted may come again when it has expired.
func ValidAt(state ledger.BarrierState, now time.Time) time.Time {
	if state == ledger.BarrierApproved {
		return time.Time{}
	}
	return now
}

// Arrives returns a [Refusal] unless a verified vote counts that arrives at a barrier in a
// state, beside those that count there already. One of them may come again. A person's second
// one in the same role says nothing new.
func (v Vote) Arrives(state ledger.BarrierState, counted []Vote) error {
	switch {
	case slices.ContainsFunc(counted, func(have Vote) bool { return have.ID == v.ID }):
		return nil
	case state.Closed():
		return refuse(Late, "the barrier is %s", state)
	case v.Decision == Reject:
		return nil
	}
	for _, have := range counted {
		if !slices.ContainsFunc(have.Persons, func(p string) bool { return slices.Contains(v.Persons, p) }) {
			continue
		}
		switch {
		case v.Decision.States() && have.Decision != v.Decision:
			return refuse(Twice, "the person has stated the opposite before")
		case have.Role == v.Role && have.Decision == v.Decision:
			return refuse(Twice, "the person has signed it in this role before")
		}
	}
	return nil
}
