package workflows

import (
	"errors"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/plan"
)

// maxLost is how many workers a node may cost. A node that has cost as many is
// more likely to kill them than to be unlucky.
const maxLost = 10

// landAll takes what has come.
func (r *run) landAll() {
	for _, w := range r.takeReady() {
		r.land(w)
	}
	r.takeReports()
	r.release()
}

// land takes the end of something in flight.
func (r *run) land(w *wait) {
	switch w.kind {
	case waitJournal:
		r.landBatch(w)
	case waitRoute:
		r.landRoute(w)
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
		if out.Probed {
			r.later(w, 0)
			return
		}
		r.succeeded(w.node, out)
	}
}

// errOther is the answer of a worker to another request than that which it was
// asked.
var errOther = contract.Errorf(contract.WorkerLost, "the answer is to another request")

// failedCall takes the failure of a call: the infrastructure's is no attempt of the
// node's contract.
func (r *run) failedCall(w *wait, f failure) {
	n := &r.plan.Nodes[w.node]
	if f.Kind == contract.StoreUnavailable {
		w.spent = max(w.spent, f.spent)
		r.stall(w, f.Message)
		return
	}
	if f.unstarted || f.wrongQueue || f.Kind == contract.WorkerLost {
		r.unproved(w)
	} else {
		r.returned(w)
		// Whatever a worker says of it, this was one more.
		f.Attempts = max(f.Attempts, w.spent+1)
	}
	switch {
	case f.wrongQueue && w.queue != contract.QueueTools && !n.InProcess:
		r.toolsQueue = contract.QueueTools
		r.later(w, 0)
		return
	case f.unstarted || f.wrongQueue:
		w.spent = max(w.spent, f.spent)
		w.waits, w.unstarted = w.waits+1, f.unstarted
		r.later(w, backoff(w.waits))
		return
	case f.Kind == contract.WorkerLost && w.probe:
		w.waits++
		r.later(w, backoff(w.waits-1))
		return
	case f.Kind == contract.WorkerLost:
		w.spent = max(w.spent, f.spent)
		w.lost++
		if f.Attempts = w.lost; w.lost < maxLost {
			w.waits++
			r.later(w, backoff(w.waits-1))
			return
		}
	case n.Kind == plan.KindCall && n.Retry.Again(f.Kind, f.Attempts):
		w.spent = f.Attempts
		r.later(w, max(f.wait, time.Duration(n.Retry.WaitMS(f.Attempts))*time.Millisecond))
		return
	}
	r.unsuccessful(w.node, f.ErrorPayload)
}

// unconditional gives which error edges of failed node i hold, or reports that a
// predicate has to be asked.
func (s *scope) unconditional(i int) (held []bool, asked bool) {
	for _, e := range s.plan.Out(i) {
		edge := &s.plan.Edges[e]
		if edge.Type != plan.Error {
			continue
		}
		if edge.When != "" {
			return nil, true
		}
		held = append(held, true)
	}
	return held, false
}

// landRoute takes which error edges of a failed node hold.
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
		r.progress.Fail(w.node, result.Held)
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

// failure is an activity's failure as the run understands it.
type failure struct {
	contract.ErrorPayload
	// spent counts the attempts that were used up before a worker was lost, as
	// far as it could say.
	spent int
	// wait is how long the worker says to wait before the next attempt.
	wait time.Duration
	// unstarted: no worker has taken the request. wrongQueue: it was one that does
	// not call tools.
	unstarted, wrongQueue bool
	diagnostics           []byte
	// root is that of the run whose ledger was asked.
	root string
}

