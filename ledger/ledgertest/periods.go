package ledgertest

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/ledger"
	"chimera.ai/engine/ledger/model"
)

// Periods tests budgets across the ends of their periods. later opens the store that
// open does, with a clock that is 40 days ahead.
func Periods(t *testing.T, open, later Open) {
	ctx := t.Context()
	now, then := open(t), later(t)
	far := ledger.At(time.Unix(1<<33, 0))
	for _, b := range []ledger.Budget{
		{Agent: "org", Currency: "USD", Every: ledger.Forever, Limit: usd(t, 350)},
		{Agent: "team", Currency: "USD", Parent: "org", Every: ledger.Monthly, Limit: usd(t, 200)},
		{Agent: "a", Currency: "USD", Parent: "team", Every: ledger.Daily, Limit: usd(t, 100)},
	} {
		require.NoError(t, now.SetBudget(ctx, b))
	}
	require.ErrorIs(t, now.SetBudget(ctx, ledger.Budget{Agent: "b", Currency: "USD", Every: "week", Limit: usd(t, 1)}), ledger.ErrInvalid)
	used := func(s ledger.Store, agent string) (period, pending, posted string) {
		b, err := s.Budget(ctx, agent, "USD")
		require.NoError(t, err)
		return b.Period, b.Pending.Amount(), b.Posted.Amount()
	}

	// A hold counts at each level in the period in which it is opened, also when it ends
	// in a later one.
	first, err := now.OpenHold(ctx, ledger.Hold{ID: "first", Agent: "a", Amount: usd(t, 100), ExpiresAt: far})
	require.NoError(t, err)
	require.Len(t, first.Charges, 3)
	day, _, _ := used(now, "a")
	month, _, _ := used(now, "team")
	require.Equal(t, []ledger.Charge{{Agent: "a", Period: day}, {Agent: "team", Period: month}, {Agent: "org", Period: "forever"}}, first.Charges)
	require.Regexp(t, `^\d{4}-\d\d-\d\d$`, day)
	require.Regexp(t, `^\d{4}-\d\d$`, month)
	_, err = now.OpenHold(ctx, ledger.Hold{ID: "full", Agent: "a", Amount: usd(t, 1), ExpiresAt: far})
	require.ErrorIs(t, err, ledger.ErrBudget)
	period, pending, _ := used(then, "a")
	require.NotEqual(t, day, period)
	require.Equal(t, "0.00", pending, "a new day")
	_, err = then.PostHold(ctx, "first", usd(t, 60))
	require.NoError(t, err)
	_, pending, posted := used(now, "a")
	require.Equal(t, "0.00 0.60", pending+" "+posted, "it is posted where it was held")
	_, pending, posted = used(then, "a")
	require.Equal(t, "0.00 0.00", pending+" "+posted)
	_, pending, posted = used(then, "org")
	require.Equal(t, "0.00 0.60", pending+" "+posted)
	again, err := then.OpenHold(ctx, ledger.Hold{ID: "first", Agent: "a", Amount: usd(t, 100), ExpiresAt: far})
	require.NoError(t, err)
	require.Equal(t, first.Charges, again.Charges, "a guard that is retried later holds nothing more")

	// Sixty-four workers, half of them in the next period, get no more than is there at
	// each level: 40 of the first day, 100 of the later one, whatever comes first.
	var granted [2]atomic.Int64
	var group sync.WaitGroup
	stores := []ledger.Store{now, then}
	for w := range 64 {
		group.Go(func() {
			for i := range 4 {
				_, err := stores[w%2].OpenHold(ctx, ledger.Hold{ID: fmt.Sprintf("%d/%d", w, i), Agent: "a", Amount: usd(t, 1), ExpiresAt: far})
				switch {
				case err == nil:
					granted[w%2].Add(1)
				case !errors.Is(err, ledger.ErrBudget):
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	require.Equal(t, int64(40), granted[0].Load())
	require.Equal(t, int64(100), granted[1].Load())

	// The parent of a budget may change while something is held: what is held stays
	// where it is.
	require.NoError(t, now.SetBudget(ctx, ledger.Budget{Agent: "a", Currency: "USD", Every: ledger.Daily, Limit: usd(t, 100)}))
	_, err = now.VoidHold(ctx, "0/0")
	if err == nil {
		_, pending, _ = used(now, "team")
		require.Equal(t, "0.39", pending)
	} else {
		require.ErrorIs(t, err, ledger.ErrNotFound, "others were first")
	}
	Drain(t, now, Key(t))
	m := Replay(t, now)
	Same(t, now, m)
	Same(t, then, m)
	require.Equal(t, "0.60", m.Uses[model.UseKey{BudgetKey: model.BudgetKey{Agent: "a", Currency: "USD"}, Period: day}].Posted.Amount())
}
