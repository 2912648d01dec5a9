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

// maxRetryAfter bounds the wait that the other side asks for: a policy's own waits
// are no longer either.
const maxRetryAfter = 24 * time.Hour

// asked is the request that an activity answers.
type asked struct {
	// request names it, and spent counts the contract's attempts before it.
	request string
	spent   int
	// root is that of the run whose ledger is asked, or "".
	root string
	// patient: Temporal tries until the store is back, outside the contract.
	patient bool
	// retry is the contract, or nil: then nothing is tried again.
	retry *plan.Retry
}

// of is a call as it was asked for, with its node's contract.
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
// kind. Temporal tries again only where the contract says so, and soon; where the
// contract wants a long wait, the interpreter does.
func (a asked) failed(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	attempts := a.attempts(ctx)
	if errors.Is(err, errWrongQueue) {
		return temporal.NewApplicationErrorWithOptions(clip(err.Error(), contract.MaxMessage), contract.WrongQueue, temporal.ApplicationErrorOptions{
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
		// Nobody cancelled the run: another worker goes on.
		kind = contract.WorkerLost
	}
	details := contract.ErrorDetails{Attempts: attempts, Details: bounded(e.Details), Request: a.request, Root: a.root}
	again := retried(a.retry, kind, attempts)
	if a.retry != nil && a.retry.Again(kind, attempts) {
		wanted := retryAfter(e.RetryAfterMS)
		wait := max(wanted, time.Duration(a.retry.WaitMS(attempts))*time.Millisecond)
		long := a.patient || wait > contract.ShortWait
		if long {
			again = false
		}
		if long || wanted > 0 {
			// Of a short wait, too: the interpreter asks again for local nodes, and where
			// Temporal has used up its share of the attempts.
			details.WaitMS = wait.Milliseconds()
		}
	}
	if a.patient {
		again = kind == contract.StoreUnavailable
	}
	return temporal.NewApplicationErrorWithOptions(clip(e.Message, contract.MaxMessage), string(kind), temporal.ApplicationErrorOptions{
		NonRetryable:   !again,
		Details:        []any{details},
		NextRetryDelay: retryAfter(e.RetryAfterMS),
		Category:       category,
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
	if len(details) <= contract.MaxDetails {
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
