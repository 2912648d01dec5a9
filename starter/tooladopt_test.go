package main

import (
	"bufio"
	"bytes"
	"context"
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
	"chimera.ai/engine/discover"
	"chimera.ai/engine/host"
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

// packages is a registry of npm, whose answer about a package is its text.
func packages(t *testing.T, answers map[string]string) discover.Resolver {
	t.Helper()
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, ok := answers[r.URL.Path]
		if !ok {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		fmt.Fprint(w, answer)
	}))
	t.Cleanup(s.Close)
	return discover.Resolver{Client: s.Client(), NPM: s.URL}
}

// TestPin: the exact version that a registry has is offered for each package without one, and taken
// unless somebody says no.
func TestPin(t *testing.T) {
	r := packages(t, map[string]string{"/@a/b/latest": `{"name":"@a/b","version":"1.2.3"}`, "/x/next": `{"name":"x","version":"2.0.0-rc.1"}`, "/odd/latest": `{"name":"odd","version":"^1.0.0"}`})
	for _, c := range []struct {
		name, args, answers string
		ask                 bool
		want, said          string
	}{
		{"yes", "-y @a/b", "\n", true, "-y @a/b@1.2.3", "s: npm @a/b is not pinned: whoever publishes it chooses what runs here. Pin it at 1.2.3? [Y/n]"},
		{"said", "-y @a/b", "y\n", true, "-y @a/b@1.2.3", "s: npm @a/b is pinned at 1.2.3"},
		{"no", "-y @a/b", "n\n", true, "-y @a/b", "[Y/n]"},
		{"No", "-y @a/b", "NO\n", true, "-y @a/b", "[Y/n]"},
		{"tag", "-y x@next", "\n", true, "-y x@2.0.0-rc.1", "npm x (next) is not pinned"},
		{"two", "-p @a/b -p x@next cmd", "\n\n", true, "-p @a/b@1.2.3 -p x@2.0.0-rc.1 cmd", "x (next) is pinned at 2.0.0-rc.1"},
		{"unasked", "-y @a/b", "", false, "-y @a/b@1.2.3", "s: npm @a/b is pinned at 1.2.3"},
		{"pinned", "-y @a/b@1.0.0", "", true, "-y @a/b@1.0.0", ""},
		{"unknown", "-y none", "", true, "-y none", "its registry does not say which version there is"},
		{"no version", "-y odd", "", false, "-y odd", "which is no exact version"},
	} {
		t.Run(c.name, func(t *testing.T) {
			found, err := discover.Parse("claude.json", fmt.Appendf(nil, `{"mcpServers":{"s":{"command":"npx","args":["%s"]}}}`, strings.ReplaceAll(c.args, " ", `","`)))
			require.NoError(t, err)
			require.Len(t, found.Servers, 1)
			s := found.Servers[0]
			var screen bytes.Buffer
			p := &Program{Stderr: &screen}
			ask := &asker{p: p, in: bufio.NewReader(strings.NewReader(c.answers)), ask: c.ask}
			require.NoError(t, p.pin(t.Context(), ask, r, &s))
			require.Equal(t, strings.Fields(c.args)[0], s.Args[0])
			require.Equal(t, c.want, strings.Join(s.Args, " "), screen.String())
			if c.said == "" {
				require.Empty(t, screen.String())
			} else {
				require.Contains(t, screen.String(), c.said)
			}
			require.Equal(t, c.ask && c.answers != "", strings.Contains(screen.String(), "[Y/n]"))
		})
	}
	s := discover.Server{Name: "s", Unpinned: &discover.Unpinned{Manager: "npm", Package: "@a/b"}}
	nowhere := httptest.NewTLSServer(nil)
	nowhere.Close()
	var screen bytes.Buffer
	require.NoError(t, (&Program{Stderr: &screen}).pin(t.Context(), &asker{}, discover.Resolver{Client: nowhere.Client(), NPM: nowhere.URL}, &s))
	require.Contains(t, screen.String(), "s: npm @a/b is not pinned, and its registry was not reached: ")
	p := &Program{Stderr: new(bytes.Buffer)}
	require.ErrorContains(t, p.pin(t.Context(), &asker{p: p, in: bufio.NewReader(strings.NewReader("")), ask: true}, r, &s), "the answers end")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorContains(t, p.pin(ctx, &asker{p: p}, r, &s), "interrupted")
}

// TestAdoptPinned: --yes pins a package whose version a file leaves out, unasked, also where what is
// proposed goes to a file for others to review.
func TestAdoptPinned(t *testing.T) {
	for _, out := range []string{"", "review.yaml"} {
		t.Run("out "+out, func(t *testing.T) {
			dir := t.TempDir()
			t.Chdir(dir)
			npx := fmt.Sprintf("#!/bin/sh\n[ \"$*\" = '-y @modelcontextprotocol/server-memory@1.0.0' ] && exec '%s'\n", npm.Bin(t, "mcp-server-memory"))
			require.NoError(t, os.WriteFile("npx", []byte(npx), 0o700))
			require.NoError(t, os.WriteFile("claude.json", []byte(`{"mcpServers":{"notes":{"command":"npx","args":["-y","@modelcontextprotocol/server-memory"]}}}`), 0o600))
			t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
			var stdout, stderr bytes.Buffer
			p := &Program{Stdin: strings.NewReader(""), Stdout: &stdout, Stderr: &stderr, Packages: packages(t, map[string]string{"/@modelcontextprotocol/server-memory/latest": `{"name":"@modelcontextprotocol/server-memory","version":"1.0.0"}`})}
			args := []string{"tools", "import", "--from", "claude.json", "--yes"}
			if out != "" {
				args = append(args, "--out", out)
			}
			require.NoError(t, p.Parse(args))
			require.NoError(t, p.Run(t.Context()), stderr.String())
			require.NoError(t, p.Close())
			require.Contains(t, stderr.String(), "notes: npm @modelcontextprotocol/server-memory is pinned at 1.0.0\n")
			require.NotContains(t, stderr.String(), "[Y/n]")
			c, ds := config.Load("chimera.yaml")
			require.Empty(t, ds)
			require.Equal(t, []string{"-y", "@modelcontextprotocol/server-memory@1.0.0"}, c.MCPServers["notes"].Args)
			file := toolsFile
			if out != "" {
				file = out
				require.NoFileExists(t, toolsFile)
				require.Empty(t, c.ToolsFile, "a file for review is not used yet")
			}
			all, _, ds, err := host.LoadCatalog(file)
			require.NoError(t, err)
			require.Empty(t, ds)
			require.NotEmpty(t, all.Templates)
			require.NotNil(t, all.Server("notes"))
		})
	}
}
