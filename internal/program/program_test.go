//go:build unix

package program

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func sum(text string) string { return fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(text))) }

func write(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(t, os.WriteFile(path, []byte(text), 0o700))
	return path
}

func TestIdentity(t *testing.T) {
	dir := t.TempDir()
	tool := write(t, dir, "bin/tool", "code")
	require.NoError(t, os.Symlink("tool", filepath.Join(dir, "bin/link")))
	script, far := write(t, dir, "main.js", "a"), write(t, t.TempDir(), "far.js", "b")
	write(t, dir, "lib/b/c.js", "c")
	write(t, dir, "lib/b-a.js", "d")
	require.NoError(t, os.Mkdir(filepath.Join(dir, "lib/empty"), 0o700))
	t.Setenv("PATH", filepath.Join(dir, "bin"))

	p := Program{
		Command: "link", Args: []string{"main.js", ""}, Env: map[string]string{"KEY": "secret", "MODE": "staging"}, Public: []string{"MODE", "NONE"},
		Dir: dir, Pin: []string{script, far, filepath.Join(dir, "lib"), script, filepath.Join(dir, "lib/b/../b")}, Base: dir,
	}
	want := map[string]any{
		"command": "link", "executable": sum("code"), "args": []any{"main.js", ""}, "env": map[string]any{"KEY": nil, "MODE": "staging"}, "cwd": ".",
		"pin": map[string]any{
			"main.js": sum("a"), far: sum("b"),
			"lib":   sum("files/1\x00b/c.js\x00" + sum("c") + "\n" + "b-a.js\x00" + sum("d") + "\n"),
			"lib/b": sum("files/1\x00c.js\x00" + sum("c") + "\n"),
		},
	}
	got, err := p.Identity()
	require.NoError(t, err)
	require.Equal(t, want, got)

	// Where a folder is does not count if paths are written against it.
	moved := filepath.Join(t.TempDir(), "moved")
	require.NoError(t, os.CopyFS(moved, os.DirFS(filepath.Join(dir, "lib"))))
	one, err := Program{Command: tool, Dir: dir, Pin: []string{filepath.Join(dir, "lib")}, Base: filepath.Join(dir, "lib")}.Identity()
	require.NoError(t, err)
	two, err := Program{Command: tool, Dir: dir, Pin: []string{moved}, Base: moved}.Identity()
	require.NoError(t, err)
	require.Equal(t, one, two)
	require.Equal(t, tool, one["command"])

	for command, as := range map[string]string{tool: "bin/tool", "./bin/tool": "./bin/tool"} {
		got, err := Program{Command: command, Dir: dir, Base: dir}.Identity()
		require.NoError(t, err)
		require.Equal(t, map[string]any{"command": as, "executable": sum("code"), "args": []any{}, "env": map[string]any{}, "cwd": "."}, got)
	}
	got, err = Program{Command: tool}.Identity()
	require.NoError(t, err)
	require.Equal(t, "", got["cwd"])
}

// Each file of a folder counts, by its bytes and its path.
func TestTreeChanges(t *testing.T) {
	dir := t.TempDir()
	tool := write(t, dir, "tool", "code")
	lib := filepath.Join(dir, "lib")
	write(t, lib, "a/x", "1")
	write(t, lib, "y", "2")
	digest := func() any {
		all, err := Program{Command: tool, Pin: []string{lib}}.Identity()
		require.NoError(t, err)
		return all["pin"].(map[string]any)[lib]
	}
	seen := map[any]bool{digest(): true}
	for i, change := range []func() error{
		func() error { return os.WriteFile(filepath.Join(lib, "a/x"), []byte("2"), 0o600) },
		func() error { return os.WriteFile(filepath.Join(lib, "a/z"), nil, 0o600) },
		func() error { return os.Rename(filepath.Join(lib, "y"), filepath.Join(lib, "a/y")) },
		func() error { return os.Remove(filepath.Join(lib, "a/z")) },
	} {
		require.NoError(t, change())
		require.False(t, seen[digest()], i)
		seen[digest()] = true
	}
}

func TestRefused(t *testing.T) {
	dir := t.TempDir()
	tool := write(t, dir, "tool", "code")
	file := write(t, dir, "file", "x")
	require.NoError(t, os.Symlink("file", filepath.Join(dir, "link")))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "links"), 0o700))
	require.NoError(t, os.Symlink("../file", filepath.Join(dir, "links/link")))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "pipes"), 0o700))
	require.NoError(t, syscall.Mkfifo(filepath.Join(dir, "pipes/pipe"), 0o600))
	huge := filepath.Join(dir, "huge")
	require.NoError(t, os.WriteFile(huge, nil, 0o700))
	require.NoError(t, os.Truncate(huge, maxBytes+1)) // it has no blocks
	t.Setenv("PATH", "/nowhere")
	for name, c := range map[string]struct {
		program Program
		want    string
	}{
		"no command":        {Program{Command: "tool"}, "find the executable: "},
		"no file":           {Program{Command: filepath.Join(dir, "none")}, "the executable: "},
		"a folder":          {Program{Command: dir}, "is not a regular file"},
		"a pipe":            {Program{Command: filepath.Join(dir, "pipes/pipe")}, "is not a regular file"},
		"a huge executable": {Program{Command: huge}, "than can be pinned"},
		"nothing":           {Program{Command: tool, Pin: []string{filepath.Join(dir, "none")}}, "what is pinned: "},
		"a link":            {Program{Command: tool, Pin: []string{filepath.Join(dir, "link")}}, "is neither a regular file nor a folder"},
		"a link inside":     {Program{Command: tool, Pin: []string{filepath.Join(dir, "links")}}, "link in " + filepath.Join(dir, "links") + " is neither"},
		"a pipe inside":     {Program{Command: tool, Pin: []string{filepath.Join(dir, "pipes")}}, "is neither a regular file nor a folder"},
		"too much":          {Program{Command: tool, Pin: []string{file, huge}}, "than can be pinned"},
	} {
		_, err := c.program.Identity()
		require.ErrorContains(t, err, c.want, name)
		require.False(t, strings.Contains(err.Error(), "\n"), name)
	}
}

func TestTooManyFiles(t *testing.T) {
	dir := t.TempDir()
	for i := range 5 {
		write(t, dir, fmt.Sprintf("%d/x", i), "")
	}
	b := bounds{bytes: 1, files: 11} // the folder itself, too
	_, err := b.digest(dir)
	require.NoError(t, err)
	b = bounds{bytes: 1, files: 10}
	_, err = b.digest(dir)
	require.ErrorIs(t, err, errTooMuch)
}
