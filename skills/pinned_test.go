//go:build unix

package skills

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/contract"
)

// TestPinned: a program that is another one than before is not started.
func TestPinned(t *testing.T) {
	for name, change := range map[string]func(t *testing.T, dir string, e *Executable){
		"script":     func(t *testing.T, dir string, _ *Executable) { put(t, dir, "main.sh", "echo x >> calls; echo 2") },
		"data":       func(t *testing.T, dir string, _ *Executable) { put(t, dir, "data/more", "") },
		"executable": func(_ *testing.T, _ string, e *Executable) { e.Command = "bash" },
		"argument":   func(_ *testing.T, _ string, e *Executable) { e.Args = []string{"-e", "main.sh"} },
		"value":      func(_ *testing.T, _ string, e *Executable) { e.Env = map[string]string{"MODE": "b", "KEY": "secret"} },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			require.NoError(t, os.Mkdir(filepath.Join(dir, "data"), 0o700))
			put(t, dir, "main.sh", "echo x >> calls; echo 1")
			e := Executable{
				Command: "sh", Args: []string{"main.sh"}, Env: map[string]string{"MODE": "a", "KEY": "secret"}, Public: []string{"MODE"}, Dir: dir, Base: dir,
				Pin: []string{filepath.Join(dir, "main.sh"), filepath.Join(dir, "data")},
			}
			was, err := e.Endpoint()
			require.NoError(t, err)
			out, err := e.CallPinned(t.Context(), "run", nil, []string{"sha256:other", was})
			require.NoError(t, err)
			require.Equal(t, json.RawMessage("1"), out)
			rotated := e
			rotated.Env = map[string]string{"MODE": "a", "KEY": "next"}
			_, err = rotated.CallPinned(t.Context(), "run", nil, []string{was})
			require.NoError(t, err)

			change(t, dir, &e)
			_, err = e.CallPinned(t.Context(), "run", nil, []string{was})
			require.Equal(t, contract.Drift, kindOf(t, err))
			require.NoError(t, os.Remove(filepath.Join(dir, "main.sh")))
			_, err = e.CallPinned(t.Context(), "run", nil, []string{was})
			require.Equal(t, contract.Blocked, kindOf(t, err))
			calls, err := os.ReadFile(filepath.Join(dir, "calls"))
			require.NoError(t, err)
			require.Equal(t, "x\nx\n", string(calls))
		})
	}
}

func put(t *testing.T, dir, name, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
}
