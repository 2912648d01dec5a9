package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/internal/npm"
)

// TestToolConform: the exit code is 0 if no case fails, also where one warns.
func TestToolConform(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "chimera.yaml")
	require.NoError(t, os.WriteFile(file, fmt.Appendf(nil, "mcpServers:\n  memory: {command: %q, env: {MEMORY_FILE_PATH: %q}}\n",
		npm.Bin(t, "mcp-server-memory"), filepath.Join(dir, "memory.jsonl")), 0o600))
	var out, messages bytes.Buffer
	code := run([]string{"tools", "conform", "memory", "--config", file, "--timeout", "1m"}, strings.NewReader(""), &out, &messages)
	require.Equal(t, exitDone, code, "%s%s", &out, &messages)
	require.Regexp(t, `(?m)^warned   unknown-tool: `, out.String())
	require.Regexp(t, `(?m)^conformance hash: sha256:[0-9a-f]{64}$`, out.String())
	require.Empty(t, messages.String())
}
