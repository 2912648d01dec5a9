package siege

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// mount creates a small disk, if the test may. The values of a round fit on it.
func mount(t testing.TB) string {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=1g,mode=0755"); err != nil {
		return ""
	}
	t.Cleanup(func() { require.NoError(t, syscall.Unmount(dir, syscall.MNT_DETACH)) })
	return dir
}
