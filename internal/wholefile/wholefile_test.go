package wholefile_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/internal/wholefile"
)

func TestFiles(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "f")
	_, err := wholefile.Read(file, 3)
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.NoError(t, wholefile.Create(file, []byte("one")))
	require.ErrorIs(t, wholefile.Create(file, []byte("two")), fs.ErrExist)
	raw, err := wholefile.Read(file, 3)
	require.NoError(t, err)
	require.Equal(t, "one", string(raw))
	require.NoError(t, wholefile.Replace(file, []byte("four")))
	_, err = wholefile.Read(file, 3)
	require.EqualError(t, err, file+" has more than 3 bytes")
	info, err := os.Stat(file)
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o600), info.Mode().Perm())

	require.NoError(t, os.Mkdir(filepath.Join(dir, "folder"), 0o700))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "folder", "x"), 0o700))
	require.Error(t, wholefile.Replace(filepath.Join(dir, "folder"), nil))
	left, err := filepath.Glob(filepath.Join(dir, ".*-*"))
	require.NoError(t, err)
	require.Empty(t, left, "nothing is left behind")
}
