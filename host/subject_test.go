package host_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/ledger"
	"chimera.ai/engine/store"
)

// integrate gives everything its place in the log.
func integrate(t *testing.T, s *store.Opened) {
	t.Helper()
	q := ledger.Sequencer{Store: s.Ledger, Key: s.Key}
	for {
		n, err := q.Integrate(t.Context())
		require.NoError(t, err)
		if n == 0 {
			return
		}
	}
}
