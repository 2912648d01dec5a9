package deps

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const root = "../.."

func TestPolicy(t *testing.T) {
	g, err := Load(root)
	require.NoError(t, err)
	require.Contains(t, g, Module+"/internal/deps", "the loader must see this module")
	for _, line := range Check(g, Rules) {
		t.Error(line)
	}
}

// TestTable holds the table to itself, so that a typing error in a row cannot
// switch a rule off.
func TestTable(t *testing.T) {
	var seen []string
	for _, r := range Rules {
		require.NotContains(t, seen, r.Path)
		seen = append(seen, r.Path)
		require.NotEmpty(t, r.Owns, r.Path)
		require.NotEmpty(t, r.Never, r.Path)
		require.Contains(t, []Zone{Pure, Deterministic, Effects}, r.Zone, r.Path)
	}
	for _, r := range Rules {
		for _, name := range slices.Concat(r.Never, r.Except) {
			if _, group := Groups[name]; !group {
				require.True(t, slices.ContainsFunc(seen, func(p string) bool { return covers(p, name) || p == name+"/..." }),
					"%s: %q is neither a group nor a row", r.Path, name)
			}
		}
	}
	for _, s := range Sole {
		require.NotEmpty(t, s.Why, s.Library)
		for _, o := range s.Owners {
			require.True(t, o == "internal/..." || slices.Contains(seen, o), "%s: %q is not a row", s.Library, o)
		}
	}
}

// TestCheck shows on made-up graphs that each kind of violation is found, and
// that what is allowed is not.
func TestCheck(t *testing.T) {
	rules := []Rule{
		{Path: "pure", Zone: Pure, Owns: "x", Never: []string{"any package of ours", "Temporal", "os"}, Except: []string{"base"}},
		{Path: "flow", Zone: Deterministic, Owns: "x", Never: []string{"act", "os", "Temporal's client"}},
		{Path: "act", Zone: Effects, Owns: "x", Never: []string{"flow"}},
		{Path: "base", Zone: Pure, Owns: "x", Never: []string{"Temporal"}},
		{Path: "net", Zone: Pure, Owns: "x", Never: []string{"net"}},
		{Path: "tree/...", Zone: Effects, Owns: "x", Never: []string{"any package of ours"}},
	}
	graph := func(edges map[string][]string) Graph {
		g := Graph{
			"os":                     {Path: "os", Standard: true, Imports: []string{"syscall"}},
			"fmt":                    {Path: "fmt", Standard: true, Imports: []string{"os"}},
			"go.temporal.io/sdk/log": {Path: "go.temporal.io/sdk/log", Imports: []string{"os"}},
			"example.org/wrapper":    {Path: "example.org/wrapper", Imports: []string{"go.temporal.io/sdk/log", "os"}},
		}
		for _, p := range []string{"pure", "flow", "act", "base", "net", "tree/leaf"} {
			g[Module+"/"+p] = Package{Path: Module + "/" + p}
		}
		for from, to := range edges {
			for i := range to {
				if _, ok := g[to[i]]; !ok {
					if _, own := g[Module+"/"+to[i]]; own {
						to[i] = Module + "/" + to[i]
					}
				}
			}
			g[Module+"/"+from] = Package{Path: Module + "/" + from, Imports: to}
		}
		return g
	}
	for _, c := range []struct {
		name  string
		edges map[string][]string
		want  []string
	}{
		{"nothing", nil, nil},
		{"allowed by except", map[string][]string{"pure": {"base"}}, nil},
		{"the standard library's own imports do not count", map[string][]string{"pure": {"fmt"}}, nil},
		{"text only", map[string][]string{"net": {"net/url"}}, nil},
		{"own folder", map[string][]string{"tree/leaf": {"tree/branch"}, "tree/branch": nil}, nil},
		{"direct", map[string][]string{"flow": {"act"}}, []string{"flow imports act: it never imports act"}},
		{"standard library, direct", map[string][]string{"flow": {"os"}}, []string{"flow imports os: it never imports os"}},
		{"standard library, through ours", map[string][]string{"flow": {"base"}, "base": {"os"}},
			[]string{"flow imports base imports os: it never imports os"}},
		{"through ours", map[string][]string{"flow": {"base"}, "base": {"act"}},
			[]string{"flow imports base imports act: it never imports act"}},
		{"what a module imports does not count", map[string][]string{"base": {"example.org/wrapper"}}, nil},
		{"a module, through ours", map[string][]string{"base": {"act"}, "act": {"go.temporal.io/sdk/log"}},
			[]string{"base imports act imports go.temporal.io/sdk/log: it never imports Temporal"}},
		{"any of ours", map[string][]string{"pure": {"act"}}, []string{"pure imports act: it never imports any package of ours"}},
		{"part of a group", map[string][]string{"flow": {"go.temporal.io/sdk/client"}},
			[]string{"flow imports go.temporal.io/sdk/client: it never imports Temporal's client"}},
		{"cycle of checks ends", map[string][]string{"act": {"base"}, "base": {"act"}}, nil},
		{"a package without a row", map[string][]string{"stranger": nil},
			[]string{"stranger is not in the table of internal/deps: add a row that says what it owns and what it never imports"}},
		{"a name that only starts alike", map[string][]string{"flow": {"example.org/os"}}, nil},
		{"sole owner", map[string][]string{"act": {"cel.dev/cel-go/cel"}},
			[]string{"act imports cel.dev/cel-go/cel: only expr may, because expressions have one meaning, with one number"}},
		{"no owner", map[string][]string{"act": {"unsafe"}},
			[]string{"act imports unsafe: only nobody may, because no reason so far is good enough"}},
	} {
		t.Run(c.name, func(t *testing.T) { require.Equal(t, c.want, Check(graph(c.edges), rules)) })
	}

	t.Run("a row without a package", func(t *testing.T) {
		require.Equal(t, []string{"gone stands in the table of internal/deps, but does not exist"},
			Check(graph(nil), append(slices.Clone(rules), Rule{Path: "gone"})))
	})
	t.Run("planned", func(t *testing.T) {
		require.Empty(t, Check(graph(nil), append(slices.Clone(rules), Rule{Path: "later", Planned: true})))
		require.Equal(t, []string{"later exists, but the table of internal/deps says that it is planned"},
			Check(graph(map[string][]string{"later": nil}), append(slices.Clone(rules), Rule{Path: "later", Planned: true})))
	})
}

