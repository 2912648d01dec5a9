package workflows

import (
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	"chimera.ai/engine/contract"
)

// maxLost is how many workers a node may lose. A node that has lost so many is more
// likely to kill them than to be unlucky.
const maxLost = 10

// landAll handles everything that has arrived.
func (r *run) landAll() {
	for _, w := range r.takeReady() {
		r.land(w)
	}
	r.takeReports()
	r.takeSignatures()
	r.release()
}

// land handles the end of something in flight.
func (r *run) land(w *wait) {
	switch w.kind {
	case waitJournal:
		r.knocked(r.landBatch(w))
	case waitRoute:
		r.landRoute(w)
	case waitGuardian:
		r.landDecision(w)
	case waitPost:
		r.landPost(w)
	case waitUndo:
		r.landUndo(w)
	case waitCheck:
		r.landCheck(w)
	case waitOpen:
		r.landOpen(w)
	case waitSign:
		r.landSign(w)
	case waitSteer:
		r.landSteer(w)
	case waitBarrier: // never in flight
	case waitChild:
		r.landChild(w)
	case waitCall:
		var out contract.Outcome
		err := w.future.Get(r.steady, &out)
		if w.local {
			r.meter.landed(brought(err, bytesOf(&out)), r.now().Sub(w.since))
		}
		if err == nil && (out.Request != w.request || out.Probed && !w.probe) {
			err = errOther
		}
		if err != nil {
			r.failedCall(w, readFailure(err, w))
			return
		}
		r.returned(w)
		switch {
		case out.Probed:
			r.later(w, 0)
			return
		case out.Unopened:
			r.reopen(w)
			return
		}
		r.answered(w, out)
	}
}

// errOther reports that a worker answered another request than the one it was
// given.
var errOther = contract.Errorf(contract.WorkerLost, "the answer is to another request")

// landRoute handles which error edges of a failed node hold.
func (r *run) landRoute(w *wait) {
	var result contract.RouteResult
	err := w.future.Get(r.steady, &result)
	if w.local {
		r.meter.landed(brought(err, len("false,")*len(result.Held)), r.now().Sub(w.since))
	}
	if err == nil && result.Request != w.request {
		err = errOther
	}
	if err == nil {
		r.returned(w)
		r.routed(w.node, result.Held)
		return
	}
	f := readFailure(err, w)
	if f.Kind == contract.StoreUnavailable {
		r.stall(w, f.Message)
		return
	}
	if f.Kind == contract.WorkerLost || f.unstarted {
		r.unproved(w)
		w.waits++
		r.later(w, backoff(w.waits-1))
		return
	}
	r.returned(w)
	r.errors[w.node].Message = bounded("a predicate of its error edges failed: " + f.Message + "; the failure was: " + r.errors[w.node].Message)
	r.progress.Fail(w.node, nil)
}

// landDecision handles what the guardian has decided. What it rejects fails the node.
func (r *run) landDecision(w *wait) {
	if r.plan.Nodes[w.node].Paid() {
		r.landHold(w)
		return
	}
	var d contract.Decided
	err := w.future.Get(r.steady, &d)
	if err == nil && (d.Request != w.request || d.Recheck != "" && len(r.plan.Nodes[w.node].Prechecks()) == 0) {
		err = errOther
	}
	if err != nil {
		r.failedCall(w, readFailure(err, w))
		return
	}
	r.returned(w)
	switch {
	case d.Recheck != "":
		r.confirm(w, d.Recheck)
		return
	case d.Unopened:
		r.journal.unopened = true
		r.later(w, 0)
		return
	case d.Waiting != nil:
		r.park(w, d.Waiting.Decision, d.Waiting.Outcome)
		return
	case d.WaitMS > 0:
		r.later(w, min(time.Duration(d.WaitMS)*time.Millisecond, tryTime))
		return
	}
	next := r.anew(w)
	next.decided, next.permit, next.stated = true, d.Permit, d.Stated
	r.again = append(r.again, next)
}

// landHold handles the guardian's answer to a request for a hold.
func (r *run) landHold(w *wait) {
	var held contract.Held
	err := w.future.Get(r.steady, &held)
	if err == nil && (held.Request != w.request || held.Hold == "" && !held.Unopened) {
		err = errOther
	}
	if err != nil {
		r.failedCall(w, readFailure(err, w))
		return
	}
	r.returned(w)
	if held.Unopened {
		r.journal.unopened = true
		r.later(w, 0)
		return
	}
	next := r.anew(w)
	next.hold = held.Hold
	r.again = append(r.again, next)
}

// landPost handles the answer of the guardian.
func (r *run) landPost(w *wait) {
	y := &r.payments
	y.posting = false
	var answer contract.Posted
	err := w.future.Get(r.steady, &answer)
	if err == nil && answer.Request != w.request {
		err = errOther
	}
	if err != nil {
		workflow.GetLogger(r.ctx).Warn("the guardian does not know what calls have cost", "error", err)
		if r.now().Sub(w.since) >= maxPause {
			y.posts, y.sent = slices.Concat(y.sent, y.posts), nil
			return
		}
		// Otherwise a worker that answers at once would be asked forever.
	}
	y.done += len(y.sent)
	y.sent = nil
}

// failure is an activity's failure as the run interprets it.
type failure struct {
	contract.ErrorPayload
	// spent counts the attempts that were used up before a worker was lost, as
	// far as it could say.
	spent int
	// wait is how long the worker says to wait before the next attempt.
	wait time.Duration
	// unstarted reports that no worker took the request, and wrongQueue that
	// the worker does not call tools.
	unstarted, wrongQueue bool
	// lost reports that Temporal has heard nothing more of the worker that took it.
	lost        bool
	diagnostics []byte
	// root is the root of the run for which the ledger was asked.
	root string
	// snapshots are those of the call of a pinned MCP tool, or nil.
	snapshots *contract.Snapshots
	// listed is the definition about which people may be asked, or nil.
	listed contract.Value
}
