package docs

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"

	"chimera.ai/engine/catalog"
	"chimera.ai/engine/compiler"
	"chimera.ai/engine/host"
	"chimera.ai/engine/internal/stage"
	"chimera.ai/engine/mcp"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/skills"
)

const cookbook = "docs/cookbook.md"

// outcomes marks the table of inputs and results that follows a plan.
const outcomes = "| input | result |"

// TestCookbook runs each plan of the cookbook with the inputs of the table behind
// it, and gets the results that the table says.
func TestCookbook(t *testing.T) {
	text := read(t, cookbook)
	h := stage.Host(t, cooks(t, cookbookCatalog(t, text)))
	sections := map[string]bool{}
	for _, r := range recipes(t, text) {
		title, b := r.title, r.block
		sections[title] = true
		_, rest, _ := strings.Cut(text, b.text+"```\n")
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

// cookbookCatalog is the catalog of the cookbook.
func cookbookCatalog(t *testing.T, text string) *catalog.Catalog {
	t.Helper()
	own := new(catalog.Catalog)
	for _, b := range blocks(text) {
		if b.info == "yaml catalog" {
			more, ds := compiler.ParseCatalog(source(cookbook, b))
			require.Empty(t, ds)
			own, ds = own.Merge(more)
			require.Empty(t, ds)
		}
	}
	return own
}

// recipe is a plan of the cookbook, and the title of its section.
type recipe struct {
	title string
	block
}

func recipes(t *testing.T, text string) (list []recipe) {
	t.Helper()
	for _, b := range blocks(text) {
		if b.info != "yaml plan" {
			continue
		}
		before, _, ok := strings.Cut(text, b.text+"```\n")
		require.True(t, ok, "line %d", b.line)
		title := before[strings.LastIndex(before, "\n## ")+4:]
		title, _, _ = strings.Cut(title, "\n")
		list = append(list, recipe{title, b})
	}
	return list
}

// mostOfLong bounds the tokens of the cookbook's plans, in percent of those of their long
// notation.
const mostOfLong = 60

// TestCookbookIsShort expands the plans of the cookbook. Their long notation compiles to the same
// plans, and has more tokens.
func TestCookbookIsShort(t *testing.T) {
	text := read(t, cookbook)
	_, cat, err := host.Catalog(cookbookCatalog(t, text), nil)
	require.NoError(t, err)
	var titles []string
	sizes := map[string][2]int{}
	for _, r := range recipes(t, text) {
		long, ds, err := compiler.Expand(source(cookbook, r.block), cat, nil)
		require.NoError(t, err, r.title)
		require.Empty(t, ds, r.title)
		require.Equal(t, digest(t, source(cookbook, r.block), cat), digest(t, compiler.Source{Name: cookbook, Text: long}, cat), r.title)
		size := sizes[r.title]
		if size[1] == 0 {
			titles = append(titles, r.title)
		}
		sizes[r.title] = [2]int{size[0] + tokens(r.text), size[1] + tokens(string(long))}
	}
	all := [2]int{}
	for _, title := range titles {
		short, long := sizes[title][0], sizes[title][1]
		all[0], all[1] = all[0]+short, all[1]+long
		t.Logf("%s: %d tokens, %d in the long notation: %d %%", title, short, long, short*100/long)
	}
	t.Logf("all: %d tokens, %d in the long notation: %d %%", all[0], all[1], all[0]*100/all[1])
	require.LessOrEqual(t, all[0]*100, all[1]*mostOfLong)
}

func digest(t *testing.T, src compiler.Source, cat *catalog.Catalog) string {
	t.Helper()
	p, ds := compiler.Compile(src, cat, nil)
	require.Empty(t, ds)
	encoded, err := p.Encode()
	require.NoError(t, err)
	return plan.DigestOf(encoded)
}

var (
	comment = regexp.MustCompile(`(?m)^\s*#.*$`)
	symbol  = regexp.MustCompile(`[\pL\pN_]+|[^\pL\pN_\s]`)
)

// tokens counts the words, numbers and marks of a plan, but for lines that are comments.
func tokens(text string) int {
	return len(symbol.FindAllString(comment.ReplaceAllString(text, ""), -1))
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