// TestCheckSeesTheRealGraph breaks rules in the graph of this very module.
func TestCheckSeesTheRealGraph(t *testing.T) {
	g, err := Load(root)
	require.NoError(t, err)
	for from, to := range map[string]string{"plan": "compiler", "client": "internal/devroot", "console": "internal/devroot", "authority": "internal/devroot"} {
		p := g[Module+"/"+from]
		broken := p
		broken.Imports = append(slices.Clone(p.Imports), Module+"/"+to)
		g[Module+"/"+from] = broken
		require.Contains(t, Check(g, Rules), from+" imports "+to+": it never imports "+to)
		g[Module+"/"+from] = p
	}
}

func TestNoInits(t *testing.T) {
	found, err := Inits(root)
	require.NoError(t, err)
	var files []string
	for _, place := range found {
		file, err := filepath.Rel(root, place[:strings.LastIndexByte(place, ':')])
		require.NoError(t, err)
		require.Contains(t, InitsAllowed, filepath.ToSlash(file), "an init function at %s: make it a value that the composition passes on", place)
		files = append(files, filepath.ToSlash(file))
	}
	for file, why := range InitsAllowed {
		require.Contains(t, files, file, "it has no init function any more")
		require.NotEmpty(t, why)
		require.False(t, strings.HasPrefix(file, "workflows/"), "workflow code has none")
	}
}

func TestInitsFinds(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	write("a/a.go", "package a\n\nfunc init() {}\n")
	write("a/b.go", "package a\n\ntype T struct{}\n\nfunc (T) init() {}\n\nvar init_ = 1\n")
	write("a/a_test.go", "package a\n\nfunc init() {}\n")
	write("a/testdata/c.go", "package c\n\nfunc init() {}\n")
	found, err := Inits(dir)
	require.NoError(t, err)
	require.Equal(t, []string{filepath.Join(dir, "a", "a.go") + ":3"}, found)

	_, err = Inits(filepath.Join(dir, "gone"))
	require.Error(t, err, "a folder that is not there must not pass")
}

// TestIgnoredFiles shows that a file for another system counts.
func TestIgnoredFiles(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module "+Module+"\n\ngo 1.26\n"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a.go"), []byte("package a\n"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "b.go"), []byte("//go:build never\n\npackage a\n\nimport _ \"os\"\n"), 0o600))
	g, err := Load(dir)
	require.NoError(t, err)
	require.Equal(t, []string{"os"}, g[Module].Imports)
}

var update = flag.Bool("update", false, "write the table into ARCHITECTURE.md")

// TestArchitecture: ARCHITECTURE.md shows this table, word for word.
func TestArchitecture(t *testing.T) {
	file := filepath.Join(root, "ARCHITECTURE.md")
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	before, rest, ok := strings.Cut(string(text), TableStart)
	require.True(t, ok)
	table, after, ok := strings.Cut(rest, TableEnd)
	require.True(t, ok)
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(before+TableStart+Table(Rules)+TableEnd+after), 0o644))
		return
	}
	require.Equal(t, Table(Rules), table, "go test ./internal/deps -update")
}
