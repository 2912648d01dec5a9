//go:build unix && !linux

package process

import (
	"errors"
	"os"
)

func undumpable() error { return nil }

func closeOnExec() error { return closeListed("/dev/fd") }

// CanConfine returns an error if this process may not start children of other users.
func CanConfine() error {
	if os.Geteuid() != 0 {
		return errors.New("to start children as another user, this process needs to be root")
	}
	return nil
}

func confine() error { return nil }

func mainThread() bool { return false }

func confined() error { return nil }

func see(*User) {}
