package workflows

import (
	"errors"
	"strings"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/plan"
)

const (
	// maxLost is how many workers a node may cost. A node that has cost as many
	// is more likely to kill them than to be unlucky.
	maxLost = 10
	// Bounds of the wait before a node is scheduled again after a lost worker
	// or while the store cannot be reached.
	minBackoff = time.Second
	maxBackoff = time.Minute
	// Bounds of what is kept of a failure, in bytes.
	maxMessage = 8 << 10
	maxDetails = 32 << 10
)

// land takes the result of node i's activity.
func (r *run) land(i int, t trouble, future workflow.Future) {
	n := &r.plan.Nodes[i]
	var out contract.Outcome
	err := future.Get(r.ctx, &out)
	if err == nil {
		if n.Local {
			r.meter.local(&out)
		}
		r.journal.note(contract.JournalEntry{
			Node: i, Visit: 1, State: contract.Succeeded, Attempts: max(out.Attempts, 1), Input: out.Input, Output: out.Output,
		})
		if r.remaining[i] > 0 {
			r.values[i] = out.Values
		}
		r.succeed(i, out)
		return
	}
	failure := readFailure(err, n.Local)
	if failure.Kind == contract.WorkerLost {
		t.lost++
		failure.Attempts = t.lost
	}
	if failure.Kind == contract.WorkerLost && t.lost < maxLost || failure.Kind == contract.StoreUnavailable {
		r.again(i, t, failure.spent)
		return
	}
	if n.Local {
		r.meter.local(&out)
	}
	failure.Node = n.ID
	r.journal.note(contract.JournalEntry{
		Node: i, Visit: 1, State: contract.Failed, Attempts: failure.Attempts, Error: brief(&failure.ErrorPayload),
	})
	r.errors[i] = &failure.ErrorPayload
	r.failed(i)
}

// failed settles failed node i: at once where no predicate has to be asked.
func (r *run) failed(i int) {
	var held []bool
	for _, e := range r.plan.Out(i) {
		edge := &r.plan.Edges[e]
		if edge.Type != plan.Error {
			continue
		}
		if edge.When != "" || edge.Otherwise {
			r.route(i, trouble{})
			return
		}
		held = append(held, true)
	}
	r.fail(i, held)
}

// again schedules node i once more after a wait; such failures of the
// infrastructure do not count as attempts of the contract. While the store
// cannot be reached, the run's deadline is the bound.
func (r *run) again(i int, t trouble, spent int) {
	t.spent = max(t.spent, spent)
	r.later(i, t, func(t trouble) { r.launch(i, t) })
}

// later does something for node i after a wait.
func (r *run) later(i int, t trouble, do func(trouble)) {
	wait := t.backoff()
	t.waits++
	r.flights = append(r.flights, &flight{
		future: workflow.NewTimerWithOptions(r.ctx, wait, workflow.TimerOptions{Summary: "again: " + r.plan.Nodes[i].ID}),
		land: func(future workflow.Future) {
			if future.Get(r.ctx, nil) == nil {
				do(t)
			}
		},
	})
}

// backoff is the wait before the next try.
func (t trouble) backoff() time.Duration {
	if t.waits >= 6 {
		return maxBackoff
	}
	return min(minBackoff<<t.waits, maxBackoff)
}

// failure is an activity's failure as the run understands it.
type failure struct {
	contract.ErrorPayload
	// spent counts the attempts that were used up before a worker was lost, as
	// far as it could say.
	spent       int
	diagnostics []byte
}

// readFailure gives the kind of an activity's error. What comes without a kind
// of the closed set is a server_error: somebody else answered the activity, or
// the worker does not know it.
func readFailure(err error, local bool) failure {
	var application *temporal.ApplicationError
	var timeout *temporal.TimeoutError
	var refused *contract.Error
	switch {
	case errors.As(err, &application):
		f := failure{ErrorPayload: contract.ErrorPayload{
			Kind: contract.Kind(application.Type()), Message: bounded(application.Message()), Attempts: 1,
		}}
		if application.Type() == "" && application.Message() == stopped {
			// Said by the library, in the name of a worker that stops.
			f.Kind, f.Message = contract.WorkerLost, "the worker was lost"
		}
		if !f.Kind.Valid() {
			f.Kind = contract.ServerError
			f.Message = bounded(application.Type() + ": " + f.Message)
		}
		var details contract.ErrorDetails
		if application.HasDetails() && application.Details(&details) == nil {
			f.Attempts = max(details.Attempts, 1)
			f.spent = f.Attempts - 1
			if len(details.Details) <= maxDetails {
				f.Details = details.Details
			}
			f.diagnostics = details.Diagnostics
		}
		return f
	case errors.As(err, &timeout) && local:
		return failure{ErrorPayload: contract.ErrorPayload{
			Kind: contract.Timeout, Message: "the skill did not return in its time", Attempts: 1,
		}}
	case errors.As(err, &timeout):
		f := failure{ErrorPayload: contract.ErrorPayload{
			Kind: contract.WorkerLost, Message: "the worker was lost", Attempts: 1,
		}}
		var beat contract.Beat
		if timeout.HasLastHeartbeatDetails() && timeout.LastHeartbeatDetails(&beat) == nil {
			f.spent = beat.Spent
		}
		return f
	case errors.As(err, &refused):
		// The answer is not from a worker of this deployment.
		return failure{ErrorPayload: contract.ErrorPayload{Kind: refused.Kind, Message: bounded(refused.Message), Attempts: 1}}
	case temporal.IsCanceledError(err):
		return failure{ErrorPayload: contract.ErrorPayload{Kind: contract.Cancelled, Message: "cancelled", Attempts: 1}}
	}
	text := "no reason given"
	if err != nil {
		text = err.Error()
	}
	return failure{ErrorPayload: contract.ErrorPayload{Kind: contract.ServerError, Message: bounded(text), Attempts: 1}}
}

// stopped is what the library answers for an activity whose heartbeat was on its
// way when its worker stopped.
const stopped = "context canceled"

// bounded clips what a failure says: it may come from a worker that is not ours.
func bounded(text string) string {
	if len(text) <= maxMessage {
		return text
	}
	return strings.ToValidUTF8(text[:maxMessage], "") + "…"
}
