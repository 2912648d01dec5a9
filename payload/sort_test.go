package payload_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	failurepb "go.temporal.io/api/failure/v1"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"google.golang.org/protobuf/proto"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/payload"
)

// sorts are what passes between an interpreter and an activity, by what it is for,
// each with something to read it into.
var sorts = map[string][]struct{ value, target any }{
	"request": {
		{contract.Call{Request: "r"}, new(contract.Call)},
		{contract.LoadRequest{}, new(contract.LoadRequest)},
		{contract.RouteRequest{Request: "r"}, new(contract.RouteRequest)},
		{contract.JournalRequest{}, new(contract.JournalRequest)},
		{contract.CloseRequest{}, new(contract.CloseRequest)},
	},
	"answer": {
		{contract.Outcome{Request: "r"}, new(contract.Outcome)},
		{contract.RouteResult{Request: "r"}, new(contract.RouteResult)},
		{contract.JournalReceipt{}, new(contract.JournalReceipt)},
		{contract.Closed{Root: "r"}, new(contract.Closed)},
		{"text", new(any)},
	},
	"beat":    {{contract.Beat{Spent: 1, Request: "r"}, new(contract.Beat)}},
	"details": {{contract.ErrorDetails{Attempts: 1, Request: "r"}, new(contract.ErrorDetails)}},
}

// TestARequestIsNoAnswer: all of these lie at hand for whoever may answer an
// activity, sealed for that very activity and with the name of the request.
func TestARequestIsNoAnswer(t *testing.T) {
	c := at(t, sealed(t, "a"), inActivity)
	for given, values := range sorts {
		for _, v := range values {
			p, err := c.ToPayload(v.value)
			require.NoError(t, err)
			require.NoError(t, c.FromPayload(p, v.target), "%T", v.value)
			for taken, targets := range sorts {
				for _, as := range targets {
					if taken != given {
						require.ErrorIs(t, c.FromPayload(p, as.target), payload.ErrRefused, "%T as %T", v.value, as.target)
					}
				}
			}
		}
	}
}

// TestAFailureIsOneWhole: its type and message count only with its own details.
func TestAFailureIsOneWhole(t *testing.T) {
	s := sealed(t, "a")
	c := converter.WithFailureConverterSerializationContext(payload.NewFailureConverter(at(t, s, nil)), inActivity)
	fail := func(request string) *failurepb.Failure {
		return c.ErrorToFailure(temporal.NewApplicationErrorWithOptions(request+" failed", string(contract.ToolError), temporal.ApplicationErrorOptions{
			NonRetryable: true, Details: []any{contract.ErrorDetails{Attempts: 1, Request: request}},
		}))
	}
	read := func(f *failurepb.Failure) (kind, request string) {
		var e *temporal.ApplicationError
		require.ErrorAs(t, c.FailureToError(proto.CloneOf(f)), &e)
		var details contract.ErrorDetails
		if e.HasDetails() {
			require.NoError(t, e.Details(&details))
		}
		return e.Type(), details.Request
	}
	one, other := fail("one"), fail("other")
	kind, request := read(one)
	require.Equal(t, string(contract.ToolError), kind)
	require.Equal(t, "one", request)
	for name, details := range map[string]*commonpb.Payloads{
		"of another": other.GetApplicationFailureInfo().Details,
		"none":       nil,
		"twice": {Payloads: append(append([]*commonpb.Payload(nil), one.GetApplicationFailureInfo().Details.Payloads...),
			other.GetApplicationFailureInfo().Details.Payloads...)},
	} {
		t.Run(name, func(t *testing.T) {
			mixed := proto.CloneOf(one)
			mixed.GetApplicationFailureInfo().Details = details
			kind, request := read(mixed)
			require.Equal(t, string(contract.WorkerLost), kind)
			require.Empty(t, request)
		})
	}
}

