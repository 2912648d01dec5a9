package sqlite_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/internal/crash"
	"chimera.ai/engine/internal/mutant"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/ledger/ledgertest"
	"chimera.ai/engine/ledger/sqlite"
)

func TestMain(m *testing.M) {
	crash.Main(func(address string) (ledger.Store, error) {
		return sqlite.Open(context.Background(), sqlite.Options{Path: address, Origin: ledgertest.Origin})
	})
	os.Exit(m.Run())
}

func TestCrash(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	crash.Run(t, crash.Config{Address: path, Open: func(t testing.TB) ledger.Store {
		s, err := sqlite.Open(t.Context(), sqlite.Options{Path: path, Origin: ledgertest.Origin, Subjects: ledgertest.Ring(t)})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, s.Close()) })
		return s
	}})
}

func TestSuite(t *testing.T) { ledgertest.Run(t, suite) }

func TestPeriods(t *testing.T) {
	o := sqlite.Options{Path: filepath.Join(t.TempDir(), "ledger.db"), Origin: ledgertest.Origin, Subjects: ledgertest.Ring(t)}
	ledgertest.Periods(t, func(t testing.TB) ledger.Store {
		s, err := sqlite.Open(t.Context(), o)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, s.Close()) })
		return s
	}, func(t testing.TB) ledger.Store {
		return broken(t, o, &mutant.Mutation{Replace: [][2]string{{"unixepoch('subsec')", "unixepoch('subsec', '+40 days')"}}})
	})
}
