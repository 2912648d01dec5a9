package host

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"chimera.ai/engine/internal/process"
	"chimera.ai/engine/internal/program"
)

// errUnconfined is why a process does not begin: its children could read what it keeps, or cannot be
// started.
var errUnconfined = errors.New("children are not confined")

// child is a program that a host starts: what names it, its user, and what it is.
type child struct {
	name, user   string
	command, dir string
	pin          []string
}

// children lists what a host may start, in the order of names.
func (o Options) children() (all []child) {
	if !o.has(RoleTools) && !o.has(RoleEffects) {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(o.Servers)) {
		if s := o.Servers[name]; s.URL == "" {
			all = append(all, child{"the MCP server " + name + " (mcpServers)", s.User, s.Command, s.Dir, s.Pin})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(o.Executables)) {
		e := o.Executables[name]
		all = append(all, child{"the executable " + name + " (skills)", e.User, e.Command, e.Dir, e.Pin})
	}
	return all
}

// exposed is why, in production, a host does not begin: a child would run as its own user, who may read
// the keys of its roles. Each role has some: of payloads, at least, and those of Temporal.
func (o Options) exposed() error {
	if !o.production() {
		return nil
	}
	for _, c := range o.children() {
		if c.user == "" {
			return fmt.Errorf("%s would run as the user of this worker (%s), and could read its keys: "+
				"set children.user, or user for it, to a user of this machine that has nothing else, or run it apart and reach it by url", c.name, o.roles())
		}
	}
	return nil
}

// roles names the roles of a host.
func (o Options) roles() string {
	var names []string
	for _, r := range Roles() {
		if o.has(r) {
			names = append(names, string(r))
		}
	}
	return strings.Join(names, ", ")
}

// confine checks that children which have a user of their own can be started as that user, who is another
// one than this process's, may read nothing that is private, and change nothing that this process relies
// on, nor what any of the children is.
func (o Options) confine() error {
	users := map[string]*process.User{}
	all := o.children()
	for _, c := range all {
		if c.user == "" || users[c.user] != nil {
			continue
		}
		u, err := process.FindUser(c.user)
		if err == nil {
			err = process.CanConfine()
		}
		if err == nil {
			err = readable(u, o.Private)
		}
		if err == nil {
			err = changeable(u, false, slices.Concat(o.Private, o.Relied, searched()))
		}
		if err != nil {
			return fmt.Errorf("%w: %s: %w", errUnconfined, c.name, err)
		}
		users[c.user] = u
	}
	for _, name := range slices.Sorted(maps.Keys(users)) {
		for _, c := range all {
			err := changeable(users[name], false, named([]string{c.executable()}))
			if err == nil {
				err = changeable(users[name], true, c.pin)
			}
			if err != nil {
				return fmt.Errorf("%w: %s: %w", errUnconfined, c.name, err)
			}
		}
	}
	return nil
}

// executable is the path of what is started, or "" if it is not there, and so is not started.
func (c child) executable() string {
	path, err := program.Program{Command: c.command, Dir: c.dir}.Executable()
	if err != nil {
		return ""
	}
	return path
}

// searched are the folders in which children, and what they start, look for programs.
func searched() []string {
	return slices.DeleteFunc(filepath.SplitList(os.Getenv("PATH")), func(dir string) bool { return dir == "" })
}

// changeable returns an error if a user may change one of some files and folders, or with whole what is
// in these folders.
func changeable(u *process.User, whole bool, paths []string) error {
	for _, path := range paths {
		by, err := u.Changes(path, whole)
		if err != nil {
			return err
		}
		if by != "" {
			return fmt.Errorf("the user %s of children may change %s, by %s: give that to root or to the worker's user, and take the right to write from others (chmod go-w)", u.Name, path, by)
		}
	}
	return nil
}

// readable returns an error if a user may read one of some files and folders. What is not there yet is
// made for this process alone.
func readable(u *process.User, paths []string) error {
	for _, path := range paths {
		info, err := os.Stat(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return err
		case u.Reads(info):
			return fmt.Errorf("its user %s may read %s (owner and mode %v), which is for the worker alone", u.Name, path, info.Mode().Perm())
		}
	}
	return nil
}
