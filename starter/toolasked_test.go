package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"chimera.ai/engine/internal/lengthy"
	"chimera.ai/engine/mcp"
)

// untilSaid cancels once something has been written.
type untilSaid struct {
	mu     sync.Mutex
	all    bytes.Buffer
	line   *regexp.Regexp
	cancel context.CancelFunc
}

func (u *untilSaid) Write(b []byte) (int, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.all.Write(b)
	if u.line.Match(u.all.Bytes()) {
		u.cancel()
	}
	return len(b), nil
}

// hanging makes a folder with servers that have one tool. Each is called as the method that it never answers,
// but for the one called quick.
func hanging(t *testing.T, methods ...string) {
	t.Helper()
	dir := t.TempDir()
	t.Chdir(dir)
	self, err := os.Executable()
	require.NoError(t, err)
	notes := filepath.Join(dir, "notes") // as in the scripts
	require.NoError(t, os.Symlink(self, notes))
	settings := "mcpServers:\n"
	for _, method := range methods {
		name := strings.ReplaceAll(method, "/", "-")
		require.NoError(t, os.Mkdir(name, 0o700))
		for file, text := range map[string]string{
			"hangs":           method,
			"tools.json":      `[{"name":"read","inputSchema":{"type":"object"}}]`,
			"initialize.json": `{"protocolVersion":"2025-06-18","capabilities":{"tools":{},"resources":{}},"serverInfo":{"name":"notes","version":"1"}}`,
		} {
			require.NoError(t, os.WriteFile(filepath.Join(name, file), []byte(text), 0o600))
		}
		settings += fmt.Sprintf("  %s: {command: %s, cwd: %s}\n", name, notes, name)
	}
	require.NoError(t, os.WriteFile("chimera.yaml", []byte(settings), 0o600))
}

// TestSilentServers: a server that does not say in time what it offers is named with what it was asked, and the
// others go on. One that does not list its resources has its tools.
func TestSilentServers(t *testing.T) {
	lengthy.Skip(t)
	const late = "tools-list: %sMCP server tools-list: the deadline passed after tools/list was sent\n  A server has 1m0s to start, and to say what it offers.\n"
	for name, c := range map[string]struct {
		servers, args  []string
		stdout, stderr string
	}{
		"list": {[]string{"quick", "tools/list"}, []string{"tools", "list"},
			`^not in the catalog quick/read sha256:[0-9a-f]{64}\n$`, fmt.Sprintf(late, "")},
		"import": {[]string{"quick", "tools/list", "resources/list"}, []string{"tools", "import", "tools-list", "resources-list", "quick", "--yes"},
			`(?s)^new        resources-list/read .*new        quick/read irreversible manual_review\n$`,
			`resources-list: its resources are left out: .*after resources/list was sent\n` + fmt.Sprintf(late, "nothing is imported: ")},
	} {
		t.Run(name, func(t *testing.T) {
			hanging(t, c.servers...)
			var stdout, stderr bytes.Buffer
			p := &Program{Stdin: strings.NewReader(""), Stdout: &stdout, Stderr: &stderr}
			require.NoError(t, p.Parse(c.args))
			err := p.Run(t.Context())
			require.NoError(t, p.Close())
			var f *failure
			require.ErrorAs(t, err, &f)
			require.Equal(t, exitUnanswered, f.code, stderr.String())
			require.Regexp(t, c.stdout, stdout.String())
			require.Regexp(t, c.stderr, stderr.String())
		})
	}
}

