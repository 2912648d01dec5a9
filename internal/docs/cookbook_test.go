package docs

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"

	"chimera.ai/engine/catalog"
	"chimera.ai/engine/compiler"
	"chimera.ai/engine/host"
	"chimera.ai/engine/internal/stage"
	"chimera.ai/engine/mcp"
	"chimera.ai/engine/skills"
)

const cookbook = "docs/cookbook.md"

// outcomes marks the table of inputs and results that follows a plan.
const outcomes = "| input | result |"

// TestCookbook runs each plan of the cookbook with the inputs of the table behind
// it, and gets the results that the table says.
func TestCookbook(t *testing.T) {
	text := read(t, cookbook)
	list := blocks(text)
	own := new(catalog.Catalog)
	for _, b := range list {
		if b.info == "yaml catalog" {
			more, ds := compiler.ParseCatalog(source(cookbook, b))
			require.Empty(t, ds)
			own, ds = own.Merge(more)
			require.Empty(t, ds)
		}
	}
	h := stage.Host(t, cooks(t, own))
	sections := map[string]bool{}
	for _, b := range list {
		if b.info != "yaml plan" {
			continue
		}
		before, rest, ok := strings.Cut(text, b.text+"```\n")
		require.True(t, ok, "line %d", b.line)
		title := before[strings.LastIndex(before, "\n## ")+4:]
		title, _, _ = strings.Cut(title, "\n")
		sections[title] = true
		next, _, _ := strings.Cut(rest, "\n```")
		_, table, ok := strings.Cut(next, outcomes)
		require.True(t, ok, "the plan in line %d has no table", b.line)
		for _, row := range rows(t, "\n"+outcomes+table, "") {
			t.Run(title+row[0], func(t *testing.T) {
				run := stage.Start(t, h.Client(), b.text, strings.Trim(row[0], "`"))
				var out json.RawMessage
				err := stage.Await(t, h.Client(), run, &out)
				if kind, fails := strings.CutPrefix(row[1], "fails with "); fails {
					var failed *temporal.ApplicationError
					require.ErrorAs(t, err, &failed)
					require.Equal(t, strings.Trim(kind, "`"), failed.Type())
					return
				}
				require.NoError(t, err)
				require.JSONEq(t, strings.Trim(row[1], "`"), string(out))
			})
		}
	}
	require.Len(t, sections, 12, "the page says: twelve")
}

// cooks are a host's options with the operations of the cookbook's catalog: the
// example server over a folder, the example executable, and a model.
func cooks(t *testing.T, own *catalog.Catalog) host.Options {
	t.Helper()
	dir := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-o", dir+string(filepath.Separator), "./examples/mcp-files", "./examples/word-count")
	build.Dir = root
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	folder := filepath.Join(dir, "folder")
	require.NoError(t, os.Mkdir(folder, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(folder, "note.txt"), []byte("two words"), 0o600))
	model := filepath.Join(dir, "model")
	require.NoError(t, os.WriteFile(model, []byte("#!/bin/sh\nsed 's/.*\"topic\": *\"\\([^\"]*\\)\".*/{\"text\": \"a draft about \\1\"}/'\n"), 0o700))
	return host.Options{
		Catalog: own,
		Servers: map[string]mcp.Server{"files": {Command: filepath.Join(dir, "mcp-files"), Args: []string{folder}}},
		Executables: map[string]skills.Executable{
			"words": {Command: filepath.Join(dir, "word-count")},
			"model": {Command: model},
		},
	}
}
