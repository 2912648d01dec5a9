package discover_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"chimera.ai/engine/discover"
)

// servers parses the inside of mcpServers.
func servers(t *testing.T, inside string) discover.Found {
	t.Helper()
	found, err := discover.Parse("f.json", []byte(`{"mcpServers":{`+inside+`}}`))
	require.NoError(t, err)
	return found
}

func notes(found discover.Found) string {
	var b strings.Builder
	for _, n := range found.Notes {
		b.WriteString(n.Text + "\n")
	}
	return b.String()
}

func TestParseRefuses(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"no JSON":         {`{"mcpServers": {`, "f.json:1:17: "},
		"duplicate":       {"{\n \"mcpServers\": {\"a\": {}, \"a\": {}}}", `f.json:2:26: the key "a" stands twice`},
		"no servers":      {`{"mcp": {}}`, "the file has no mcpServers"},
		"a list":          {`[]`, "no JSON object"},
		"empty":           {``, "f.json:1:1: "},
		"servers a list":  {`{"servers": []}`, "f.json:1:13: the servers are a list"},
		"YAML":            {`mcpServers: {}`, "f.json:1:1: "},
		"a # comment":     {"{\n# x\n\"mcpServers\":{}}", "f.json:2:1: "},
		"two values":      {`{"mcpServers":{}} {}`, "f.json:1:19: "},
		"an open comment": {`{"mcpServers":{}} /* x`, "f.json:1:19: "},
		"lone commas":     {`{"mcpServers":{,}}`, "f.json:1:16: "},
		"two commas":      {`{"mcpServers":{"a":{},,}}`, "f.json:1:23: "},
		"collision":       {"{\"mcpServers\": {\n\"a b\": {\"url\":\"https://a.example\"},\n\"a@b\": {\"url\":\"https://a.example\"}}}", `f.json:3:1: server "a@b" is called a-b here, and so is that of line 2, column 1`},
		"too large":       {`{"mcpServers":{}}` + strings.Repeat(" ", discover.MaxFile), "at most 1048576 are read"},
		"too deep":        {`{"a":` + strings.Repeat("[", 70) + strings.Repeat("]", 70) + `,"mcpServers":{}}`, "nested too deep"},
		"bytes":           {"{\"mcpServers\":{\"\xff\":{}}}", "f.json:1:16: "},
	} {
		_, err := discover.Parse("f.json", []byte(c.text))
		require.ErrorContains(t, err, c.want, name)
	}
}

// TestServersLeftOut are entries that cannot become servers.
func TestServersLeftOut(t *testing.T) {
	for inside, want := range map[string]string{
		`"a": null`: "it is a null, not an object",
		`"a": {}`:   "neither a command nor an address",
		`"a": {"command": "x", "url": "https://a.example"}`:                                      "both a command and an address",
		`"a": {"command": 1}`:                                                                    "command is a number",
		`"a": {"command": "x", "args": "y"}`:                                                     "args must be a list",
		`"a": {"command": "x", "args": [["y"]]}`:                                                 "args[0] is a list",
		`"a": {"command": "x", "args": ["y\u202e"]}`:                                             "args[0] holds characters that do not show",
		`"a": {"command": "x\u200b"}`:                                                            "command holds characters that do not show",
		`"a": {"command": "${HOME}/x"}`:                                                          "its command holds a reference",
		`"a": {"command": "TOKEN=hunter2 x"}`:                                                    "its command holds a secret",
		`"a": {"command": "sh", "args": ["-c", "TOKEN=hunter2 npx x"]}`:                          "a shell would run what is left of it",
		`"a": {"command": "npx", "args": ["-y", "${PKG}"]}`:                                      "what it runs could not be taken over",
		`"a": {"command": "uvx", "args": ["--from", "git+https://hunter2@github.com/a/b", "b"]}`: "what it runs could not be taken over",
		`"a": {"url": "file:///etc/passwd"}`:                                                     "no http or https URL",
		`"a": {"url": "https://${input:host}/mcp"}`:                                              "no http or https URL",
		`"a": {"url": "https://a.example/${X}/mcp"}`:                                             "its address holds a reference",
		`"a": {"url": "https://a.example/s/hunter2hunter2hunter2hunter2/mcp"}`:                   "seems to hold a secret",
		`"a": {"url": "https://аpple.example/mcp"}`:                                              "a host that is not ASCII",
		`"a": {"url": "https://a.example/\u200bmcp"}`:                                            "url holds characters that do not show",
		`"a": {"type": "ws", "url": "wss://a.example"}`:                                          `its type "ws" is not known`,
		`"a": {"type": "http", "command": "x"}`:                                                  "its type does not fit",
		`"a": {"type": "stdio", "url": "https://a.example"}`:                                     "its type does not fit",
		`"a": {"url": "https://a.example", "headers": {"A": "x", "a": "y"}}`:                     `the header "a" stands twice`,
		`"a": {"command": "x", "disabled": true}`:                                                "not in use there",
		`"a": {"command": "x", "enabled": false}`:                                                "not in use there",
	} {
		found := servers(t, inside)
		require.Empty(t, found.Servers, inside)
		require.Contains(t, notes(found), `server "a" was left out: `)
		require.Contains(t, notes(found), want)
		require.NotContains(t, notes(found), "hunter2")
	}
}

