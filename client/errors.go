package client

import (
	"errors"
	"fmt"
	"time"

	"go.temporal.io/api/serviceerror"

	"chimera.ai/engine/contract"
)

// CallError is a call that Temporal refused or did not answer. Err is the error of
// Temporal's library, of a type of go.temporal.io/api/serviceerror or of package
// context.
type CallError struct {
	// What was asked for.
	What string
	Err  error
}

func (e *CallError) Error() string { return e.What + ": " + e.Err.Error() }

// Unwrap gives the error of Temporal's library.
func (e *CallError) Unwrap() error { return e.Err }

// NotFoundError says that a namespace has no run of an id.
type NotFoundError struct{ Run, Namespace string }

func (e *NotFoundError) Error() string {
	return fmt.Sprintf("there is no run %s in the namespace %s", e.Run, e.Namespace)
}

// TypeError says that a workflow is not a run of a plan.
type TypeError struct{ Workflow, Type string }

func (e *TypeError) Error() string {
	return fmt.Sprintf("%s is a workflow of type %s, not a run of a plan", e.Workflow, e.Type)
}

// EndedError says that a run has ended already.
type EndedError struct {
	Run   string
	State contract.RunState
}

func (e *EndedError) Error() string {
	return fmt.Sprintf("the run %s has ended already: %s", e.Run, e.State)
}

// ExistsError says that a workflow has or had the id of a run that was to be
// started. Nothing was started.
type ExistsError struct {
	Run string
	// Type is the workflow's type, "" where it is not known, and State its state if it
	// is a run.
	Type  string
	State contract.RunState
}

func (e *ExistsError) Error() string {
	return fmt.Sprintf("there is a workflow %s already, and no run was started", e.Run)
}

// LostError says that Temporal has been silent for too long while a run was
// followed. Whether the run goes on is not known.
type LostError struct {
	Run    string
	Silent time.Duration
}

func (e *LostError) Error() string {
	return fmt.Sprintf("Temporal has not answered for %s; whether the run %s goes on is not known", e.Silent, e.Run)
}

// isGone reports whether an execution is not, or not any more, on the server.
func isGone(err error) bool {
	var gone *serviceerror.NotFound
	return errors.As(err, &gone)
}
