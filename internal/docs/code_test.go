package docs

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/skills"
)

// TestGoBlocks builds each Go program of the documents, as if it stood in this
// module.
func TestGoBlocks(t *testing.T) {
	abs, err := filepath.Abs(root)
	require.NoError(t, err)
	dir := t.TempDir()
	replace := map[string]string{}
	var packages []string
	for _, doc := range documents(t) {
		for _, b := range blocks(read(t, doc)) {
			if b.info != "go" {
				continue
			}
			name := fmt.Sprintf("block%d", len(packages))
			file := filepath.Join(dir, name+".go")
			require.NoError(t, os.WriteFile(file, []byte(b.text), 0o600))
			replace[filepath.Join(abs, "internal", "docs", name, "main.go")] = file
			packages = append(packages, "./internal/docs/"+name)
		}
	}
	require.NotEmpty(t, packages)
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	require.NoError(t, err)
	list := filepath.Join(dir, "overlay.json")
	require.NoError(t, os.WriteFile(list, overlay, 0o600))
	for _, p := range packages {
		cmd := exec.CommandContext(t.Context(), "go", "build", "-overlay", list, "-o", os.DevNull, p)
		cmd.Dir = abs
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
}

// TestScriptBlocks parses what is written in JavaScript and in shell. The
// TypeScript of the documents is JavaScript too.
func TestScriptBlocks(t *testing.T) {
	checkers := map[string]struct {
		suffix string
		argv   []string
	}{
		"ts": {".mjs", []string{"node", "--check"}},
		"sh": {".sh", []string{"sh", "-n"}},
	}
	seen := map[string]int{}
	for _, doc := range documents(t) {
		for _, b := range blocks(read(t, doc)) {
			c, ok := checkers[b.info]
			if !ok {
				continue
			}
			seen[b.info]++
			file := filepath.Join(t.TempDir(), "block"+c.suffix)
			require.NoError(t, os.WriteFile(file, []byte(b.text), 0o600))
			out, err := exec.CommandContext(t.Context(), c.argv[0], append(c.argv[1:], file)...).CombinedOutput()
			require.NoError(t, err, "%s:%d\n%s", doc, b.line, out)
		}
	}
	for info := range checkers {
		require.NotZero(t, seen[info], info)
	}
}

// TestEnvironmentOfExecutables: the page names every variable that a call of an
// executable has.
func TestEnvironmentOfExecutables(t *testing.T) {
	t.Setenv("TZ", "UTC")
	e := skills.Executable{Command: "sh", Args: []string{"-c", `env | sed 's/=.*//; s/.*/"&",/' | tr -d '\n' | sed 's/.*/[&""]/'`}}
	out, err := e.Call(t.Context(), "names", json.RawMessage(`{}`))
	require.NoError(t, err)
	var names []string
	require.NoError(t, json.Unmarshal(out, &names))
	require.Contains(t, names, "TZ")
	page := read(t, "docs/embed-go-skills.md")
	for _, name := range names {
		// The last four are the shell's own.
		if !slices.Contains([]string{"", "PWD", "OLDPWD", "SHLVL", "_"}, name) {
			require.Contains(t, page, "`"+name+"`")
		}
	}
}
