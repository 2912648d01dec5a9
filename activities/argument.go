package activities

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"time"

	"go.temporal.io/sdk/activity"

	"chimera.ai/engine/blob"
	"chimera.ai/engine/contract"
)

// Arguments reads the argument of a workflow's start that is stored by reference,
// or sealed. An error of kind StoreUnavailable means that the value may be read
// later, one of another kind that it cannot; blob.ErrNotFound is among the causes
// if the store does not have it.
type Arguments interface {
	Argument(ctx context.Context, workflow string, reference []byte) (json.RawMessage, error)
}

const (
	// DefaultArgumentWithin is how long a start waits for an unavailable store
	// to read its own argument.
	DefaultArgumentWithin = 5 * time.Minute
	// missingWithin is how long it waits for a value that the store does not
	// have, since a store shared by several machines may lag behind.
	missingWithin = 15 * time.Second
	// readWithin bounds one attempt to read from a store that hangs.
	readWithin = 20 * time.Second
	// firstWait and longestWait bound the waits between attempts, each twice
	// the one before.
	firstWait   = 500 * time.Millisecond
	longestWait = 30 * time.Second
)

// argument returns the start's argument, and reads it if the workflow was given a
// reference. The run repeats a failed attempt, and can be cancelled meanwhile; the
// sum of the waits bounds the attempts.
func (e *Engine) argument(ctx context.Context, request *contract.LoadRequest) (json.RawMessage, error) {
	reference, ok := unread(request.Start)
	if !ok {
		return request.Start, nil
	}
	if e.Arguments == nil {
		return nil, fail(ctx, nil, contract.Errorf(contract.Contract, "this worker has no store to read the start's argument from"))
	}
	bounded, cancel := context.WithTimeout(ctx, readWithin)
	defer cancel()
	raw, err := e.Arguments.Argument(bounded, request.Run.Workflow, reference)
	if err == nil {
		return raw, nil
	}
	if bounded.Err() != nil && ctx.Err() == nil {
		err = contract.Errorf(contract.StoreUnavailable, "the start's argument was not read within %s: %w", readWithin, err)
	}
	within := e.ArgumentWithin
	if within == 0 {
		within = DefaultArgumentWithin
	}
	failure := kindOf(ctx, err)
	switch {
	case failure.Kind == contract.Cancelled:
		return nil, fail(ctx, loading, err)
	case errors.Is(err, blob.ErrNotFound):
		within = min(within, missingWithin)
	case failure.Kind != contract.StoreUnavailable:
		return nil, fail(ctx, nil, err)
	}
	waited, next := waits(max(request.Attempt, 1))
	if waited >= within {
		return nil, fail(ctx, nil, err)
	}
	activity.GetLogger(ctx).Warn("a start waits for its argument", "workflow", request.Run.Workflow, "error", failure.Message)
	again := *failure
	again.Kind, again.RetryAfterMS = contract.StoreUnavailable, next.Milliseconds()
	return nil, fail(ctx, loading, &again)
}

// waits returns the sum of the waits before an attempt, and the wait after it.
func waits(attempt int) (before, after time.Duration) {
	after = firstWait
	for range attempt - 1 {
		before += after
		after = min(2*after, longestWait)
	}
	return before, after
}

// unread returns the reference that a start has in place of its argument.
func unread(start json.RawMessage) ([]byte, bool) {
	if len(start) > maxUnread || !bytes.HasPrefix(start, []byte(`{"chimera.unread":`)) {
		return nil, false
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(start, &fields) != nil || len(fields) != 1 {
		return nil, false
	}
	var u contract.Unread
	if json.Unmarshal(start, &u) != nil || u.Reference == nil {
		return nil, false
	}
	return u.Reference, true
}

// maxUnread is more than the size in bytes of a payload in the history, as it is
// passed on.
const maxUnread = 4 << 20
