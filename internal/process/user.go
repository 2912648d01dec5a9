//go:build unix

package process

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"strconv"
	"syscall"
)

// User is a user of this machine as whom a child runs: with one group, and no others.
type User struct {
	// Name is the user's, and Home their home folder.
	Name, Home string
	UID, GID   uint32
}

// FindUser finds a user by name or number. It refuses root, and the user of this process: a child of
// theirs would not be apart from it.
func FindUser(name string) (*User, error) {
	found, err := user.Lookup(name)
	if errors.As(err, new(user.UnknownUserError)) {
		if _, bad := strconv.ParseUint(name, 10, 32); bad == nil {
			found, err = user.LookupId(name)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("find the user %q of children: %w", name, err)
	}
	uid, err := strconv.ParseUint(found.Uid, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("the number of the user %q: %w", name, err)
	}
	gid, err := strconv.ParseUint(found.Gid, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("the group of the user %q: %w", name, err)
	}
	switch int(uid) {
	case 0:
		return nil, fmt.Errorf("the user %q of children is root, from whom nothing is kept", name)
	case os.Getuid(), os.Geteuid():
		return nil, fmt.Errorf("the user %q of children is that of this process, which would keep nothing from them", name)
	}
	return &User{Name: found.Username, Home: found.HomeDir, UID: uint32(uid), GID: uint32(gid)}, nil
}

// Reads reports whether the user may read a file, or look into a folder, by its owner, group and mode,
// or may allow that to themselves. The folders above it do not count.
func (u *User) Reads(info fs.FileInfo) bool {
	of, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return true
	}
	mode := info.Mode().Perm()
	look := fs.FileMode(0o4)
	if info.IsDir() {
		look = 0o5 // a name that is known needs no listing
	}
	return of.Uid == u.UID || mode&look != 0 || of.Gid == u.GID && mode>>3&look != 0
}

// apart are the attributes of a child of the user, or of this process's if u is nil: a group of its own.
// That of another user has a session of its own, too: otherwise it could open the terminal of this process,
// and type there for whoever has started it.
func (u *User) apart() *syscall.SysProcAttr {
	if u == nil {
		return &syscall.SysProcAttr{Setpgid: true}
	}
	return &syscall.SysProcAttr{Setsid: true, Credential: &syscall.Credential{Uid: u.UID, Gid: u.GID}}
}