// TestWaitingIsSaid: whoever waits is told for which servers, and after an interrupt what became of all.
func TestWaitingIsSaid(t *testing.T) {
	for _, c := range []struct {
		args []string
		said string
	}{
		{[]string{"tools", "list"}, `MCP server tools-list: the call was cancelled after tools/list was sent$`},
		{[]string{"tools", "import", "quick", "tools-list", "--yes"},
			`quick: nothing is imported: (it has answered, and the import was interrupted|.* (was sent|was starting))\ntools-list: nothing is imported: MCP server tools-list: the call was cancelled after tools/list was sent$`},
	} {
		t.Run(c.args[1], func(t *testing.T) {
			hanging(t, "quick", "tools/list")
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			said := make(chan struct{})
			go func() { // it is interrupted once both are listing, and that was said
				select {
				case <-said:
				case <-ctx.Done():
				}
				assert.Eventually(t, func() bool {
					_, quick := os.Stat("quick/notes.log")
					_, list := os.Stat("tools-list/notes.log")
					return quick == nil && list == nil || ctx.Err() != nil
				}, 5*time.Minute, 10*time.Millisecond)
				cancel()
			}()
			stderr := &untilSaid{line: regexp.MustCompile("(?m)^waiting for (quick, )?tools-list$"), cancel: sync.OnceFunc(func() { close(said) })}
			var stdout bytes.Buffer
			p := &Program{Stdin: strings.NewReader(""), Stdout: &stdout, Stderr: stderr}
			require.NoError(t, p.Parse(c.args))
			err := p.Run(ctx)
			require.NoError(t, p.Close())
			var f *failure
			require.ErrorAs(t, err, &f)
			require.Equal(t, exitUnanswered, f.code)
			require.Regexp(t, stderr.line, stderr.all.String())
			require.Regexp(t, c.said, strings.TrimSpace(stderr.all.String()))
			require.Error(t, ctx.Err(), "it ended before anybody was told")
		})
	}
}

// TestLoaded: a script among the arguments is named, which the digest of its interpreter says nothing of,
// unless the configuration pins something.
func TestLoaded(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	require.NoError(t, os.MkdirAll("dist", 0o700))
	require.NoError(t, os.WriteFile("dist/index.js", nil, 0o600))
	other := filepath.Join(t.TempDir(), "other.js")
	require.NoError(t, os.WriteFile(other, nil, 0o600))
	for name, c := range map[string]struct {
		server mcp.Server
		want   []string
		said   string
	}{
		"script":  {mcp.Server{Command: "node", Args: []string{"--strict", "dist/index.js", "dist"}}, []string{"dist/index.js"}, ". What it loads is not: for that set pin: [dist/index.js] in mcpServers.s, and import again"},
		"another": {mcp.Server{Command: "node", Args: []string{other}}, []string{other}, other},
		"cwd":     {mcp.Server{Command: "node", Args: []string{"index.js"}, Dir: "dist"}, []string{"dist/index.js"}, "dist/index.js"},
		"none":    {mcp.Server{Command: "npx", Args: []string{"-y", "x@1.0.0"}}, nil, "are the program npx, its arguments and its environment. What that loads is not, unless mcpServers.s.pin names it"},
		"pinned":  {mcp.Server{Command: "node", Args: []string{"dist/index.js"}, Pin: []string{"dist"}}, nil, ", and what mcpServers.s.pin names"},
		"remote":  {mcp.Server{URL: "https://example.com/mcp"}, nil, "are its address"},
	} {
		t.Run(name, func(t *testing.T) {
			c.server.Base = dir
			place := map[string]any{"command": c.server.Command}
			if c.server.Dir != "" {
				place["cwd"] = filepath.Join(dir, c.server.Dir)
			}
			if c.server.Pin != nil {
				place["pin"] = map[string]any{}
			}
			if c.server.URL != "" {
				place = map[string]any{"url": c.server.URL}
			}
			i := introduced{place: place, files: loaded(c.server, place)}
			require.Equal(t, c.want, i.files)
			require.Contains(t, i.pins("s"), c.said)
		})
	}
}

func TestWhereabouts(t *testing.T) {
	require.Equal(t, "npx -y a@1", whereabouts(map[string]any{"command": "npx", "args": []any{"-y", "a@1"}}))
	require.Equal(t, "https://a.example/mcp", whereabouts(map[string]any{"url": "https://a.example/mcp"}))
}
