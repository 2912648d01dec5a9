package activities

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/internal/excerpt"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/schemas"
)

// maxRetryAfter bounds the wait that the other side asks for. Waits of retry
// policies have the same bound.
const maxRetryAfter = 24 * time.Hour

// asked is the request that an activity answers.
type asked struct {
	// request names it, and spent counts the contract's attempts before it.
	request string
	spent   int
	// root is that of the run whose ledger is asked, or "".
	root string
	// patient reports that Temporal retries until the store is available,
	// outside the contract.
	patient bool
	// retry is the contract, or nil if nothing is retried.
	retry *plan.Retry
	// listed is as in [contract.ErrorDetails].
	listed contract.Value
}

// of returns the request of a call, with its node's contract.
func of(call *contract.Call, retry *plan.Retry) asked {
	return asked{request: call.Request, spent: call.Spent, patient: call.Patient, retry: retry}
}

// attempts counts the contract's attempts, this one included.
func (a asked) attempts(ctx context.Context) int {
	if a.patient {
		return a.spent + 1
	}
	return a.spent + int(activity.GetInfo(ctx).Attempt)
}

// fail is [asked.failed] for a request without a name.
func fail(ctx context.Context, retry *plan.Retry, err error) error {
	return asked{retry: retry}.failed(ctx, err)
}

// failed turns err into what Temporal carries to the interpreter: the type is the
// kind. Temporal retries only if the contract says so and the wait is short; after
// a long wait, the interpreter does.
func (a asked) failed(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	attempts := a.attempts(ctx)
	if errors.Is(err, errWrongQueue) {
		return temporal.NewApplicationErrorWithOptions(excerpt.Bytes(err.Error(), contract.MaxMessage), contract.WrongQueue, temporal.ApplicationErrorOptions{
			NonRetryable: true,
			Category:     temporal.ApplicationErrorCategoryBenign, // no cause for alarm in the log
			Details:      []any{contract.ErrorDetails{Attempts: attempts, Request: a.request}},
		})
	}
	e := kindOf(ctx, err)
	kind := e.Kind
	category := temporal.ApplicationErrorCategoryUnspecified
	if kind == contract.Cancelled && ctx.Err() != nil {
		category = temporal.ApplicationErrorCategoryBenign // it was told to end, and did
	}
	if kind == contract.Cancelled && interrupted(ctx) {
		// The run was not cancelled, so another worker continues.
		kind = contract.WorkerLost
	}
	details := contract.ErrorDetails{Attempts: attempts, Details: bounded(e.Details), Snapshots: e.Snapshots, Listed: a.listed, Request: a.request, Root: a.root}
	again := retried(a.retry, kind, attempts)
	if a.retry != nil && a.retry.Again(kind, attempts) {
		wanted := retryAfter(e.RetryAfterMS)
		wait := max(wanted, time.Duration(a.retry.WaitMS(attempts))*time.Millisecond)
		long := a.patient || wait > contract.ShortWait
		if long {
			again = false
		}
		if long || wanted > 0 {
			// Also for short waits: the interpreter retries local nodes, and calls whose
			// attempts by Temporal are used up.
			details.WaitMS = wait.Milliseconds()
		}
	}
	if a.patient {
		again = kind == contract.StoreUnavailable
	}
	return temporal.NewApplicationErrorWithOptions(excerpt.Bytes(e.Message, contract.MaxMessage), string(kind), temporal.ApplicationErrorOptions{
		NonRetryable:   !again,
		Details:        []any{details},
		NextRetryDelay: retryAfter(e.RetryAfterMS),
		Category:       category,
	})
}

// interrupted reports whether a call's context ended without a cancellation: this
// worker stops, or the server did not accept its heartbeats, upon which the SDK
// ends the call.
func interrupted(ctx context.Context) bool {
	cause := context.Cause(ctx)
	return errors.Is(ctx.Err(), context.Canceled) && !errors.Is(cause, context.Canceled) && !temporal.IsCanceledError(cause)
}

func retryAfter(ms int64) time.Duration {
	return time.Duration(min(max(ms, 0), maxRetryAfter.Milliseconds())) * time.Millisecond
}

// retried reports whether a failure of this kind counts against the contract's
// attempts and may be tried again. auth is tried again once only.
func retried(retry *plan.Retry, kind contract.Kind, attempts int) bool {
	if retry == nil || !slices.Contains(retry.On, kind) {
		return false
	}
	return kind != contract.Auth || attempts < 2
}

// kindOf returns the error's own kind, or the kind that follows from it.
func kindOf(ctx context.Context, err error) *contract.Error {
	var e *contract.Error
	switch {
	case errors.As(err, &e):
		if !e.Kind.Valid() {
			return contract.Errorf(contract.ServerError, "unknown kind %q: %s", e.Kind, e.Message)
		}
		return e
	case errors.Is(err, context.DeadlineExceeded):
		return contract.Errorf(contract.Timeout, "%w", err)
	case errors.Is(err, context.Canceled) || ctx.Err() != nil:
		return contract.Errorf(contract.Cancelled, "%w", err)
	}
	return contract.Errorf(contract.ToolError, "%w", err)
}

// bounded returns details that the target of an error edge can read. What the
// guarded reader would refuse is dropped here, so that the failure keeps its kind.
func bounded(details json.RawMessage) json.RawMessage {
	if len(details) == 0 {
		return nil
	}
	if len(details) <= contract.MaxDetails {
		if _, err := schemas.Decode(details); err == nil {
			return details
		}
	}
	return json.RawMessage(`{"dropped":"the details are too large, or are not JSON"}`)
}

// recovered runs f and turns a panic into an error, so that a worker survives the
// code it runs.
func recovered(what string, f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			stack := debug.Stack()
			if elsewhere, ok := p.(interface{ Trace() []byte }); ok {
				stack = elsewhere.Trace()
			}
			err = &contract.Error{
				Kind:    contract.ToolError,
				Message: fmt.Sprintf("%s panicked: %v", what, p),
				Cause:   fmt.Errorf("panic: %v\n%s", p, stack),
			}
		}
	}()
	return f()
}