// readFailure gives the kind of the failure of what w has asked for. What comes
// without a kind of the closed set is a server_error: somebody else answered the
// activity, or the worker does not know it.
func readFailure(err error, w *wait) failure {
	key := ""
	if w != nil {
		key = w.key
	}
	if f := foreign(err, key); f != nil {
		return *f
	}
	var application *temporal.ApplicationError
	var timeout *temporal.TimeoutError
	var refused *contract.Error
	switch {
	case errors.As(err, &application):
		return readApplication(application, w)
	case errors.As(err, &timeout):
		return readTimeout(timeout, w)
	case errors.As(err, &refused):
		// The answer is not from a worker of this deployment.
		return failed(refused.Kind, refused.Message)
	case temporal.IsCanceledError(err):
		return failed(contract.Cancelled, "cancelled")
	}
	return failed(contract.ServerError, err.Error())
}

// foreign gives what stands for a failure that is sealed with another key than the
// request, which no worker of this deployment has written in answer to it, or nil. A
// worker that cannot read what it is asked, since it lacks a key or the store, does
// not know that key: so much is believed that the run waits for its store. Where
// this worker lacks the right key, the workflow task fails, and is tried again.
func foreign(err error, key string) *failure {
	var said *contract.SealedError
	if !errors.As(err, &said) || said.Local {
		return nil
	}
	switch {
	case key == "" || said.Key == key:
		if said.Missing {
			panic(said.Err)
		}
		return nil
	case said.Kind == contract.StoreUnavailable:
		f := failed(contract.StoreUnavailable, "the worker could not read what it was asked")
		return &f
	}
	f := failed(contract.WorkerLost, "the failure is sealed with another key than the request")
	return &f
}

// bounded clips what a failure says: it may come from a worker that is not ours.
func bounded(text string) string { return clip(text, contract.MaxMessage) }

// clip gives at most n bytes of a text, and the mark that something is missing.
func clip(text string, n int) string {
	if len(text) <= n {
		return text
	}
	return strings.ToValidUTF8(text[:n], "") + "…"
}

func failed(kind contract.Kind, message string) failure {
	return failure{ErrorPayload: contract.ErrorPayload{Kind: kind, Message: bounded(message), Attempts: 1}}
}

func readApplication(err *temporal.ApplicationError, w *wait) failure {
	f := failed(contract.Kind(err.Type()), err.Message())
	var details contract.ErrorDetails
	told := err.HasDetails() && err.Details(&details) == nil
	switch {
	case err.Type() == contract.WrongQueue:
		f.wrongQueue = true
	case !f.Kind.Valid():
		f.Kind = contract.ServerError
		f.Message = bounded(err.Type() + ": " + f.Message)
	case f.Kind != contract.WorkerLost && f.Kind != contract.StoreUnavailable && w != nil && details.Request != w.request:
		return failed(errOther.Kind, errOther.Message)
	}
	if told {
		f.Attempts = counted(1, details.Attempts)
		f.spent = f.Attempts - 1
		f.wait = waits(details.WaitMS)
		if len(details.Details) <= contract.MaxDetails {
			f.Details = details.Details
		}
		f.diagnostics, f.root = details.Diagnostics, details.Root
	}
	return f
}

// maxWait bounds what a worker may say of the wait before the next attempt.
const maxWait = 24 * time.Hour

func waits(ms int64) time.Duration {
	return time.Duration(min(max(ms, 0), maxWait.Milliseconds())) * time.Millisecond
}

// readTimeout reads what Temporal itself says of an activity. A local one that it
// has ended did not end by itself within the node's own timeout: the store hangs, or
// the machine is overloaded.
func readTimeout(err *temporal.TimeoutError, w *wait) failure {
	if w != nil && w.local {
		return failed(contract.StoreUnavailable, "the worker did not answer in time")
	}
	f := failed(contract.WorkerLost, "the worker was lost")
	f.unstarted = err.TimeoutType() == enumspb.TIMEOUT_TYPE_SCHEDULE_TO_START
	var beat contract.Beat
	if err.HasLastHeartbeatDetails() && err.LastHeartbeatDetails(&beat) == nil && (w == nil || beat.Request == w.request && w.sealed(beat.SealedWith)) {
		f.spent = counted(0, beat.Spent)
	}
	return f
}
