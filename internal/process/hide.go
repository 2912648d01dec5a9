//go:build unix

package process

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// hidden says that Hide was called.
var hidden atomic.Bool

// Hide keeps what this process holds from other processes, for as long as it lives: it leaves no core dump,
// and its children inherit no file that it was started with but the standard ones. On Linux, other
// processes of the same user can neither read its memory, its environment and its open files, nor
// trace it. Children begin without that.
func Hide() error {
	if err := undumpable(); err != nil {
		return fmt.Errorf("hide the memory of this process: %w", err)
	}
	hidden.Store(true)
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}); err != nil {
		return fmt.Errorf("forbid core dumps: %w", err)
	}
	files, err := os.ReadDir("/dev/fd")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("list the open files: %w", err)
	}
	for _, f := range files {
		if fd, err := strconv.Atoi(f.Name()); err == nil && fd > 2 {
			unix.CloseOnExec(fd)
		}
	}
	return nil
}
