package ledgertest

import (
	"encoding/json"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/ledger"
)

// orders: a run is paused and resumed in turn while it is open, each order is stated once,
// and what was signed counts once.
func orders(t *testing.T, open Open) {
	s := open(t)
	ctx := t.Context()
	r := run()
	chain := func() (kinds []ledger.Kind) {
		t.Helper()
		list, err := s.Chain(ctx, r.Chain(), 0, everything.Limit)
		require.NoError(t, err)
		for _, x := range list {
			e, err := ledger.DecodeEntry(x.Bytes)
			require.NoError(t, err)
			kinds = append(kinds, e.Kind)
		}
		return kinds
	}
	tell := func(kind ledger.Kind, n int, envelope string) error {
		o := ledger.Order{Kind: kind, N: n, By: "ann", Reason: "because"}
		if envelope != "" {
			o.Signed, o.Signer = json.RawMessage(envelope), "s-1"
		}
		return s.RecordOrder(ctx, r.Workflow, r.Root, o)
	}
	require.ErrorIs(t, tell(ledger.RunPaused, 1, ""), ledger.ErrNotFound)
	require.NoError(t, s.OpenRun(ctx, r))
	require.ErrorIs(t, tell(ledger.RunResumed, 1, ""), ledger.ErrConflict, "it is not paused")
	for _, o := range []ledger.Order{
		{Kind: ledger.RunClosed, N: 1}, {Kind: ledger.RunPaused}, {Kind: ledger.RunPaused, N: 1, Signer: "s-1"},
		{Kind: ledger.RunPaused, N: 1, By: strings.Repeat("x", ledger.MaxOrderBy+1)}, {Kind: ledger.RunPaused, N: 1, Reason: strings.Repeat("x", ledger.MaxOrderReason+1)},
		{Kind: ledger.RunPaused, N: 1, Reason: "a\xff"}, {Kind: ledger.RunPaused, N: 1, Signed: json.RawMessage(`{"payload":""}`)},
		{Kind: ledger.RunPaused, N: 1, Signed: json.RawMessage(`{"payload":"` + strings.Repeat("x", ledger.MaxOrderSigned) + `"}`)},
	} {
		require.ErrorIs(t, s.RecordOrder(ctx, r.Workflow, r.Root, o), ledger.ErrInvalid, "%+v", o)
	}

	require.NoError(t, tell(ledger.RunPaused, 1, `{"payload": "MQ==", "signatures": [1]}`))
	require.NoError(t, tell(ledger.RunPaused, 1, `{"payload": "Mg==", "signatures": [1]}`), "what the number stands for is there")
	require.ErrorIs(t, tell(ledger.RunResumed, 1, ""), ledger.ErrConflict)
	require.ErrorIs(t, tell(ledger.RunPaused, 2, ""), ledger.ErrConflict, "it is paused already")
	require.ErrorIs(t, tell(ledger.RunResumed, 2, `{"payload":"MQ==","signatures":[1]}`), ledger.ErrConflict, "an envelope counts once")
	require.ErrorIs(t, tell(ledger.RunResumed, 2, `{"payload":"MQ==","signatures":[1,2]}`), ledger.ErrConflict, "with other signatures, too")
	// Whoever comes first: the other finds that it was told.
	var wait sync.WaitGroup
	errs := make([]error, 2)
	for i := range errs {
		wait.Go(func() { errs[i] = tell(ledger.RunResumed, 2+i, "") })
	}
	wait.Wait()
	require.True(t, (errs[0] == nil) != (errs[1] == nil), "%v", errs)
	require.Equal(t, []ledger.Kind{ledger.RunOpened, ledger.RunPaused, ledger.RunResumed}, chain())
	require.NoError(t, tell(ledger.RunPaused, 4, ""))
	require.ErrorIs(t, tell(ledger.RunPaused, 3, ""), ledger.ErrConflict, "numbers rise")

	// A run that continues another may have been paused in that.
	next := r
	next.Root = "r2"
	require.NoError(t, s.OpenRun(ctx, next))
	require.NoError(t, s.RecordOrder(ctx, next.Workflow, next.Root, ledger.Order{Kind: ledger.RunResumed, N: 5}))
	require.ErrorIs(t, s.RecordOrder(ctx, next.Workflow, next.Root, ledger.Order{Kind: ledger.RunResumed, N: 6}), ledger.ErrConflict)

	end := r
	end.State, end.OutputDigest = ledger.RunSucceeded, digest("result")
	_, _, err := s.CloseRun(ctx, end, nil)
	require.NoError(t, err)
	require.ErrorIs(t, tell(ledger.RunResumed, 5, ""), ledger.ErrConflict)
	require.NoError(t, tell(ledger.RunPaused, 4, ""), "it was told before its end")
	Drain(t, s, Key(t))
	m := Replay(t, s)
	Same(t, s, m)
	require.True(t, m.Runs[r.Chain()].Paused)
	require.False(t, m.Runs[next.Chain()].Paused)
}
