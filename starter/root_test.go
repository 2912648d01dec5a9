package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/ledger/audit"
	"chimera.ai/engine/store"
	"chimera.ai/engine/trust"
)

func TestRoot(t *testing.T) {
	dir := t.TempDir()
	open := func(path string) *store.Opened {
		s, err := store.Open(t.Context(), store.Options{Dir: dir, Path: filepath.Join(dir, path)})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, s.Close()) })
		return s
	}
	kept := open("ledger.db")
	first, err := root(t.Context(), dir, kept)
	require.NoError(t, err)
	again, err := root(t.Context(), dir, kept)
	require.NoError(t, err)
	require.Equal(t, first, again)
	require.Equal(t, trust.Dev, first.Bootstrap.Audience)
	raw, err := os.ReadFile(filepath.Join(dir, "trust.json"))
	require.NoError(t, err)
	read, err := audit.ParseTrust(raw)
	require.NoError(t, err)
	require.Equal(t, first, read)
	info, err := os.Stat(filepath.Join(dir, "admin.key"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())

	// Another ledger gets another bootstrap; one with statements does not.
	other, err := root(t.Context(), dir, open("other.db"))
	require.NoError(t, err)
	require.NotEqual(t, first.Bootstrap.Digest(), other.Bootstrap.Digest())
	back, err := root(t.Context(), dir, kept)
	require.NoError(t, err)
	admin, err := adminKey(filepath.Join(dir, "admin.key"))
	require.NoError(t, err)
	s, err := trust.Read(t.Context(), kept.Ledger, back.Bootstrap)
	require.NoError(t, err)
	e, err := s.Draft(time.Now(), &trust.AddAgent{AgentID: "a", Owner: "me", Keys: []string{}}).Envelope(admin)
	require.NoError(t, err)
	statement, err := e.Encode()
	require.NoError(t, err)
	_, err = trust.Publish(t.Context(), kept.Ledger, back.Bootstrap, statement, time.Now())
	require.NoError(t, err)
	_, err = root(t.Context(), dir, kept)
	require.NoError(t, err)
	require.NoError(t, os.Remove(filepath.Join(dir, "admin.key")))
	_, err = root(t.Context(), dir, kept)
	require.ErrorContains(t, err, "is not the bootstrap that the ledger's statements of authority rest on")
}
