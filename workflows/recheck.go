package workflows

import (
	"strconv"
	"time"

	"go.temporal.io/sdk/workflow"

	"chimera.ai/engine/contract"
)

// confirm goes on with an effect that people have approved at a barrier: its prechecks are
// called once more, one after the other, and then the guardian is asked.
func (r *run) confirm(w *wait, barrier string) {
	w.approved = true
	if len(r.plan.Nodes[w.node].Prechecks()) == 0 {
		r.later(w, 0)
		return
	}
	next := r.anew(w)
	next.kind, next.recheck, next.checked, next.tried = waitCheck, barrier, 0, 0
	r.again = append(r.again, next)
}

// askCheck calls the next precheck of w.
func (r *run) askCheck(w *wait) {
	n := &r.plan.Nodes[w.node]
	i := n.Prechecks()[w.checked]
	check := &r.plan.Nodes[i]
	// No answer to the first call of the precheck is one to this.
	id := "engine/check/" + r.path + n.ID + "/" + check.ID
	w.request = r.tag + "/" + id + "#" + strconv.Itoa(w.launches)
	call := contract.Call{
		Run: r.identity(), Plan: r.head.Digest, Node: i, Visit: r.visit, Spent: w.tried,
		Request: w.request, Patient: w.checks(), Deliveries: r.deliver(i), Barrier: w.recheck,
	}
	if check.ReadsInput || check.RoutesOnInput {
		call.Input = r.head.Whole
	}
	r.meter.emit(size(&call))
	w.local, w.queue = false, contract.QueueEffects
	timeout, heartbeat := time.Duration(check.TimeoutMS)*time.Millisecond, time.Duration(0)
	ctx := r.steady
	if timeout > heartbeatTimeout {
		if heartbeat = heartbeatTimeout; !r.undoes(w) {
			ctx = r.heeded
		}
	}
	policy := r.policy(w)
	w.future = workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue: w.queue, ActivityID: id, Summary: check.ID,
		ScheduleToCloseTimeout: lasting(policy.MaximumAttempts, startTimeout, timeout+w.grace()), ScheduleToStartTimeout: startTimeout,
		StartToCloseTimeout: timeout + w.grace(), HeartbeatTimeout: heartbeat, RetryPolicy: policy,
	}), check.Activity(), call)
}

// landCheck handles what a precheck has answered. Whether that changes the action is for the
// guardian to say; one that fails, fails the effect.
func (r *run) landCheck(w *wait) {
	var out contract.Outcome
	err := w.future.Get(r.steady, &out)
	if err == nil && out.Request != w.request {
		err = errOther
	}
	if err != nil {
		r.failedCheck(w, readFailure(err, w))
		return
	}
	r.returned(w)
	if out.Unopened {
		r.reopen(w)
		return
	}
	next := r.anew(w)
	next.tried = 0
	if next.checked++; next.checked == len(r.plan.Nodes[w.node].Prechecks()) {
		next.kind, next.recheck, next.checked = waitCall, "", 0
	}
	r.again = append(r.again, next)
}

func (r *run) failedCheck(w *wait, f failure) {
	check := &r.plan.Nodes[r.plan.Nodes[w.node].Prechecks()[w.checked]]
	switch {
	case f.Kind == contract.StoreUnavailable:
		r.stall(w, f.Message)
		return
	case f.unstarted || f.Kind == contract.WorkerLost:
		r.unproved(w)
		if w.waits++; !f.unstarted {
			w.lost++
		}
		if w.lost < maxLost {
			r.later(w, backoff(w.waits-1))
			return
		}
	default:
		r.returned(w)
		if w.tried++; check.Retry.Again(f.Kind, w.tried) {
			r.later(w, max(f.wait, time.Duration(check.Retry.WaitMS(w.tried))*time.Millisecond))
			return
		}
	}
	r.unsuccessful(w.node, contract.ErrorPayload{
		Kind: contract.Blocked, Attempts: counted(1, w.spent),
		Message: bounded("people have approved it, and then the precheck " + check.ID + " failed (" + string(f.Kind) + "): " + f.Message),
	}, nil)
}

// reopen repeats the request of w once the ledger knows the run.
func (r *run) reopen(w *wait) {
	if r.journal.unopened = true; !r.journal.writing {
		r.write()
	}
	r.later(w, minBackoff)
}
