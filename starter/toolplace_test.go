package main

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/catalog"
	"chimera.ai/engine/mcp"
)

// TestKeptHasNoSecrets: a secret is kept in no form, wherever it stands.
func TestKeptHasNoSecrets(t *testing.T) {
	for _, place := range []map[string]any{
		{"command": "c", "args": []any{"-u", "me:hunter2", "-p", "hunter2", "mysql://me@h/db?pw=hunter2", "--apiKey", "-hunter2"}},
		{"command": "c", "env": map[string]any{"FOO": "hunter2"}},
		{"url": "https://h/s/hunter2hunter2h/sse"},
		{"url": "https://me:hunter2@h/sse", "issuer": "https://h/hunter2", "token_url": "hunter2"},
	} {
		raw, err := json.Marshal(kept("sha256:0", place))
		require.NoError(t, err)
		require.NotContains(t, string(raw), "hunter2")
	}
}

// TestMoves: where a server was and where it is differ in words, and neither shows what looks like a secret.
func TestMoves(t *testing.T) {
	stdio := map[string]any{
		"transport": "stdio", "command": "node", "executable": "sha256:0", "args": []any{"--api-key", "hunter2", "a.js"}, "cwd": "",
		"env": map[string]any{"MODE": "a", "TOKEN": nil, "DB_PASSWORD": "hunter2"}, "pin": map[string]any{"a.js": "sha256:1"},
	}
	for name, c := range map[string]struct {
		is   map[string]any
		want []string
	}{
		"program":   {map[string]any{"command": "deno", "executable": "sha256:2"}, []string{"the program: node, and now deno", "the digest of the program: sha256:0, and now sha256:2"}},
		"arguments": {map[string]any{"args": []any{"--api-key", "other", "b.js"}}, []string{"argument 2: another, and now what looks like a secret", "argument 3: another, and now b.js"}},
		"fewer":     {map[string]any{"args": []any{"a.js"}}, []string{"the arguments: 3, and now 1", "argument 1: another, and now a.js"}},
		"value":     {map[string]any{"env": map[string]any{"MODE": "b", "TOKEN": nil, "DB_PASSWORD": "hunter2"}}, []string{"what is not kept of it differs: values of variables, or an address behind its host"}},
		"folder":    {map[string]any{"cwd": "x"}, []string{"the working directory: none, and now x"}},
		"variables": {map[string]any{"env": map[string]any{"MODE": "b", "TOKEN": "plain", "MORE": nil}},
			[]string{"the variable DB_PASSWORD: a value, and now not there", "the variable TOKEN: a secret, and now a value", "the variable MORE: not there, and now a secret"}},
		"pinned": {map[string]any{"pin": map[string]any{"a.js": "sha256:3", "b.js": "sha256:4"}},
			[]string{"the digest of the pinned a.js: sha256:1, and now sha256:3", "the digest of the pinned b.js: not there, and now sha256:4"}},
		"no pin": {map[string]any{"pin": nil}, []string{"the digest of the pinned a.js: sha256:1, and now not there"}},
	} {
		t.Run(name, func(t *testing.T) {
			is := map[string]any{}
			for _, all := range []map[string]any{stdio, c.is} {
				for k, v := range all {
					is[k] = v
				}
			}
			place, err := json.Marshal(kept("sha256:was", stdio))
			require.NoError(t, err)
			require.NotContains(t, string(place), "hunter2")
			was := &catalog.Server{Endpoint: "sha256:was", Place: place}
			require.Equal(t, c.want, movedFrom(was, []string{"sha256:was"}, is))
			require.Equal(t, c.want, movedFrom(was, nil, is))
			require.Empty(t, movedFrom(was, []string{"sha256:else"}, is), "the catalog pins another place than the one that is known")
		})
	}
	remote, err := json.Marshal(kept("sha256:was", map[string]any{"transport": "http", "url": "https://example.org/s/hunter2hunter2h/sse", "ca": []any{"sha256:0"}}))
	require.NoError(t, err)
	require.NotContains(t, string(remote), "hunter2")
	require.Equal(t, []string{"the address: https://example.org, and now https://example.com", `the keys of the authorities: ["sha256:0"], and now not there`},
		movedFrom(&catalog.Server{Place: remote}, nil, map[string]any{"transport": "http", "url": "https://example.com/a?token=hunter2"}))
	require.Empty(t, movedFrom(nil, nil, stdio))
	require.Empty(t, movedFrom(&catalog.Server{}, nil, stdio), "an earlier import did not keep it")
	old := &catalog.Server{Place: json.RawMessage(`{"transport":"stdio","command":"node","executable":"sha256:0","args":["--api-key","hunter2","b.js"],"cwd":"","env":{"MODE":"b","TOKEN":null,"DB_PASSWORD":"[hidden]"},"pin":{"a.js":"sha256:1"}}`)}
	require.Equal(t, []string{"argument 3: another, and now a.js"}, movedFrom(old, nil, stdio), "an earlier build kept more")
	require.Equal(t, "hunter2", stdio["args"].([]any)[1], "it is not changed")
}

// TestTemplatesOf: templates are compared by what they say, in whatever order they are.
func TestTemplatesOf(t *testing.T) {
	a, b := mcp.ResourceTemplate{URITemplate: "a://{x}", Name: "a"}, mcp.ResourceTemplate{URITemplate: "a://b/{x}", Name: "b", MIMEType: "text/plain", Description: "of b"}
	var i introduced
	i.Templates = []mcp.ResourceTemplate{b, a}
	was, err := templatesOf(&i)
	require.NoError(t, err)
	require.JSONEq(t, `[{"uriTemplate":"a://b/{x}","name":"b","mimeType":"text/plain","description":"of b"},{"uriTemplate":"a://{x}","name":"a"}]`, string(was))
	i.Templates = []mcp.ResourceTemplate{a, b}
	is, err := templatesOf(&i)
	require.NoError(t, err)
	changes, err := compareTemplates(was, is)
	require.NoError(t, err)
	require.Empty(t, changes)
	a.Name = "other"
	i.Templates = []mcp.ResourceTemplate{a}
	is, err = templatesOf(&i)
	require.NoError(t, err)
	changes, err = compareTemplates(was, is)
	require.NoError(t, err)
	require.Len(t, changes, 2)
	require.Equal(t, templatesPart, changes[0].Part)
}
