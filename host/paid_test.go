package host_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/ledger"
	"chimera.ai/engine/trust"
)

// budget gives the agent a budget.
func (a *acting) budget(t *testing.T, limit string) {
	t.Helper()
	m, err := ledger.ParseMoney(limit, "USD")
	require.NoError(t, err)
	a.state(t, &trust.SetBudget{Agent: "tester", Currency: "USD", Every: ledger.Forever, Limit: m})
}

// spent is what of the agent's budget is pending and posted.
func (a *acting) spent(t *testing.T) string {
	t.Helper()
	b, err := a.ledger().Budget(t.Context(), "tester", "USD")
	require.NoError(t, err)
	return b.Pending.Amount() + " " + b.Posted.Amount()
}
