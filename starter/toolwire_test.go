package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/fingerprint"
	"chimera.ai/engine/host"
	"chimera.ai/engine/schemas"
)

// TestImportPublicServers: servers that list the public definitions are imported by the command, from the
// wire into a catalog, and each definition is then what it was.
func TestImportPublicServers(t *testing.T) {
	definitions, public := publicDefinitions(t)
	program, err := exec.LookPath("notes")
	require.NoError(t, err)
	dir := t.TempDir()
	lists, want := map[string][]json.RawMessage{}, map[string]string{}
	for _, d := range definitions {
		var members map[string]json.RawMessage
		require.NoError(t, json.Unmarshal(d, &members))
		var server, name string
		require.NoError(t, json.Unmarshal(members["server"], &server))
		require.NoError(t, json.Unmarshal(members["name"], &name))
		delete(members, "server") // it is the collection's
		raw, err := json.Marshal(members)
		require.NoError(t, err)
		print, err := fingerprint.Tool(raw)
		require.NoError(t, err)
		lists[server] = append(lists[server], raw)
		want[server+"/"+name] = print.Digest
	}
	require.Len(t, want, len(definitions))
	var settings strings.Builder
	settings.WriteString("mcpServers:\n") // started by a shell, since what is started is hashed
	for server, tools := range lists {
		require.NoError(t, os.Mkdir(filepath.Join(dir, server), 0o700))
		raw, err := json.Marshal(tools)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, server, "tools.json"), raw, 0o600))
		fmt.Fprintf(&settings, "  %s: {command: sh, args: [-c, exec %q], cwd: %q, env: {GORACE: atexit_sleep_ms=0}}\n", server, program, filepath.Join(dir, server))
	}
	file := filepath.Join(dir, "chimera.yaml")
	require.NoError(t, os.WriteFile(file, []byte(settings.String()), 0o600))

	// Nothing is guessed where nobody is asked, and what was flagged is left out until it is named.
	imports := func(args ...string) (code int, said string) {
		var out, messages bytes.Buffer
		code = run(slices.Concat([]string{"tools", "import", "--yes", "--config", file}, args, slices.Collect(maps.Keys(lists))), strings.NewReader(""), &out, &messages)
		return code, out.String() + messages.String()
	}
	code, said := imports()
	first := exitDone
	var flagged []string
	if public {
		first, flagged = exitNegative, []string{"gitlab/approve_merge_request", "gitlab/get_merge_request_file_diff", "mongodb/aggregate", "mongodb/explain", "mongodb/export"}
	}
	require.Equal(t, first, code, said)
	all, _, ds, err := host.LoadCatalog(filepath.Join(dir, toolsFile))
	require.NoError(t, err)
	require.Empty(t, ds)
	require.Len(t, all.Templates, len(definitions)-len(flagged))
	for _, x := range all.Templates {
		require.NotContains(t, flagged, x.Name())
	}
	var named []string
	for _, tool := range flagged {
		_, name, _ := strings.Cut(tool, "/")
		named = append(named, "--accept", name)
	}
	code, said = imports(named...)
	require.Equal(t, exitDone, code, said)
	all, _, ds, err = host.LoadCatalog(filepath.Join(dir, toolsFile))
	require.NoError(t, err)
	require.Empty(t, ds)
	have := map[string]string{}
	for _, x := range all.Templates {
		have[x.Name()] = x.Fingerprint
		print, err := fingerprint.Tool(x.Definition)
		require.NoError(t, err)
		require.Equal(t, x.Fingerprint, print.Digest)
		var d struct{ InputSchema, OutputSchema json.RawMessage }
		require.NoError(t, json.Unmarshal(x.Definition, &d))
		same(t, d.InputSchema, x.InputSchema)
		if d.OutputSchema != nil && string(d.OutputSchema) != "null" {
			same(t, d.OutputSchema, x.OutputSchema)
		}
	}
	require.Equal(t, want, have)
}

// same holds that two schemas have the same canonical bytes.
func same(t *testing.T, want, have json.RawMessage) {
	t.Helper()
	canonical := func(raw json.RawMessage) string {
		v, err := schemas.Decode(raw)
		require.NoError(t, err)
		bytes, err := fingerprint.Canonical(v)
		require.NoError(t, err)
		return string(bytes)
	}
	require.Equal(t, canonical(want), canonical(have))
}
