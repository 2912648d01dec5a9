//go:build unix

package mcp

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	protocol "github.com/mark3labs/mcp-go/mcp"
	mcpserver "github.com/mark3labs/mcp-go/server"
	"github.com/stretchr/testify/require"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/internal/npm"
	"chimera.ai/engine/internal/process"
)

// airwave is a server over HTTP with server-sent events that tests make misbehave.
type airwave struct {
	*httptest.Server
	// endpoint is what the stream says first, and post and ping are the statuses of answers to a call and
	// a ping.
	endpoint   string
	post, ping int
	// attack is what it answers to what that attack is an answer to.
	attack string
	// vary, if it is there, is how what it lists varies.
	vary   string
	varied varied

	mu      sync.Mutex
	out     chan string
	wild    chan message
	streams int
	heard   []string
	// tools are what it lists, and then what it lists from the next call on.
	tools, then string
}

// seen returns how many streams there were, and what was posted where.
func (a *airwave) seen() (int, []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.streams, slices.Clone(a.heard)
}

func newAirwave(t *testing.T) *airwave {
	t.Helper()
	a := &airwave{tools: echoTool, endpoint: "event: endpoint\ndata: /post?session=1", post: http.StatusAccepted, ping: http.StatusAccepted}
	a.Server = httptest.NewServer(a)
	t.Cleanup(a.Close)
	return a
}

func (a *airwave) pool(t *testing.T, change ...func(*Options)) *Pool {
	t.Helper()
	o := quiet
	for _, c := range change {
		c(&o)
	}
	return openPool(t, Server{URL: a.URL + "/sse", SSE: true, Addresses: here, Headers: map[string]string{"Authorization": "Bearer x"}}, o)
}

