//go:build unix

// Package program says what a program on this machine is, before it is started: by the bytes of its
// executable and of the files that it is made of, and by how it is started.
package program

import (
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Program is how a program is started.
type Program struct {
	// Command is a path, or a name to find on PATH.
	Command string
	Args    []string
	Env     map[string]string
	// Public are the names in Env whose values are no secrets.
	Public []string
	// Dir is the working directory, or "" for that of this process.
	Dir string
	// Pin are files and folders that the program is made of besides its executable, such as a
	// script or a lock file.
	Pin []string
	// Base is the folder against which paths in it are written, so that two machines agree; or "".
	Base string
}

// Identity returns what identifies the program, and no secret, as a decoded object of JSON, which the
// caller may change:
//
//   - "command", as it is configured, and "executable", the digest of the file that it leads to;
//   - "args", and "cwd", which is "" if there is none;
//   - "env", an object from the names to the values; that of a secret is null;
//   - "pin", an object from the paths to the digests of the files and folders; absent without any.
//
// A path inside of Base is relative to it, with slashes; others are absolute. A digest is "sha256:" and
// 64 hexadecimal digits. Identity reads up to 1 GiB of the executable, and of what is pinned as much,
// in up to 20,000 files. It refuses symbolic links in what is pinned.
func (p Program) Identity() (map[string]any, error) {
	path, err := p.Executable()
	if err != nil {
		return nil, fmt.Errorf("find the executable: %w", err)
	}
	left := int64(maxBytes)
	digest, err := file(path, &left)
	if err != nil {
		return nil, fmt.Errorf("the executable: %w", err)
	}
	args, env := make([]any, len(p.Args)), map[string]any{}
	for i, arg := range p.Args {
		args[i] = arg
	}
	for name, value := range p.Env {
		env[name] = nil
		if slices.Contains(p.Public, name) {
			env[name] = value
		}
	}
	all := map[string]any{"command": p.Command, "executable": digest, "args": args, "env": env, "cwd": ""}
	if strings.ContainsRune(p.Command, filepath.Separator) {
		all["command"] = p.place(p.Command)
	}
	if p.Dir != "" {
		all["cwd"] = p.place(p.Dir)
	}
	if len(p.Pin) > 0 {
		if all["pin"], err = p.pinned(); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// Executable finds the file that is executed.
func (p Program) Executable() (string, error) {
	path := p.Command
	switch {
	case !strings.ContainsRune(path, filepath.Separator):
		found, err := exec.LookPath(path)
		if err != nil {
			return "", err
		}
		path = found
	case !filepath.IsAbs(path):
		path = filepath.Join(p.Dir, path)
	}
	return filepath.Abs(path)
}

// pinned returns the digests of what is pinned.
func (p Program) pinned() (map[string]any, error) {
	left := bounds{bytes: maxBytes, files: maxFiles}
	all := map[string]any{}
	for _, path := range slices.Sorted(maps.Keys(set(p.Pin))) {
		digest, err := left.digest(path)
		if err != nil {
			return nil, fmt.Errorf("what is pinned: %w", err)
		}
		all[p.place(path)] = digest
	}
	return all, nil
}

// place writes a path so that two machines agree, if it is inside of Base.
func (p Program) place(path string) string {
	if p.Base != "" && filepath.IsAbs(path) {
		if rel, err := filepath.Rel(p.Base, path); err == nil && filepath.IsLocal(rel) {
			return filepath.ToSlash(rel)
		}
	}
	return path
}

func set(paths []string) map[string]bool {
	all := make(map[string]bool, len(paths))
	for _, path := range paths {
		all[filepath.Clean(path)] = true
	}
	return all
}
