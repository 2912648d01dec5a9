package discover_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"chimera.ai/engine/config"
	"chimera.ai/engine/discover"
)

var one = []discover.Server{{Name: "a", Command: "x", Args: []string{"-y", "no", "1.0"}, Env: map[string]string{"K": "${env:K}"}}}

const block = "  a:\n    command: x\n    args: [\"-y\", \"no\", \"1.0\"]\n    env:\n      K: \"${env:K}\"\n"

const braces = `"a": {"command": "x", "args": ["-y", "no", "1.0"], "env": {"K": "${env:K}"}}`

func TestYAML(t *testing.T) {
	for name, c := range map[string]struct{ before, want string }{
		"new":                 {"", "mcpServers:\n" + block},
		"comments only":       {"# mine\n", "# mine\nmcpServers:\n" + block},
		"other keys":          {"author: me # me\n# end\n", "author: me # me\n# end\nmcpServers:\n" + block},
		"no last line end":    {"author: me", "author: me\nmcpServers:\n" + block},
		"no servers yet":      {"mcpServers: # none yet\n  # one:\nauthor: me\n", "mcpServers: # none yet\n" + block + "  # one:\nauthor: me\n"},
		"null":                {"mcpServers: ~ # none\nauthor: me\n", "mcpServers:  # none\n" + block + "author: me\n"},
		"empty":               {"mcpServers: {}\nauthor: me\n", "mcpServers: \n" + block + "author: me\n"},
		"empty at the end":    {"mcpServers:", "mcpServers:\n" + block},
		"behind another":      {"mcpServers:\n  b: # first\n    command: y # it\n  # more\nauthor: me\n", "mcpServers:\n  b: # first\n    command: y # it\n" + block + "  # more\nauthor: me\n"},
		"indented by four":    {"mcpServers:\n    b: {command: y}\n", "mcpServers:\n    b: {command: y}\n    a:\n      command: x\n      args: [\"-y\", \"no\", \"1.0\"]\n      env:\n        K: \"${env:K}\"\n"},
		"behind a list":       {"mcpServers:\n  b:\n    command: y\n    args:\n    - |\n      x\n\nauthor: me\n", "mcpServers:\n  b:\n    command: y\n    args:\n    - |\n      x\n" + block + "\nauthor: me\n"},
		"in braces":           {"mcpServers: {b: {command: y}} # all\n", "mcpServers: {b: {command: y}, " + braces + "} # all\n"},
		"a trailing comma":    {"mcpServers: {b: {command: y},}\n", "mcpServers: {b: {command: y}, " + braces + ",}\n"},
		"JSON":                {`{"author": "me"}`, `{"author": "me", "mcpServers": {` + braces + "}}"},
		"empty JSON":          {"{}\n", `{"mcpServers": {` + braces + "}}\n"},
		"JSON with none":      {`{"mcpServers": {}, "author": "me"}`, `{"mcpServers": {` + braces + `}, "author": "me"}`},
		"JSON with null":      {`{"mcpServers": null, "author": "me"}`, `{"mcpServers": {` + braces + `}, "author": "me"}`},
		"carriage returns":    {"author: me\r\n", "author: me\r\nmcpServers:\r\n" + strings.ReplaceAll(block, "\n", "\r\n")},
		"an anchor elsewhere": {"mcpServers:\n  b: &b\n    command: y\n  c: *b\n", "mcpServers:\n  b: &b\n    command: y\n  c: *b\n" + block},
	} {
		out, err := discover.YAML([]byte(c.before), one)
		require.NoError(t, err, name)
		require.Equal(t, c.want, string(out), name)

		file := filepath.Join(t.TempDir(), "chimera.yaml")
		require.NoError(t, os.WriteFile(file, out, 0o600))
		loaded, found := config.Load(file)
		require.False(t, found.HasErrors(), "%s: %v", name, found)
		require.Equal(t, []string{"-y", "no", "1.0"}, loaded.MCPServers["a"].Args)
		require.Equal(t, "${env:K}", loaded.MCPServers["a"].Env["K"].Reveal())
	}
	out, err := discover.YAML([]byte("author: me\n"), nil)
	require.NoError(t, err)
	require.Equal(t, "author: me\n", string(out))
}

