package docs

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestCausalExamples runs the commands of docs/causal-models.md in one folder with its files, and
// holds what they print against the block below each. A number after "causal" is the exit code.
func TestCausalExamples(t *testing.T) {
	w := newWalk(t)
	dir := filepath.Join(w.dir, "operator")
	list := blocks(read(t, "docs/causal-models.md"))
	for _, b := range list {
		if name, ok := strings.CutPrefix(b.info, "yaml file "); ok {
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(b.text), 0o600))
		}
	}
	commands := 0
	for i, b := range list {
		kind, ok := strings.CutPrefix(b.info, "sh causal")
		if !ok {
			continue
		}
		commands++
		cmd := exec.CommandContext(t.Context(), "sh", "-eu", "-c", b.text)
		cmd.Dir, cmd.Env = dir, w.env
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		want := 0
		switch kind = strings.TrimSpace(kind); kind {
		case "", "file":
		default:
			var err error
			want, err = strconv.Atoi(kind)
			require.NoError(t, err, "line %d", b.line)
		}
		_ = cmd.Run() // the exit code says it
		require.Equal(t, want, cmd.ProcessState.ExitCode(), "line %d:\n%s", b.line, &out)
		if kind == "file" {
			require.Empty(t, out.String(), "line %d", b.line)
			continue
		}
		require.Equal(t, "text", list[i+1].info, "line %d", b.line)
		require.Regexp(t, pattern(list[i+1].text), out.String(), "line %d", b.line)
	}
	require.GreaterOrEqual(t, commands, 10)
}
