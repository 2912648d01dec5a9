package workflows

import (
	"go.temporal.io/sdk/workflow"

	"chimera.ai/engine/contract"
)

// loop runs the plan to its end.
func (r *run) loop() (contract.Result, error) {
	r.view.state = contract.RunRunning
	r.deadline = workflow.NewTimerWithOptions(r.steady, r.untilDeadline(), workflow.TimerOptions{Summary: "engine/deadline"})
	r.meter.begin(r)
	r.release()
	for {
		phase := r.advance()
		switch {
		case phase == closing:
			r.hurry()
			return r.close()
		case phase == unwinding && !r.released:
			r.unwind()
			continue
		case r.due():
			if r.reported() { // the next execution does not receive it
				r.takeReports()
				r.release()
				continue
			}
			r.hurry()
			return nil, r.continueAsNew()
		case phase == unwinding:
			if r.undoNext(); r.undo.Node() == 0 {
				continue // one effect was undone, or cannot be
			}
		case r.undoMeanwhile():
			r.release()
			continue
		}
		r.dispatch()
		r.resume()
		r.arm()
		r.await()
		r.landAll()
	}
}
