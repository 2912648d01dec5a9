package workflows

import (
	"time"

	"chimera.ai/engine/contract"
)

// due reports whether the run is to continue as new now. Between the soft bound and
// the hard one it carries on until little is in flight, and then waits for that.
func (r *run) due() bool {
	length, bytes := r.info.GetCurrentHistoryLength(), r.info.GetCurrentHistorySize()
	switch {
	case length >= r.hard(), bytes >= hardBytes, r.inbox.received >= maxSignals, r.inbox.received >= floodSignals && length >= floodEvents:
		r.draining = true
	case length >= r.head.ContinueAfter, bytes >= softBytes, r.info.GetContinueAsNewSuggested():
		if n, short := r.activities(); n <= little && short {
			r.draining = true
		}
	}
	n, _ := r.activities()
	return r.draining && !r.stays(length, bytes) && n == 0 && r.begun()
}

// hard is the length of the history from which on nothing new is launched.
func (r *run) hard() int { return hardFactor * r.head.ContinueAfter }

// activities counts the activities of nodes that are in flight, which have to end before
// the run can continue as new, and reports whether all of them end soon. Children need not.
// Decisions about effects count, and so do the calls that they permit.
func (r *run) activities() (n int, short bool) {
	short = true
	for _, w := range r.flights {
		switch w.kind {
		case waitCall, waitRoute, waitUndo:
			n++
			short = short && r.takes(w) <= contract.ShortWait
		case waitCheck:
			n++
			check := r.plan.Nodes[w.node].Prechecks()[w.checked]
			short = short && time.Duration(r.plan.Nodes[check].TimeoutMS)*time.Millisecond <= contract.ShortWait
		case waitGuardian:
			n++
		case waitChild, waitJournal, waitPost, waitBarrier, waitOpen, waitSign, waitSteer:
		}
	}
	if r.outage.away {
		return n, short
	}
	for _, w := range r.again {
		if w.decided {
			n++
		}
	}
	return n, short
}

// stays reports whether the run has to wait for its store before it continues as
// new, since the state it carries is stored there. An unavailable store costs no
// events: if a history has grown to twice the hard bound all the same, somebody
// only claims that it is unavailable.
func (r *run) stays(length, bytes int) bool {
	return r.outage.away && length < 2*r.hard() && bytes < 2*hardBytes
}
