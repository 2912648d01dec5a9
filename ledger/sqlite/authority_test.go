package sqlite_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/ledger"
	"chimera.ai/engine/plan"
)

// TestStatementsFollowOneAnother: a statement of the admins is taken if it follows the last one,
// and not if its author has seen an earlier one, or none.
func TestStatementsFollowOneAnother(t *testing.T) {
	s := suite(t)(t)
	raw := func(n int) json.RawMessage { return json.RawMessage(fmt.Sprintf(`{"n":%d}`, n)) }
	digest := func(n int) string { return plan.DigestOf(raw(n)) }
	require.NoError(t, s.StateAuthority(t.Context(), raw(1), ""))
	require.NoError(t, s.StateAuthority(t.Context(), raw(1), ""), "again")
	require.NoError(t, s.StateAuthority(t.Context(), raw(2), digest(1)))
	for _, prev := range []string{"", digest(1), digest(3)} {
		require.ErrorIs(t, s.StateAuthority(t.Context(), raw(3), prev), ledger.ErrConflict, prev)
	}
	require.NoError(t, s.StateAuthority(t.Context(), raw(3), digest(2)))
	all, err := s.Authority(t.Context())
	require.NoError(t, err)
	require.Equal(t, []json.RawMessage{raw(1), raw(2), raw(3)}, all)
}