func (a *airwave) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Authorization") != "Bearer x" {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	if r.Method == http.MethodGet {
		out, wild := make(chan string, 100), make(chan message, 100)
		a.mu.Lock()
		a.out, a.wild = out, wild
		a.streams++
		a.mu.Unlock()
		emit(w, "%s", a.endpoint)
		for {
			select {
			case line := <-out:
				if line == "end" {
					return
				}
				emit(w, "event: message\ndata: %s", line)
			case m := <-wild:
				fmt.Fprint(w, "data: ")
				attacked(w, a.attack, m)
				emit(w, "")
				emit(w, "data: %s", ignored)
			case <-r.Context().Done():
				return
			}
		}
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	var m message
	_ = json.Unmarshal(body, &m)
	a.mu.Lock()
	a.heard = append(a.heard, r.URL.Path+" "+m.Method)
	out, wild, post, tools := a.out, a.wild, a.post, a.tools
	if m.Method == "tools/call" && a.then != "" {
		a.tools = a.then
	}
	a.mu.Unlock()
	if m.Method == "tools/call" && post != http.StatusAccepted {
		w.Header().Set("Location", "/elsewhere")
		w.WriteHeader(post)
		return
	}
	if m.Method == "ping" {
		w.WriteHeader(a.ping)
		return
	}
	w.WriteHeader(http.StatusAccepted)
	switch {
	case a.attack != "" && m.Method == attacks[a.attack].method:
		wild <- m
	case a.vary == "list_changed" && m.Method == "tools/call":
		out <- changedNote
		out <- fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, a.varied.result(a.vary, m))
		out <- changedNote
	case a.vary != "" && m.Method == "tools/list":
		out <- fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, a.varied.result(a.vary, m))
	case m.Method == "initialize":
		out <- fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2024-11-05","capabilities":{"tools":{}},"serverInfo":{"name":"a","version":"1"}}}`, m.ID)
	case m.Method == "tools/list":
		out <- fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"tools":[%s]}}`, m.ID, tools)
	case m.Params.Name == "end":
		out <- "end"
	case m.Params.Name == "long":
		out <- fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%q}`, m.ID, strings.Repeat("x", 100_000))
	case m.Params.Name == "hang":
	case m.Params.Name == "ask":
		out <- `{"jsonrpc":"2.0","id":"a","method":"roots/list"}`
	case m.Method == "tools/call":
		out <- fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"fine"}]}}`, m.ID)
	}
}

func TestSSE(t *testing.T) {
	idle(t)
	a := newAirwave(t)
	p := a.pool(t, func(o *Options) { o.MaxLine, o.AskGrace = 1<<16, soon })
	require.Equal(t, "fine", textOf(t, p, "x"))
	_, err := pinned(t, p, pinOf(t, p, "echo", true))
	require.NoError(t, err)
	for tool, kind := range map[string]contract.Kind{"long": contract.TooLarge, "ask": contract.NeedsInput} {
		_, err := call(t, p, tool, "")
		requireKind(t, kind, err)
	}
	requireKind(t, contract.Timeout, brief(t, p, "hang", ""))
	require.Equal(t, "fine", textOf(t, p, "x"))
	streams, _ := a.seen()
	require.Equal(t, 1, streams)
	// The session lives as long as the stream.
	_, err = call(t, p, "end", "")
	requireKind(t, contract.Transport, err)
	require.Equal(t, "fine", textOf(t, p, "x"))
	require.NoError(t, p.Close())
	streams, heard := a.seen()
	require.Equal(t, 2, streams)
	for _, line := range heard {
		require.True(t, strings.HasPrefix(line, "/post "), line)
	}
}

// A server on a stream of events changes as others do: it is listed before each call, and after it again, on
// the same stream.
func TestSSEDrift(t *testing.T) {
	const list, called = "/post tools/list", "/post tools/call"
	for name, tool := range changed {
		for _, after := range []bool{false, true} {
			t.Run(name+map[bool]string{true: " after the call"}[after], func(t *testing.T) {
				a := newAirwave(t)
				p := a.pool(t)
				pin := pinOf(t, p, "echo", true)
				_, err := pinned(t, p, pin)
				require.NoError(t, err)
				_, heard := a.seen()
				require.Equal(t, []string{list, called, list}, heard[len(heard)-3:])
				before := len(heard)
				a.mu.Lock()
				if after {
					a.then = tool
				} else {
					a.tools = tool
				}
				a.mu.Unlock()
				_, err = pinned(t, p, pin)
				streams, heard := a.seen()
				require.Equal(t, 1, streams)
				if after {
					requireKind(t, contract.OutcomeUnknown, err)
					require.Equal(t, []string{list, called, list}, heard[before:])
				} else {
					require.Contains(t, requireKind(t, kindOf(name), err).Message, differs[name])
					require.Equal(t, []string{list}, heard[before:])
				}
				_, err = pinned(t, p, pin)
				require.True(t, requireKind(t, kindOf(name), err).Kind.NothingSent())
				_, later := a.seen()
				require.NotContains(t, later[len(heard):], called)
			})
		}
	}
}

func TestSSEEndpoint(t *testing.T) {
	idle(t)
	other := newSite(t)
	for name, c := range map[string]struct {
		endpoint string
		good     bool
	}{
		"relative":           {"event: endpoint\ndata: post", true},
		"a comment first":    {": hi\n\nevent: other\ndata: x\n\nevent: endpoint\ndata: /post", true},
		"another origin":     {"event: endpoint\ndata: " + other.URL + "/post", false},
		"another scheme":     {"event: endpoint\ndata: https://127.0.0.1/post", false},
		"without a scheme":   {"event: endpoint\ndata: //127.0.0.1:1/post", false},
		"a user":             {"event: endpoint\ndata: http://u@HOST/post", false},
		"a file":             {"event: endpoint\ndata: file:///etc/passwd", false},
		"no URL":             {"event: endpoint\ndata: http://[::1", false},
		"too long":           {"event: endpoint\ndata: /" + strings.Repeat("x", maxEndpoint), false},
		"a message, no more": {"event: message\ndata: {}", false},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAirwave(t)
			a.endpoint = strings.Replace(c.endpoint, "HOST", a.Listener.Addr().String(), 1)
			if c.good {
				require.Equal(t, "fine", textOf(t, a.pool(t), "x"))
				return
			}
			_, err := call(t, a.pool(t, func(o *Options) { o.StartTimeout = soon }), "x", "")
			requireKind(t, contract.Unsent, err)
			_, heard := a.seen()
			require.Empty(t, heard)
		})
	}
	require.Empty(t, other.record().taken)
}

func TestSSEFailures(t *testing.T) {
	idle(t)
	for status, kind := range map[int]contract.Kind{
		401: contract.Auth, 403: contract.Auth, 429: contract.Throttled, 503: contract.Throttled, 307: contract.ServerError, 500: contract.ServerError, 400: contract.ServerError,
	} {
		a := newAirwave(t)
		p := a.pool(t)
		require.Equal(t, "fine", textOf(t, p, "x"))
		a.mu.Lock()
		a.post = status
		a.mu.Unlock()
		_, err := call(t, p, "x", "")
		requireKind(t, kind, err)
		a.mu.Lock()
		a.post = http.StatusAccepted
		a.mu.Unlock()
		require.Equal(t, "fine", textOf(t, p, "x"))
	}
	for status, kind := range map[int]contract.Kind{401: contract.Auth, 503: contract.Throttled, 302: contract.Unsent, 200: contract.Unsent, 404: contract.Unsent} {
		s := newSite(t)
		s.meanwhile(func(w http.ResponseWriter, _ *http.Request, _ message) bool {
			w.Header().Set("Content-Type", "text/html")
			w.WriteHeader(status)
			return true
		})
		_, err := call(t, openPool(t, Server{URL: s.URL, SSE: true, Addresses: here}, quiet), "x", "")
		requireKind(t, kind, err)
	}
}

func TestSSEOfMCPGo(t *testing.T) {
	s := mcpserver.NewMCPServer("real", "1", mcpserver.WithToolCapabilities(true))
	s.AddTool(protocol.NewTool("echo", protocol.WithString("message")), mcpEcho)
	h := mcpserver.NewSSEServer(s)
	site := httptest.NewServer(h)
	defer site.Close()
	p := openPool(t, Server{URL: site.URL + "/sse", SSE: true, Addresses: here}, quiet)
	requireEcho(t, p)
	require.NoError(t, p.Close())
}

// everything starts the protocol's test server in one of its modes, and returns its address. It starts it on
// another port if the one that was free has been taken meanwhile.
func everything(t *testing.T, mode string) string {
	t.Helper()
	for range 10 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		_, port, err := net.SplitHostPort(l.Addr().String())
		require.NoError(t, err)
		require.NoError(t, l.Close())
		child, err := process.Start(process.Spec{Command: npm.Bin(t, "mcp-server-everything"), Args: []string{mode}, Env: map[string]string{"PORT": port}, Guard: true})
		require.NoError(t, err)
		go func() { _, _ = io.Copy(io.Discard, child.Stdout) }()
		t.Cleanup(func() {
			require.NoError(t, child.Stop(soon))
			child.Stdin.Close()
			child.Stdout.Close()
			child.Stderr.Close()
		})
		for said := bufio.NewScanner(child.Stderr); said.Scan(); {
			if strings.HasSuffix(said.Text(), " on port "+port) {
				go func() { _, _ = io.Copy(io.Discard, child.Stderr) }()
				return "http://localhost:" + port
			}
		}
	}
	require.FailNow(t, "the server does not start")
	return ""
}

func TestServerEverythingRemote(t *testing.T) {
	for mode, path := range map[string]string{"streamableHttp": "/mcp", "sse": "/sse"} {
		t.Run(mode, func(t *testing.T) {
			p := openPool(t, Server{URL: everything(t, mode) + path, SSE: mode == "sse", Addresses: here}, quiet)
			all := names(t, p)
			require.Contains(t, all, "echo")
			r, err := call(t, p, "echo", `{"message":"hello"}`)
			require.NoError(t, err)
			require.Equal(t, "Echo: hello", *r.Text)
			r, err = call(t, p, "get-structured-content", `{"location":"Chicago"}`)
			require.NoError(t, err)
			require.Contains(t, string(r.Structured), `"temperature"`)
			_, err = p.CallPinned(t.Context(), "h", "echo", json.RawMessage(`{"message":"hello"}`), pinOf(t, p, "echo", true))
			require.NoError(t, err)
			requireKind(t, contract.Timeout, brief(t, p, "trigger-long-running-operation", `{"duration":600,"steps":2}`))
			r, err = call(t, p, "trigger-long-running-operation", `{"duration":0.1,"steps":5}`)
			require.NoError(t, err)
			require.NotNil(t, r.Text)
			_, err = call(t, p, "no_such_tool", `{}`)
			requireKind(t, contract.ToolError, err)
			require.NotContains(t, all, "trigger-sampling-request")
			require.NoError(t, p.Close())
		})
	}
}
