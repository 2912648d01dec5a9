package payload

import (
	"encoding/json"
	"strings"

	"go.temporal.io/sdk/temporal"

	"chimera.ai/engine/contract"
)

// isStart reports whether targets are the arguments of [contract.WorkflowType]:
// nothing else in a workflow is read as it came.
func isStart(targets []any) bool {
	if len(targets) == 0 {
		return false
	}
	_, ok := targets[0].(*json.RawMessage)
	return ok
}

// argumentError says that a run's arguments cannot be read. The SDK ends the run
// by it, before the interpreter could.
type argumentError struct{ cause error }

func (e *argumentError) Error() string { return e.cause.Error() }
func (e *argumentError) Unwrap() error { return e.cause }

// failure gives the failure the form in which every run of a plan fails.
func (e *argumentError) failure() error {
	text := "the start's arguments cannot be read (a start has one: {plan | source, input, grant, subject}): " + e.Error()
	if len(text) > contract.MaxMessage {
		text = text[:contract.MaxMessage]
	}
	f := contract.Failure{
		Kind: contract.Contract, Message: strings.ToValidUTF8(text, "\uFFFD"), Compensated: []string{}, NotCompensated: []string{},
	}
	return temporal.NewApplicationErrorWithOptions(f.Message, string(f.Kind), temporal.ApplicationErrorOptions{
		NonRetryable: true, Details: []any{f},
	})
}
