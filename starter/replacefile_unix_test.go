//go:build unix

package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// What is no regular file stays: a device that was renamed over would be gone for everybody.
func TestReplaceFile(t *testing.T) {
	dir := t.TempDir()
	fifo, file, link := filepath.Join(dir, "fifo"), filepath.Join(dir, "file"), filepath.Join(dir, "link")
	require.NoError(t, syscall.Mkfifo(fifo, 0o600))
	for _, name := range []string{fifo, dir} {
		require.EqualError(t, replaceFile(name, []byte("new")), "writing "+name+": it is not a regular file")
	}
	info, err := os.Stat(fifo)
	require.NoError(t, err)
	require.Equal(t, fs.ModeNamedPipe, info.Mode().Type())

	require.NoError(t, replaceFile(file, []byte("old")))
	require.NoError(t, os.Chmod(file, 0o600))
	require.NoError(t, os.Symlink("file", link))
	require.NoError(t, replaceFile(link, []byte("new")))
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, "new", string(text))
	info, err = os.Lstat(link)
	require.NoError(t, err)
	require.Equal(t, fs.ModeSymlink, info.Mode().Type())
	info, err = os.Stat(file)
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o600), info.Mode().Perm())
	left, err := filepath.Glob(filepath.Join(dir, ".*"))
	require.NoError(t, err)
	require.Empty(t, left)
}
