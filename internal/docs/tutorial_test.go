package docs

import (
	"bufio"
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const tutorial = "docs/write-a-plan.md"

var planName = regexp.MustCompile(`(?m)^name: (\S+)$`)

// TestTutorial runs the commands of docs/write-a-plan.md beside chimera dev, and
// holds what they print against the block below each. Each plan is in a file of its name.
func TestTutorial(t *testing.T) {
	w := newWalk(t)
	dir := filepath.Join(w.dir, "operator")
	w.develop(t)
	list := blocks(read(t, tutorial))
	commands := 0
	for i, b := range list {
		if b.info == "yaml plan" {
			m := planName.FindStringSubmatch(b.text)
			require.NotNil(t, m, "line %d", b.line)
			require.NoError(t, os.WriteFile(filepath.Join(dir, m[1]+".yaml"), []byte(b.text), 0o600))
		}
		if b.info != "sh tutorial" {
			continue
		}
		commands++
		cmd := exec.CommandContext(t.Context(), "sh", "-eu", "-c", b.text)
		cmd.Dir, cmd.Env = dir, w.env
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		require.NoError(t, cmd.Run(), "line %d:\n%s", b.line, &out)
		require.Equal(t, "text", list[i+1].info, "line %d", b.line)
		require.Regexp(t, pattern(list[i+1].text), out.String(), "line %d", b.line)
	}
	require.NotZero(t, commands)
}

// develop runs chimera dev in the operator's folder until the test ends, and returns the
// address of its Temporal server.
func (w *walk) develop(t *testing.T) (address string) {
	t.Helper()
	// It is interrupted below, after the test's context has ended.
	dev := exec.CommandContext(context.WithoutCancel(t.Context()), filepath.Join(w.dir, "bin", "chimera"), "dev")
	dev.Dir, dev.Env = filepath.Join(w.dir, "operator"), w.env
	ready, err := dev.StdoutPipe()
	require.NoError(t, err)
	dev.Stderr = dev.Stdout
	require.NoError(t, dev.Start())
	t.Cleanup(func() {
		require.NoError(t, dev.Process.Signal(os.Interrupt))
		_ = dev.Wait() // its exit code says that it was interrupted
	})
	lines := bufio.NewScanner(ready)
	for lines.Scan() && !strings.HasPrefix(lines.Text(), "ready") {
		if f := strings.Fields(lines.Text()); len(f) > 1 && f[0] == "Temporal" {
			address = f[1]
		}
	}
	require.Contains(t, lines.Text(), "ready")
	return address
}
