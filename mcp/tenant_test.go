//go:build unix

package mcp

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	protocol "github.com/mark3labs/mcp-go/mcp"
	mcpserver "github.com/mark3labs/mcp-go/server"
	"github.com/stretchr/testify/require"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/internal/lengthy"
	"chimera.ai/engine/internal/testca"
)

// as is the pool for a run of an agent.
func as(p *Pool, agent, run string) *Pool { return p.For(Principal{Agent: agent, Run: run}) }

// counting makes servers of mcp-go whose tool counts the calls of a session.
func counting() *mcpserver.MCPServer {
	var mu sync.Mutex
	counts := map[string]int{}
	s := mcpserver.NewMCPServer("real", "1", mcpserver.WithToolCapabilities(true))
	s.AddTool(protocol.NewTool("count"), func(ctx context.Context, _ protocol.CallToolRequest) (*protocol.CallToolResult, error) {
		mu.Lock()
		defer mu.Unlock()
		id := mcpserver.ClientSessionFromContext(ctx).SessionID()
		counts[id]++
		return protocol.NewToolResultText(strconv.Itoa(counts[id])), nil
	})
	return s
}

func TestSharing(t *testing.T) {
	steps := []struct {
		agent, run         string
		agents, runs, both string
	}{
		{"a", "1", "1", "1", "1"},
		{"a", "1", "2", "2", "2"},
		{"b", "1", "1", "1", "3"},
		{"a", "2", "3", "1", "4"},
		{"b", "1", "2", "2", "5"},
		{"", "", "1", "1", "6"},
		{"a", "1", "4", "3", "7"},
		{"", "", "2", "2", "8"},
	}
	for name, begin := range map[string]func(t *testing.T) Server{
		"stdio": func(t *testing.T) Server { return hostileServer(t, "ok") },
		"http": func(t *testing.T) Server {
			h := mcpserver.NewStreamableHTTPServer(counting(), mcpserver.WithStateful(true))
			ours := testca.New(t, "authority")
			s := secure(t, h, &tls.Config{Certificates: []tls.Certificate{ours.Server(t, "server")}})
			return Server{URL: s.URL + "/mcp", Addresses: here, TLS: TLS{CAFile: ours.File}}
		},
		"sse": func(t *testing.T) Server {
			s := httptest.NewServer(mcpserver.NewSSEServer(counting()))
			t.Cleanup(s.Close)
			return Server{URL: s.URL + "/sse", SSE: true, Addresses: here}
		},
	} {
		for _, sharing := range []Sharing{"", ByAgent, ByRun, Shared} {
			t.Run(name+" "+string(sharing), func(t *testing.T) {
				idle(t)
				conf := begin(t)
				conf.Sessions = sharing
				p := openPool(t, conf, quiet)
				for i, s := range steps {
					want := map[Sharing]string{"": s.agents, ByAgent: s.agents, ByRun: s.runs, Shared: s.both}[sharing]
					require.Equal(t, want, textOf(t, as(p, s.agent, s.run), "count"), "step %d", i)
				}
				within(t, func() { require.NoError(t, as(p, "b", "1").Close()) })
				_, err := call(t, as(p, "a", "1"), "count", "")
				requireKind(t, contract.Unsent, err)
			})
		}
	}
}

// What looks at a server, and what calls, may be of one principal.
func TestPrincipalOfLooks(t *testing.T) {
	s := newSite(t)
	p := as(openPool(t, Server{URL: s.URL + "/mcp", Addresses: here}, quiet), "a", "1")
	_, err := p.Introduction(t.Context(), "h")
	require.NoError(t, err)
	_, err = p.Tools(t.Context(), "h")
	require.NoError(t, err)
	_, err = p.CallPinned(t.Context(), "h", "echo", nil, pinOf(t, p, "echo", true))
	require.NoError(t, err)
	_, err = p.Resources(t.Context(), "h", Pin{})
	require.Error(t, err)
	require.Equal(t, 1, s.beginnings())
}

