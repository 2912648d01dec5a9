package discover_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/discover"
)

func TestServerJSONRefuses(t *testing.T) {
	for text, want := range map[string]string{
		`{}`:                              "server.json:1:1: the name must be of the form",
		`{"name": "x"}`:                   "the name must be of the form",
		`{"name": "a.b/c\u200b"}`:         "the name must be of the form",
		`{"name": "a.b/c", "name": "d"}`:  "stands twice",
		`{"name": "a.b/c", "remotes": 1}`: "server.json:1:30: remotes is a number",
		`{"name": "a.b/c"} // comment`:    "server.json:1:19: ",
	} {
		_, err := discover.ServerJSON([]byte(text))
		require.ErrorContains(t, err, want, text)
	}
}

// TestServerJSONLeavesOut are packages and remotes that cannot become servers.
func TestServerJSONLeavesOut(t *testing.T) {
	for inside, want := range map[string]string{
		`"packages": [{"registryType": "cargo", "identifier": "x"}]`:                                                         "cannot be started by a command",
		`"packages": [{"registryType": "npm", "identifier": "x y", "version": "1.0.0"}]`:                                     "malformed",
		`"packages": [{"registryType": "npm", "identifier": "x", "version": "1.0.0 --evil"}]`:                                "malformed",
		`"packages": [{"registryType": "oci", "identifier": "x", "registryBaseUrl": "http://r.example"}]`:                    "its registry is not https://docker.io",
		`"packages": [{"registryType": "mcpb", "identifier": "https://u:hunter2@h.example/x.mcpb?t=hunter2"}]`:               "cannot be started by a command",
		`"remotes": [{"type": "streamable-http"}]`:                                                                           "it has no address",
		`"remotes": [{"type": "stdio", "url": "https://a.example"}]`:                                                         "neither streamable-http nor sse",
		`"remotes": [{"type": "sse", "url": "https://{k}.example", "variables": {"k": {"default": "x", "isSecret": true}}}]`: `a value for "{k}"`,
		`"remotes": [{"type": "sse", "url": "{u}", "variables": {"u": {"default": "file:///x"}}}]`:                           "no http or https URL",
	} {
		found, err := discover.ServerJSON([]byte(`{"name": "a.b/c", ` + inside + `}`))
		require.NoError(t, err)
		require.Empty(t, found.Servers, inside)
		require.Contains(t, notes(found), want)
		require.NotContains(t, notes(found), "hunter2")
	}
}

func TestServerJSONPackages(t *testing.T) {
	for inside, want := range map[string][]string{
		`"registryType": "npm", "identifier": "@a/b"`:                                                      {"npx", "-y", "@a/b"},
		`"registryType": "npm", "identifier": "b", "version": "1.0.0", "runtimeHint": "bunx"`:              {"bunx", "b@1.0.0"},
		`"registryType": "npm", "identifier": "b", "runtimeArguments": [{"type": "named", "name": "-y"}]`:  {"npx", "-y", "b"},
		`"registryType": "oci", "identifier": "a/b", "version": "1", "registryBaseUrl": "https://ghcr.io"`: {"docker", "run", "-i", "--rm", "ghcr.io/a/b:1"},
		`"registryType": "oci", "identifier": "ghcr.io/a/b:2", "version": "1", "runtimeHint": "podman"`:    {"podman", "run", "-i", "--rm", "ghcr.io/a/b:2"},
		`"registryType": "oci", "identifier": "a/b", "runtimeArguments": [{"type": "named", "name": "-e", "value": "MODE=hunter2"}, {"type": "named", "name": "--cpus=", "value": "1"}]`: {
			"docker", "run", "-i", "--rm", "-e", "MODE", "--cpus=1", "a/b"},
		`"registryType": "pypi", "identifier": "a", "packageArguments": [{"type": "positional", "value": "--api-key=hunter2"}, {"type": "positional", "value": "{x}"}, {"type": "positional", "valueHint": "p", "isRequired": true}]`: {
			"uvx", "a"},
	} {
		found, err := discover.ServerJSON([]byte(`{"name": "a.b/c", "packages": [{` + inside + `}]}`))
		require.NoError(t, err)
		require.Len(t, found.Servers, 1, inside)
		s := found.Servers[0]
		require.Equal(t, "c", s.Name)
		require.Equal(t, want, append([]string{s.Command}, s.Args...), inside)
		require.NotContains(t, notes(found), "hunter2")
	}
}
