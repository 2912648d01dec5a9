package postgres_test

import (
	"context"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/internal/crash"
	"chimera.ai/engine/internal/pgtest"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/ledger/ledgertest"
	"chimera.ai/engine/ledger/postgres"
)

func TestMain(m *testing.M) {
	crash.Main(func(address string) (ledger.Store, error) {
		return postgres.Open(context.Background(), postgres.Options{URL: address, Origin: ledgertest.Origin})
	})
	os.Exit(pgtest.Main(m))
}

func TestCrash(t *testing.T) {
	c, err := pgtest.Start(t.Context(), t.TempDir())
	require.NoError(t, err)
	t.Cleanup(c.Kill)
	o := postgres.Options{URL: c.URL("postgres"), Origin: ledgertest.Origin}
	_, err = postgres.Migrate(t.Context(), o)
	require.NoError(t, err)
	crash.Run(t, crash.Config{
		Address: o.URL,
		Open: func(t testing.TB) ledger.Store {
			s, err := postgres.Open(t.Context(), o)
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, s.Close()) })
			return s
		},
		KillServer: func() {
			c.Kill()
			require.NoError(t, c.Restart(t.Context()))
		},
	})
}

func TestSuite(t *testing.T) { ledgertest.Run(t, suite) }