func TestCrashOfOneAgentsServer(t *testing.T) {
	p := hostilePool(t, "ok")
	a, b := as(p, "a", ""), as(p, "b", "")
	require.Equal(t, "1", textOf(t, a, "count"))
	require.Equal(t, "1", textOf(t, b, "count"))
	hung := make(chan error, 1)
	go func() {
		_, err := call(t, b, "meet:2", "")
		hung <- err
	}()
	require.Eventually(t, func() bool { return textOf(t, b, "peak") == "1" }, bound, time.Millisecond)
	_, err := call(t, a, "crash", "")
	requireKind(t, contract.Transport, err)
	require.Equal(t, "1", textOf(t, a, "count"))
	_, err = call(t, b, "meet:2", "")
	require.NoError(t, err)
	require.NoError(t, <-hung)
}

func pidOf(t *testing.T, p *Pool) int {
	t.Helper()
	pid, err := strconv.Atoi(textOf(t, p, "pid"))
	require.NoError(t, err)
	return pid
}

func TestLeastRecentlyUsedEnds(t *testing.T) {
	p := hostilePool(t, "ok", func(o *Options) { o.MaxSessions = 2 })
	a, b, c := as(p, "a", ""), as(p, "b", ""), as(p, "c", "")
	require.Equal(t, "1", textOf(t, a, "count"))
	ofB := pidOf(t, b)
	require.Equal(t, "2", textOf(t, a, "count"))
	require.Equal(t, "1", textOf(t, c, "count"))
	// There is no moment with three processes.
	require.ErrorIs(t, syscall.Kill(ofB, 0), syscall.ESRCH)
	require.Equal(t, "3", textOf(t, a, "count"))
	require.Equal(t, "1", textOf(t, b, "count"))
	require.Equal(t, "4", textOf(t, a, "count"))
	require.Equal(t, "1", textOf(t, c, "count"))
}

func TestServersBoundOfSessions(t *testing.T) {
	s := hostileServer(t, "ok")
	s.MaxSessions = 1
	p := openPool(t, s, quiet)
	ofA := pidOf(t, as(p, "a", ""))
	require.Equal(t, "1", textOf(t, as(p, "b", ""), "count"))
	require.ErrorIs(t, syscall.Kill(ofA, 0), syscall.ESRCH)
}

func TestNoRoom(t *testing.T) {
	p := hostilePool(t, "ok", func(o *Options) { o.MaxSessions = 1 })
	a, b := as(p, "a", ""), as(p, "b", "")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var all sync.WaitGroup
	all.Go(func() { _, _ = a.Call(ctx, "h", "hang", nil) })
	s := p.servers["h"]
	require.Eventually(t, func() bool { return len(s.calls) == 1 }, bound, time.Millisecond)
	waiting := func(n int) func() bool {
		return func() bool {
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.waiting == n
		}
	}
	err := late(t, waiting(1), calling(b, "count", ""))
	require.Contains(t, requireKind(t, contract.Unsent, err).Message, "waited for a session")
	// It held no place among the calls meanwhile.
	require.Len(t, s.calls, 1)
	// Once there is room, those who wait for it have it, one after the other.
	for i := range 5 {
		all.Go(func() {
			if _, err := call(t, as(p, fmt.Sprint("agent-", i), ""), "count", ""); err != nil {
				t.Error(err)
			}
		})
	}
	require.Eventually(t, waiting(5), bound, time.Millisecond)
	cancel()
	all.Wait()
	require.Equal(t, "1", textOf(t, a, "count"))

	// Those who wait when the pool is closed are told.
	ctx, cancel = context.WithCancel(t.Context())
	defer cancel()
	all.Go(func() { _, _ = a.Call(ctx, "h", "hang", nil) })
	require.Eventually(t, func() bool { return len(s.calls) == 1 }, bound, time.Millisecond)
	failed := make(chan error, 1)
	go func() {
		_, err := call(t, b, "count", "")
		failed <- err
	}()
	require.Eventually(t, waiting(1), bound, time.Millisecond)
	within(t, func() { require.NoError(t, p.Close()) })
	require.Contains(t, requireKind(t, contract.Unsent, <-failed).Message, "closed")
	all.Wait()
}

