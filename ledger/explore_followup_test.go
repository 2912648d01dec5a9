package ledger_test

import "chimera.ai/engine/ledger"

// What follows at a barrier while people have not approved, and after they have.

// escalate lets a guardian escalate a round.
func (h *hall) escalate(m barrierMoves, n int) {
	o := &h.rounds[n]
	b, changed, err := m.escalate(h.barrier(n), tick(h.now))
	if err != nil || !changed {
		return
	}
	switch {
	case o.state != 1:
		h.wrong = "a barrier that is closed is escalated"
	case o.escalated != 0:
		h.wrong = "a barrier is escalated twice"
	case h.now <= o.expires-barrierTicks:
		h.wrong = "a barrier is escalated early"
	case h.now >= o.expires:
		h.wrong = "a barrier is escalated after it has expired"
	}
	o.escalated = int8(b.EscalatedAt.Time().Unix())
}

// check is the role effects that calls the precheck, for a round. It succeeds, fails, or returns
// something else than before, which makes another action of the first effect.
func (h hall) check(out []hall, m barrierMoves, n int) []hall {
	if !m.checks(h.barrier(n)) {
		return out
	}
	for _, last := range []int8{0, 1, 3} {
		next := h
		next.last = last
		if o := &next.rounds[n]; states[o.state] == ledger.BarrierApproved {
			o.checked = again
		} else if o.checked == unchecked {
			o.checked = early
		}
		if last != 0 && last != next.wants[0].action {
			next.wants[0] = wanted{action: last}
		}
		out = append(out, next)
	}
	return out
}

// made lists the calls of the precheck that were made for rounds.
func (h *hall) made() (all []ledger.Check) {
	for n := range h.rounds {
		if h.rounds[n].checked != unchecked {
			all = append(all, ledger.Check{Barrier: roundName(int8(n))})
		}
	}
	return all
}

// lastCheck is the last call of the precheck.
func (h *hall) lastCheck() ledger.Check {
	if h.last == 0 {
		return ledger.Check{State: ledger.CheckFailed}
	}
	return ledger.Check{State: ledger.CheckSucceeded}
}
