package config

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestWhatIsConfidential: the values of references, but not the text around them
// nor what every child is given anyway.
func TestWhatIsConfidential(t *testing.T) {
	t.Setenv("C_TOKEN", "token-token")
	t.Setenv("C_URL", "postgres://a:b@c/d")
	t.Setenv("C_PAYLOAD", "a:payload-key")
	dir := t.TempDir()
	file := filepath.Join(dir, "chimera.yaml")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "key"), []byte("file-secret\n"), 0o600))
	require.NoError(t, os.WriteFile(file, []byte(`
store: {url: '${env:C_URL}'}
ledger: {key: '${env:C_MISSING}'}
payload: {keys: ['${env:C_PAYLOAD}']}
skills: {s: {command: x, env: {A: 'Bearer ${env:C_TOKEN}', B: plain, C: '${env:HOME}/x'}}}
mcpServers: {m: {command: x, env: {A: '${file:key}'}}}
`), 0o600))
	c, ds := Load(file)
	require.Empty(t, ds)
	require.ElementsMatch(t, []Secret{"postgres://a:b@c/d", "a:payload-key"}, c.Secrets(), "before anything is resolved")
	resolved, err := c.Resolve()
	require.NoError(t, err)
	require.ElementsMatch(t, []Secret{"token-token", "file-secret", "postgres://a:b@c/d", "a:payload-key"}, resolved.Secrets())
	require.ElementsMatch(t, []Secret{"postgres://a:b@c/d", "a:payload-key"}, c.Secrets(), "what was resolved stays with the copy")
}
