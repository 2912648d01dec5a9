package workflows

import (
	"slices"

	"go.temporal.io/sdk/workflow"

	"chimera.ai/engine/contract"
)

// unwind releases what is in flight when the run's end is known. Calls that react
// to cancellation are cancelled; the results of all others are dropped. What undoes an effect
// already goes on.
func (r *run) unwind() {
	r.unpause()
	r.cancelHeeded()
	r.disarm()
	r.withdraw(true)
	r.recallEffects()
	r.awaitEffects()
	r.dismiss()
	r.settleUp()
	r.letGo()
}

// recallEffects cancels the calls of effects that are in flight. Those that were not sent are not made. In
// histories from before this rule nothing is cancelled.
func (r *run) recallEffects() {
	permitted := func(w *wait) bool { return w.decided && w.permit != nil && !r.undoes(w) }
	if !slices.ContainsFunc(r.flights, permitted) || workflow.GetVersion(r.steady, "engine/recall", workflow.DefaultVersion, 1) == workflow.DefaultVersion {
		return
	}
	r.cancelPermitted()
	r.cancelChildren(permitted)
}

// dismiss cancels the children in flight.
func (r *run) dismiss() { r.cancelChildren(func(*wait) bool { return true }) }

// cancelChildren cancels such children in flight, but those that undo an effect, and waits until each
// request is delivered, since the server drops the requests of a run that has ended.
func (r *run) cancelChildren(such func(*wait) bool) {
	var asked []workflow.Future
	// It cannot be cancelled, and fails in no other way.
	_ = workflow.Await(r.steady, r.begun)
	for _, w := range r.flights {
		if w.kind == waitChild && w.child.Run != "" && !r.undoes(w) && such(w) {
			asked = append(asked, workflow.RequestCancelExternalWorkflow(r.steady, w.child.Workflow, w.child.Run))
		}
	}
	for _, f := range asked {
		_ = f.Get(r.steady, nil) // one that has ended cannot be asked
	}
}

// acting reports whether a call of an effect is in flight that undoes no other.
func (r *run) acting() bool {
	for _, w := range r.flights {
		if w.decided && !r.undoes(w) {
			return true
		}
	}
	return false
}

// awaitEffects lets calls of effects that are in flight end, whatever ends the run, and
// notes what they did.
func (r *run) awaitEffects() {
	for r.acting() {
		// It cannot be cancelled, and fails in no other way.
		_ = workflow.Await(r.steady, func() bool {
			for _, w := range r.flights {
				if w.decided && !r.undoes(w) && w.ready() || r.reported() {
					return true
				}
			}
			return false
		})
		for _, w := range r.takeReady() {
			if r.undoes(w) || w.kind == waitJournal || w.kind == waitPost {
				r.land(w)
			} else if w.decided && w.kind != waitChild { // a child has told the ledger
				r.landEffect(w)
			}
		}
		r.takeReports()
	}
}

// landEffect notes the end of a call in a run that is about to end. Nothing follows from
// it.
func (r *run) landEffect(w *wait) {
	var out contract.Outcome
	err := w.future.Get(r.steady, &out)
	if err == nil && out.Request != w.request {
		err = errOther
	}
	if err == nil && out.Unknown == "" {
		r.succeeded(w.node, out)
		return
	}
	f := failed(contract.OutcomeUnknown, unknown)
	if err != nil {
		f = readFailure(err, w)
	}
	f.Node = r.plan.Nodes[w.node].ID
	r.settledAs(w.node, f.Attempts)
	r.journal.note(r.entry(w.node, contract.JournalEntry{State: contract.Failed, Attempts: f.Attempts, Error: brief(&f.ErrorPayload), Snapshots: f.snapshots}))
}
