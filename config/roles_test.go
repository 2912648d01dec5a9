package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestRolesResolveTheirOwn: a process reads the secrets of its own roles, and does
// not even look for others.
func TestRolesResolveTheirOwn(t *testing.T) {
	dir := t.TempDir()
	text := `
store: {driver: postgres, url: '${env:R_URL}', blobs: BLOBS}
ledger: {key: '${env:R_LOG}'}
trust: {author_key: '${env:R_AUTHOR}', start_key: '${env:R_START}'}
payload: {keys: ['${env:R_PAYLOAD}']}
console: {codec: {token: '${env:R_CODEC}'}}
skills: {s: {command: x, env: {A: '${env:R_SKILL}'}}}
mcpServers:
  m: {url: 'https://x', headers: {A: '${env:R_SERVER}'}, oauth: {issuer: 'https://i', token_url: 'https://t', client_id: a, client_secret: '${env:R_CLIENT}'}}
`
	all := []string{"R_URL", "R_LOG", "R_AUTHOR", "R_START", "R_PAYLOAD", "R_CODEC", "R_SKILL", "R_SERVER", "R_CLIENT"}
	for name, c := range map[string]struct {
		blobs string
		roles []string
		want  []Secret
		fails bool // where nothing else is set
	}{
		"engine":                  {"dir", []string{"engine"}, []Secret{"R_URL", "R_LOG", "R_PAYLOAD"}, false},
		"tools":                   {"dir", []string{"tools"}, []Secret{"R_PAYLOAD", "R_SKILL", "R_SERVER", "R_CLIENT"}, true},
		"tools, values in tables": {"database", []string{"tools"}, []Secret{"R_URL", "R_PAYLOAD", "R_SKILL", "R_SERVER", "R_CLIENT"}, true},
		"both":                    {"dir", []string{"engine", "tools"}, []Secret{"R_URL", "R_LOG", "R_PAYLOAD", "R_SKILL", "R_SERVER", "R_CLIENT"}, true},
		"as configured":           {"dir", nil, []Secret{"R_URL", "R_LOG", "R_PAYLOAD", "R_SKILL", "R_SERVER", "R_CLIENT"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(dir, c.blobs+".yaml")
			require.NoError(t, os.WriteFile(file, []byte(strings.ReplaceAll(text, "BLOBS", c.blobs)), 0o600))
			settings, ds := Load(file)
			require.Empty(t, ds)
			_, err := settings.Resolve(c.roles...)
			require.Equal(t, c.fails, err != nil, "a reference that cannot be resolved stops those who need it: %v", err)
			for _, variable := range all {
				t.Setenv(variable, variable)
			}
			resolved, err := settings.Resolve(c.roles...)
			require.NoError(t, err)
			require.ElementsMatch(t, c.want, resolved.Secrets())
			if len(c.roles) > 0 {
				require.Equal(t, c.roles, resolved.Worker.Roles)
			}
			require.Equal(t, resolved.Has("tools"), len(resolved.MCPServers) == 1)
			require.Equal(t, resolved.Has("tools"), len(resolved.Skills) == 1)
			require.Len(t, settings.Skills, 1, "the original stays")
		})
	}
}
