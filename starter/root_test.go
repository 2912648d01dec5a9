package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/config"
	"chimera.ai/engine/internal/devroot"
	"chimera.ai/engine/ledger/audit"
	"chimera.ai/engine/store"
	"chimera.ai/engine/trust"
)

// TestUnrooted: a folder that was copied has the ledger's root, too: nobody is told to remove a ledger.
func TestUnrooted(t *testing.T) {
	require.Equal(t, "Give each ledger a folder of its own (dev.dir, CHIMERA_DEV_DIR).", unrooted(&devroot.OtherError{}).(*failure).hint)
}

// TestTrustFile: what chimera dev trusts is in a file for auditors.
func TestTrustFile(t *testing.T) {
	dir := t.TempDir()
	opened, err := store.Open(t.Context(), store.Options{Dir: dir, Path: filepath.Join(dir, "ledger.db")})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, opened.Close()) })
	r, err := devTrustRoot(t.Context(), dir, opened.Ledger, opened.Key, filepath.Join(dir, "ledger.db"), true)
	require.NoError(t, err)
	trusted, err := writeTrust(t.Context(), config.Config{Dev: config.Dev{Dir: dir}, Temporal: config.Temporal{Namespace: "here"}}, opened, r)
	require.NoError(t, err)
	require.Equal(t, string(trust.Dev), trusted.Audience)
	require.Equal(t, []string{"here"}, trusted.Namespaces)
	raw, err := os.ReadFile(filepath.Join(dir, "trust.json"))
	require.NoError(t, err)
	read, err := audit.ParseTrust(raw)
	require.NoError(t, err)
	require.Equal(t, trusted, read)
}
