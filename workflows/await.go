package workflows

import (
	"slices"

	"go.temporal.io/sdk/workflow"

	"chimera.ai/engine/contract"
)

// await blocks until something has happened with which the run can continue.
func (r *run) await() {
	if !slices.ContainsFunc(r.flights, func(w *wait) bool { return w.local }) {
		// The workflow task ends here.
		workflow.SetCurrentDetails(r.ctx, r.details(contract.RunRunning))
	}
	// It cannot be cancelled, and fails in no other way.
	_ = workflow.Await(r.steady, func() bool {
		return r.phase == forward && (r.ctx.Err() != nil || r.deadline.IsReady()) || r.alarm.rung() || r.reported() || r.signed() || r.told() ||
			slices.ContainsFunc(r.flights, (*wait).ready) || r.draining && r.due()
	})
	r.wake()
}

// wake moves what is due to what can be launched.
func (r *run) wake() {
	now := r.now()
	r.sleeping = slices.DeleteFunc(r.sleeping, func(w *wait) bool {
		if w.due.After(now) {
			return false
		}
		r.again = append(r.again, w)
		return true
	})
	for _, w := range r.flights {
		switch {
		case !w.overdue(now):
		case r.identified(w):
			r.inquire(w, false)
		default:
			w.due = r.asked(w) // Temporal has not answered its start yet
		}
	}
}