// TestOnlyWorkersFailActivities: what a client makes the server say, around a
// sealed failure or around none, counts as nothing.
func TestOnlyWorkersFailActivities(t *testing.T) {
	s := sealed(t, "a")
	c := converter.WithFailureConverterSerializationContext(payload.NewFailureConverter(at(t, s, nil)), inActivity)
	good := c.ErrorToFailure(temporal.NewApplicationErrorWithOptions("failed", string(contract.ToolError), temporal.ApplicationErrorOptions{}))
	for _, f := range []*failurepb.Failure{
		{Message: "plain"},
		{Message: "plain", Cause: good},
		{FailureInfo: &failurepb.Failure_CanceledFailureInfo{CanceledFailureInfo: &failurepb.CanceledFailureInfo{}}},
		{FailureInfo: &failurepb.Failure_TerminatedFailureInfo{TerminatedFailureInfo: &failurepb.TerminatedFailureInfo{}}},
		{FailureInfo: &failurepb.Failure_ServerFailureInfo{ServerFailureInfo: &failurepb.ServerFailureInfo{NonRetryable: true}}},
		{FailureInfo: &failurepb.Failure_ActivityFailureInfo{ActivityFailureInfo: &failurepb.ActivityFailureInfo{}}, Cause: good},
		{FailureInfo: &failurepb.Failure_ResetWorkflowFailureInfo{ResetWorkflowFailureInfo: &failurepb.ResetWorkflowFailureInfo{}}},
		{FailureInfo: &failurepb.Failure_TimeoutFailureInfo{TimeoutFailureInfo: &failurepb.TimeoutFailureInfo{}}, Cause: &failurepb.Failure{}},
	} {
		t.Run(fmt.Sprintf("%T", f.GetFailureInfo()), func(t *testing.T) {
			var e *temporal.ApplicationError
			require.ErrorAs(t, c.FailureToError(f), &e)
			require.Equal(t, string(contract.WorkerLost), e.Type())
		})
	}
	local := inActivity
	local.IsLocal = true
	mine := converter.WithFailureConverterSerializationContext(payload.NewFailureConverter(at(t, s, nil)), local)
	require.True(t, temporal.IsCanceledError(mine.FailureToError(mine.ErrorToFailure(temporal.NewCanceledError()))),
		"the workflow's own worker says so of its local activities")
}

// TestWhatTheLibrarySays in an activity's name is of the infrastructure: it names
// no request.
func TestWhatTheLibrarySays(t *testing.T) {
	for name, s := range map[string]payload.Sealing{"sealed": sealed(t, "a"), "plain": {}} {
		root := payload.NewFailureConverter(at(t, s, nil))
		c := converter.WithFailureConverterSerializationContext(root, inActivity)
		for _, said := range []struct {
			err  error
			by   converter.FailureConverter
			want contract.Kind
		}{
			{errors.New("unable to decode the activity function input payload"), c, contract.WorkerLost},
			{context.Canceled, c, contract.WorkerLost},
			{fmt.Errorf("unexpected activity cancel error: %w", context.Canceled), c, contract.WorkerLost},
			{fmt.Errorf("retrieve: %w", contract.Errorf(contract.StoreUnavailable, "away")), c, contract.StoreUnavailable},
			// Said before the worker knows which activity it has in hand.
			{fmt.Errorf("retrieve: %w", context.Canceled), root, contract.WorkerLost},
			{fmt.Errorf("retrieve: %w", contract.Errorf(contract.StoreUnavailable, "away")), root, contract.StoreUnavailable},
		} {
			t.Run(name+" "+said.err.Error(), func(t *testing.T) {
				f := said.by.ErrorToFailure(said.err)
				require.Equal(t, string(said.want), f.GetApplicationFailureInfo().GetType(), "the server acts on it")
				var e *temporal.ApplicationError
				require.ErrorAs(t, c.FailureToError(f), &e)
				require.Equal(t, string(said.want), e.Type())
			})
		}
	}
	// No other failure passes that was sealed for no activity.
	root := payload.NewFailureConverter(at(t, sealed(t, "a"), nil))
	f := root.ErrorToFailure(temporal.NewApplicationErrorWithOptions("no", string(contract.ToolError), temporal.ApplicationErrorOptions{}))
	var e *temporal.ApplicationError
	require.ErrorAs(t, converter.WithFailureConverterSerializationContext(root, inActivity).FailureToError(f), &e)
	require.Equal(t, string(contract.WorkerLost), e.Type())
}
