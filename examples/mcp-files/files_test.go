package main

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// folder makes a tree with a secret beside it.
func folder(t *testing.T) *files {
	t.Helper()
	base := t.TempDir()
	dir := filepath.Join(base, "root")
	for name, text := range map[string]string{
		"README.md":            "# read me\n",
		"docs/a.md":            "a",
		"docs/deep/b.md":       "b",
		"docs/deep/c.txt":      "c",
		"docs-more.md":         "m",
		".hidden/secret.md":    "h",
		"docs/.draft.md":       "d",
		"binary":               "\xff\xfe",
		"empty":                "",
		"full":                 strings.Repeat("x", maxRead),
		"long":                 strings.Repeat("x", maxRead+1),
		"../outside/secret.md": "secret",
	} {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	for link, to := range map[string]string{
		"link.md": "README.md", "out.md": "../outside/secret.md", "outdir": "../outside", "indir": "docs", "loop": "loop",
	} {
		require.NoError(t, os.Symlink(to, filepath.Join(dir, link)))
	}
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	t.Cleanup(func() { root.Close() })
	return &files{root: root}
}

func TestList(t *testing.T) {
	f := folder(t)
	for pattern, want := range map[string][]string{
		"**/*.md":         {"README.md", "docs-more.md", "docs/a.md", "docs/deep/b.md"},
		"*.md":            {"README.md", "docs-more.md"},
		"docs/**":         {"docs/a.md", "docs/deep/b.md", "docs/deep/c.txt"},
		"docs/**/**/b.md": {"docs/deep/b.md"},
		"docs/*":          {"docs/a.md"},
		"docs/.*":         {"docs/.draft.md"},
		".hidden/*":       {".hidden/secret.md"},
		"*/*/[bc].*":      {"docs/deep/b.md", "docs/deep/c.txt"},
		"README.md":       {"README.md"},
		"docs":            {},
		"outdir/*":        {},
		"indir/*":         {},
		"none":            {},
	} {
		got, err := f.list(t.Context(), pattern, 0)
		require.NoError(t, err, pattern)
		require.Equal(t, listing{Files: want}, got, pattern)
	}
	for _, pattern := range []string{"", "/etc/*", "../*", "docs/../*", "docs//a.md", "./*", "[", "a\\", "**/a/**/b/**/c/**/d/**"} {
		_, err := f.list(t.Context(), pattern, 0)
		require.Error(t, err, pattern)
	}
	got, err := f.list(t.Context(), "**", 2)
	require.NoError(t, err)
	require.Len(t, got.Files, 2)
	require.True(t, got.Truncated)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = f.list(ctx, "**", 0)
	require.ErrorIs(t, err, context.Canceled)
}

func TestRead(t *testing.T) {
	f := folder(t)
	got, err := f.read("docs/a.md")
	require.NoError(t, err)
	require.Equal(t, content{Path: "docs/a.md", Size: 1, Text: "a"}, got)
	got, err = f.read("empty")
	require.NoError(t, err)
	require.Zero(t, got.Size)
	got, err = f.read("full")
	require.NoError(t, err)
	require.Equal(t, maxRead, got.Size)

	for path, want := range map[string]string{
		"long":                    "longer than",
		"binary":                  "not text",
		"docs":                    "not a file",
		"none.md":                 "no such file",
		"link.md":                 "symbolic link",
		"out.md":                  "symbolic link",
		"outdir/secret.md":        "symbolic link",
		"indir/a.md":              "symbolic link",
		"loop":                    "symbolic link",
		"../outside/secret.md":    "not a relative path",
		"docs/../README.md":       "not a relative path",
		"/etc/passwd":             "not a relative path",
		"./README.md":             "not a relative path",
		"docs//a.md":              "not a relative path",
		"docs\\a.md":              "not a relative path",
		"README.md\x00.txt":       "not a relative path",
		"":                        "not a relative path",
		"docs/a.md/more":          "not a directory",
		strings.Repeat("a/", 100): "not a relative path",
	} {
		_, err := f.read(path)
		require.ErrorContains(t, err, want, "%q", path)
		require.NotContains(t, err.Error(), "secret\n")
	}
}

func TestStat(t *testing.T) {
	f := folder(t)
	got, err := f.stat("docs/a.md")
	require.NoError(t, err)
	require.NotEmpty(t, got.Modified)
	got.Modified = ""
	require.Equal(t, facts{Path: "docs/a.md", Kind: "file", Size: 1}, got)
	got, err = f.stat(".")
	require.NoError(t, err)
	require.Equal(t, "folder", got.Kind)
	_, err = f.stat("outdir")
	require.ErrorContains(t, err, "symbolic link")
}

func TestRun(t *testing.T) {
	for _, args := range [][]string{nil, {"a", "b"}, {"/no/such/folder"}} {
		require.Error(t, run(t.Context(), args, strings.NewReader(""), io.Discard, io.Discard))
	}
	require.NoError(t, run(t.Context(), []string{t.TempDir()}, strings.NewReader(""), io.Discard, io.Discard))
}
