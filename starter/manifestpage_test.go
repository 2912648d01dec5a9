package main

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/conform"
	"chimera.ai/engine/internal/lengthy"
	"chimera.ai/engine/internal/npm"
	"chimera.ai/engine/internal/syntax"
	"chimera.ai/engine/trust"
)

// shown returns the blocks of a page of docs with that info string.
func shown(t *testing.T, page, info string) []string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("..", "docs", page))
	require.NoError(t, err)
	var list []string
	for _, m := range fence.FindAllStringSubmatch(string(raw), -1) {
		if m[1] == info {
			list = append(list, m[2])
		}
	}
	require.NotEmpty(t, list, "%s has no block %q", page, info)
	return list
}

// workflowSteps reads the steps of the workflow of docs/conformance.md.
func workflowSteps(t *testing.T) []any {
	t.Helper()
	text := shown(t, "conformance.md", "yaml workflow")[0]
	docs, ds := syntax.Parse("workflow.yaml", []byte(text), syntax.Limits{Bytes: 1 << 16, Depth: 20, Nodes: 1000})
	require.Empty(t, ds)
	require.Len(t, docs, 1)
	w := docs[0].Root.Any().(map[string]any)
	require.ElementsMatch(t, []any{"push", "pull_request"}, w["on"])
	require.Equal(t, map[string]any{"contents": "read"}, w["permissions"])
	job := w["jobs"].(map[string]any)["conform"].(map[string]any)
	require.Equal(t, "ubuntu-latest", job["runs-on"])
	return job["steps"].([]any)
}

// TestWorkflow: each step of the example for GitHub uses an action of a version, or runs commands of
// a shell; those of the program exist, with their flags.
func TestWorkflow(t *testing.T) {
	commands := regexp.MustCompile(`chimera/bin/chimera ((?:[^\n>\\]|\\\n)*)`)
	var seen []string
	for _, step := range workflowSteps(t) {
		s := step.(map[string]any)
		for field := range s {
			require.Contains(t, []string{"uses", "with", "run", "if", "env"}, field)
		}
		if uses, ok := s["uses"].(string); ok {
			require.Regexp(t, `^actions/[a-z-]+@v\d+$`, uses)
			require.NotContains(t, s, "run")
			continue
		}
		run := s["run"].(string)
		require.NotContains(t, run, "${{", "what a workflow pastes into a script may be anything")
		out, err := exec.CommandContext(t.Context(), "sh", "-n", "-c", run).CombinedOutput()
		require.NoError(t, err, "%s", out)
		for _, m := range commands.FindAllStringSubmatch(run, -1) {
			args := strings.Fields(strings.ReplaceAll(m[1], "\\\n", ""))
			p := &Program{Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: io.Discard}
			require.NoError(t, p.Parse(args), "%s", m[0])
			seen = append(seen, strings.Join(args[:2], " "))
		}
	}
	require.Equal(t, []string{"tools conform", "tools manifest"}, seen)
}

// TestManifestPages runs what docs/trust.md shows of manifests, and the workflow's steps that check
// and sign, on a public server.
func TestManifestPages(t *testing.T) {
	lengthy.Skip(t)
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	write := func(name, text string) { require.NoError(t, os.WriteFile(in(name), []byte(text), 0o600)) }
	var servers strings.Builder
	for _, name := range []string{"mine", "notes"} {
		servers.WriteString("  " + name + ": {command: " + npm.Bin(t, "mcp-server-memory") + ", env: {MEMORY_FILE_PATH: " + in(name+".jsonl") + "}}\n")
	}
	write("chimera.yaml", "mcpServers:\n"+servers.String())
	write("conformance.yaml", "- {tool: read_graph}\n")
	_, pem, err := trust.NewKey()
	require.NoError(t, err)
	write("max.key", string(pem))
	sh := func(text string, env ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "sh", "-eu", "-c", strings.ReplaceAll(text, "chimera/bin/chimera", "chimera"))
		cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		return string(out)
	}
	signed := func(name string) trust.Manifest {
		t.Helper()
		raw, err := os.ReadFile(in(name))
		require.NoError(t, err)
		m, _, err := trust.ReadManifest(raw)
		require.NoError(t, err)
		require.NoError(t, m.Conformance().Suffices())
		return m
	}
	for _, text := range shown(t, "trust.md", "sh manifest") {
		sh(text)
	}
	m := signed("notes.manifest")
	require.Equal(t, "1.2.0", m.Version)
	require.Empty(t, m.Examples)
	require.Equal(t, &trust.Provenance{Repository: "https://example.com/notes", Revision: "4f2a91c"}, m.Provenance)

	said := sh("chimera agents list; chimera tools verify notes.manifest || test $? = 1")
	require.Regexp(t, `(?m)^  conformance: chimera-conform/1 `+m.ConformanceHash+`\n    \d+ passed; warned: unknown-tool; skipped: .*\n    by the server `+m.ServerFingerprint+`$`, said)

	for _, step := range workflowSteps(t) {
		s := step.(map[string]any)
		if run, ok := s["run"].(string); ok && strings.Contains(run, "chimera/bin/chimera") {
			env := []string{"GITHUB_REF_NAME=v2.0.1", "GITHUB_SERVER_URL=https://github.com", "GITHUB_REPOSITORY=max/mine", "GITHUB_SHA=4f2a91c", "GITHUB_WORKFLOW_REF=max/mine/w.yml@v2"}
			if secrets, ok := s["env"].(map[string]any); ok {
				require.Equal(t, map[string]any{"PUBLISHER_KEY": "${{ secrets.PUBLISHER_KEY }}"}, secrets)
				env = append(env, "PUBLISHER_KEY="+string(pem))
			}
			sh(run, env...)
		}
	}
	m = signed("mine.manifest")
	require.Equal(t, "2.0.1", m.Version)
	require.NotEmpty(t, m.Examples)
	require.Equal(t, &trust.Provenance{Repository: "https://github.com/max/mine", Revision: "4f2a91c", Builder: "github-actions", Workflow: "max/mine/w.yml@v2"}, m.Provenance)
	for _, c := range m.Verdicts {
		require.NotEqual(t, conform.Skipped, c.Verdict, c.ID)
	}
}

// TestManifestFields: docs/trust.md has every field of a manifest, and no other.
func TestManifestFields(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "docs", "trust.md"))
	require.NoError(t, err)
	_, table, found := strings.Cut(string(page), "<!-- table of the manifest -->\n")
	require.True(t, found)
	table, _, _ = strings.Cut(table, "\n\n")
	var have, want []string
	for _, row := range strings.Split(table, "\n")[2:] {
		for _, m := range regexp.MustCompile("`([a-z_]+)`").FindAllStringSubmatch(strings.Split(row, "|")[1], -1) {
			have = append(have, m[1])
		}
	}
	for f := range reflect.TypeFor[trust.Manifest]().Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		want = append(want, name)
	}
	require.ElementsMatch(t, want, have)
}
