//go:build unix

package mcp

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/internal/testca"
)

func TestEndpoint(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	file := filepath.Join(dir, "server")
	require.NoError(t, os.WriteFile(file, []byte("#!/bin/sh\n"), 0o700))
	require.NoError(t, os.Symlink("server", filepath.Join(dir, "link")))
	digest := fmt.Sprintf("sha256:%x", sha256.Sum256([]byte("#!/bin/sh\n")))
	t.Setenv("PATH", dir)
	base := Server{
		Command: "link", Args: []string{"-a"}, Env: map[string]string{"B": "secret", "A": "open"}, Public: []string{"A"}, Dir: dir, Pin: []string{file}, Base: dir,
	}
	got, err := base.Endpoint()
	require.NoError(t, err)
	require.Equal(t, map[string]any{
		"transport": "stdio", "command": "link", "executable": digest, "args": []any{"-a"}, "env": map[string]any{"A": "open", "B": nil}, "cwd": ".",
		"pin": map[string]any{"server": digest},
	}, got)
	ca := testca.New(t, "authority")
	two := []string{"sha256:" + strings.Repeat("0", 64), "sha256:" + strings.Repeat("1", 64)}
	remote := Server{
		URL: "https://example.com/mcp", SSE: true, Headers: map[string]string{"X-Key": "secret"},
		TLS:   TLS{CAFile: ca.File, ServerName: "a", Pins: []string{two[1], two[0], two[1]}},
		OAuth: &OAuth{Issuer: "https://issuer.example.com", TokenURL: "https://issuer.example.com/token", ClientID: "secret", ClientSecret: "secret"},
	}
	got, err = remote.Endpoint()
	require.NoError(t, err)
	require.Equal(t, map[string]any{
		"transport": "sse", "url": "https://example.com/mcp", "ca": []any{keyDigest(ca.Cert)}, "server_name": "a", "pins": []any{two[0], two[1]},
		"issuer": "https://issuer.example.com", "token_url": "https://issuer.example.com/token",
	}, got)
	raw, err := json.Marshal(got)
	require.NoError(t, err)
	require.NotContains(t, string(raw), "secret")
	got, err = Server{URL: "https://example.com/mcp"}.Endpoint()
	require.NoError(t, err)
	require.Equal(t, map[string]any{"transport": "http", "url": "https://example.com/mcp"}, got)

	for _, s := range []Server{{}, {Command: "no-such-command"}, {Command: dir}, {Command: filepath.Join(dir, "none")}, {URL: "http://example.com"}, {URL: "https://example.com", TLS: TLS{CAFile: dir}}, {URL: "https://example.com", TLS: TLS{CAFile: file}}, {Command: file, Pin: []string{filepath.Join(dir, "none")}}} {
		_, err := s.Endpoint()
		require.Error(t, err, s)
	}
}
