package keyring_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/ledger/keyring"
)

func TestGenerations(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "ring")
	r := keyring.At(dir)
	_, err := r.Generations()
	require.ErrorIs(t, err, keyring.ErrNone)
	first, err := r.Create("example.com/log", "db 1")
	require.NoError(t, err)
	again, err := r.Create("example.com/log", "db 1")
	require.NoError(t, err)
	require.Equal(t, first, again)
	_, err = r.Create("example.com/other", "db 1")
	require.ErrorIs(t, err, keyring.ErrForeign)
	_, err = r.Create("example.com/log", "db 2")
	require.ErrorIs(t, err, keyring.ErrTaken)
	require.NoError(t, r.Of("example.com/log"))
	all, err := r.Generations()
	require.NoError(t, err)
	require.Len(t, all, 1)
	secret, err := os.ReadFile(filepath.Join(dir, first.Name+".key"))
	require.NoError(t, err)

	key := bytes.Repeat([]byte{7}, 32)
	wrapped, err := first.Wrap("k1", "erika", key)
	require.NoError(t, err)
	require.NotContains(t, string(wrapped), "erika")

	second, err := r.Add()
	require.NoError(t, err)
	all, err = r.Generations()
	require.NoError(t, err)
	require.Equal(t, []string{first.Name, second.Name}, []string{all[0].Name, all[1].Name})
	require.NotEqual(t, first.Lookup("erika"), second.Lookup("erika"))
	require.NotEqual(t, first.Lookup("erika"), first.Lookup("erik"))

	again, err = keyring.At(dir).Generation(first.Name)
	require.NoError(t, err)
	subject, have, err := again.Unwrap("k1", wrapped)
	require.NoError(t, err)
	require.Equal(t, "erika", subject)
	require.Equal(t, key, have)
	for name, open := range map[string]func() error{
		"another key's id":   func() error { _, _, err := again.Unwrap("k2", wrapped); return err },
		"another generation": func() error { _, _, err := second.Unwrap("k1", wrapped); return err },
		"changed":            func() error { _, _, err := again.Unwrap("k1", append(bytes.Clone(wrapped), 0)); return err },
		"short":              func() error { _, _, err := again.Unwrap("k1", wrapped[:5]); return err },
	} {
		require.ErrorIs(t, open(), keyring.ErrWrapped, name)
	}

	require.NoError(t, r.Destroy(first.Name))
	require.NoError(t, r.Destroy(first.Name), "gone already")
	_, err = r.Generation(first.Name)
	require.ErrorIs(t, err, keyring.ErrMissing)
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, left, 3, "the other key, and whose ring it is")
	require.NotContains(t, left[0].Name(), first.Name)

	// What an end in the midst of that leaves is no generation, and goes with the next.
	for _, suffix := range []string{".key.gone", ".key.new"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, first.Name+suffix), make([]byte, 45), 0o600))
	}
	require.NoError(t, os.Symlink(filepath.Join(dir, second.Name+".key"), filepath.Join(dir, "00000009-0123456789abcdef.key.gone")))
	all, err = r.Generations()
	require.NoError(t, err)
	require.Len(t, all, 1)
	require.NoError(t, r.Destroy())
	left, err = os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, left, 3)
	_, err = r.Generation(second.Name)
	require.NoError(t, err, "what a link leads to stays")
	require.NotEmpty(t, strings.TrimSpace(string(secret)))
	for _, e := range left {
		raw, err := os.ReadFile(filepath.Join(dir, e.Name()))
		require.NoError(t, err)
		require.NotContains(t, string(raw), strings.TrimSpace(string(secret)))
	}
}

func TestForeignFiles(t *testing.T) {
	for name, plant := range map[string]func(t *testing.T, dir, key string) error{
		"a link": func(t *testing.T, dir, key string) error {
			require.NoError(t, os.Rename(key, key+".away"))
			return os.Symlink(key+".away", key)
		},
		"another key": func(_ *testing.T, _, key string) error {
			return os.WriteFile(key, []byte(strings.Repeat("A", 43)+"=\n"), 0o600)
		},
		"too long": func(_ *testing.T, _, key string) error {
			return os.WriteFile(key, bytes.Repeat([]byte{'A'}, 1000), 0o600)
		},
		"empty": func(_ *testing.T, _, key string) error { return os.WriteFile(key, nil, 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			r := keyring.At(dir)
			g, err := r.Add()
			require.NoError(t, err)
			require.NoError(t, plant(t, dir, filepath.Join(dir, g.Name+".key")))
			_, err = r.Generations()
			require.ErrorContains(t, err, "is not a key that was made for it")
			_, err = r.Add()
			require.Error(t, err, "nothing is added to a ring that cannot be read")
		})
	}
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "README"), []byte("x"), 0o600))
	_, err := keyring.At(dir).Create("o", "db")
	require.NoError(t, err, "other files do not matter")
	for _, name := range []string{"", "..", "../00000001-0123456789abcdef", "00000001-0123456789abcdef/x"} {
		_, err = keyring.At(dir).Generation(name)
		require.ErrorIs(t, err, keyring.ErrMissing, name)
		require.Error(t, keyring.At(dir).Destroy(name), name)
	}
}

// TestRingOfAnEarlierBuild: a ring without its database is that of the first that claims it.
func TestRingOfAnEarlierBuild(t *testing.T) {
	dir := t.TempDir()
	r := keyring.At(dir)
	_, err := r.Renew("example.com/log")
	require.NoError(t, err)
	for _, database := range []string{"db 1", "db 2"} {
		is, err := r.Claim(database)
		require.NoError(t, err)
		require.Equal(t, "db 1", is)
	}
	_, err = r.Create("example.com/log", "db 1")
	require.NoError(t, err)
	_, err = r.Create("example.com/log", "db 2")
	require.ErrorIs(t, err, keyring.ErrTaken)
}
