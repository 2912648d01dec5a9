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

	for _, text := range []string{"first", "second, which is longer", ""} {
		got, err := r.write("a.md", text)
		require.NoError(t, err)
		require.Equal(t, written{Path: "a.md", Size: len(text)}, got)
		raw, err := os.ReadFile(filepath.Join(dir, "a.md"))
		require.NoError(t, err)
		require.Equal(t, text, string(raw))
	}
	for name, reason := range map[string]string{
		"": "is not the name", "../outside": "is not the name", "/etc/passwd": "is not the name", "folder/a": "is not the name",
		".hidden": "is not the name", "a\x00b": "is not the name", `a\b`: "is not the name", "folder": "is not a file", "link": "is not a file",
		strings.Repeat("n", 300): "file name too long",
	} {
		_, err := r.write(name, "x")
		require.ErrorContains(t, err, reason, name)
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
