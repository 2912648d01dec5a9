package docs

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/compiler"
	"chimera.ai/engine/config"
	"chimera.ai/engine/host"
)

const root = "../.."

// documents lists the Markdown files of the repository, by path from its root.
func documents(t *testing.T) []string {
	t.Helper()
	var list []string
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "node_modules" || d.Name() == "testdata" || d.Name() != ".." && path != root && strings.HasPrefix(d.Name(), ".")) {
			return filepath.SkipDir
		}
		if strings.HasSuffix(path, ".md") {
			rel, err := filepath.Rel(root, path)
			list = append(list, rel)
			return err
		}
		return nil
	}))
	require.Contains(t, list, "README.md")
	require.Contains(t, list, filepath.Join("docs", "write-a-plan.md"))
	return list
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, path))
	require.NoError(t, err)
	return string(b)
}

// block is one fenced block of code.
type block struct {
	// info is what follows the opening fence: "yaml plan".
	info string
	text string
	// line is that of the first line of text.
	line int
}

// blocks lists the fenced blocks of a document.
func blocks(text string) []block {
	var list []block
	var open *block
	for i, line := range strings.Split(text, "\n") {
		info, fence := strings.CutPrefix(strings.TrimSpace(line), "```")
		switch {
		case open == nil && fence:
			open = &block{info: strings.TrimSpace(info), line: i + 2}
		case open != nil && fence:
			list = append(list, *open)
			open = nil
		case open != nil:
			open.text += line + "\n"
		}
	}
	return list
}

// prose is a document without its fenced blocks.
func prose(text string) string {
	var b strings.Builder
	in := false
	for line := range strings.Lines(text) {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			in = !in
			continue
		}
		if !in {
			b.WriteString(line)
		}
	}
	return b.String()
}

func TestBlocksAreClosed(t *testing.T) {
	for _, doc := range documents(t) {
		require.Zero(t, strings.Count("\n"+read(t, doc), "\n```")%2, "%s: a fence is open", doc)
	}
}

var link = regexp.MustCompile(`\]\(([^)\s]+)\)`)

// TestLinks: a relative link leads to a file, and its fragment to a heading.
func TestLinks(t *testing.T) {
	for _, doc := range documents(t) {
		for _, m := range link.FindAllStringSubmatch(prose(read(t, doc)), -1) {
			if strings.Contains(m[1], "://") || strings.HasPrefix(m[1], "mailto:") {
				continue
			}
			path, fragment, _ := strings.Cut(m[1], "#")
			target := doc
			if path != "" {
				target = filepath.Join(filepath.Dir(doc), path)
			}
			_, err := os.Stat(filepath.Join(root, target))
			require.NoError(t, err, "%s points to %s", doc, m[1])
			if fragment != "" {
				require.Contains(t, anchors(read(t, target)), fragment, "%s points to %s", doc, m[1])
			}
		}
	}
}

// anchors lists the fragments of a document's headings.
func anchors(text string) []string {
	var list []string
	for line := range strings.Lines(prose(text)) {
		title := strings.TrimLeft(line, "#")
		if title == line || !strings.HasPrefix(title, " ") {
			continue
		}
		list = append(list, strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
				return unicode.ToLower(r)
			}
			return -1
		}, strings.TrimSpace(title)))
	}
	return list
}

var (
	heading = regexp.MustCompile(`(?m)^## (.+)$`)
	listed  = regexp.MustCompile(`(?m)^- \[(.+)\]\(#`)
)

// TestContents: a page that begins with its contents lists every section, in
// their order.
func TestContents(t *testing.T) {
	seen := 0
	for _, doc := range documents(t) {
		text := prose(read(t, doc))
		before, _, _ := strings.Cut(text, "\n## ")
		var contents, sections []string
		for _, m := range listed.FindAllStringSubmatch(before, -1) {
			contents = append(contents, m[1])
		}
		if contents == nil {
			continue
		}
		seen++
		for _, m := range heading.FindAllStringSubmatch(text, -1) {
			sections = append(sections, m[1])
		}
		require.Equal(t, sections, contents, doc)
	}
	require.NotZero(t, seen)
}

var (
	code = regexp.MustCompile("`([^`\n]+)`")
	path = regexp.MustCompile(`^[\w.-]+(/[\w.-]+)*(/|\.(go|md|json|yaml|yml|mod))$`)
)

