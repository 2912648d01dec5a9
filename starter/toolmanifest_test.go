package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/conform"
	"chimera.ai/engine/internal/npm"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/trust"
)

// TestToolManifestWithReport: the manifest of a public server has the conformance hash of its
// report, and no report of another server or of other tools.
func TestToolManifestWithReport(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	memory := fmt.Sprintf("{command: %q, env: {MEMORY_FILE_PATH: %q}}", npm.Bin(t, "mcp-server-memory"), in("memory.jsonl"))
	require.NoError(t, os.WriteFile(in("chimera.yaml"), []byte("mcpServers:\n  memory: "+memory+"\n  other: "+memory+"\n"), 0o600))
	_, secret, err := trust.NewKey()
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(in("max.key"), secret, 0o600))
	var out, messages bytes.Buffer
	call := func(want int, args ...string) {
		t.Helper()
		out.Reset()
		messages.Reset()
		code := run(append(args, "--config", in("chimera.yaml"), "--format", "json"), strings.NewReader(""), &out, &messages)
		require.Equal(t, want, code, "%s%s", &out, &messages)
	}
	call(exitDone, "tools", "conform", "memory", "--timeout", "1m")
	require.NoError(t, os.WriteFile(in("report.json"), out.Bytes(), 0o600))
	var report conform.Report
	require.NoError(t, json.Unmarshal(out.Bytes(), &report))

	sign := func(want int, server, report string) {
		t.Helper()
		call(want, "tools", "manifest", server, "--version", "1.0.0", "--key", in("max.key"), "--out", in(server+".manifest"), "--conformance", report)
	}
	sign(exitDone, "memory", in("report.json"))
	raw, err := os.ReadFile(in("memory.manifest"))
	require.NoError(t, err)
	m, _, err := trust.ReadManifest(raw)
	require.NoError(t, err)
	require.Equal(t, []string{report.Suite, report.Hash}, []string{m.Suite, m.ConformanceHash})
	require.Equal(t, report.Summary(), m.Conformance())
	require.NotEmpty(t, m.ToolsFingerprint)
	classes := map[string]plan.EffectClass{}
	for _, tool := range m.Tools {
		classes[tool.Name] = tool.Effect
	}
	require.Equal(t, plan.Pure, classes["read_graph"])
	require.Equal(t, plan.Irreversible, classes["delete_entities"])

	sign(exitNegative, "other", in("report.json"))
	require.Contains(t, messages.String(), "is of the server memory, not of other")
	report.Cases = report.Cases[1:]
	short, err := json.Marshal(report)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(in("short.json"), short, 0o600))
	require.NoError(t, os.Remove(in("memory.manifest")))
	sign(exitNegative, "memory", in("short.json"))
	require.Contains(t, messages.String(), "there is no verdict on the case pages-end")
	require.NoFileExists(t, in("memory.manifest"))
}