func TestArguments(t *testing.T) {
	for in, want := range map[string]string{
		`["--port", 3000, true]`:                             `[--port 3000 true]`,
		`["--api-key", "hunter2", "run"]`:                    `[run]`,
		`["--api-key=hunter2", "run"]`:                       `[run]`,
		`["-H", "hunter2", "run"]`:                           `[run]`,
		`["--header", "Authorization: Bearer hunter2", "x"]`: `[x]`,
		`["--token", "--verbose"]`:                           `[--token --verbose]`,
		`["--db", "postgres://u:hunter2@h/d"]`:               `[]`,
		`["-y", "postgres://u:hunter2@h/d"]`:                 `[-y]`,
		`["${A}", "x"]`:                                      `[x]`,
		`["--dir", "${workspaceFolder}", "x"]`:               `[x]`,
		`["--dir=${workspaceFolder}", "x"]`:                  `[x]`,
		`["--", "${A}"]`:                                     `[--]`,
		`["a b", "", "ü"]`:                                   `[a b  ü]`,
	} {
		found := servers(t, `"a": {"command": "run-it", "args": `+in+`}`)
		require.Len(t, found.Servers, 1)
		require.Equal(t, want, fmt.Sprint(found.Servers[0].Args), in)
		require.NotContains(t, notes(found), "hunter2")
	}
}

// TestVariables: no value of one server gets a variable that holds another's.
func TestVariables(t *testing.T) {
	found := servers(t, `
		"a": {"command": "x", "env": {"KEY": "hunter2", "ONE": "hunter2", "PATH": "hunter2", "B_KEY": "hunter2", "FROM": "${env:GIVEN}"}},
		"b": {"command": "x", "env": {"KEY": "hunter2", "GIVEN": "hunter2", "IN": "${input:key}", "bad name": "hunter2"}},
		"c": {"url": "https://a.example", "headers": {"X-Key": "hunter2", "x_key": "hunter2", "Y": "Bearer ${input:given}", "Z": "${input:key}"}}`)
	require.Equal(t, map[string]string{"KEY": "${env:A_KEY}", "ONE": "${env:ONE}", "PATH": "${env:A_PATH}", "B_KEY": "${env:B_KEY}", "FROM": "${env:GIVEN}"}, found.Servers[0].Env)
	require.Equal(t, map[string]string{"KEY": "${env:B_KEY_2}", "GIVEN": "${env:B_GIVEN}", "IN": "${env:INPUT_KEY}"}, found.Servers[1].Env)
	require.Equal(t, map[string]string{"X-Key": "${env:C_X_KEY}", "x_key": "${env:C_X_KEY_2}", "Y": "Bearer ${env:INPUT_GIVEN}", "Z": "${env:INPUT_KEY}"}, found.Servers[2].Headers)
	require.NotContains(t, notes(found), "hunter2")
}

func TestContainerEnv(t *testing.T) {
	found := servers(t, `"a": {"command": "docker", "args": ["run", "-e", "A=hunter2", "-eB=hunter2", "--env=C=${C2}", "-e", "D", "img", "-e", "E_TOKEN=hunter2"], "env": {"D": "hunter2", "A": "hunter2"}}`)
	require.Equal(t, []string{"run", "-e", "A", "-eB", "--env=C", "-e", "D", "img"}, found.Servers[0].Args)
	require.Equal(t, map[string]string{"A": "${env:A}", "B": "${env:B}", "C": "${env:C2}", "D": "${env:D}"}, found.Servers[0].Env)
	require.Equal(t, &discover.Unpinned{Manager: "oci", Package: "img", Arg: 7}, plain(found.Servers[0].Unpinned))
	require.NotContains(t, notes(found), "hunter2")
}