func TestYAMLRefuses(t *testing.T) {
	for before, want := range map[string]string{
		"mcpServers:\n  a: {command: y}\n":                `chimera.yaml:2: there is a server "a" already`,
		"mcpServers: [a]\n":                               "chimera.yaml:1: mcpServers is a list",
		"- a\n":                                           "the configuration is a list",
		"author: me\n---\nauthor: you\n":                  "more than one document",
		"author: me\nauthor: you\n":                       "chimera.yaml:2:1: ",
		"x: &m\n  b: {command: y}\nmcpServers: *m\n":      "cannot be changed safely",
		"mcpServers:\n  b:\n    command: |+\n      x\n\n": "cannot be changed safely",
		"author: |+\n  me\n\n":                            "",
		"# " + strings.Repeat("x", discover.MaxFile-2):    "would have",
	} {
		_, err := discover.YAML([]byte(before), one)
		if want == "" {
			require.NoError(t, err, before)
			continue
		}
		require.ErrorContains(t, err, want)
	}
	_, err := discover.YAML(nil, append(one, one...))
	require.ErrorContains(t, err, `there are two called "a"`)
}

// TestYAMLReadsBack: whatever texts a server has, package config reads the same.
func TestYAMLReadsBack(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.StringMatching(`[ -~]{1,20}`), rapid.SampledFrom([]string{"null", "~", "y", "1e3", "0x1", "-", "a: b", "a #b", "[x", "'", "\\", "ü", "日本", "a\nb", "\tx", "@a/b", ".5", "...", "---"}))
		args := rapid.SliceOfN(text.Filter(func(s string) bool { return !strings.Contains(s, "${") }), 1, 5).Draw(t, "args")
		s := discover.Server{Name: rapid.StringMatching(`[0-9A-Za-z][0-9A-Za-z._-]{0,10}`).Draw(t, "name"), Command: "x", Args: args}
		before := rapid.SampledFrom([]string{"", "author: me\n", "mcpServers: {}\n", `{"author": "me"}`, "mcpServers:\n  other__:\n    command: y"}).Draw(t, "before")
		out, err := discover.YAML([]byte(before), []discover.Server{s})
		require.NoError(t, err)
		file := filepath.Join(dir, "chimera.yaml")
		require.NoError(t, os.WriteFile(file, out, 0o600))
		c, found := config.Load(file)
		require.False(t, found.HasErrors(), "%s\n%v", out, found)
		require.Equal(t, args, c.MCPServers[s.Name].Args)
	})
}

func TestSet(t *testing.T) {
	for text, want := range map[string]string{
		"mcpServers:\n  a:\n    command: x # c\n  # of b\n  b: {command: y}\n": "mcpServers:\n  a:\n    command: x # c\n    manifest: m/a.json\n  # of b\n  b: {command: y}\n",
		"mcpServers:\n    a:\n        env:\n            X: y":                  "mcpServers:\n    a:\n        env:\n            X: y\n        manifest: m/a.json\n",
		"mcpServers: {a: {command: x}} # c\n":                                  "mcpServers: {a: {command: x, \"manifest\": \"m/a.json\"}} # c\n",
		"mcpServers:\r\n  a:\r\n    command: x\r\ntools: t\r\n":                "mcpServers:\r\n  a:\r\n    command: x\r\n    manifest: m/a.json\r\ntools: t\r\n",
		"mcpServers: {\"a\": {\n  \"command\": \"x\",\n}}\n":                   "mcpServers: {\"a\": {\n  \"command\": \"x\", \"manifest\": \"m/a.json\",\n}}\n",
	} {
		got, err := discover.Set([]byte(text), "a", "manifest", "m/a.json")
		require.NoError(t, err, text)
		require.Equal(t, want, string(got))
		_, err = discover.Set(got, "a", "manifest", "other")
		require.ErrorContains(t, err, "has the key manifest already")
	}
	for _, text := range []string{"", "a: b", "mcpServers:\n  b: {command: x}\n", "mcpServers: {a: {}}", "mcpServers: []", "- a", "mcpServers: {a: 3}", "x: &x {command: y}\nmcpServers: {a: *x}\n"} {
		_, err := discover.Set([]byte(text), "a", "manifest", "m")
		require.Error(t, err, text)
	}
}

// TestSetList: a list stands in one line, in the notation of its file.
func TestSetList(t *testing.T) {
	for text, want := range map[string]string{
		"mcpServers:\n  a: # mine\n    command: node # c\n    args: [a.js]\n  # of b\n  b: {command: y}\n": "mcpServers:\n  a: # mine\n    command: node # c\n    args: [a.js]\n    pin: [dist/a.js, \"a b\"]\n  # of b\n  b: {command: y}\n",
		"mcpServers: {a: {command: x}} # c\n": "mcpServers: {a: {command: x, \"pin\": [\"dist/a.js\", \"a b\"]}} # c\n",
	} {
		got, err := discover.Set([]byte(text), "a", "pin", []string{"dist/a.js", "a b"})
		require.NoError(t, err, text)
		require.Equal(t, want, string(got))
		_, err = discover.Set(got, "a", "pin", []string{"other"})
		require.ErrorContains(t, err, "has the key pin already")
	}
}
