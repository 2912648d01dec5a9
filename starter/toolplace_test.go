package main

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/catalog"
	"chimera.ai/engine/mcp"
)

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
		"arguments": {map[string]any{"args": []any{"--api-key", "other", "b.js"}}, []string{`the arguments: ["--api-key","[hidden]","a.js"], and now ["--api-key","[hidden]","b.js"]`}},
		"secret":    {map[string]any{"args": []any{"--api-key", "other", "a.js"}}, []string{"what is hidden of it, since it looks like a secret, differs"}},
		"folder":    {map[string]any{"cwd": "x"}, []string{"the working directory: none, and now x"}},
		"variables": {map[string]any{"env": map[string]any{"MODE": "b", "TOKEN": "plain", "MORE": nil}},
			[]string{"the variable DB_PASSWORD: [hidden], and now not there", "the variable MODE: a, and now b", "the variable TOKEN: a secret, and now [hidden]", "the variable MORE: not there, and now a secret"}},
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
			place, err := json.Marshal(kept(stdio))
			require.NoError(t, err)
			require.NotContains(t, string(place), "hunter2")
			was := &catalog.Server{Endpoint: "sha256:was", Place: place}
			require.Equal(t, c.want, movedFrom(was, []string{"sha256:was"}, is))
			require.Equal(t, c.want, movedFrom(was, nil, is))
			require.Empty(t, movedFrom(was, []string{"sha256:else"}, is), "the catalog pins another place than the one that is known")
		})
	}
	remote, err := json.Marshal(kept(map[string]any{"transport": "http", "url": "https://example.org/a", "ca": []any{"sha256:0"}}))
	require.NoError(t, err)
	require.Equal(t, []string{"the address: https://example.org/a, and now [hidden]", `the keys of the authorities: ["sha256:0"], and now not there`},
		movedFrom(&catalog.Server{Place: remote}, nil, map[string]any{"transport": "http", "url": "https://example.org/a?token=hunter2"}))
	require.Empty(t, movedFrom(nil, nil, stdio))
	require.Empty(t, movedFrom(&catalog.Server{}, nil, stdio), "an earlier import did not keep it")
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
