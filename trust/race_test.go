package trust_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/ledger"
	"chimera.ai/engine/trust"
)

// slow is a store in which somebody else acts just before a row is written.
type slow struct {
	ledger.Store
	before func()
}

func (s *slow) SetBudget(ctx context.Context, b ledger.Budget) error {
	if f := s.before; f != nil {
		s.before = nil
		f()
	}
	return s.Store.SetBudget(ctx, b)
}

// Applying an older statement last leaves no stale rows.
func TestTheLastStatementCounts(t *testing.T) {
	ctx := context.Background()
	s, b, admin := deployment(t)
	limit := func(n int64) trust.Act {
		m, err := ledger.Minor(n, "USD")
		require.NoError(t, err)
		return &trust.SetBudget{Agent: "bot", Currency: "USD", Every: ledger.Forever, Limit: m}
	}
	publish(t, s, b, admin, &trust.AddAgent{AgentID: "bot", Owner: "me", Keys: []string{}})
	state, err := trust.Read(ctx, s, b)
	require.NoError(t, err)
	e, err := state.Draft(time.Unix(1, 0), limit(100)).Envelope(admin)
	require.NoError(t, err)
	raw, err := e.Encode()
	require.NoError(t, err)
	last, err := trust.Publish(ctx, &slow{s, func() { publish(t, s, b, admin, limit(50)) }}, b, raw, time.Unix(2, 0))
	require.NoError(t, err)
	require.Equal(t, 3, last.N, "the state at the end")
	row, err := trust.Limited(ctx, s, last, trust.BudgetKey{Agent: "bot", Currency: "USD"})
	require.NoError(t, err)
	require.Equal(t, "0.50", row.Limit.Amount())

	// Another statement for the same place is refused with that reason.
	e, err = state.Draft(time.Unix(1, 0), limit(70)).Envelope(admin)
	require.NoError(t, err)
	raw, err = e.Encode()
	require.NoError(t, err)
	_, err = trust.Publish(ctx, s, b, raw, time.Unix(2, 0))
	require.ErrorContains(t, err, "it is number 2, not 4")
}
