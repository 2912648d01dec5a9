//go:build unix

package npm

import (
	"encoding/json"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestInstalled(t *testing.T) {
	require.FileExists(t, Bin(t, "mcp-server-filesystem"))
	require.FileExists(t, Bin(t, "mcp-server-everything"))

	require.FileExists(t, Bin(t, "conformance"))
	require.FileExists(t, Node(t))

	load := exec.Command("node", "-e", `const {Connection, Client} = require("@temporalio/client"); console.log(typeof Connection, typeof Client)`)
	load.Dir = Dir(t)
	out, err := load.CombinedOutput()
	require.NoError(t, err, string(out))
	require.Equal(t, "function function", strings.TrimSpace(string(out)))
}

func TestVersionsAreExact(t *testing.T) {
	var m struct{ Dependencies, OptionalDependencies map[string]string }
	require.NoError(t, json.Unmarshal(manifest, &m))
	require.NotEmpty(t, m.Dependencies)
	require.NotEmpty(t, m.OptionalDependencies)
	for _, all := range []map[string]string{m.Dependencies, m.OptionalDependencies} {
		for name, version := range all {
			require.Regexp(t, regexp.MustCompile(`^\d+\.\d+\.\d+$`), version, name)
		}
	}
}

// The lock file must work with any registry, and every package needs a digest.
func TestLock(t *testing.T) {
	var l struct {
		Packages map[string]struct {
			Version, Resolved, Integrity string
		}
	}
	require.NoError(t, json.Unmarshal(lock, &l))
	require.Greater(t, len(l.Packages), 10)
	for name, p := range l.Packages {
		require.Empty(t, p.Resolved, name)
		if name != "" {
			require.NotEmpty(t, p.Integrity, name)
		}
	}
}

func TestNoNode(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, err := installIn(t.Context(), t.TempDir())
	require.EqualError(t, err, "node is not on PATH: install Node.js 20 or later")
}
