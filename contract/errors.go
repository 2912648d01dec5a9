package contract

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// Kind is a member of the closed set of error kinds. A node's retry policy, which
// the compiler completes, says which are retried.
type Kind string

// The kinds.
const (
	// Unsent: dial, TLS or spawn failed; provably nothing was sent.
	Unsent Kind = "unsent"
	// Transport: sent, then the connection broke.
	Transport Kind = "transport"
	// Timeout: the call's own deadline passed.
	Timeout Kind = "timeout"
	// Throttled: refused for now (429, 503); provably nothing ran.
	Throttled Kind = "throttled"
	// Auth: refused for missing or wrong credentials (401, 403).
	Auth Kind = "auth"
	// ToolError: the tool itself says that it failed.
	ToolError Kind = "tool_error"
	// ServerError: any other protocol error.
	ServerError Kind = "server_error"
	// Contract: the input breaks the node's contract, or the tool is unknown.
	Contract Kind = "contract"
	// Expr: an expression failed.
	Expr Kind = "expr"
	// TooLarge: a value is over its bound.
	TooLarge Kind = "too_large"
	// NeedsInput: the server asks back.
	NeedsInput Kind = "needs_input"
	// InvalidOutput: the result breaks its schema.
	InvalidOutput Kind = "invalid_output"
	// Drift: not the tool that was approved.
	Drift Kind = "drift"
	// Blocked, Rejected, Expired, Budget, NeedsReview: trust, guardian or approver said no, or not yet.
	Blocked     Kind = "blocked"
	Rejected    Kind = "rejected"
	Expired     Kind = "expired"
	Budget      Kind = "budget"
	NeedsReview Kind = "needs_review"
	// Conflict: another action under the same invocation id.
	Conflict Kind = "conflict"
	// OutcomeUnknown: the effect may or may not have happened.
	OutcomeUnknown Kind = "outcome_unknown"
	// Cancelled, Deadline, LoopExhausted, FailedKind: run-level.
	Cancelled     Kind = "cancelled"
	Deadline      Kind = "deadline"
	LoopExhausted Kind = "loop_exhausted"
	FailedKind    Kind = "failed"
	// WorkerLost: a worker died with the activity in hand.
	WorkerLost Kind = "worker_lost"
	// StoreUnavailable: the engine's own store could not be reached.
	StoreUnavailable Kind = "store_unavailable"
)

// WrongQueue is the failure type of a worker that is not configured to call a node.
// It is not a kind: the interpreter repeats the request on [QueueTools], outside
// the node's contract.
const WrongQueue = "wrong_queue"

// Kinds lists the closed set, in the order of the documentation.
func Kinds() []Kind {
	return []Kind{
		Unsent, Transport, Timeout, Throttled, Auth, ToolError, ServerError,
		Contract, Expr, TooLarge, NeedsInput, InvalidOutput, Drift,
		Blocked, Rejected, Expired, Budget, NeedsReview, Conflict, OutcomeUnknown,
		Cancelled, Deadline, LoopExhausted, FailedKind, WorkerLost, StoreUnavailable,
	}
}

// Valid reports whether k is a member of the set.
func (k Kind) Valid() bool { return slices.Contains(Kinds(), k) }

// NothingSent reports that a call which fails so has had no effect and cost nothing.
func (k Kind) NothingSent() bool {
	switch k {
	case Unsent, Throttled, Auth, Contract, Drift, Blocked, NeedsReview:
		return true
	default:
		return false
	}
}

// ErrorPayload is the value of an error edge, and describes the failure of a node.
type ErrorPayload struct {
	Kind    Kind   `json:"kind"`
	Message string `json:"message"`
	// Node is the id of the node that failed.
	Node string `json:"node"`
	// Attempts counts the calls made, from 1.
	Attempts int `json:"attempts"`
	// Details is whatever the kind adds, or null.
	Details json.RawMessage `json:"details"`
}

