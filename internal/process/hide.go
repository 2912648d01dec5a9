//go:build unix

package process

import (
	"fmt"
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
// trace it; its children are dumpable again.
func Hide() error {
	if err := undumpable(); err != nil {
		return fmt.Errorf("hide the memory of this process: %w", err)
	}
	hidden.Store(true)
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}); err != nil {
		return fmt.Errorf("forbid core dumps: %w", err)
	}
	if err := closeOnExec(); err != nil {
		return fmt.Errorf("keep open files from children: %w", err)
	}
	return nil
}

// closeListed lets children inherit none of the open files that a folder lists, but the standard ones.
func closeListed(dir string) error {
	files, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, f := range files {
		if fd, err := strconv.Atoi(f.Name()); err == nil && fd > 2 {
			unix.CloseOnExec(fd)
		}
	}
	return nil
}