// Many agents at once are served, by few processes at a time, and never by the process of another.
func TestManyAgents(t *testing.T) {
	const most, agents = 3, 12
	p := hostilePool(t, "ok", func(o *Options) { o.MaxSessions = most })
	s := p.servers["h"]
	var all sync.WaitGroup
	var mu sync.Mutex
	of := map[int]int{} // the agent of each process
	for i := range agents {
		all.Go(func() {
			for range 4 {
				r, err := call(t, as(p, fmt.Sprint("agent-", i), ""), "pid", "")
				if err != nil {
					t.Error(err)
					return
				}
				pid, err := strconv.Atoi(*r.Text)
				mu.Lock()
				if other, ok := of[pid]; err != nil || ok && other != i {
					t.Errorf("process %s of agent %d served agent %d", *r.Text, other, i)
				}
				of[pid] = i
				mu.Unlock()
				s.mu.Lock()
				if len(s.tenants) > most {
					t.Errorf("%d sessions", len(s.tenants))
				}
				s.mu.Unlock()
			}
		})
	}
	all.Wait()
	require.GreaterOrEqual(t, len(of), agents)
	living := 0
	for pid := range of {
		if syscall.Kill(pid, 0) == nil {
			living++
		}
	}
	require.LessOrEqual(t, living, most)
}

func TestIdleSessionsEnd(t *testing.T) {
	t.Run("stdio", func(t *testing.T) {
		p := hostilePool(t, "ok", func(o *Options) { o.MaxIdle = soon })
		a, b := as(p, "a", ""), as(p, "b", "")
		require.Equal(t, "1", textOf(t, a, "count"))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var all sync.WaitGroup
		all.Go(func() { _, _ = a.Call(ctx, "h", "hang", nil) })
		require.Eventually(t, func() bool { return len(p.servers["h"].calls) == 1 }, bound, time.Millisecond)
		// The one that is in use outlives another that began, and was idle, after it.
		gone := func(pid int) func() bool {
			return func() bool { return syscall.Kill(pid, 0) == syscall.ESRCH }
		}
		ofB := pidOf(t, b)
		require.Eventually(t, gone(ofB), bound, time.Millisecond)
		ofA := pidOf(t, a)
		require.NotEqual(t, ofB, pidOf(t, b))
		require.Equal(t, ofA, pidOf(t, a))
		cancel()
		all.Wait()
		require.Eventually(t, gone(ofA), bound, time.Millisecond)
		require.Equal(t, "1", textOf(t, a, "count"))
	})
	t.Run("http", func(t *testing.T) {
		idle(t)
		s := newSite(t)
		p := s.pool(t, func(o *Options) { o.MaxIdle = 10 * time.Millisecond })
		require.Equal(t, "1", textOf(t, as(p, "a", ""), "count"))
		require.Eventually(t, func() bool { return len(s.record().deleted) == 1 }, bound, time.Millisecond)
		require.Equal(t, "2", textOf(t, as(p, "a", ""), "count"))
		require.Equal(t, 2, s.beginnings())
		require.NoError(t, p.Close())
		require.Equal(t, []string{"session-1", "session-2"}, s.record().deleted)
	})
}

// A session that has died makes room at once.
func TestDeadSessionsEnd(t *testing.T) {
	p := hostilePool(t, "ok")
	require.Equal(t, "1", textOf(t, as(p, "a", ""), "count"))
	_, err := call(t, as(p, "b", ""), "crash", "")
	requireKind(t, contract.Transport, err)
	s := p.servers["h"]
	require.Eventually(t, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.ending == 0 && len(s.tenants) == 1
	}, bound, time.Millisecond)
	require.Equal(t, "2", textOf(t, as(p, "a", ""), "count"))
}

// A timer may have fired before it was stopped, and go on when its session is gone.
func TestLateTimers(t *testing.T) {
	p := hostilePool(t, "ok", func(o *Options) { o.MaxIdle = time.Hour })
	require.Equal(t, "1", textOf(t, as(p, "a", ""), "count"))
	s := p.servers["h"]
	key := Principal{Agent: "a"}
	s.mu.Lock()
	live := s.tenants[key]
	s.mu.Unlock()
	for name, late := range map[string]*tenant{
		"no session":             {server: s, key: Principal{Agent: "b"}},
		"no place":               {server: s, key: Principal{Agent: "b"}, conn: live.conn},
		"the place of another":   {server: s, key: key, conn: live.conn},
		"a place, no session":    {server: s, key: key},
		"one that is in use":     {server: s, key: key, conn: live.conn, users: 1},
		"one that was just used": {server: s, key: key, conn: live.conn, used: time.Now()},
	} {
		late.expire()
		require.False(t, late.ending, name)
	}
	require.Equal(t, "2", textOf(t, as(p, "a", ""), "count"))
	s.mu.Lock()
	live.used = time.Now().Add(-2 * time.Hour)
	s.mu.Unlock()
	live.expire()
	require.Equal(t, "1", textOf(t, as(p, "a", ""), "count"))
}

