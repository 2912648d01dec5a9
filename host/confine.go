package host

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"chimera.ai/engine/internal/process"
)

// errUnconfined is why a process does not begin: its children could read what it keeps, or cannot be
// started.
var errUnconfined = errors.New("children are not confined")

// child is a program that a host starts: what names it, and its user.
type child struct{ name, user string }

// children lists what a host may start, in the order of names.
func (o Options) children() (all []child) {
	if !o.has(RoleTools) && !o.has(RoleEffects) {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(o.Servers)) {
		if s := o.Servers[name]; s.URL == "" {
			all = append(all, child{"the MCP server " + name + " (mcpServers)", s.User})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(o.Executables)) {
		all = append(all, child{"the executable " + name + " (skills)", o.Executables[name].User})
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
// one than this process's and may read nothing that is private.
func (o Options) confine() error {
	seen := map[string]bool{"": true}
	for _, c := range o.children() {
		if seen[c.user] {
			continue
		}
		seen[c.user] = true
		u, err := process.FindUser(c.user)
		if err == nil {
			err = process.CanConfine()
		}
		if err == nil {
			err = readable(u, o.Private)
		}
		if err != nil {
			return fmt.Errorf("%w: %s: %w", errUnconfined, c.name, err)
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
