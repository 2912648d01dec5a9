package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWrite(t *testing.T) {
	base := t.TempDir()
	dir := filepath.Join(base, "reports")
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "folder"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(base, "outside"), []byte("safe"), 0o644))
	require.NoError(t, os.Symlink("../outside", filepath.Join(dir, "link")))
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	t.Cleanup(func() { root.Close() })
	r := &reports{root: root}

	var before *string
	for _, text := range []string{"first", "second, which is longer", ""} {
		got, err := r.write("a.md", text)
		require.NoError(t, err)
		require.Equal(t, written{Path: "a.md", Size: len(text), Before: before}, got)
		raw, err := os.ReadFile(filepath.Join(dir, "a.md"))
		require.NoError(t, err)
		require.Equal(t, text, string(raw))
		before = &text
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "picture"), []byte{0xff, 0xfe}, 0o644))
	_, err = r.write("picture", "x")
	require.ErrorContains(t, err, "not text", "what cannot be put back is not replaced")
	require.NoError(t, os.Remove(filepath.Join(dir, "picture")))
	for name, reason := range map[string]string{
		"": "is not the name", "../outside": "is not the name", "/etc/passwd": "is not the name", "folder/a": "is not the name",
		".hidden": "is not the name", "a\x00b": "is not the name", `a\b`: "is not the name", "folder": "is not a file", "link": "is a symbolic link",
		strings.Repeat("n", 300): "file name too long",
	} {
		_, err := r.write(name, "x")
		require.ErrorContains(t, err, reason, name)
		for _, before := range []*string{nil, new("x")} {
			_, err = r.restore(name, before)
			require.ErrorContains(t, err, reason, name)
		}
	}
	_, err = r.write("long", strings.Repeat("x", maxWrite+1))
	require.ErrorContains(t, err, "longer than")
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, left, 3, "nothing half written is left")
	raw, err := os.ReadFile(filepath.Join(base, "outside"))
	require.NoError(t, err)
	require.Equal(t, "safe", string(raw))
}

// TestRestore: a file has again what it had before it was written, or is gone.
func TestRestore(t *testing.T) {
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	t.Cleanup(func() { root.Close() })
	r := &reports{root: root}
	first, err := r.write("a.md", "first")
	require.NoError(t, err)
	second, err := r.write("a.md", "second")
	require.NoError(t, err)
	for range 2 { // undoing twice is undoing once
		got, err := r.restore("a.md", second.Before)
		require.NoError(t, err)
		require.Equal(t, restored{Path: "a.md", There: true}, got)
		raw, err := os.ReadFile(filepath.Join(dir, "a.md"))
		require.NoError(t, err)
		require.Equal(t, "first", string(raw))
	}
	for range 2 {
		got, err := r.restore("a.md", first.Before)
		require.NoError(t, err)
		require.Equal(t, restored{Path: "a.md"}, got)
		left, err := os.ReadDir(dir)
		require.NoError(t, err)
		require.Empty(t, left)
	}
}

// TestWriteIsAskedFor: without -write there is nothing to write to, and no such tool.
func TestWriteIsAskedFor(t *testing.T) {
	list := `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}` + "\n" +
		`{"jsonrpc":"2.0","id":1,"method":"tools/list"}` + "\n"
	for _, args := range [][]string{{t.TempDir()}, {"-write", filepath.Join(t.TempDir(), "new", "reports"), t.TempDir()}} {
		var out strings.Builder
		require.NoError(t, run(t.Context(), args, strings.NewReader(list), &out, io.Discard))
		require.Equal(t, len(args) > 1, strings.Contains(out.String(), "write_file"), "%s", out.String())
	}
}
