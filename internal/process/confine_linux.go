package process

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"

	"golang.org/x/sys/unix"
)

// undumpable keeps other processes of the same user out of the memory of this one.
func undumpable() error { return unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0) }

// closeOnExec lets children inherit no open file but the standard ones.
func closeOnExec() error {
	if unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC) == nil {
		return nil
	}
	return closeListed("/proc/self/fd") // the kernel is older than 5.11, or a filter forbids the call
}

// needed are the capabilities without which a child of another user cannot be started and
// ended. Each has a bit in the first word of a set.
var needed = []struct {
	name string
	bit  uint32
}{
	{"CAP_SETUID", 1 << unix.CAP_SETUID}, {"CAP_SETGID", 1 << unix.CAP_SETGID}, {"CAP_KILL", 1 << unix.CAP_KILL},
}

// capabilities asks for those of the thread that calls.
var capabilities = unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}

// CanConfine returns an error if this process may not start children of other users.
func CanConfine() error {
	var sets [2]unix.CapUserData
	if err := unix.Capget(&capabilities, &sets[0]); err != nil {
		return fmt.Errorf("read the capabilities of this process: %w", err)
	}
	for _, c := range needed {
		if sets[0].Effective&c.bit == 0 {
			return fmt.Errorf("to start children as another user, this process needs the capability %s", c.name)
		}
	}
	return kept()
}

// kept returns an error if a child could be read before its program is loaded. Until then it has this
// process's memory, and its own user: whether others of that user may read it, fs.suid_dumpable says.
func kept() error {
	raw, err := os.ReadFile("/proc/sys/fs/suid_dumpable")
	if err != nil {
		return fmt.Errorf("find out whether the memory of processes that change their user can be read: %w", err)
	}
	if string(bytes.TrimSpace(raw)) == "1" {
		return errors.New("the memory of processes that change their user can be read: set fs.suid_dumpable to 0 or 2")
	}
	return nil
}

// confine gives this thread what a child of another user inherits: no capability that outlives the
// change of the user, and none that a program brings along, as one with set-user-ID does. The thread
// is of no other use then, and has to end.
func confine() error {
	if err := kept(); err != nil {
		return err
	}
	var sets [2]unix.CapUserData
	err := unix.Capget(&capabilities, &sets[0])
	if err == nil {
		sets[0].Inheritable, sets[1].Inheritable = 0, 0
		err = unix.Capset(&capabilities, &sets[0])
	}
	if err != nil {
		return fmt.Errorf("drop inheritable capabilities: %w", err)
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil && !errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("drop ambient capabilities: %w", err) // EINVAL: the kernel has none
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("set no_new_privs: %w", err)
	}
	return nil
}

// mainThread reports whether this thread is the one that the process began with.
func mainThread() bool { return unix.Gettid() == unix.Getpid() }

// confined is called after a child has been started as another user: the memory that it had shared is
// marked since then as that of a process that has changed its user, of which root may get a dump.
func confined() error {
	if hidden.Load() {
		return undumpable()
	}
	return nil
}

// see lets this thread read the environment of a user's processes, by which what a child has left is
// found. The thread has to end.
func see(u *User) {
	// Without the right to do so, it sees less.
	_, _ = unix.SetfsgidRetGid(int(u.GID))
	_, _ = unix.SetfsuidRetUid(int(u.UID))
}
