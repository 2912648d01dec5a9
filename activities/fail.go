package activities

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/schemas"
)

const (
	// maxMessage and maxDetails bound what a failure carries into the history, in bytes.
	maxMessage = 4 << 10
	maxDetails = 16 << 10
	// maxRetryAfter bounds the wait that the other side asks for: a policy's own
	// waits are no longer either.
	maxRetryAfter = 24 * time.Hour
)

// fail turns err into what Temporal carries to the interpreter: the type is the
// kind. It is retried only where the contract says so; spent counts attempts
// that were used up before this activity was scheduled.
func fail(ctx context.Context, spent int, retry *plan.Retry, err error) error {
	if err == nil {
		return nil
	}
	e := kindOf(ctx, err)
	kind := e.Kind
	if kind == contract.Cancelled && interrupted(ctx) {
		// Nobody cancelled the run: another worker goes on.
		kind = contract.WorkerLost
	}
	attempts := spent + int(activity.GetInfo(ctx).Attempt)
	details := contract.ErrorDetails{Attempts: attempts, Details: bounded(e.Details)}
	return temporal.NewApplicationErrorWithOptions(clip(e.Message, maxMessage), string(kind), temporal.ApplicationErrorOptions{
		NonRetryable:   !retried(retry, kind, attempts),
		Details:        []any{details},
		NextRetryDelay: retryAfter(e.RetryAfterMS),
	})
}

// interrupted reports whether a call's context ended though nobody asked for that:
// this worker stops, or the server did not take its heartbeats, which the library
// answers by ending the call.
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

// kindOf gives the error's own kind, or what can be said of it.
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

// bounded gives details that the target of an error edge can read: what the
// guarded reader refuses is dropped here, where the failure still has its kind.
func bounded(details json.RawMessage) json.RawMessage {
	if len(details) == 0 {
		return nil
	}
	if len(details) <= maxDetails {
		if _, err := schemas.Decode(details); err == nil {
			return details
		}
	}
	return json.RawMessage(`{"dropped":"the details are too large, or are not JSON"}`)
}

// clip gives at most n bytes of s, and the mark that something is missing. The
// text is UTF-8 then: Temporal's protocol refuses any other, and the failure
// would never arrive.
func clip(s string, n int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= n {
		return s
	}
	for n > 0 && s[n]&0xC0 == 0x80 {
		n--
	}
	return s[:n] + "…"
}

// recovered runs f and turns a panic into an error: a worker outlives the code
// that it runs.
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
