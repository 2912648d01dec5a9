package workflows

import (
	"go.temporal.io/sdk/workflow"
)

// unwind lets go what is in flight when the run's end is known. Calls that hear of
// their cancellation are cancelled; the results of all others are dropped.
func (r *run) unwind() {
	r.deafen()
	r.disarm()
	for _, w := range r.flights {
		if w.kind == waitChild {
			// Whether it hears of it or not, nobody waits for it any more.
			workflow.RequestCancelExternalWorkflow(r.steady, w.child.Workflow, w.child.Run)
		}
	}
	r.unwound = true
}