// TestEnvCommand: the variables of env become the server's.
func TestEnvCommand(t *testing.T) {
	found := servers(t, `"a": {"command": "/usr/bin/env", "args": ["GREETING=hunter2", "K=${X}", "npx", "-y", "pkg", "LEVEL=info"]}`)
	require.Equal(t, []string{"npx", "-y", "pkg", "LEVEL=info"}, found.Servers[0].Args)
	require.Equal(t, map[string]string{"GREETING": "${env:GREETING}", "K": "${env:X}"}, found.Servers[0].Env)
	require.Equal(t, 2, found.Servers[0].Unpinned.Arg)
	require.NotContains(t, notes(found), "hunter2")
}

func TestNotes(t *testing.T) {
	found := servers(t, `"a": {"command": "bash", "args": ["-c", "npx x"]}`)
	require.Contains(t, notes(found), "whether what its shell runs is pinned is not known")
	found, err := discover.Parse("f", []byte(`{"projects": {"/x": {"mcpServers": {"a": {}}}, "/y": {"mcpServers": {}}}, "mcpServers": {}}`))
	require.NoError(t, err)
	require.Equal(t, []discover.Note{{Line: 1, Column: 36, Text: `the servers of project "/x" were not read`}}, found.Notes)
}

// plain is u without its unexported fields.
func plain(u *discover.Unpinned) *discover.Unpinned {
	return &discover.Unpinned{Manager: u.Manager, Package: u.Package, Have: u.Have, Registry: u.Registry, Arg: u.Arg}
}

func TestAddress(t *testing.T) {
	for in, want := range map[string]string{
		"https://a.example/mcp?x=1&y":                    "https://a.example/mcp?x=1&y",
		"https://u:hunter2@a.example/mcp":                "https://a.example/mcp",
		"https://a.example/mcp?api_key=hunter2&b=1&a=2":  "https://a.example/mcp?a=2&b=1",
		"https://a.example/?x=hunter2hunter2hunter2a1b2": "https://a.example/",
		"https://a.example/?x=${env:X}":                  "https://a.example/",
		"https://a.example/#hunter2":                     "https://a.example/",
		"http://localhost:3000/sse":                      "http://localhost:3000/sse",
	} {
		found := servers(t, `"a": {"url": "`+in+`"}`)
		require.Equal(t, want, found.Servers[0].URL, in)
		require.NotContains(t, notes(found), "hunter2")
	}
}

func TestJSONWithComments(t *testing.T) {
	text := "\ufeff// ü\r\n{ /* ü */ \"mcpServers\": {\n\t\"a//b\": {\"command\": \"x\", \"args\": [\"/* no comment */\", \"\\\"//\",], \"icon\": 1,},\n},}\n// end"
	found, err := discover.Parse("f", []byte(text))
	require.NoError(t, err)
	require.Equal(t, []string{"/* no comment */", "\"//"}, found.Servers[0].Args)
	require.Equal(t, discover.Note{Line: 3, Column: 2, Text: `server "a//b" is called a-b here`, Server: "a-b"}, found.Notes[0])
	require.Equal(t, discover.Note{Line: 3, Column: 66, Text: `server "a//b": "icon" was dropped`, Server: "a-b"}, found.Notes[1])
}

// TestNotesAreBounded: many foreign keys do not make many notes.
func TestNotesAreBounded(t *testing.T) {
	var b strings.Builder
	for i := range 2000 {
		fmt.Fprintf(&b, `,"k%d":0`, i)
	}
	found := servers(t, `"a":{"command":"x"`+b.String()+`}`)
	require.Len(t, found.Notes, 1001)
	require.Equal(t, "1000 more notes are not shown", found.Notes[1000].Text)
}

// TestManyVariables: names that collide cost no more than others.
func TestManyVariables(t *testing.T) {
	var b strings.Builder
	const chars = "!#$%&'*+.^`|~-"
	for _, x := range chars {
		for _, y := range chars {
			for _, z := range "!#$%" {
				fmt.Fprintf(&b, `,"a%c%c%c":"x"`, x, y, z)
			}
		}
	}
	found := servers(t, `"a":{"url":"https://a.example","headers":{`+b.String()[1:]+`}}`)
	seen := map[string]bool{}
	for _, v := range found.Servers[0].Headers {
		require.False(t, seen[v])
		seen[v] = true
	}
	require.Len(t, seen, 14*14*4)
}

