//go:build unix

package process

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// maxLinks bounds the symbolic links on the way to a file.
const maxLinks = 40

// Changes returns a file or a folder by which the user may change what a path leads to, or put something
// else there, or "" if there is none: the file itself, or with whole anything in the folder that it is, and
// every folder and link on the way. It goes by owners, groups and modes. What is not there cannot be
// changed, unless the user may make it. Later only others can let the user do more.
func (u *User) Changes(path string, whole bool) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	at, left, links := "/", split(path), 0
	for {
		info, err := os.Lstat(at)
		if err != nil {
			return "", err
		}
		if len(left) == 0 {
			if u.writes(info) {
				return at, nil
			}
			if whole && info.IsDir() {
				return u.changesIn(at)
			}
			return "", nil
		}
		name := left[0]
		left = left[1:]
		if name == ".." {
			at = filepath.Dir(at)
			continue
		}
		next := filepath.Join(at, name)
		entry, err := os.Lstat(next)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			if u.writes(info) {
				return next, nil
			}
			return "", nil
		case errors.Is(err, fs.ErrPermission) && !u.enters(info):
			return "", nil // what is there, neither this process nor the user can tell
		case err != nil:
			return "", err
		case u.replaces(info, entry):
			return next, nil
		case entry.Mode()&fs.ModeSymlink == 0:
			at = next
			continue
		}
		if links++; links > maxLinks {
			return "", fmt.Errorf("%s: too many symbolic links", path)
		}
		to, err := os.Readlink(next)
		if err != nil {
			return "", err
		}
		if filepath.IsAbs(to) {
			at = "/"
		}
		left = append(split(to), left...)
	}
}

// changesIn returns a file or a folder in a folder that the user may change, or "".
func (u *User) changesIn(dir string) (found string, _ error) {
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil && d.Type()&fs.ModeSymlink == 0 && u.writes(info) {
			found, err = path, fs.SkipAll
		}
		return err
	})
	return found, err
}

// split returns the names in a path.
func split(path string) []string {
	return strings.FieldsFunc(path, func(r rune) bool { return r == filepath.Separator })
}

// writes reports whether the user may write to a file, or change what is in a folder, or may allow that to
// themselves.
func (u *User) writes(info fs.FileInfo) bool {
	of, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return true
	}
	mode := info.Mode().Perm()
	return of.Uid == u.UID || mode&0o002 != 0 || of.Gid == u.GID && mode&0o020 != 0
}

// enters reports whether the user may reach what is in a folder, or may allow that to themselves.
func (u *User) enters(dir fs.FileInfo) bool {
	of, ok := dir.Sys().(*syscall.Stat_t)
	if !ok {
		return true
	}
	mode := dir.Mode().Perm()
	return of.Uid == u.UID || mode&0o001 != 0 || of.Gid == u.GID && mode&0o010 != 0
}

// replaces reports whether the user may put something else in the place of an entry of a folder.
func (u *User) replaces(dir, entry fs.FileInfo) bool {
	in, ok := dir.Sys().(*syscall.Stat_t)
	of, also := entry.Sys().(*syscall.Stat_t)
	if !ok || !also {
		return true
	}
	if !u.writes(dir) {
		return false
	}
	return dir.Mode()&fs.ModeSticky == 0 || in.Uid == u.UID || of.Uid == u.UID
}
