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
	require.NoError(t, makePayloadKey(file))
	info, err := os.Stat(file)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	made, err := store.LoadOrCreateKey(file, nil)
	require.NoError(t, err)
	ring, err := payload.ParseKeys([]string{made})
	require.NoError(t, err)
	require.NotEmpty(t, ring.KeyID())
	require.NoError(t, makePayloadKey(file))
	again, err := store.LoadOrCreateKey(file, nil)
	require.NoError(t, err)
	require.Equal(t, made, again)

	other := filepath.Join(t.TempDir(), "other.key")
	require.NoError(t, makePayloadKey(other))
	another, err := store.LoadOrCreateKey(other, nil)
	require.NoError(t, err)
	require.NotEqual(t, made, another)
	require.NoError(t, os.WriteFile(other, []byte("PRIVATE+KEY+s3cret"), 0o600))
	err = makePayloadKey(other)
	require.ErrorIs(t, err, store.ErrOptions)
	require.NotContains(t, err.Error(), "s3cret")
}
