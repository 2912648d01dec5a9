package main

import (
	"bytes"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/config"
	"chimera.ai/engine/internal/npm"
)

// TestImportFromRegistry: the name of a server in a registry becomes an entry of chimera.yaml, whose
// tools are imported. What runs in place of npx is the package that the registry names.
func TestImportFromRegistry(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	write := func(name, text string) {
		require.NoError(t, os.WriteFile(in(name), []byte(text), 0o700))
	}
	write("npx", fmt.Sprintf("#!/bin/sh\n[ \"$*\" = '-y @modelcontextprotocol/server-memory@1.0.0' ] && exec '%s'\n", npm.Bin(t, "mcp-server-memory")))
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	var asked []string
	registry := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.RequestURI())
		if !strings.HasPrefix(r.URL.RequestURI(), "/v0.1/servers/io.github.user%2Fnotes/") {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		fmt.Fprint(w, `{"server":{"name":"io.github.user/notes","description":"notes","version":"1.0.0","packages":[{"registryType":"npm",
			"identifier":"@modelcontextprotocol/server-memory","version":"1.0.0","transport":{"type":"stdio"}}]}}`)
	}))
	t.Cleanup(registry.Close)
	write("ca.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: registry.Certificate().Raw})))
	const head = "# mine\n"
	settings := func(more string) { write("chimera.yaml", head+more) }
	var out, messages bytes.Buffer
	call := func(want int, from string) {
		t.Helper()
		out.Reset()
		messages.Reset()
		code := run([]string{"tools", "import", "--from", from, "--yes", "--config", in("chimera.yaml"), "--format", "json"}, strings.NewReader(""), &out, &messages)
		require.Equal(t, want, code, "%s%s", &out, &messages)
	}
	settings("")
	call(exitUsage, "io.github.user/notes")
	require.Contains(t, messages.String(), "Set mcp_registry.url")
	known := fmt.Sprintf("mcp_registry: {url: %q, ca_file: ca.pem, addresses: [127.0.0.0/8]}\n", registry.URL)
	settings(strings.Replace(known, "127.0.0.0/8", "127.0.0.9/32", 1))
	call(exitUnanswered, "io.github.user/notes")
	require.Contains(t, messages.String(), "127.0.0.1 is not a public address")
	require.Empty(t, asked)

	settings(known)
	call(exitNegative, "io.github.user/other")
	require.Contains(t, messages.String(), "404")
	call(exitUnanswered, "io.github.user/notes@2.0.0")
	require.Contains(t, messages.String(), `answers with the version "1.0.0"`)
	asked = nil
	call(exitDone, "io.github.user/notes@1.0.0")
	require.Equal(t, []string{"/v0.1/servers/io.github.user%2Fnotes/versions/1.0.0"}, asked)
	var answer intakeAnswer
	require.NoError(t, json.Unmarshal(out.Bytes(), &answer))
	require.Equal(t, "notes", answer.Server)
	require.NotEmpty(t, answer.Tools)
	c, ds := config.Load(in("chimera.yaml"))
	require.Empty(t, ds)
	require.Equal(t, []string{"-y", "@modelcontextprotocol/server-memory@1.0.0"}, c.MCPServers["notes"].Args)
	text, err := os.ReadFile(in("chimera.yaml"))
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(string(text), head))

	// A file of the name takes precedence.
	t.Chdir(dir)
	require.NoError(t, os.Mkdir(in("io.github.user"), 0o700))
	write("io.github.user/notes", `{}`)
	asked = nil
	call(exitUsage, "io.github.user/notes")
	require.Empty(t, asked)
}
