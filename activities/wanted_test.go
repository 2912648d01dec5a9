package activities

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/plan"
)

// TestAwaited: the cancellation of a run reaches no call that may have been sent. The end of its worker
// does, and its deadline.
func TestAwaited(t *testing.T) {
	for name, c := range map[string]struct {
		cause error
		ends  bool
	}{
		"the run is cancelled":       {temporal.NewCanceledError(), false},
		"the worker stops":           {worker.ErrWorkerShutdown, true},
		"no heartbeat is accepted":   {serviceerror.NewUnavailable("a server"), true},
		"the run has ended":          {serviceerror.NewNotFound("no such run"), true},
		"the activity has, as usual": {context.Canceled, false},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			steady, release := awaited(ctx)
			defer release()
			cancel(c.cause)
			var passed []error
			passOn(ctx, func(cause error) { passed = append(passed, cause) })
			if c.ends {
				require.Equal(t, []error{c.cause}, passed)
				<-steady.Done()
				require.ErrorIs(t, context.Cause(steady), c.cause)
				return
			}
			require.Empty(t, passed)
			release()
			require.ErrorIs(t, context.Cause(steady), context.Canceled)
		})
	}
	end := time.Now().Add(time.Hour)
	ctx, cancel := context.WithDeadline(t.Context(), end)
	defer cancel()
	steady, release := awaited(ctx)
	defer release()
	at, ok := steady.Deadline()
	require.True(t, ok)
	require.Equal(t, end, at)
}

type calls func(r Request) error

func (f calls) Call(_ context.Context, r Request) (Answer, error) {
	return Answer{Forms: []json.RawMessage{json.RawMessage(`1`)}}, f(r)
}

// TestUnwantedCalls: what nobody wants any more is not called, and what was called by then is awaited.
func TestUnwantedCalls(t *testing.T) {
	wanted, cancel := context.WithCancel(t.Context())
	request := Request{Node: &plan.Node{ID: "n", TimeoutMS: 60_000}, Wanted: wanted}
	called := 0
	answer, err := invoke(t.Context(), calls(func(Request) error { cancel(); called++; return nil }), request)
	require.NoError(t, err)
	require.Len(t, answer.Forms, 1)
	_, err = invoke(t.Context(), calls(func(Request) error { called++; return nil }), request)
	require.Equal(t, contract.Unsent, kindOf(t.Context(), err).Kind)
	require.Equal(t, 1, called)
}
