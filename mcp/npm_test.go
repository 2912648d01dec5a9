//go:build unix

package mcp

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/internal/lengthy"
	"chimera.ai/engine/internal/npm"
)

func npmPool(t testing.TB, program string, args ...string) *Pool {
	t.Helper()
	s := hostileServer(t, "")
	delete(s.Env, hostileVar)
	s.Command, s.Args = npm.Bin(t, program), args
	return openPool(t, s, quiet)
}

func names(t *testing.T, p *Pool) []string {
	t.Helper()
	tools, err := p.Tools(t.Context(), "h")
	require.NoError(t, err)
	var names []string
	for _, tool := range tools {
		names = append(names, tool.Name)
		var schema struct {
			Type string `json:"type"`
		}
		var def struct {
			InputSchema json.RawMessage `json:"inputSchema"`
		}
		require.NoError(t, json.Unmarshal(tool.Raw, &def))
		require.NoError(t, json.Unmarshal(def.InputSchema, &schema))
		require.Equal(t, "object", schema.Type, tool.Name)
	}
	return names
}

func TestServerFilesystem(t *testing.T) {
	lengthy.Skip(t)
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	file := filepath.Join(dir, "hello.txt")
	require.NoError(t, os.WriteFile(file, []byte("grüezi\n"), 0o600))
	p := npmPool(t, "mcp-server-filesystem", dir)
	require.Subset(t, names(t, p), []string{"read_text_file", "list_directory", "write_file"})

	path, err := json.Marshal(map[string]string{"path": file})
	require.NoError(t, err)
	r, err := call(t, p, "read_text_file", string(path))
	require.NoError(t, err)
	require.Equal(t, "grüezi\n", *r.Text)
	require.JSONEq(t, `{"content":"grüezi\n"}`, string(r.Structured))

	_, err = call(t, p, "read_text_file", `{"path":"/etc/passwd"}`)
	e := requireKind(t, contract.ToolError, err)
	require.Contains(t, e.Message, "denied")
	_, err = call(t, p, "read_text_file", `{"path":7}`)
	requireKind(t, contract.ToolError, err)
	_, err = call(t, p, "no_such_tool", `{}`)
	requireKind(t, contract.ToolError, err)

	// It has no resources.
	_, err = p.Resources(t.Context(), "h", Pin{})
	requireKind(t, contract.Contract, err)
	_, err = p.ResourceTemplates(t.Context(), "h")
	requireKind(t, contract.Contract, err)
	_, err = p.Read(t.Context(), "h", "file://"+file, Pin{})
	requireKind(t, contract.Contract, err)
}

func TestServerEverything(t *testing.T) {
	p := npmPool(t, "mcp-server-everything", "stdio")
	all := names(t, p)
	require.Contains(t, all, "echo")

	r, err := call(t, p, "echo", `{"message":"hello"}`)
	require.NoError(t, err)
	require.Equal(t, "Echo: hello", *r.Text)

	r, err = call(t, p, "get-structured-content", `{"location":"Chicago"}`)
	require.NoError(t, err)
	require.Contains(t, string(r.Structured), `"temperature"`)

	requireKind(t, contract.Timeout, brief(t, p, "trigger-long-running-operation", `{"duration":600,"steps":2}`))
	r, err = call(t, p, "echo", `{"message":"still here"}`)
	require.NoError(t, err)
	require.Equal(t, "Echo: still here", *r.Text)

	const guide = "demo://resource/static/document/architecture.md"
	resources, err := p.Resources(t.Context(), "h", Pin{})
	require.NoError(t, err)
	at := slices.IndexFunc(resources, func(r Resource) bool { return r.URI == guide })
	require.GreaterOrEqual(t, at, 0, "%v", resources)
	print, err := resources[at].Fingerprint()
	require.NoError(t, err)
	content, err := p.Read(t.Context(), "h", guide, Pin{Fingerprint: print})
	require.NoError(t, err)
	require.Equal(t, "text/markdown", content.MIMEType)
	require.Contains(t, content.Text, "# ")
	content, err = p.Read(t.Context(), "h", "demo://resource/dynamic/text/7", Pin{})
	require.NoError(t, err)
	require.Equal(t, "text/plain", content.MIMEType)
	_, err = p.Read(t.Context(), "h", "demo://resource/dynamic/text/7", Pin{Fingerprint: print})
	requireKind(t, contract.Drift, err)
	_, err = p.Read(t.Context(), "h", "demo://resource/dynamic/blob/7", Pin{})
	requireKind(t, contract.InvalidOutput, err)
	_, err = p.Read(t.Context(), "h", "demo://resource/none", Pin{})
	requireKind(t, contract.ToolError, err)

	// Its templates are of level 1, and read what is not listed.
	templates, err := p.ResourceTemplates(t.Context(), "h")
	require.NoError(t, err)
	var patterns []string
	for _, one := range templates {
		pattern, err := one.Pattern()
		require.NoError(t, err, one.URITemplate)
		patterns = append(patterns, pattern)
	}
	require.ElementsMatch(t, []string{"demo://resource/dynamic/text/*", "demo://resource/dynamic/blob/*"}, patterns)

	// What needs a capability that is not declared is not even offered.
	require.NotContains(t, all, "trigger-sampling-request")
	require.NotContains(t, all, "trigger-elicitation-request")
}