// Failure is the first detail of a failed or cancelled run.
type Failure struct {
	Kind    Kind   `json:"kind"`
	Node    string `json:"node"`
	Message string `json:"message"`
	// Diagnostics is what the compiler said, where the plan did not compile.
	Diagnostics json.RawMessage `json:"diagnostics,omitempty"`
	// Compensated and NotCompensated list node ids.
	Compensated    []string `json:"compensated"`
	NotCompensated []string `json:"not_compensated"`
}

// Error is a failure with its kind. It is created where the failure is detected (a
// transport, a validator, a skill) and carried unchanged to the workflow.
type Error struct {
	Kind    Kind
	Message string
	// Details is a JSON text, or nil.
	Details json.RawMessage
	// RetryAfterMS is how long the other side asks to wait, in milliseconds, or
	// 0.
	RetryAfterMS int64
	// Snapshots are what is known of the tools that the server listed around the call, or nil.
	Snapshots *Snapshots
	// Listed is the definition of the tool that was not called, as the server lists it, if the kind is
	// needs_review for that; or nil.
	Listed json.RawMessage
	// Cause is the underlying error, for logs; it does not travel.
	Cause error
}

// Errorf makes an [Error] of the given kind. Its %w verbs set its cause.
func Errorf(kind Kind, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	var cause error
	switch u := err.(type) {
	case interface{ Unwrap() error }:
		cause = u.Unwrap()
	case interface{ Unwrap() []error }:
		cause = errors.Join(u.Unwrap()...)
	}
	return &Error{Kind: kind, Message: err.Error(), Cause: cause}
}

func (e *Error) Error() string { return string(e.Kind) + ": " + e.Message }

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Cause }

// Snapshots are what an MCP server listed around a call of a pinned tool: the digests of all its tools,
// "" where it was not asked, or where that is not known.
type Snapshots struct {
	// Before is of the listing before the call, After of the one after it, which follows only a call
	// that may have an effect.
	Before string `json:"before,omitempty"`
	After  string `json:"after,omitempty"`
}

// MaxMessage and MaxDetails bound the message and the details of a failure in a
// history, in bytes: together they are less than a result that does not go by
// reference. Activities write no more, and the interpreter keeps no more, but for the
// mark of three bytes that a longer message ends with.
const (
	MaxMessage = 4 << 10
	MaxDetails = 8 << 10
)

// ErrorDetails is the first detail of an activity's failure; the failure's type
// is the kind, and its message the message.
type ErrorDetails struct {
	// Attempts counts the calls made, from 1.
	Attempts int `json:"attempts"`
	// Details is whatever the kind adds, or null.
	Details json.RawMessage `json:"details,omitempty"`
	// Diagnostics is what the compiler said, where a plan did not compile.
	Diagnostics json.RawMessage `json:"diagnostics,omitempty"`
	// Snapshots are as in [Error].
	Snapshots *Snapshots `json:"snapshots,omitempty"`
	// Listed is as in [Call], in the failure of a call that is made with it once people have approved that.
	Listed Value `json:"listed,omitempty"`
	// Request is that of the [Call], [RouteRequest], [JournalRequest] or [ChildRequest]
	// that failed.
	Request string `json:"request,omitempty"`
	// Root is that of the run whose ledger was asked, in a failure of engine/journal and
	// engine/close.
	Root string `json:"root,omitempty"`
	// WaitMS is how long the interpreter waits before it repeats the request,
	// in milliseconds, if the contract allows another attempt that Temporal
	// does not make, or the other side has said how long.
	WaitMS int64 `json:"wait_ms,omitempty"`
	// Loading is there in the failure of engine/load.
	Loading *Loading `json:"loading,omitempty"`
}

// Beat is what a running activity reports with its heartbeats, so that the
// attempts of a lost worker still count.
type Beat struct {
	// Spent counts the attempts that have failed by the contract before this one.
	Spent int `json:"spent"`
	// Request is that of the [Call] that runs.
	Request string `json:"request,omitempty"`
	// SealedWith is the id of the payload key that this was sealed with, or "".
	SealedWith string `json:"-"`
}