// A server that refuses one agent still serves the others, without a pause.
func TestRefusedStartsOfOneAgent(t *testing.T) {
	for _, status := range []int{http.StatusUnauthorized, http.StatusTooManyRequests, http.StatusInternalServerError} {
		t.Run(strconv.Itoa(status), func(t *testing.T) {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
			t.Cleanup(s.Close)
			p := openPool(t, Server{URL: s.URL, Addresses: here}, quiet)
			for range 3 {
				_, err := call(t, as(p, "a", ""), "count", "")
				require.Error(t, err)
			}
			want := 0
			if status == http.StatusInternalServerError {
				want = 3
			}
			require.Equal(t, want, p.servers["h"].failures)
		})
	}
}

// A server that ends sessions by itself is asked once more, in another one.
func TestForgottenSessions(t *testing.T) {
	s := newSite(t)
	p := s.pool(t)
	require.Equal(t, "1", textOf(t, as(p, "a", ""), "count"))
	require.Equal(t, "2", textOf(t, as(p, "b", ""), "count"))
	s.with(func() { clear(s.sessions) })
	require.Equal(t, "3", textOf(t, as(p, "a", ""), "count"))
	require.Equal(t, "4", textOf(t, as(p, "b", ""), "count"))
	require.Equal(t, 4, s.beginnings())
}

// All agents together start a server that fails no more often than one would.
func TestFailingStartsOfManyAgents(t *testing.T) {
	file := filepath.Join(t.TempDir(), "starts")
	s := hostileServer(t, "exits")
	s.Env[startsVar] = file
	o := quiet
	o.MaxBackoff = time.Hour
	p := openPool(t, s, o)
	begun := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			for ctx.Err() == nil {
				if _, err := as(p, fmt.Sprint("agent-", i), "").Call(ctx, "h", "echo", nil); ctx.Err() == nil && failure(t, err).Kind != contract.Unsent {
					t.Error(err)
				}
			}
		})
	}
	require.Eventually(t, func() bool { return starts(t, file) >= 4 }, bound, time.Millisecond)
	have, lasted := starts(t, file), time.Since(begun)
	cancel()
	all.Wait()
	most := 2 // at 0, 0, 100, 300, 700 ms, and so on
	for at := 100 * time.Millisecond; at <= lasted; at = 2*at + 100*time.Millisecond {
		most++
	}
	require.LessOrEqual(t, have, most)
	within(t, func() { require.NoError(t, p.Close()) })
	require.Empty(t, p.servers["h"].tenants, "failed starts leave something behind")
}

// The first session shows that the server starts; the others begin together.
func TestFirstStarts(t *testing.T) {
	dir := t.TempDir()
	s := hostileServer(t, "ok")
	s.Env[startsVar], s.Env[gateVar] = filepath.Join(dir, "starts"), filepath.Join(dir, "gate")
	p := openPool(t, s, quiet)
	var all sync.WaitGroup
	for i := range 5 {
		all.Go(func() {
			if _, err := call(t, as(p, fmt.Sprint("agent-", i), ""), "count", ""); err != nil {
				t.Error(err)
			}
		})
	}
	require.Eventually(t, func() bool {
		p.servers["h"].mu.Lock()
		defer p.servers["h"].mu.Unlock()
		return len(p.servers["h"].tenants) == 5 && starts(t, s.Env[startsVar]) == 1
	}, bound, time.Millisecond)
	require.Equal(t, 1, starts(t, s.Env[startsVar]))
	require.NoError(t, os.WriteFile(s.Env[gateVar], nil, 0o600))
	all.Wait()
	require.Equal(t, 5, starts(t, s.Env[startsVar]))
}

