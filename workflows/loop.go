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
		switch r.advance() {
		case forward:
			if r.due() {
				if r.reported() {
					r.takeReports()
					r.release()
					continue
				}
				r.hurry()
				return nil, r.continueAsNew()
			}
			if r.undoMeanwhile() {
				r.release()
				continue
			}
			r.dispatch()
			r.resume()
			r.arm()
			r.await()
			r.landAll()
		case unwinding:
			if !r.released {
				r.unwind()
				continue
			}
			if r.due() {
				r.hurry()
				return nil, r.continueAsNew()
			}
			if r.undoNext(); r.undo.Node() == 0 {
				continue // one effect was undone, or cannot be
			}
			r.dispatch()
			r.resume()
			r.arm()
			r.await()
			r.landAll()
		case closing:
			r.hurry()
			return r.close()
		}
	}
}
