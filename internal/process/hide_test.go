//go:build unix

package process

import (
	"io/fs"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestOpenFilesAreKeptFromChildren: no child inherits a file, and who cannot see to that says so.
func TestOpenFilesAreKeptFromChildren(t *testing.T) {
	listed := func() error {
		if runtime.GOOS == "linux" {
			return closeListed("/proc/self/fd")
		}
		return closeListed("/dev/fd")
	}
	for name, keep := range map[string]func() error{"at once": closeOnExec, "one by one": listed} {
		t.Run(name, func(t *testing.T) {
			fd, err := unix.Dup(1)
			require.NoError(t, err)
			defer unix.Close(fd)
			flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
			require.NoError(t, err)
			require.Zero(t, flags&unix.FD_CLOEXEC)
			require.NoError(t, keep())
			flags, err = unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
			require.NoError(t, err)
			require.NotZero(t, flags&unix.FD_CLOEXEC)
			standard, err := unix.FcntlInt(1, unix.F_GETFD, 0)
			require.NoError(t, err)
			require.Zero(t, standard&unix.FD_CLOEXEC)
		})
	}
	require.ErrorIs(t, closeListed(filepath.Join(t.TempDir(), "none")), fs.ErrNotExist)
}
