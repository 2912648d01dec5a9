package devserver

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"time"
)

// ErrLocked reports that another process holds a lock.
var ErrLocked = errors.New("locked by another process")

// Lock is an advisory lock on a file. The kernel drops it with the last
// process that has the file open, so a killed holder leaves nothing behind.
type Lock struct{ file *os.File }

// TryLock takes the lock at path, or fails with [ErrLocked].
func TryLock(path string) (*Lock, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, ErrLocked
		}
		return nil, fmt.Errorf("locking %s: %w", path, err)
	}
	return &Lock{file: f}, nil
}

// Locked reports whether a process holds the lock at path. It does not interfere with
// concurrent callers of Locked or TryLock.
func Locked(path string) (bool, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer func() { _ = f.Close() }()
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return true, nil
	}
	return false, err
}

// AwaitLock takes the lock at path, and waits for it if necessary. It then calls
// waiting, which may be nil, once. It fails with the context's error.
func AwaitLock(ctx context.Context, path string, waiting func()) (*Lock, error) {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		l, err := TryLock(path)
		if !errors.Is(err, ErrLocked) {
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

// Release closes the file. A child that inherited the file keeps the lock.
func (l *Lock) Release() {
	if l != nil {
		_ = l.file.Close()
	}
}
