//go:build unix

package mcp

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/contract"
)

// The example server, as the example runs it: on this repository's own files.
func TestExampleServer(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "mcp-files")
	out, err := exec.Command("go", "build", "-o", binary, "chimera.ai/engine/examples/mcp-files").CombinedOutput()
	require.NoError(t, err, "%s", out)
	s := hostileServer(t, "")
	delete(s.Env, hostileVar)
	s.Command, s.Args, s.Dir = binary, []string{"."}, ".."
	p := openPool(t, s, quiet)
	require.Equal(t, []string{"list_files", "read_file", "stat_file"}, names(t, p))
	tools, err := p.Tools(t.Context(), "h")
	require.NoError(t, err)
	for _, tool := range tools {
		require.Contains(t, string(tool.Raw), `"outputSchema":{`)
		require.Contains(t, string(tool.Raw), `"readOnlyHint":true`)
		require.Contains(t, string(tool.Raw), `"openWorldHint":false`)
	}

	r, err := call(t, p, "list_files", `{"pattern":"mcp/*.go"}`)
	require.NoError(t, err)
	var list struct {
		Files     []string `json:"files"`
		Truncated bool     `json:"truncated"`
	}
	require.NoError(t, json.Unmarshal(r.Structured, &list))
	require.Contains(t, list.Files, "mcp/files_test.go")
	require.False(t, list.Truncated)

	r, err = call(t, p, "read_file", `{"path":"mcp/files_test.go"}`)
	require.NoError(t, err)
	want, err := os.ReadFile("files_test.go")
	require.NoError(t, err)
	var file struct {
		Text string `json:"text"`
		Size int    `json:"size"`
	}
	require.NoError(t, json.Unmarshal(r.Structured, &file))
	require.Equal(t, string(want), file.Text)
	require.Equal(t, len(want), file.Size)

	_, err = call(t, p, "stat_file", `{"path":"go.mod"}`)
	require.NoError(t, err)

	for args, kind := range map[string]contract.Kind{
		`{"path":"../etc/passwd"}`:     contract.ToolError,
		`{"path":"/etc/passwd"}`:       contract.ToolError,
		`{"path":"no such file"}`:      contract.ToolError,
		`{"path":"mcp"}`:               contract.ToolError,
		`{"path":"go.mod","more":"a"}`: contract.ToolError,
		`{"path":7}`:                   contract.ToolError,
		`{}`:                           contract.ToolError,
	} {
		_, err := call(t, p, "read_file", args)
		e := requireKind(t, kind, err)
		require.NotContains(t, e.Message, "root:")
	}
	_, err = call(t, p, "no_such_tool", `{}`)
	requireKind(t, contract.Contract, err)
}