// Which key a server has is a matter of each session.
func TestPeersOfAgents(t *testing.T) {
	ours := testca.New(t, "authority")
	certs := []tls.Certificate{ours.Server(t, "first"), ours.Server(t, "second")}
	var which atomic.Int64
	inner := newSite(t)
	s := secure(t, inner, &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		return &tls.Config{Certificates: certs[which.Load():][:1]}, nil
	}})
	p := openPool(t, Server{URL: s.URL + "/mcp", Addresses: here, TLS: TLS{CAFile: ours.File}}, quiet)
	a, b := as(p, "a", ""), as(p, "b", "")
	require.Equal(t, "1", textOf(t, a, "count"))
	which.Store(1)
	require.Equal(t, "2", textOf(t, b, "count"))
	require.Equal(t, "3", textOf(t, a, "count"))
	require.Equal(t, 2, inner.beginnings())
	_, err := call(t, a, "close", "") // its next connection leads to the other key
	requireKind(t, contract.Transport, err)
	require.Equal(t, "5", textOf(t, a, "count"))
	require.Equal(t, "6", textOf(t, b, "count"))
	require.Equal(t, 3, inner.beginnings())
}

func TestTokensNameAgents(t *testing.T) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	ours := testca.New(t, "authority")
	for _, sharing := range []Sharing{ByAgent, ByRun, Shared} {
		t.Run(string(sharing), func(t *testing.T) {
			var mu sync.Mutex
			var actors []any
			inner := newSite(t)
			s := secure(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, claims := claimed(t, r.Header.Get("Authorization"), key.Public())
				mu.Lock()
				if claims["sub"] == "chimera" && r.Method == http.MethodPost {
					actors = append(actors, claims["act"])
				}
				mu.Unlock()
				inner.ServeHTTP(w, r)
			}), &tls.Config{Certificates: []tls.Certificate{ours.Server(t, "server")}})
			p := openPool(t, Server{
				URL: s.URL + "/mcp", Addresses: here, TLS: TLS{CAFile: ours.File}, Sessions: sharing, JWT: &JWT{Key: privateKey(t, key), Issuer: "chimera"},
			}, quiet)
			said := func(agent string) any {
				textOf(t, as(p, agent, "run"), "count")
				mu.Lock()
				defer mu.Unlock()
				return actors[len(actors)-1]
			}
			for _, agent := range []string{"a", "b", "a", ""} {
				want := any(map[string]any{"sub": agent})
				if sharing == Shared || agent == "" {
					want = nil
				}
				require.Equal(t, want, said(agent))
			}
		})
	}
}

// By client credentials all agents are the same client.
func TestOneTokenForAllAgents(t *testing.T) {
	ours := testca.New(t, "authority")
	from := newIssuer(t, ours)
	s := secure(t, newSite(t), &tls.Config{Certificates: []tls.Certificate{ours.Server(t, "server")}})
	p := openPool(t, Server{URL: s.URL + "/mcp", Addresses: here, TLS: TLS{CAFile: ours.File}, OAuth: &OAuth{
		Issuer: from.URL, TokenURL: from.URL + "/token", ClientID: "client", ClientSecret: "secret-of-client", Scopes: []string{"tools:read", "tools:call"},
	}}, quiet)
	for i, agent := range []string{"a", "b", "c"} {
		require.Equal(t, strconv.Itoa(i+1), textOf(t, as(p, agent, ""), "count"))
	}
	require.EqualValues(t, 1, from.tokens.Load())
}

// A real server that keeps what it knows in its process.
func TestServerEverythingByAgent(t *testing.T) {
	lengthy.Skip(t)
	p := npmPool(t, "mcp-server-everything", "stdio")
	toggle := func(agent string) string {
		r, err := call(t, as(p, agent, ""), "toggle-simulated-logging", "{}")
		require.NoError(t, err)
		raw, err := json.Marshal(r.Text)
		require.NoError(t, err)
		return string(raw)
	}
	on := toggle("a")
	require.Contains(t, on, "Started")
	require.Equal(t, on, toggle("b"))
	require.Contains(t, toggle("a"), "Stopped")
}
