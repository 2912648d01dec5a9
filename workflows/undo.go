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

// undoing is what becomes of the effects of a run whose end is known.
type undoing struct {
	// node is being undone, and stage says how far that is; node is 0 between two.
	node  int
	stage undoStage
	// orphans counts the failures of the run that nothing handles, before the block.
	orphans int
	failed  bool
	// began reports that something was undone, or was tried.
	began                       bool
	compensated, notCompensated []string
}

// undoStage is how far the undoing of one effect is.
type undoStage byte

// The stages, in their order.
const (
	undoAsking    undoStage = iota // whether it stands, and what the call was made with
	undoBlock                      // the nodes that undo it
	undoVerifying                  // whether it no longer stands
)

// attempted returns the armed nodes with node i, whose effect is about to be attempted, if
// something undoes it.
func (r *run) attempted(i int) []int {
	if r.plan.Nodes[i].Undoes != 0 || slices.Contains(r.armed, i) {
		return r.armed
	}
	for _, e := range r.plan.Out(i) {
		if r.plan.Edges[e].FromPort == plan.CompensatePort {
			return append(r.armed, i)
		}
	}
	return r.armed
}

// letGo drops what waits to be launched, and what is in flight: nobody waits for that any
// more. Calls that react to a cancellation are made anew from here on.
func (r *run) letGo() {
	r.dropped = r.answers()
	r.flights = slices.DeleteFunc(r.flights, func(w *wait) bool { return w.kind != waitJournal && w.kind != waitPost })
	r.again, r.sleeping, r.stalled, r.opening, r.inbox.signing, r.steering.sent = nil, nil, nil, 0, false, false
	r.outage = outage{}
	r.progress.Stop()
	r.heeded, r.cancelHeeded = workflow.WithCancel(r.steady)
	r.released = true
}

// undone reports whether nothing is left to undo, and completes the failure then.
func (r *run) undone() bool {
	if r.end.State != contract.RunSucceeded && (len(r.armed) > 0 || r.undo.node != 0) {
		return false
	}
	if r.undo.began {
		r.settleUp()
		r.end.Failure.Compensated, r.end.Failure.NotCompensated = r.undo.compensated, r.undo.notCompensated
		*r.end.Failure = complete(*r.end.Failure)
	}
	return true
}

// undoNext takes the next step: one effect after the other, the last first.
func (r *run) undoNext() {
	u := &r.undo
	switch {
	case u.node == 0:
		last := len(r.armed) - 1
		u.node, u.stage, u.failed, u.began = r.armed[last], undoAsking, false, true
		r.armed = r.armed[:last]
		r.again = append(r.again, &wait{kind: waitUndo, node: u.node, since: r.now()})
	case u.stage == undoBlock:
		any, all := r.progress.Undoes(u.node)
		if u.failed = u.failed || len(r.progress.Orphans()) > u.orphans; u.failed {
			// Nothing more of it starts, and what runs is awaited.
			r.progress.Stop()
			r.again, r.sleeping, r.stalled = nil, nil, nil
			r.withdraw()
			all = r.idle()
		}
		switch {
		case !all:
		case u.failed || !any:
			r.stopUndoing(false)
		default:
			u.stage = undoVerifying
			r.again = append(r.again, &wait{kind: waitUndo, node: u.node, since: r.now()})
		}
	}
}

// stopUndoing ends the undoing of an effect.
func (r *run) stopUndoing(compensated bool) {
	u := &r.undo
	if id := r.plan.Nodes[u.node].ID; compensated {
		u.compensated = append(u.compensated, id)
	} else {
		u.notCompensated = append(u.notCompensated, id)
	}
	u.node = 0
	r.scope.undone.args, r.scope.undone.output = nil, nil
}

// askUndo asks the role effects about the effect that is being undone.
func (r *run) askUndo(w *wait) {
	n := &r.plan.Nodes[w.node]
	call := contract.Call{Run: r.identity(), Plan: r.head.Digest, Node: w.node, Visit: r.visit, Undo: contract.UndoAsk}
	if r.undo.stage == undoVerifying {
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
	timeout := time.Duration(n.TimeoutMS)*time.Millisecond + journalTimeout
	w.future = workflow.ExecuteActivity(workflow.WithActivityOptions(r.steady, workflow.ActivityOptions{
		TaskQueue: w.queue, ActivityID: "engine/undo/" + r.path + n.ID, Summary: n.ID,
		ScheduleToCloseTimeout: startTimeout + timeout, ScheduleToStartTimeout: startTimeout, StartToCloseTimeout: timeout,
		RetryPolicy: &temporal.RetryPolicy{MaximumAttempts: 1},
	}), n.Activity(), call)
}

// landUndo handles the answer.
func (r *run) landUndo(w *wait) {
	u := &r.undo
	var out contract.Outcome
	err := w.future.Get(r.steady, &out)
	if err == nil && (out.Request != w.request || len(out.Held) != 1) {
		err = errOther
	}
	if err != nil {
		f := readFailure(err, w)
		if f.Kind == contract.StoreUnavailable || f.Kind == contract.WorkerLost || f.unstarted {
			w.waits++
			r.later(w, backoff(w.waits-1))
			return
		}
		workflow.GetLogger(r.ctx).Warn("an effect cannot be undone", "node", r.plan.Nodes[w.node].ID, "kind", f.Kind, "error", f.Message)
		r.stopUndoing(false)
		return
	}
	switch {
	case out.Unopened:
		if r.journal.unopened = true; !r.journal.writing {
			r.write()
		}
		r.later(w, minBackoff)
	case u.stage == undoVerifying:
		r.stopUndoing(out.Held[0])
	case !out.Held[0]:
		u.node = 0 // nothing has happened
	default:
		r.scope.undone.args, r.scope.undone.output = at(out.Values, 0), at(out.Values, 1)
		u.stage, u.orphans = undoBlock, len(r.progress.Orphans())
		r.progress.Undo(u.node, r.scope.undone.output != nil)
	}
}

// carryUndo carries what there is to undo.
func (r *run) carryUndo(c *contract.Carried) {
	c.Armed = r.armed
	if r.phase != unwinding {
		return
	}
	u := &r.undo
	c.Unwinding = &contract.Unwinding{
		End: r.end, Compensated: u.compensated, NotCompensated: u.notCompensated, Node: u.node, Stage: byte(u.stage),
		Args: r.scope.undone.args, Output: r.scope.undone.output, Orphans: u.failed || len(r.progress.Orphans()) > u.orphans,
	}
}

func (r *run) restoreUndo(c *contract.Carried) bool {
	r.armed = c.Armed
	for _, i := range c.Armed {
		if i <= 0 || i >= len(r.plan.Nodes) {
			return false
		}
	}
	w := c.Unwinding
	if w == nil {
		return true
	}
	if w.End.Failure == nil || w.Node < 0 || w.Node >= len(r.plan.Nodes) || undoStage(w.Stage) > undoVerifying {
		return false
	}
	r.phase, r.released, r.end = unwinding, true, w.End
	r.undo = undoing{
		node: w.Node, stage: undoStage(w.Stage), began: true, failed: w.Orphans, orphans: len(r.progress.Orphans()),
		compensated: w.Compensated, notCompensated: w.NotCompensated,
	}
	r.scope.undone.args, r.scope.undone.output = w.Args, w.Output
	return true
}
