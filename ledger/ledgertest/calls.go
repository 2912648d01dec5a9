package ledgertest

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/ledger"
)

// calls: holds for calls without effect are running from the beginning, count in what the
// calls of a run may cost together, and are posted as a whole once nobody else can post
// them.
func calls(t *testing.T, open Open) {
	s := open(t)
	ctx := t.Context()
	past, far := ledger.At(time.Unix(1<<20, 0)), ledger.At(time.Unix(1<<33, 0))
	require.NoError(t, s.OpenRun(ctx, run()))
	hold := func(id, agent string, cents, most int64, expires ledger.Time) ledger.Hold {
		h := ledger.Hold{ID: id, Agent: agent, Amount: usd(t, cents), ExpiresAt: expires, Call: &ledger.HeldCall{
			Workflow: "w", Root: "r1", Origin: "r1", Node: "think", Attested: true, Prob: most > 0,
		}}
		if most > 0 {
			money := usd(t, most)
			h.Call.Most = &money
		}
		return h
	}
	status := func(id string, want ledger.TxStatus, posted string) {
		t.Helper()
		h, err := s.Hold(ctx, id)
		require.NoError(t, err)
		require.Equal(t, want, h.Status)
		if posted != "" {
			require.Equal(t, posted, h.Posted.Amount())
		}
	}

	// Without a budget a hold counts in none; with one in another currency it is refused.
	free, err := s.OpenHold(ctx, hold("free", "nobody", 5, 0, far))
	require.NoError(t, err)
	require.Empty(t, free.Charges)
	require.True(t, free.Running)
	require.NoError(t, s.SetBudget(ctx, ledger.Budget{Agent: "foreign", Currency: "EUR", Every: ledger.Forever, Limit: eur(t, 100)}))
	_, err = s.OpenHold(ctx, hold("foreign", "foreign", 5, 0, far))
	require.ErrorIs(t, err, ledger.ErrBudget)
	require.NoError(t, s.SetBudget(ctx, ledger.Budget{Agent: "thinker", Currency: "USD", Every: ledger.Forever, Limit: usd(t, 100)}))
	_, err = s.OpenHold(ctx, hold("large", "thinker", 101, 0, far))
	require.ErrorIs(t, err, ledger.ErrBudget)

	// A hold is running from the beginning exactly if its call has no effect, whatever the
	// caller says.
	with, err := s.OpenHold(ctx, ledger.Hold{ID: "with effect", Agent: "thinker", Amount: usd(t, 1), Running: true, ExpiresAt: far})
	require.NoError(t, err)
	require.False(t, with.Running)
	_, err = s.VoidHold(ctx, "with effect")
	require.NoError(t, err)

	// What calls of one origin may cost together: what is pending counts, what was freed
	// does not, and other calls do not.
	_, err = s.OpenHold(ctx, hold("steady", "thinker", 7, 0, far))
	require.NoError(t, err)
	_, err = s.OpenHold(ctx, hold("one", "thinker", 20, 30, far))
	require.NoError(t, err)
	_, err = s.OpenHold(ctx, hold("two", "thinker", 11, 30, far))
	require.ErrorIs(t, err, ledger.ErrBudget)
	_, err = s.PostHold(ctx, "one", usd(t, 19))
	require.NoError(t, err)
	_, err = s.OpenHold(ctx, hold("two", "thinker", 11, 30, far))
	require.NoError(t, err)
	_, err = s.OpenHold(ctx, hold("three", "thinker", 1, 30, far))
	require.ErrorIs(t, err, ledger.ErrBudget)
	_, err = s.VoidHold(ctx, "two")
	require.NoError(t, err)
	_, err = s.OpenHold(ctx, hold("three", "thinker", 11, 30, far))
	require.NoError(t, err)
	other := hold("other", "thinker", 11, 30, far)
	other.Call.Origin = "elsewhere"
	_, err = s.OpenHold(ctx, other)
	require.NoError(t, err)
	over := hold("over", "nobody", 500, 30, far)
	over.Overdraft = true
	_, err = s.OpenHold(ctx, over)
	require.NoError(t, err)
	mixed := hold("mixed", "nobody", 1, 30, far)
	euros := eur(t, 30)
	mixed.Call.Most = &euros
	_, err = s.OpenHold(ctx, mixed)
	require.ErrorIs(t, err, ledger.ErrBudget)

	// So do calls with an effect.
	cost := usd(t, 20)
	a := Ask("inv", "action")
	a.Agent, a.Cost, a.Call = "nobody", &cost, &ledger.HeldCall{Workflow: "w", Origin: "acting", Node: "say", Prob: true, Most: &cost}
	got, err := s.Authorize(ctx, run(), a, Rule(ledger.Approve))
	require.NoError(t, err)
	h, err := s.Hold(ctx, got.Invocation.HoldID)
	require.NoError(t, err)
	require.False(t, h.Running)
	require.Empty(t, h.Charges)
	b := Ask("inv-2", "action 2")
	b.Agent, b.Cost, b.Call = a.Agent, a.Cost, a.Call
	found := ledger.Standing{}
	_, err = s.Authorize(ctx, run(), b, func(st ledger.Standing) (ledger.Ruling, error) {
		found = st
		return Rule("ESCALATE")(st)
	})
	require.NoError(t, err)
	require.Equal(t, ledger.Exceeded, found.Money)

	// Many at once: what fits is held, and no more.
	var wait sync.WaitGroup
	for i := range 24 {
		wait.Go(func() {
			h := hold(fmt.Sprintf("at once %d", i), "crowd", 10, 70, far)
			h.Call.Origin = "crowd"
			if _, err := s.OpenHold(ctx, h); err == nil {
				return
			} else if !errors.Is(err, ledger.ErrBudget) {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	n := 0
	for i := range 24 {
		if _, err := s.Hold(ctx, fmt.Sprintf("at once %d", i)); err == nil {
			n++
		}
	}
	require.Equal(t, 7, n)

	// While a run of the origin is open, its hold waits for it; then all of it is spent.
	_, err = s.OpenHold(ctx, hold("lost", "thinker", 8, 0, past))
	require.NoError(t, err)
	n, err = s.ExpireHolds(ctx)
	require.NoError(t, err)
	require.Zero(t, n)
	status("lost", ledger.TxPending, "")
	r := run()
	r.State = ledger.RunCancelled
	_, _, err = s.CloseRun(ctx, r, nil)
	require.NoError(t, err)
	n, err = s.ExpireHolds(ctx)
	require.NoError(t, err)
	require.Equal(t, 1, n, "the others' calls may still be made")
	status("lost", ledger.TxPosted, "0.08")
	status("steady", ledger.TxPending, "")
	Drain(t, s, Key(t))
	Same(t, s, Replay(t, s))
}
