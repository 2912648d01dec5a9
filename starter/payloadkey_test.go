package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/payload"
	"chimera.ai/engine/store"
)

// TestMakePayloadKey: the key is made once, only its owner can read it, and a file
// that is not a key is left as it is.
func TestMakePayloadKey(t *testing.T) {
	file := filepath.Join(t.TempDir(), "payload.key")
	must := func(_ string, err error) { require.NoError(t, err) }
	must(makePayloadKey(file))
	info, err := os.Stat(file)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	made, err := store.LoadOrCreateKey(file, nil)
	require.NoError(t, err)
	ring, err := payload.ParseKeys([]string{made})
	require.NoError(t, err)
	require.NotEmpty(t, ring.KeyID())
	must(makePayloadKey(file))
	again, err := store.LoadOrCreateKey(file, nil)
	require.NoError(t, err)
	require.Equal(t, made, again)

	other := filepath.Join(t.TempDir(), "other.key")
	must(makePayloadKey(other))
	another, err := store.LoadOrCreateKey(other, nil)
	require.NoError(t, err)
	require.NotEqual(t, made, another)
	require.NoError(t, os.WriteFile(other, []byte("PRIVATE+KEY+s3cret"), 0o600))
	_, err = makePayloadKey(other)
	require.ErrorIs(t, err, store.ErrOptions)
	require.NotContains(t, err.Error(), "s3cret")
}

// TestMakeRoleKey: the key of a role is derived once, and no other file is overwritten.
func TestMakeRoleKey(t *testing.T) {
	dir := t.TempDir()
	whole, err := makePayloadKey(filepath.Join(dir, "whole"))
	require.NoError(t, err)
	for range 2 {
		require.NoError(t, makeRoleKey(whole, "tools="+filepath.Join(dir, "tools")))
	}
	made, err := os.ReadFile(filepath.Join(dir, "tools"))
	require.NoError(t, err)
	ring, err := payload.ParseKeys([]string{string(made[:len(made)-1])})
	require.NoError(t, err)
	require.True(t, ring.Seals("tools"))
	require.False(t, ring.Whole())
	for pair, want := range map[string]string{
		"guardian=" + filepath.Join(dir, "tools"): "has another key",
		"tools":         "is ROLE=FILE",
		"engine=" + "x": "payload keys have the roles",
	} {
		require.ErrorContains(t, makeRoleKey(whole, pair), want)
	}
}