// TestPaths: what looks like a path of this repository is one. A name without a
// slash may be that of any file.
func TestPaths(t *testing.T) {
	var names []string
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && d.Name() == ".git" {
			return filepath.SkipDir
		}
		names = append(names, d.Name())
		return err
	}))
	for _, doc := range documents(t) {
		for _, m := range code.FindAllStringSubmatch(prose(read(t, doc)), -1) {
			name := m[1]
			if !path.MatchString(name) || strings.HasPrefix(name, ".") || elsewhere(name) {
				continue
			}
			if !strings.Contains(name, "/") {
				require.Contains(t, names, name, "%s names a file", doc)
				continue
			}
			_, here := os.Stat(filepath.Join(root, filepath.Dir(doc), name))
			_, top := os.Stat(filepath.Join(root, name))
			require.True(t, here == nil || top == nil, "%s names %s, which is not there", doc, name)
		}
	}
}

// elsewhere reports whether a path is made by a build, by a run, or by the reader.
func elsewhere(name string) bool {
	return strings.HasPrefix(name, "bin/") || slices.Contains([]string{"blobs/", "greet.yaml", "welcome.yaml", "announce.yaml", "bootstrap.json", "tools.yaml", "server.json", "trust.json"}, name)
}

// TestConfigurationBlocks: a block that is only "yaml" is a chimera.yaml. Others
// say what they are: "yaml plan", "yaml catalog", "yaml part".
func TestConfigurationBlocks(t *testing.T) {
	seen := 0
	for _, doc := range documents(t) {
		for _, b := range blocks(read(t, doc)) {
			if b.info != "yaml" {
				continue
			}
			seen++
			file := filepath.Join(t.TempDir(), "chimera.yaml")
			require.NoError(t, os.WriteFile(file, []byte(b.text), 0o600))
			_, ds := config.Load(file)
			require.Empty(t, ds, "%s:%d", doc, b.line)
		}
	}
	require.NotZero(t, seen)
}

func TestJSONBlocks(t *testing.T) {
	for _, doc := range documents(t) {
		for _, b := range blocks(read(t, doc)) {
			if b.info == "json" {
				require.True(t, json.Valid([]byte(b.text)), "%s:%d", doc, b.line)
			}
		}
	}
}

// TestReadme: one screen, two commands, one picture, and part of a plan that compiles.
func TestReadme(t *testing.T) {
	text := read(t, "README.md")
	require.Less(t, strings.Count(text, "\n"), 90)
	require.Contains(t, text, "make run")
	require.Contains(t, text, "make test")
	require.Len(t, slices.DeleteFunc(blocks(text), func(b block) bool { return b.info != "mermaid" }), 1)

	const rest = `apiVersion: chimera/v1
kind: Plan
name: verdict
version: "1.0.0"
input_schema: {type: object, properties: {path: {type: string, minLength: 1, maxLength: 255}}, required: [path]}
output_schema: {type: object, properties: {verdict: {enum: [long, short]}}, required: [verdict]}
`
	own, _, ds, err := host.LoadCatalog(filepath.Join(root, "examples/word-report/catalog.yaml"), filepath.Join(root, "examples/word-report/tools.yaml"))
	require.NoError(t, err)
	require.Empty(t, ds)
	_, cat, err := host.Catalog(own, nil)
	require.NoError(t, err)
	_, ds = compiler.Compile(compiler.Source{Name: "plan.yaml", Text: []byte(rest + first(t, "README.md", "yaml part"))}, cat, nil)
	require.Empty(t, ds)
}

// rows reads the first cells of the Markdown table that follows mark.
func rows(t *testing.T, text, mark string) [][]string {
	t.Helper()
	_, rest, ok := strings.Cut(text, mark+"\n")
	require.True(t, ok, mark)
	var list [][]string
	for line := range strings.Lines(rest) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "|") {
			break
		}
		var cells []string
		for _, cell := range strings.Split(strings.Trim(line, "|"), "|") {
			cells = append(cells, strings.TrimSpace(cell))
		}
		list = append(list, cells)
	}
	require.Greater(t, len(list), 2, mark)
	return list[2:]
}
