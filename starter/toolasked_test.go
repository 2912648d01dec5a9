package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

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

// TestWaitingIsSaid: whoever waits is told for which servers.
func TestWaitingIsSaid(t *testing.T) {
	for _, args := range [][]string{{"tools", "list"}, {"tools", "import", "quick", "slow", "--yes"}} {
		t.Run(args[1], func(t *testing.T) {
			dir := t.TempDir()
			t.Chdir(dir)
			self, err := os.Executable()
			require.NoError(t, err)
			require.NoError(t, os.Symlink(self, filepath.Join(dir, "notes"))) // as the scripts do
			require.NoError(t, os.WriteFile("tools.json", []byte(`[{"name":"read","inputSchema":{"type":"object"}}]`), 0o600))
			require.NoError(t, os.WriteFile("chimera.yaml", []byte("mcpServers:\n  quick: {command: ./notes}\n  slow: {command: tail, args: [-f, /dev/null]}\n"), 0o600))
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			stderr := &untilSaid{line: regexp.MustCompile("(?m)^waiting for (quick, )?slow$"), cancel: cancel}
			var stdout bytes.Buffer
			p := &Program{Stdin: strings.NewReader(""), Stdout: &stdout, Stderr: stderr}
			require.NoError(t, p.Parse(args))
			err = p.Run(ctx)
			require.NoError(t, p.Close())
			var f *failure
			require.ErrorAs(t, err, &f)
			require.Equal(t, exitUnanswered, f.code)
			require.Regexp(t, stderr.line, stderr.all.String())
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
