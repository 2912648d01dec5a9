package postgres_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/internal/pgtest"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/ledger/ledgertest"
	"chimera.ai/engine/ledger/postgres"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

func TestSuite(t *testing.T) {
	ledgertest.Run(t, func(t testing.TB) ledgertest.Open {
		o := postgres.Options{URL: pgtest.URL(t), Origin: ledgertest.Origin}
		_, err := postgres.Open(t.Context(), o)
		require.ErrorContains(t, err, "run chimera migrate")
		n, err := postgres.Migrate(t.Context(), o)
		require.NoError(t, err)
		require.Positive(t, n)
		return func(t testing.TB) ledger.Store {
			s, err := postgres.Open(t.Context(), o)
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, s.Close()) })
			return s
		}
	})
}
