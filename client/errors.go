package client

import (
	"errors"
	"fmt"
	"time"

	"go.temporal.io/api/serviceerror"

	"chimera.ai/engine/contract"
)

// CallError reports a call that Temporal refused or did not answer. Err is the error of
// Temporal's library, of a type in go.temporal.io/api/serviceerror or in package
// context.
type CallError struct {
	// What describes the call.
	What string
	Err  error
}

func (e *CallError) Error() string { return e.What + ": " + e.Err.Error() }

// Unwrap returns the error of Temporal's library.
func (e *CallError) Unwrap() error { return e.Err }

// NotFoundError reports that a namespace has no run with an id.
type NotFoundError struct{ Run, Namespace string }

func (e *NotFoundError) Error() string {
	return fmt.Sprintf("there is no run %s in the namespace %s", e.Run, e.Namespace)
}

// TypeError reports that a workflow is not a run of a plan.
type TypeError struct{ Workflow, Type string }

func (e *TypeError) Error() string {
	return fmt.Sprintf("%s is a workflow of type %s, not a run of a plan", e.Workflow, e.Type)
}

// EndedError reports that a run has already ended.
type EndedError struct {
	Run   string
	State contract.RunState
}

func (e *EndedError) Error() string {
	return fmt.Sprintf("the run %s has ended already: %s", e.Run, e.State)
}

// ExistsError reports that a run was not started, since a workflow has or had its id.
type ExistsError struct {
	Run string
	// Type is the workflow's type, or "" if it is not known, and State its state if it is
	// a run.
	Type  string
	State contract.RunState
}

func (e *ExistsError) Error() string {
	return fmt.Sprintf("there is a workflow %s already, and no run was started", e.Run)
}

// LostError reports that Temporal did not answer for too long while a run was followed.
// It is not known whether the run goes on.
type LostError struct {
	Run    string
	Silent time.Duration
}

func (e *LostError) Error() string {
	return fmt.Sprintf("Temporal has not answered for %s; it is not known whether the run %s goes on", e.Silent, e.Run)
}

// isGone reports whether the server does not have an execution, or no longer has it.
func isGone(err error) bool {
	var gone *serviceerror.NotFound
	return errors.As(err, &gone)
}
