package client_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/client"
	"chimera.ai/engine/contract"
	"chimera.ai/engine/host"
	"chimera.ai/engine/internal/lengthy"
	"chimera.ai/engine/internal/stage"
)

// TestOutside builds a program of another module that uses this package, and runs it
// against a real server and a real worker.
func TestOutside(t *testing.T) {
	lengthy.Skip(t)
	program := outside(t)
	stage.Host(t, host.Options{})
	cmd := exec.CommandContext(t.Context(), program, stage.Temporal(t).Address)
	var messages bytes.Buffer
	cmd.Stderr = &messages
	out, err := cmd.Output()
	require.NoError(t, err, messages.String())
	var seen struct {
		Ending, Cancelled client.Ending
		States            int
		Status            client.Status
		Terminated        contract.RunState
		Errors            []string
	}
	require.NoError(t, json.Unmarshal(out, &seen), string(out))
	require.Equal(t, contract.RunSucceeded, seen.Ending.State)
	require.JSONEq(t, `{"x": 1}`, string(seen.Ending.Output))
	require.Positive(t, seen.States)
	require.Equal(t, contract.RunSucceeded, seen.Status.State)
	require.JSONEq(t, `{"x": 1}`, string(seen.Status.Output))
	require.NotNil(t, seen.Status.Detail)
	require.Equal(t, "pass@1", seen.Status.Detail.Plan)
	require.Equal(t, contract.RunCancelled, seen.Cancelled.State)
	require.Equal(t, contract.Cancelled, seen.Cancelled.Failure.Kind)
	require.Equal(t, client.Terminated, seen.Terminated)
	require.Equal(t, []string{"succeeded", "nobody", "succeeded"}, seen.Errors)
}

// outside builds testdata/outside as a module of its own, with the modules that this
// one has and nothing from the network.
func outside(t *testing.T) string {
	root, err := filepath.Abs("..")
	require.NoError(t, err)
	dir := t.TempDir()
	copied := func(from, to string, change func(string) string) {
		text, err := os.ReadFile(from)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, to), []byte(change(string(text))), 0o600))
	}
	same := func(s string) string { return s }
	copied(filepath.Join("testdata", "outside", "main.go"), "main.go", same)
	copied(filepath.Join(root, "go.sum"), "go.sum", same)
	copied(filepath.Join(root, "go.mod"), "go.mod", func(s string) string {
		return strings.Replace(s, "module chimera.ai/engine\n", "module example.com/outside\n", 1) +
			"\nrequire chimera.ai/engine v0.0.0\n\nreplace chimera.ai/engine => " + root + "\n"
	})
	program := filepath.Join(dir, "outside")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-o", program, ".")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod -buildvcs=false", "GOPROXY=off", "GOWORK=off")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return program
}
