package workflows

import (
	"errors"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/internal/excerpt"
	"chimera.ai/engine/plan"
)

// readFailure returns the failure of w's request with its kind. A failure without a
// known kind is a server_error: somebody else answered the activity, or the worker
// does not know it.
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
	case w != nil && w.permit != nil && neverStarted(err):
		return failed(contract.Unsent, "no worker had taken the call when it was cancelled")
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

// neverStarted reports whether an activity was cancelled that no worker had taken. Temporal says so: nobody
// else can.
func neverStarted(err error) bool {
	var of *temporal.ActivityError
	return errors.As(err, &of) && of.StartedEventID() == 0 && temporal.IsCanceledError(of.Unwrap())
}

func failed(kind contract.Kind, message string) failure {
	return failure{ErrorPayload: contract.ErrorPayload{Kind: kind, Message: bounded(message), Attempts: 1}}
}

// foreign returns the replacement for a failure that is sealed with another key
// than the request, which no worker of this deployment can have written, or nil. A
// worker that cannot read its request, for lack of a key or the store, does not
// know that key, so such a failure is believed enough to wait for the store. If
// this worker lacks the right key, the workflow task fails and is retried.
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
		f.take(details.Snapshots, details.Listed)
	}
	return f
}

// readTimeout reads Temporal's own failure of an activity. A local activity that
// Temporal ended did not end by itself within the node's timeout: the store hangs,
// or the machine is overloaded.
func readTimeout(err *temporal.TimeoutError, w *wait) failure {
	if w != nil && w.local {
		return failed(contract.StoreUnavailable, "the worker did not answer in time")
	}
	f := failed(contract.WorkerLost, "the worker was lost")
	f.unstarted = err.TimeoutType() == enumspb.TIMEOUT_TYPE_SCHEDULE_TO_START
	f.lost = !f.unstarted
	var beat contract.Beat
	if err.HasLastHeartbeatDetails() && err.LastHeartbeatDetails(&beat) == nil && (w == nil || beat.Request == w.request && w.sealed(beat.SealedWith)) {
		f.spent = counted(0, beat.Spent)
	}
	return f
}

// counted bounds a number of attempts that a worker reports; at least so many were
// made.
func counted(least, said int) int { return min(max(said, least), maxAttempts) }

func waits(ms int64) time.Duration {
	return time.Duration(min(max(ms, 0), maxWait.Milliseconds())) * time.Millisecond
}

// bounded clips the text of a failure, which may come from a foreign worker.
func bounded(text string) string { return excerpt.Bytes(text, contract.MaxMessage) }

// maxWait bounds the wait before the next attempt that a worker may ask for.
const maxWait = 24 * time.Hour

// digests returns the snapshots of a call, without what is no digest: a foreign worker may have written
// them.
func digests(s *contract.Snapshots) *contract.Snapshots {
	if s == nil {
		return nil
	}
	known := contract.Snapshots{Before: plan.OnlyDigest(s.Before), After: plan.OnlyDigest(s.After)}
	if known == (contract.Snapshots{}) {
		return nil
	}
	return &known
}

// take takes what a worker says of the tool that it was to call.
func (f *failure) take(s *contract.Snapshots, listed contract.Value) {
	f.snapshots = digests(s)
	if f.Kind == contract.NeedsReview && len(listed) <= contract.ByReference {
		f.listed = listed
	}
}