// TestNoLiteralValue: no literal value of a variable or header comes out anywhere, be it as
// it is, in base64 or in part, nor does its length show.
func TestNoLiteralValue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		secret := rapid.StringMatching(`[A-Za-z0-9+/_=.-]{3,40}Q9x[A-Za-z0-9 {}:"\\$\n]{1,20}`).Draw(t, "secret")
		around := rapid.SampledFrom([]string{"%s", "Bearer %s", "Basic %s", "x${env:A}%s", "${A:-%s}", "%s${input:x}", "${%s"}).Draw(t, "around")
		value, err := json.Marshal(fmt.Sprintf(around, secret))
		require.NoError(t, err)
		name := rapid.SampledFrom([]string{"A", "API_KEY", "PATH", "x"}).Draw(t, "name")
		text := fmt.Sprintf(rapid.SampledFrom([]string{
			`{"mcpServers":{"s":{"command":"x","env":{%q:%s}}}}`,
			`{"servers":{"s":{"url":"https://a.example","headers":{%q:%s}}},"inputs":[{"id":"x"}]}`,
			`{"context_servers":{"s":{"command":{"path":"x","env":{%q:%s}}}}}`,
			`{"mcp":{"servers":{"s":{"command":"x","env":{%q:%s}},"t":{"command":"x","env":{"A":"b","API_KEY":"c"}}}}}`,
			`{"name":"a.b/s","packages":[{"registryType":"npm","identifier":"x","version":"1.0.0","environmentVariables":[{"name":%q,"value":%s}]}]}`,
			`{"name":"a.b/s","remotes":[{"type":"sse","url":"https://a.example","headers":[{"name":%q,"value":%s}]}]}`,
		}).Draw(t, "text"), name, value)
		found, err := discover.Parse("f", []byte(text))
		if strings.HasPrefix(text, `{"name"`) {
			found, err = discover.ServerJSON([]byte(text))
		}
		require.NoError(t, err)
		require.NotEmpty(t, found.Servers)
		yaml, err := discover.YAML(nil, found.Servers)
		require.NoError(t, err)
		// The same with another value has the same outcome, so nothing depends on it.
		require.NotContains(t, fmt.Sprintf("%+v\n%s", found, yaml), "Q9x")
		again := strings.Replace(text, string(value), `"Q9x"`, 1)
		other, err := discover.Parse("f", []byte(again))
		if strings.HasPrefix(text, `{"name"`) {
			other, err = discover.ServerJSON([]byte(again))
		}
		require.NoError(t, err)
		if !strings.Contains(around, "${A:-") || strings.ContainsAny(secret, "{}") {
			require.Equal(t, other.Servers, found.Servers)
			if len(other.Notes) == len(found.Notes) && around != "%s${input:x}" {
				for i := range other.Notes {
					require.Equal(t, other.Notes[i].Text, found.Notes[i].Text)
				}
			}
		}
	})
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		`{"mcpServers":{"a":{"command":"npx","args":["-y","x@1"],"env":{"A":"b"}}}}`,
		"// c\n{\"servers\":{\"a\":{\"url\":\"https://u:p@h/?k=v\",\"headers\":{\"A\":\"Bearer ${input:x}\"},},},\"inputs\":[{\"id\":\"x\"}]}",
		`{"mcpServers":{"a":{"command":"docker","args":["run","-e","A=b","img"]}}}`, `{"context_servers":{"a":{"command":{"path":"x"}}}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		found, err := discover.Parse("f", raw)
		sound(t, found, err)
	})
}

func FuzzServerJSON(f *testing.F) {
	for _, seed := range []string{
		`{"name":"a.b/c","packages":[{"registryType":"oci","identifier":"x/y","version":"1","runtimeArguments":[{"type":"named","name":"-v","value":"{a}:/b","variables":{"a":{"default":"/x"}}}]}]}`,
		`{"server":{"name":"a.b/c","remotes":[{"type":"sse","url":"https://{h}/x","variables":{"h":{"default":"a"}},"headers":[{"name":"A","isRequired":true}]}]}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		found, err := discover.ServerJSON(raw)
		sound(t, found, err)
	})
}

// sound checks what holds for whatever was found: it can be written, and package config
// reads it.
func sound(t *testing.T, found discover.Found, err error) {
	if err != nil {
		require.Empty(t, found)
		return
	}
	for _, n := range found.Notes {
		require.NotContains(t, n.Text, "\n")
		require.LessOrEqual(t, len(n.Text), 2000)
	}
	yaml, err := discover.YAML(nil, found.Servers)
	if err == nil {
		loads(t, yaml, len(found.Servers))
	} else {
		require.ErrorContains(t, err, "at most")
	}
}
