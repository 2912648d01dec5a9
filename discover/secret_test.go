package discover

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSecretArgument(t *testing.T) {
	for _, arg := range []string{
		"--api-key=x", "--apiKey=x", "-token=x", "API_KEY=x", "DB_PASSWORD=x", "Authorization: x", "X-Api-Key: x", "Bearer abc", "Authorization: Basic dXNlcg==",
		"postgresql://user:pw@localhost/db", "https://token@example.com/x", "git+https://tok@github.com/a/b", "https://example.com/?access_token=x", "https://example.com/?code=x",
		"Server=db;User=sa;Password=x", "ghp_0123456789abcdefABCDEF0123456789abcd", "--x=ghp_0123456789abcdefABCDEF0123456789abcd", "sk-proj-Zx81kQ9vvT2pLm0aaB3c", "npm_abcdefghijklmnopqrstuvwxyzABCDEFGHIJ",
		"eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U",
		"wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "550e8400-e29b-41d4-a716-446655440000", "0123456789abcdef0123456789abcdef", "https://mcp.example.com/s/0123456789abcdef01234567/mcp",
		"-----BEGIN PRIVATE KEY-----\nabc", "curl -H 'X-Token: abc' https://x.example", `{"token":"0123456789abcdef01234567"}`, "https://example.com/%zz",
	} {
		require.True(t, secretArgument(arg), arg)
	}
	for _, arg := range []string{
		"", "-y", "run", "server.js", "/Users/username/Desktop/My Projects/app-2024", "@modelcontextprotocol/server-filesystem", "--port=8080", "--token-file=/run/secrets/token",
		"--max-tokens=100", "--model=claude-3-5-sonnet-20241022", "text-embedding-3-large", "us-east-1", "https://example.com/mcp?profile=free", "postgresql://postgres@localhost:5432/db",
		"http://localhost:3000/sse", "redis://localhost:6379/0", "NODE_ENV=production", "type=bind,src=/a,dst=/project", "ssh://git@github.com/a/b", "--no-auth", "--read-only", "127.0.0.1:8080",
		"npm_config_registry", "ModelContextProtocolServer", "sqlite:///var/lib/x/data.db", `C:\Users\me\Documents\server.exe`, "sk-learn-server-for-models",
	} {
		require.False(t, secretArgument(arg), arg)
	}
}

// TestSecretArgumentInPaths: long numbers in paths are no secrets, and tokens in paths are.
func TestSecretArgumentInPaths(t *testing.T) {
	const number = "2026110512345678901234567890"
	for arg, secret := range map[string]bool{
		"/data/" + number:                            false,
		"/data/" + number + "/report.csv":            false,
		"./" + number:                                false,
		"~/backups/" + number:                        false,
		"data/" + number + "/x":                      false,
		`C:\data\` + number:                          false,
		"--dir=/data/" + number:                      false,
		"DATA_DIR=/data/" + number:                   false,
		"src=/data/" + number + ",dst=/data":         false,
		number + ".json":                             false,
		"backup-" + number + ".tar.gz":               false,
		"/data/backup-v20261105123456-final":         false,
		"/data/20261105T123456Z-20261106T123456Z.db": false,
		"file:///data/" + number:                     false,
		"sqlite:///data/" + number + ".db":           false,

		number:                                                true,
		"--id=" + number:                                      true,
		"https://mcp.example.com/s/" + number:                 true,
		"--token=/data/" + number:                             true,
		"/data/0123456789abcdef0123456789abcdef":              true,
		"/data/" + number + "/0123456789abcdef01234567":       true,
		"/data/ghp_0123456789abcdefABCDEF0123456789abcd":      true,
		"/data/" + number + "-ghp_0123456789abcdefABCDEF0123": true,
		"/wJalrXUtnFEMIaK7MDENGbPx/RfiCY":                     true,
		"2026/wJalrXUtnFEMIK7MDENGbPxRfiCYEXAMPLEKEY":         true,
		"/bot123456789:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw":    true,
		"0123456789abcdef0123456789abcdef.json":               true,
		"file:///data/0123456789abcdef0123456789abcdef":       true,
		"sqlite:///data/x.db?token=" + number:                 true,
	} {
		require.Equal(t, secret, secretArgument(arg), arg)
	}
}

func TestRefer(t *testing.T) {
	for value, want := range map[string]reference{
		"${env:A_b}":       {env: "A_b"},
		"${A}":             {env: "A"},
		"${A:-x y}":        {env: "A", defaulted: true},
		"$A_B":             {env: "A_B"},
		"${input:my key}":  {input: "my key"},
		"${file:/run/x}":   {file: "/run/x"},
		"Bearer ${env:A}":  {scheme: "Bearer ", env: "A"},
		"token ${input:a}": {scheme: "token ", input: "a"},
	} {
		got, ok := refer(value)
		require.True(t, ok, value)
		require.Equal(t, want, got, value)
	}
	for _, value := range []string{"", "x", "$a", "$", "${}", "${env:}", "${env:A B}", "x${env:A}", "${env:A}x", "${workspaceFolder}", "${userHome}", "${A:-${B}}", "Bearer x", "${A}\n", "${input:}", "${file:a\u202e}", "${command:x}"} {
		_, ok := refer(value)
		require.False(t, ok, value)
	}
}

func TestFit(t *testing.T) {
	for name, want := range map[string]string{
		"a": "a", "A b": "A-b", "": "server", "日本": "server", "-_.x": "x", "a/b@c": "a-b-c", "a\u200bb": "a-b", "x(1)": "x-1", "раypal": "ypal",
	} {
		require.Equal(t, want, fit(name))
	}
	require.Equal(t, "A_B_C", upper("a-b", "c"))
	require.Equal(t, "_1", upper("1"))
	require.Equal(t, "_", upper("é"))
}

func TestHoldsSecret(t *testing.T) {
	for args, want := range map[[2]string]bool{
		{"", "server.js"}:                     false,
		{"--port", "8080"}:                    false,
		{"--api-key", "x"}:                    true,
		{"--api-key", "--port"}:               false,
		{"", "--token=x"}:                     true,
		{"", "https://u:p@example.org/mcp"}:   true,
		{"", "https://example.org/mcp?key=a"}: true,
		{"", "https://example.org/mcp"}:       false,
	} {
		require.Equal(t, want, HoldsSecret(args[0], args[1]), args)
	}
}
