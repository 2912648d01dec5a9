package workflows

import (
	"slices"
	"strconv"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/plan"
)

// letGo drops what waits to be launched, and what is in flight: nobody waits for that any
// more. Calls that react to a cancellation are made anew from here on.
func (r *run) letGo() {
	r.dropped = r.answers()
	other := func(w *wait) bool { return !r.undoes(w) }
	r.flights = slices.DeleteFunc(r.flights, func(w *wait) bool { return w.kind != waitJournal && w.kind != waitPost && other(w) })
	r.again, r.stalled = slices.DeleteFunc(slices.Concat(r.again, r.stalled), other), nil
	r.sleeping = slices.DeleteFunc(r.sleeping, other)
	r.parked = slices.DeleteFunc(r.parked, other) // the report of a child may have come after all were closed
	r.meter.keep(r.flights)
	r.opening, r.inbox.signing, r.steering.sent = 0, false, false
	if len(r.barriers) > 0 {
		r.inbox.anew()
	}
	r.outage = outage{}
	r.undo.Unwind()
	r.heeded, r.cancelHeeded = workflow.WithCancel(r.steady)
	r.released = true
}

// undone reports whether nothing is left to undo, and completes the failure then.
func (r *run) undone() bool {
	if r.end.State != contract.RunSucceeded && r.undo.Left() {
		return false
	}
	if r.undo.Began() && r.end.Failure != nil {
		r.settleUp()
		r.end.Failure.Compensated, r.end.Failure.NotCompensated = r.undo.Compensated(), r.undo.NotCompensated()
		*r.end.Failure = complete(*r.end.Failure)
	}
	return true
}

// undoMeanwhile takes the next step of undoing an effect of unknown outcome while the run goes
// on. It reports whether the node of one has settled.
func (r *run) undoMeanwhile() bool {
	if !r.undo.Recovering() {
		return false
	}
	step := r.undo.Proceed()
	r.undoStep(step)
	return step == plan.UndoEnd
}

// undoNext takes the next step of undoing what a run has done whose end is known.
func (r *run) undoNext() { r.undoStep(r.undo.Next()) }

func (r *run) undoStep(step plan.UndoStep) {
	switch step {
	case plan.UndoWait, plan.UndoEnd:
	case plan.UndoAsk:
		r.again = append(r.again, &wait{kind: waitUndo, node: r.undo.Node(), since: r.now()})
	case plan.UndoStop:
		r.again, r.sleeping, r.stalled = nil, nil, nil
		if r.opening > 0 {
			break // what is being opened is closed once it is open
		}
		r.withdraw(false)
		if r.idle() {
			r.undo.Stopped()
		}
	}
	r.forgetUndone()
}

// forgetUndone drops the values of an effect that is no longer being undone.
func (r *run) forgetUndone() {
	if r.undo.Node() == 0 {
		r.scope.undone.args, r.scope.undone.output = nil, nil
	}
}

// askUndo asks the role effects about the effect that is being undone.
func (r *run) askUndo(w *wait) {
	n := &r.plan.Nodes[w.node]
	call := contract.Call{Run: r.identity(), Plan: r.head.Digest, Node: w.node, Visit: r.visit, Undo: contract.UndoAsk}
	if r.undo.Stage() == plan.UndoVerifying {
		call.Undo = contract.UndoVerify
	}
	// No answer to a call of the node is one to this.
	w.request = r.tag + "/engine/undo/" + string(call.Undo) + "/" + r.path + n.ID + "#" + strconv.Itoa(w.launches)
	call.Request = w.request
	if n.ReadsInput || n.RoutesOnInput {
		call.Input = r.head.Whole
	}
	r.meter.emit(size(&call))
	w.local, w.queue = false, contract.QueueEffects
	timeout, heartbeat := r.takes(w)+journalTimeout, time.Duration(0)
	if r.verifying(n) > heartbeatTimeout {
		heartbeat = heartbeatTimeout
	}
	w.future = workflow.ExecuteActivity(workflow.WithActivityOptions(r.steady, workflow.ActivityOptions{
		TaskQueue: w.queue, ActivityID: "engine/undo/" + r.path + n.ID, Summary: n.ID,
		ScheduleToCloseTimeout: startTimeout + timeout, ScheduleToStartTimeout: startTimeout, StartToCloseTimeout: timeout,
		HeartbeatTimeout: heartbeat, RetryPolicy: &temporal.RetryPolicy{MaximumAttempts: 1},
	}), n.Activity(), call)
}

// landUndo handles the answer.
func (r *run) landUndo(w *wait) {
	var out contract.Outcome
	err := w.future.Get(r.steady, &out)
	if err == nil && (out.Request != w.request || len(out.Held) != 1) {
		err = errOther
	}
	if err != nil {
		f := readFailure(err, w)
		if f.Kind == contract.StoreUnavailable || f.Kind == contract.WorkerLost || f.unstarted {
			r.unproved(w)
			if f.lost {
				w.lost++
			}
			if w.lost < maxLost {
				w.waits++
				r.later(w, backoff(w.waits-1))
				return
			}
		} else {
			r.returned(w)
		}
		workflow.GetLogger(r.ctx).Warn("an effect cannot be undone", "node", r.plan.Nodes[w.node].ID, "kind", f.Kind)
		r.undo.Unanswered()
		r.forgetUndone()
		return
	}
	r.returned(w)
	switch {
	case out.Unopened:
		if r.journal.unopened = true; !r.journal.writing {
			r.write()
		}
		r.later(w, minBackoff)
		return
	case r.undo.Stage() == plan.UndoVerifying:
		r.undo.Verified(out.Held[0])
	default:
		r.scope.undone.args, r.scope.undone.output = at(out.Values, 0), at(out.Values, 1)
		r.undo.Stands(out.Held[0], r.scope.undone.output != nil)
	}
	r.forgetUndone()
}

// carryUndo carries what there is to undo.
func (r *run) carryUndo(c *contract.Carried) {
	if r.phase == unwinding {
		c.Unwinding = &contract.Unwinding{End: r.end}
	}
	r.undo.Carry(c)
	if u := undoingOf(c); u != nil {
		u.Args, u.Output = r.scope.undone.args, r.scope.undone.output
		for i := range u.Recoveries {
			u.Recoveries[i].Error = r.errors[u.Recoveries[i].Node]
		}
	}
}

// undoingOf is how far the undoing of effects is that is carried, or nil.
func undoingOf(c *contract.Carried) *contract.Undoing {
	if c.Unwinding != nil {
		return &c.Unwinding.Undoing
	}
	return c.Undoing
}

func (r *run) restoreUndo(c *contract.Carried) bool {
	w := c.Unwinding
	if !r.undo.Restore(c) || w != nil && w.End.Failure == nil {
		return false
	}
	if w != nil {
		r.phase, r.released, r.end = unwinding, true, w.End
	}
	if u := undoingOf(c); u != nil {
		r.scope.undone.args, r.scope.undone.output = u.Args, u.Output
		for _, x := range u.Recoveries {
			if x.Error == nil {
				return false
			}
			r.errors[x.Node] = x.Error
		}
	}
	return true
}
