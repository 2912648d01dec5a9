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

// Arguments reads the argument of a workflow's start that is stored by reference, or
// sealed. Its errors are of kind StoreUnavailable while that cannot be said, and of
// another one where the value will not be had; blob.ErrNotFound is among the causes
// where the store does not have it.
type Arguments interface {
	Argument(ctx context.Context, workflow string, reference []byte) (json.RawMessage, error)
}

const (
	// DefaultArgumentWithin is how long a start waits for a store that is away, to
	// read its own argument.
	DefaultArgumentWithin = 5 * time.Minute
	// missingWithin is how long it waits for a value that the store does not have:
	// one that several machines share may lag behind.
	missingWithin = 15 * time.Second
	// readWithin bounds one try, where a store hangs.
	readWithin = 20 * time.Second
	// firstWait and longestWait lie between tries, each twice the one before.
	firstWait   = 500 * time.Millisecond
	longestWait = 30 * time.Second
)

// argument gives the start's argument, which is read here where the workflow was
// handed a reference. A try that fails is repeated by the run, which can be
// cancelled meanwhile; what the waits come to bounds the tries.
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

// waits gives what the waits before an attempt come to, and the one after it.
func waits(attempt int) (before, after time.Duration) {
	after = firstWait
	for range attempt - 1 {
		before += after
		after = min(2*after, longestWait)
	}
	return before, after
}

// unread gives the reference that a start has instead of its argument.
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

// maxUnread is more than a payload of the history has, in bytes, as it is handed on.
const maxUnread = 4 << 20
