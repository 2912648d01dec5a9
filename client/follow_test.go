package client

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	sdk "go.temporal.io/sdk/client"
	"go.temporal.io/sdk/workflow"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/internal/devserver"
)

// TestFollow: whoever follows a run that no worker takes up is told so, may leave it,
// and sees its states and its end later.
func TestFollow(t *testing.T) {
	c := dial(t)
	runs := New(c, Options{})
	run, err := runs.Start(t.Context(), Request{ID: "r"})
	require.NoError(t, err)
	ctx, leave := context.WithCancel(t.Context())
	var last Progress
	_, err = runs.Follow(ctx, run, func(p Progress) {
		last = p
		leave()
	})
	require.ErrorIs(t, err, context.Canceled)
	require.NotNil(t, last.Stuck)
	require.Equal(t, ReasonNoWorker, last.Stuck.Reason)

	imitate(t, c, func(ctx workflow.Context, _ contract.Start) (json.RawMessage, error) {
		err := workflow.SetQueryHandler(ctx, contract.QueryState, func() (contract.State, error) {
			return contract.State{State: contract.RunRunning}, nil
		})
		if err != nil {
			return nil, err
		}
		workflow.GetSignalChannel(ctx, "end").Receive(ctx, nil)
		return json.RawMessage(`{"x": 1}`), nil
	})
	told := false
	e, err := runs.Follow(t.Context(), Run{ID: "r"}, func(p Progress) {
		if p.State != nil && !told {
			told = true
			if err := c.SignalWorkflow(t.Context(), "r", "", "end", nil); err != nil {
				t.Error(err)
			}
		}
	})
	require.NoError(t, err)
	require.Equal(t, contract.RunSucceeded, e.State)
	require.JSONEq(t, `{"x": 1}`, string(e.Output))
}

// TestFollowWithoutAServer: an unreachable server is reported, and asked again.
func TestFollowWithoutAServer(t *testing.T) {
	t.Parallel()
	server, err := devserver.Start(t.Context(), devserver.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Stop(context.WithoutCancel(t.Context()))) })
	c, err := sdk.DialContext(t.Context(), sdk.Options{HostPort: server.Address})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	runs := New(c, Options{})
	run, err := runs.Start(t.Context(), Request{ID: "r"})
	require.NoError(t, err)
	require.NoError(t, server.Stop(t.Context()))
	ctx, leave := context.WithCancel(t.Context())
	away := false
	_, err = runs.Follow(ctx, run, func(p Progress) {
		if p.Away {
			away = true
			leave()
		}
	})
	require.ErrorIs(t, err, context.Canceled)
	require.True(t, away)
}
