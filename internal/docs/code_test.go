package docs

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/skills"
)

// TestGoBlocks compiles each Go program of the documents, and links none: that they run,
// TestGoClient shows.
func TestGoBlocks(t *testing.T) {
	seen := 0
	for _, doc := range documents(t) {
		for _, b := range blocks(read(t, doc)) {
			if b.info == "go" {
				seen++
				onBlock(t, b.text, "list", "-export")
			}
		}
	}
	require.NotZero(t, seen)
}

// buildGo builds a program, as if it stood in this module.
func buildGo(t *testing.T, text, out string) {
	t.Helper()
	onBlock(t, text, "build", "-o", out)
}

// onBlock runs a command of go on a program, as if it stood in this module.
func onBlock(t *testing.T, text string, command ...string) {
	t.Helper()
	abs, err := filepath.Abs(root)
	require.NoError(t, err)
	dir := t.TempDir()
	file := filepath.Join(dir, "main.go")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{
		filepath.Join(abs, "internal", "docs", "block", "main.go"): file,
	}})
	require.NoError(t, err)
	list := filepath.Join(dir, "overlay.json")
	require.NoError(t, os.WriteFile(list, overlay, 0o600))
	cmd := exec.CommandContext(t.Context(), "go", append(command, "-overlay", list, "./internal/docs/block")...)
	cmd.Dir = abs
	said, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", said)
}

// TestScriptBlocks parses what is written in JavaScript and in shell, and in Python
// on machines that have it: nothing else of the project needs Python. The TypeScript
// of the documents is JavaScript too.
func TestScriptBlocks(t *testing.T) {
	type checker struct {
		suffix string
		argv   []string
	}
	checkers := map[string]checker{
		"ts": {".mjs", []string{"node", "--check"}},
		"sh": {".sh", []string{"sh", "-n"}},
	}
	if _, err := exec.LookPath("python3"); err == nil {
		checkers["python"] = checker{".py", []string{"python3", "-c", "import ast, sys; ast.parse(open(sys.argv[1]).read())"}}
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
		// The shell itself sets the last four.
		if !slices.Contains([]string{"", "PWD", "OLDPWD", "SHLVL", "_"}, name) {
			require.Contains(t, page, "`"+name+"`")
		}
	}
}
