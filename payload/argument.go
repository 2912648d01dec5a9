package payload

import (
	"context"
	"encoding/json"
	"strings"

	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"

	"chimera.ai/engine/contract"
)

// argumentError reports that a run's arguments cannot be read. With it the SDK ends
// the run before the interpreter could.
type argumentError struct{ cause error }

func (e *argumentError) Error() string { return e.cause.Error() }
func (e *argumentError) Unwrap() error { return e.cause }

// failure returns it in the form in which every run of a plan fails.
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

// Argument reads the argument of a workflow's start. It must have been stored for
// this workflow, whatever the reference says: one stored for another is refused, as
// if the SDK had read it. The error is a [contract.Error]: of kind StoreUnavailable
// if the store or a key is unavailable, of TooLarge, or of Contract;
// blob.ErrNotFound is among its causes if the store does not have it.
func (a Arguments) Argument(ctx context.Context, workflow string, reference []byte) (json.RawMessage, error) {
	p, err := decode(reference)
	if err != nil || !isSealed(p) {
		claim, err := claimOf(reference)
		if err != nil {
			return nil, err
		}
		p, err = driver{a.Store, a.Sealing}.retrieve(converter.StorageDriverRetrieveContext{Context: ctx}, claim)
		if err != nil {
			return nil, unreadable(err)
		}
	}
	c := sealer{
		base:    converter.NewCompositeDataConverter(jsonConverter{converter.NewJSONPayloadConverter()}),
		sealing: a.Sealing,
		scope:   scopeOf(converter.WorkflowSerializationContext{Namespace: a.Namespace, WorkflowID: workflow}),
	}
	var raw json.RawMessage
	if err := c.FromPayload(p, &raw); err != nil {
		return nil, unreadable(err)
	}
	if len(raw) > MaxArgument {
		return nil, contract.Errorf(contract.TooLarge, "the start's argument has %d bytes; the most are %d", len(raw), MaxArgument)
	}
	return raw, nil
}
