package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/ledger"
	"chimera.ai/engine/ledger/audit"
)

// TestExport: what the benchmark verifies is what a ledger could have exported.
func TestExport(t *testing.T) {
	secret, _, err := ledger.NewKey(logOrigin)
	require.NoError(t, err)
	key, err := ledger.ParseKey(secret)
	require.NoError(t, err)
	dir := t.TempDir()
	size, err := generate(dir, key, 200)
	require.NoError(t, err)
	r, err := audit.Verify(dir, audit.Trust{Format: audit.TrustFormat, Origin: logOrigin, Log: key.Public()}, nil)
	require.NoError(t, err)
	require.True(t, r.OK, "%v", r.Problems)
	require.Equal(t, size, r.Size)
}
