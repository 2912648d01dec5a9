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

// recallEffects cancels the calls of effects that are in flight, and has children do that. Those that were
// not sent are not made. In histories from before this rule nothing is cancelled.
func (r *run) recallEffects() {
	if !slices.ContainsFunc(r.flights, r.acts) || workflow.GetVersion(r.steady, recallChange, workflow.DefaultVersion, 1) == workflow.DefaultVersion {
		return
	}
	r.recalled = true
	r.cancelPermitted()
	r.tellChildren(r.acts, func(c *contract.Child) workflow.Future {
		return workflow.SignalExternalWorkflow(r.steady, c.Workflow, c.Run, contract.SignalRecall, nil)
	})
}

// dismiss cancels the children in flight.
func (r *run) dismiss() {
	r.tellChildren(func(*wait) bool { return true }, func(c *contract.Child) workflow.Future {
		return workflow.RequestCancelExternalWorkflow(r.steady, c.Workflow, c.Run)
	})
}

// tellChildren tells something such children in flight, but those that undo an effect, and waits until it is
// delivered, since the server drops what a run has sent that has ended.
func (r *run) tellChildren(such func(*wait) bool, tell func(*contract.Child) workflow.Future) {
	var told []workflow.Future
	// It cannot be cancelled, and fails in no other way.
	_ = workflow.Await(r.steady, r.begun)
	for _, w := range r.flights {
		if w.kind == waitChild && w.child.Run != "" && !r.undoes(w) && such(w) {
			told = append(told, tell(w.child))
		}
	}
	for _, f := range told {
		_ = f.Get(r.steady, nil) // one that has ended cannot be told
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
			} else if w.decided && r.recalled && !w.asking {
				r.landChild(w) // it has ended without a report, or with a large one
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
	r.effectFailed(w, f)
}

// onlyNoted reports whether w was the call of an effect in a run that only waits for those: that it has failed
// is noted, and nothing follows from it. In histories from before effects were recalled, children's failures
// were not noted.
func (r *run) onlyNoted(w *wait) bool {
	return r.recalled && !r.released && r.acts(w)
}

// acts reports whether w may be the call of an effect, other than one that undoes another. The permit of a
// call that a child makes since an earlier execution of the run is known to the child alone.
func (r *run) acts(w *wait) bool {
	return w.decided && (w.permit != nil || w.kind == waitChild) && !r.undoes(w)
}

// effectFailed notes that a call has failed in a run that is about to end.
func (r *run) effectFailed(w *wait, f failure) {
	f.Node = r.plan.Nodes[w.node].ID
	r.settledAs(w.node, f.Attempts)
	r.journal.note(r.entry(w.node, contract.JournalEntry{State: contract.Failed, Attempts: f.Attempts, Error: brief(&f.ErrorPayload), Snapshots: f.snapshots}))
}
