package devserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// errLocked says that another process holds a lock.
var errLocked = errors.New("locked by another process")

// lock is an advisory lock on a file. The kernel drops it with the last
// process that has the file open, so a killed holder leaves nothing behind.
type lock struct{ file *os.File }

// try takes the lock at path, or answers with errLocked.
func try(path string) (*lock, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, errLocked
		}
		return nil, fmt.Errorf("locking %s: %w", path, err)
	}
	return &lock{file: f}, nil
}

// acquire takes the lock at path and waits for it; waiting is called once, if
// there is something to wait for.
func acquire(ctx context.Context, path string, waiting func()) (*lock, error) {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		l, err := try(path)
		if !errors.Is(err, errLocked) {
			return l, err
		}
		if waiting != nil {
			waiting()
			waiting = nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-tick.C:
		}
	}
}

// release closes our end. A child that inherited the file keeps the lock.
func (l *lock) release() {
	if l != nil {
		_ = l.file.Close()
	}
}
