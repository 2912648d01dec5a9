package discover

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPlain: what plainly is no secret is copied, and nothing else.
func TestPlain(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "notes 1.txt")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	token := filepath.Join(dir, "ghp_0123456789abcdefABCDEF0123456789abcd")
	require.NoError(t, os.Mkdir(token, 0o700))
	for _, c := range []struct{ name, value, want string }{
		{"WORKDIR", dir, "the path of a file or folder that is here"},
		{"WORKDIR", dir + "/", "the path of a file or folder that is here"},
		{"NOTES", file, "the path of a file or folder that is here"},
		{"WORKDIR", dir + "/none", ""},
		{"WORKDIR", dir + "/../" + filepath.Base(dir), ""},
		{"WORKDIR", ".", ""},
		{"WORKDIR", "~", ""},
		{"WORKDIR", token, ""},
		{"WORKDIR", dir + "\x00", ""},
		{"WORKDIR", "/" + strings.Repeat("a", maxPath), ""},
		{"TOKEN", dir, ""},
		{"TOKEN_FILE", dir, ""},
		{"apiKeyFolder", dir, ""},

		{"DEPTH", "3", "a number"},
		{"RATIO", "-0.25", "a number"},
		{"SIZE", "1048576", "a number"},
		{"SIZE", "10485760", ""},
		{"SIZE", "1e3", ""},
		{"SIZE", "0x10", ""},
		{"PIN", "1234", ""},
		{"ACCESS_CODE", "123456", ""},
		{"MAX_TOKENS", "100", ""},
		{"DB_PASSWORD", "1", ""},
		{"passwd", "1", ""},
		{"userId", "12", ""},

		{"VERBOSE", "true", "a boolean"},
		{"VERBOSE", "Off", "a boolean"},
		{"VERBOSE", "enabled", ""},
		{"SECRET", "true", ""},

		{"NODE_ENV", "production", "a setting that is no secret"},
		{"LOG_LEVEL", "debug", "a setting that is no secret"},
		{"log_level", "debug", "a setting that is no secret"},
		{"TZ", "Europe/Berlin", "a setting that is no secret"},
		{"LANG", "en_US.UTF-8", "a setting that is no secret"},
		{"PORT", "8080", "a number"},
		{"NODE_ENV", "ghp_0123456789abcdefABCDEF0123456789abcd", ""},
		{"NODE_ENV", "0123456789abcdef0123456789abcdef", ""},
		{"NODE_ENV", "Bearer abc", ""},
		{"NODE_ENV", "${X}", ""},
		{"NODE_ENV", "a\u202eb", ""},
		{"NODE_ENV", "", ""},
		{"NODE_ENV", strings.Repeat("word-", 9), ""},
		{"MODE", "production", ""},
		{"URL", "https://example.com", ""},
		{"A", "hunter2", ""},
	} {
		require.Equal(t, c.want, plain(c.name, c.value), "%s=%q", c.name, c.value)
	}
}
