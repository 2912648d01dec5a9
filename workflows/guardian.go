package workflows

import (
	"time"

	"go.temporal.io/sdk/workflow"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/plan"
)

// undecided reports whether the guardian is to be asked before w's call of node n: for a
// permit, or for a hold.
func (w *wait) undecided(n *plan.Node) bool {
	return w.kind != waitRoute && (n.Effect.Acts() && !w.decided || n.Paid() && w.hold == "")
}

// askable reports whether the guardian may be asked about w now.
func (r *run) askable(w *wait) bool {
	if r.plan.Nodes[w.node].Paid() {
		return r.settled(w) && (!r.journal.unopened || r.recorded(w))
	}
	return r.recorded(w)
}

// recorded reports whether the ledger has the outcomes on which the effect of w may rest,
// and sees to it that it gets them: what the guardian relies on is recorded before it.
func (r *run) recorded(w *wait) bool {
	j := &r.journal
	if w.after == 0 {
		w.after = j.noted
	}
	if !j.unopened && w.after <= j.done {
		return true
	}
	if !j.writing {
		r.write()
	}
	return false
}

// decide asks the guardian for a permit of the call that w waits for, or for a hold.
func (r *run) decide(w *wait) {
	activity := contract.ActivityDecide
	if r.plan.Nodes[w.node].Paid() {
		activity = contract.ActivityHold
	}
	w.kind, w.local, w.queue = waitGuardian, false, contract.QueueGuardian
	call := r.request(w)
	r.meter.emit(size(&call))
	policy := r.policy(w)
	w.future = workflow.ExecuteActivity(workflow.WithActivityOptions(r.steady, workflow.ActivityOptions{
		TaskQueue:              w.queue,
		ActivityID:             "engine/guardian/" + r.path + r.plan.Nodes[w.node].ID,
		Summary:                r.plan.Nodes[w.node].ID,
		ScheduleToCloseTimeout: lasting(policy.MaximumAttempts, startTimeout, journalTimeout),
		ScheduleToStartTimeout: startTimeout,
		StartToCloseTimeout:    journalTimeout,
		RetryPolicy:            policy,
	}), activity, call)
}

// landDecision handles what the guardian has decided. What it rejects fails the node.
func (r *run) landDecision(w *wait) {
	if r.plan.Nodes[w.node].Paid() {
		r.landHold(w)
		return
	}
	var d contract.Decided
	err := w.future.Get(r.steady, &d)
	if err == nil && d.Request != w.request {
		err = errOther
	}
	if err != nil {
		r.failedCall(w, readFailure(err, w))
		return
	}
	r.returned(w)
	switch {
	case d.Unopened:
		r.journal.unopened = true
		r.later(w, 0)
		return
	case d.WaitMS > 0:
		r.later(w, min(time.Duration(d.WaitMS)*time.Millisecond, tryTime))
		return
	}
	next := r.anew(w)
	next.decided, next.permit = true, d.Permit
	r.again = append(r.again, next)
}

// acting reports whether a call of an effect is in flight.
func (r *run) acting() bool {
	for _, w := range r.flights {
		if w.decided {
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
				if w.decided && w.ready() || r.reported() {
					return true
				}
			}
			return false
		})
		for _, w := range r.takeReady() {
			if w.decided && w.kind != waitChild { // a child has told the ledger
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
	if err == nil {
		r.succeeded(w.node, out)
		return
	}
	f := readFailure(err, w)
	f.Node = r.plan.Nodes[w.node].ID
	r.settledAs(w.node, f.Attempts)
	r.journal.note(r.entry(w.node, contract.JournalEntry{State: contract.Failed, Attempts: f.Attempts, Error: brief(&f.ErrorPayload)}))
}
