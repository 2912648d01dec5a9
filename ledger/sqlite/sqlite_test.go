package sqlite_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/ledger"
	"chimera.ai/engine/ledger/ledgertest"
	"chimera.ai/engine/ledger/sqlite"
)

func TestSuite(t *testing.T) {
	ledgertest.Run(t, func(t testing.TB) ledgertest.Open {
		path := filepath.Join(t.TempDir(), "ledger.db")
		return func(t testing.TB) ledger.Store {
			s, err := sqlite.Open(t.Context(), sqlite.Options{Path: path, Origin: ledgertest.Origin})
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, s.Close()) })
			return s
		}
	})
}
