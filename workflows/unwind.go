package workflows

import (
	"go.temporal.io/sdk/workflow"
)

// unwind releases what is in flight when the run's end is known. Calls that react
// to cancellation are cancelled; the results of all others are dropped.
func (r *run) unwind() {
	r.cancelHeeded()
	r.disarm()
	r.awaitEffects()
	r.dismiss()
	r.settleUp()
	r.unwound = true
}

// dismiss cancels the children in flight, and waits until each request is
// delivered, since the server drops the requests of a run that has ended.
func (r *run) dismiss() {
	var asked []workflow.Future
	// It cannot be cancelled, and fails in no other way.
	_ = workflow.Await(r.steady, r.begun)
	for _, w := range r.flights {
		if w.kind == waitChild && w.child.Run != "" {
			asked = append(asked, workflow.RequestCancelExternalWorkflow(r.steady, w.child.Workflow, w.child.Run))
		}
	}
	for _, f := range asked {
		_ = f.Get(r.steady, nil) // one that has ended cannot be asked
	}
}
