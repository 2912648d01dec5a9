package discover_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/config"
	"chimera.ai/engine/diag"
	"chimera.ai/engine/discover"
)

var update = flag.Bool("update", false, "write the golden files of this test")

// TestGolden reads a file of each host, written after its documentation, and server.json
// files. The literal secrets in all of them hold "hunter2".
func TestGolden(t *testing.T) {
	var files []string
	for _, pattern := range []string{"testdata/*.json", "testdata/registry/*.json"} {
		found, err := filepath.Glob(pattern)
		require.NoError(t, err)
		files = append(files, found...)
	}
	require.Len(t, files, 10)
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			raw, err := os.ReadFile(file)
			require.NoError(t, err)
			var found discover.Found
			if filepath.Base(filepath.Dir(file)) == "registry" {
				found, err = discover.ServerJSON(raw)
			} else {
				found, err = discover.Parse(filepath.Base(file), raw)
			}
			require.NoError(t, err)
			out, err := discover.YAML(nil, found.Servers)
			require.NoError(t, err)
			var b strings.Builder
			for _, n := range found.Notes {
				fmt.Fprintf(&b, "# %d:%d: %s\n", n.Line, n.Column, n.Text)
			}
			got := b.String() + string(out)
			require.NotContains(t, got, "hunter2")
			loads(t, out, len(found.Servers))

			golden := strings.TrimSuffix(file, ".json") + ".golden.yaml"
			if *update {
				require.NoError(t, os.WriteFile(golden, []byte(got), 0o644))
			}
			want, err := os.ReadFile(golden)
			require.NoError(t, err)
			require.Equal(t, string(want), got, "run go test ./discover -run TestGolden -update")
		})
	}
}

// loads checks that package config reads a file with as many servers. Addresses and headers
// may be more than it supports.
func loads(t *testing.T, yaml []byte, servers int) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "chimera.yaml")
	require.NoError(t, os.WriteFile(file, yaml, 0o600))
	c, found := config.Load(file)
	for _, d := range found {
		require.Equal(t, diag.ConfigNotSupported, d.Code, "%s: %s", d.Summary, yaml)
	}
	require.Len(t, c.MCPServers, servers)
}
