//go:build unix

package mcp

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/contract"
)

func TestWeb(t *testing.T) {
	idle(t)
	s := newSite(t)
	p := s.pool(t)
	for range 3 {
		r, err := call(t, p, "echo", `{"n":9007199254740993}`)
		require.NoError(t, err)
		require.JSONEq(t, `{"n":9007199254740993}`, string(r.Structured))
	}
	for _, tool := range []string{"stream", "stream stays", "ask and cope:roots/list"} {
		require.Equal(t, "fine", textOf(t, p, tool), tool)
	}
	tools, err := p.Tools(t.Context(), "h")
	require.NoError(t, err)
	require.Equal(t, echoTool, string(tools[0].Raw))
	require.NoError(t, p.Close())

	require.Equal(t, 1, s.beginnings())
	seen := s.record()
	for i, method := range []string{"initialize", "notifications/initialized", "tools/call"} {
		require.Equal(t, method, seen.taken[i].Method)
	}
	require.Equal(t, []string{"session-1"}, seen.deleted)
	for i, r := range seen.requests {
		require.Equal(t, "identity", r.Header.Get("Accept-Encoding"))
		if i > 0 {
			require.Equal(t, "session-1", r.Header.Get("Mcp-Session-Id"))
			require.Equal(t, "2025-06-18", r.Header.Get("Mcp-Protocol-Version"))
		}
		if r.Method == http.MethodPost {
			require.Equal(t, "application/json, text/event-stream", r.Header.Get("Accept"))
			require.Equal(t, "application/json", r.Header.Get("Content-Type"))
		}
	}
	require.Empty(t, seen.requests[0].Header.Get("Mcp-Session-Id"))
}

func TestWebFailures(t *testing.T) {
	idle(t)
	for tool, c := range map[string]struct {
		kind contract.Kind
		want string
	}{
		"status:401":                 {contract.Auth, "401"},
		"status:403":                 {contract.Auth, "403"},
		"status:429":                 {contract.Throttled, "429"},
		"status:503":                 {contract.Throttled, "503"},
		"status:301":                 {contract.ServerError, "not followed"},
		"status:302":                 {contract.ServerError, "not followed"},
		"status:303":                 {contract.ServerError, "not followed"},
		"status:307":                 {contract.ServerError, "not followed"},
		"status:308":                 {contract.ServerError, "not followed"},
		"status:101":                 {contract.ServerError, "101"},
		"status:400":                 {contract.ServerError, "400"},
		"status:405":                 {contract.ServerError, "405"},
		"status:500":                 {contract.ServerError, "500"},
		"status:502":                 {contract.ServerError, "502"},
		"status:504":                 {contract.ServerError, "504"},
		"fault:400":                  {contract.Contract, "no such tool"},
		"fault:500":                  {contract.Contract, "no such tool"},
		"unknown":                    {contract.Contract, "no such tool"},
		"type":                       {contract.ServerError, "another type"},
		"accepted":                   {contract.ServerError, "another type"},
		"garbage":                    {contract.ServerError, "not the answer"},
		"batch":                      {contract.ServerError, "not the answer"},
		"wrong id":                   {contract.ServerError, "not the answer"},
		"gzip":                       {contract.ServerError, "compressed"},
		"cut":                        {contract.Transport, "broke before the end"},
		"close":                      {contract.Transport, "the connection broke"},
		"headers":                    {contract.Transport, "the connection broke"},
		"continue":                   {contract.Transport, "the connection broke"},
		"large":                      {contract.TooLarge, "65536 bytes"},
		"endless":                    {contract.TooLarge, "65536 bytes"},
		"stream ends":                {contract.Transport, "ended before it answered"},
		"stream cut":                 {contract.Transport, "ended before it answered"},
		"stream wrong id":            {contract.Transport, "ended before it answered"},
		"stream large:100000":        {contract.TooLarge, "65536 bytes"},
		"stream line":                {contract.TooLarge, "65536 bytes"},
		"stream comment":             {contract.ServerError, "are not answers"},
		"stream blank":               {contract.ServerError, "are not answers"},
		"stream notifications":       {contract.ServerError, "are not answers"},
		"stream requests":            {contract.ServerError, "are not answers"},
		"ask:sampling/createMessage": {contract.NeedsInput, "sampling/createMessage"},
	} {
		t.Run(tool, func(t *testing.T) {
			s := newSite(t)
			p := s.pool(t, func(o *Options) {
				o.MaxNoise, o.MaxLine = 1<<20, 1<<16
				if c.kind == contract.NeedsInput {
					o.AskGrace = soon
				}
			})
			require.Equal(t, "1", textOf(t, p, "count"))
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := call(t, p, tool, "")
			runtime.ReadMemStats(&after)
			e := requireKind(t, c.kind, err)
			require.Contains(t, e.Message, c.want)
			require.NotContains(t, e.Message, "secret-of-the-server")
			if c.kind == contract.TooLarge || tool == "gzip" || tool == "headers" || tool == "stream comment" {
				require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(32<<20))
			}
			if c.kind == contract.Throttled {
				require.EqualValues(t, 7000, e.RetryAfterMS)
			}
			// It was sent once, and the next call is served.
			require.Equal(t, "3", textOf(t, p, "count"))
			for _, r := range s.record().requests {
				require.Equal(t, "/mcp", r.URL.Path)
			}
		})
	}
}

func TestWebUnharmed(t *testing.T) {
	s := newSite(t)
	p := s.pool(t, func(o *Options) { o.MaxLine = 1 << 16 })
	require.Equal(t, "fine", textOf(t, p, "stream long:100000"))
	require.Equal(t, "2", textOf(t, p, "count"))
	require.Equal(t, 1, s.beginnings())
}

func TestWebTimeouts(t *testing.T) {
	idle(t)
	for _, tool := range []string{"hang", "drip"} {
		t.Run(tool, func(t *testing.T) {
			s := newSite(t)
			p := s.pool(t)
			require.Equal(t, "1", textOf(t, p, "count"))
			before := dripped.Load()
			begun := func() bool { return s.called() == 2 && (tool == "hang" || dripped.Load() > before) }
			err := late(t, begun, calling(p, tool, ""))
			require.JSONEq(t, `{"sent":true}`, string(requireKind(t, contract.Timeout, err).Details))
			require.Equal(t, "3", textOf(t, p, "count"))
			require.Equal(t, 1, s.beginnings())
			// The server is told, by the id of the call.
			require.Eventually(t, func() (told bool) {
				for _, m := range s.record().taken {
					told = told || m.Method == "notifications/cancelled" && string(m.Params.RequestID) == "3"
				}
				return told
			}, bound, time.Millisecond)
		})
	}
}

// Where the connection was refused, or never became one, nothing was sent.
func TestWebUnsent(t *testing.T) {
	idle(t)
	s := newSite(t)
	for name, c := range map[string]struct {
		server Server
		want   string
	}{
		"an address that is not named": {Server{URL: s.URL}, "not a public address"},
		"a name for it":                {Server{URL: strings.Replace(s.URL, "127.0.0.1", "localhost", 1)}, "not a public address"},
		"another network":              {Server{URL: s.URL, Addresses: []netip.Prefix{netip.MustParsePrefix("127.0.0.2/32")}}, "not a public address"},
		"no such host":                 {Server{URL: "https://no-such-host.invalid/mcp"}, ""},
		"TLS to a server without":      {Server{URL: strings.Replace(s.URL, "http:", "https:", 1), Addresses: here}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			p := openPool(t, c.server, quiet)
			_, err := call(t, p, "echo", "")
			require.Contains(t, requireKind(t, contract.Unsent, err).Message, c.want)
		})
	}
	require.Empty(t, s.record().taken)

	s.Close()
	_, err := call(t, s.pool(t), "echo", "")
	requireKind(t, contract.Unsent, err)
}

// A server that goes away takes the connections with it. A request that is written to one of them may have been
// taken, so that nobody can say that it was not; a connection that is refused is another matter.
func TestWebGone(t *testing.T) {
	s := newSite(t)
	p := s.pool(t)
	require.Equal(t, "1", textOf(t, p, "count"))
	s.CloseClientConnections()
	s.Close()
	require.Eventually(t, func() bool {
		_, err := call(t, p, "echo", "")
		kind := failure(t, err).Kind
		require.Contains(t, []contract.Kind{contract.Transport, contract.Unsent}, kind)
		return kind == contract.Unsent
	}, bound, time.Millisecond)
	pin := Pin{Fingerprint: "sha256:", Again: true}
	_, err := pinned(t, p, pin)
	requireKind(t, contract.Unsent, err)
}

// What the handshake meets is the kind of the call, where that says more than unsent.
func TestWebHandshake(t *testing.T) {
	for status, kind := range map[int]contract.Kind{401: contract.Auth, 403: contract.Auth, 429: contract.Throttled, 503: contract.Throttled, 404: contract.Unsent, 307: contract.Unsent, 500: contract.Unsent} {
		t.Run(strconv.Itoa(status), func(t *testing.T) {
			s := newSite(t)
			s.meanwhile(func(w http.ResponseWriter, _ *http.Request, _ message) bool {
				w.Header().Set("Location", "http://127.0.0.1:1/")
				w.Header().Set("Retry-After", "3")
				w.WriteHeader(status)
				return true
			})
			_, err := call(t, s.pool(t), "echo", "")
			e := requireKind(t, kind, err)
			require.Contains(t, e.Message, strconv.Itoa(status))
			if kind == contract.Throttled {
				require.EqualValues(t, 3000, e.RetryAfterMS)
			}
		})
	}
	t.Run("slow", func(t *testing.T) {
		s := newSite(t)
		s.meanwhile(func(_ http.ResponseWriter, r *http.Request, _ message) bool {
			<-r.Context().Done()
			return true
		})
		_, err := call(t, s.pool(t, func(o *Options) { o.StartTimeout = soon }), "echo", "")
		require.Contains(t, requireKind(t, contract.Unsent, err).Message, "not done within")
	})
	t.Run("a session id that is none", func(t *testing.T) {
		s := newSite(t)
		s.meanwhile(func(w http.ResponseWriter, _ *http.Request, m message) bool {
			w.Header().Set("Mcp-Session-Id", strings.Repeat("x", maxSession+1))
			answer(w, m, `{}`)
			return true
		})
		_, err := call(t, s.pool(t), "echo", "")
		require.Contains(t, requireKind(t, contract.Unsent, err).Message, "session id")
	})
}

// A session that the server has ended is begun again where nothing was sent, and a request is
// written to one session at a time.
func TestWebSessionEnds(t *testing.T) {
	s := newSite(t)
	p := s.pool(t)
	require.Equal(t, "1", textOf(t, p, "count"))
	s.with(func() { clear(s.sessions) })
	require.Equal(t, "2", textOf(t, p, "count"))
	require.Equal(t, 2, s.beginnings())

	pin := pinOf(t, p, "echo", true)
	s.with(func() { clear(s.sessions) })
	_, err := pinned(t, p, pin)
	require.NoError(t, err)
	require.Equal(t, 3, s.beginnings())
	require.Equal(t, 3, s.called())

	// It may end between the look and the call. By the protocol the server then does not take that; whoever
	// says so may have: an effect is not sent again.
	forget := func(id string) {
		s.meanwhile(func(_ http.ResponseWriter, r *http.Request, m message) bool {
			if m.Method == callOf && r.Header.Get("Mcp-Session-Id") == id {
				s.with(func() { clear(s.sessions) })
			}
			return false
		})
	}
	forget("session-3")
	_, err = pinned(t, p, pin)
	requireKind(t, contract.OutcomeUnknown, err)
	require.Equal(t, 3, s.beginnings())
	pure := pin
	pure.Again = false
	forget("session-4")
	_, err = pinned(t, p, pure)
	require.NoError(t, err)
	require.Equal(t, 5, s.beginnings())
	require.Equal(t, 4, s.called())

	s.with(func() { s.then = "end" })
	_, err = pinned(t, p, pin)
	requireKind(t, contract.OutcomeUnknown, err)
	require.Equal(t, 5, s.called(), "an effect is not repeated")
	s.with(func() { s.then = "" })

	// Each operation has one session.
	last, again, seen := "", 0, s.record()
	for i, m := range seen.taken {
		if m.Method == "tools/call" && m.Params.Name == "echo" {
			require.Equal(t, "tools/list", seen.taken[i-1].Method)
			last = seen.requests[i].Header.Get("Mcp-Session-Id")
			require.Equal(t, last, seen.requests[i-1].Header.Get("Mcp-Session-Id"))
			if seen.taken[i+1].Method == "initialize" {
				again++ // it was not taken
				continue
			}
			require.Equal(t, "tools/list", seen.taken[i+1].Method)
			require.Equal(t, last, seen.requests[i+1].Header.Get("Mcp-Session-Id"))
		}
	}
	require.Equal(t, "session-5", last)
	require.Equal(t, 2, again)
}

// Some servers say 400 instead: then the next call has another session.
func TestWebSessionForgotten(t *testing.T) {
	s := newSite(t)
	p := s.pool(t)
	require.Equal(t, "1", textOf(t, p, "count"))
	s.meanwhile(func(w http.ResponseWriter, r *http.Request, _ message) bool {
		if r.Header.Get("Mcp-Session-Id") != "session-1" {
			return false
		}
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprint(w, `{"jsonrpc":"2.0","error":{"code":-32000,"message":"No valid session ID provided"},"id":null}`)
		return true
	})
	_, err := call(t, p, "count", "")
	requireKind(t, contract.ServerError, err)
	require.Equal(t, "2", textOf(t, p, "count"))
}

func TestWebDrift(t *testing.T) {
	s := newSite(t)
	p := s.pool(t)
	pin := pinOf(t, p, "echo", true)
	s.with(func() { s.then = changed["description"] })
	_, err := pinned(t, p, pin)
	requireKind(t, contract.OutcomeUnknown, err)
	_, err = pinned(t, p, pin)
	requireKind(t, contract.NeedsReview, err)
	require.Equal(t, 1, s.called())
	for status, kind := range map[int]contract.Kind{401: contract.Auth, 429: contract.Throttled, 500: contract.Blocked, 302: contract.Blocked} {
		s.meanwhile(func(w http.ResponseWriter, _ *http.Request, m message) bool {
			if m.Method == "tools/list" {
				w.WriteHeader(status)
			}
			return m.Method == "tools/list"
		})
		_, err = pinned(t, p, pin)
		requireKind(t, kind, err)
	}
	require.Equal(t, 1, s.called())
}

func TestWebMany(t *testing.T) {
	idle(t)
	s := newSite(t)
	p := s.pool(t)
	var all sync.WaitGroup
	for i := range 320 {
		all.Go(func() {
			got, err := call(t, p, "echo", fmt.Sprintf(`{"i":%d}`, i))
			if err != nil || string(got.Structured) != fmt.Sprintf(`{"i":%d}`, i) {
				t.Errorf("call %d: %s %v", i, got.Structured, err)
			}
		})
	}
	all.Wait()
	require.Equal(t, 1, s.beginnings())
}

func TestWebClose(t *testing.T) {
	idle(t)
	s := newSite(t)
	p := s.pool(t)
	failed := make(chan error, 1)
	go func() {
		_, err := call(t, p, "hang", "")
		failed <- err
	}()
	require.Eventually(t, func() bool { return s.called() == 1 }, bound, time.Millisecond)
	require.NoError(t, p.Close())
	requireKind(t, contract.Transport, <-failed)
	require.Equal(t, []string{"session-1"}, s.record().deleted)
	_, err := call(t, p, "echo", "")
	requireKind(t, contract.Unsent, err)
}

// A listener that takes connections and says nothing: TLS never comes about, and time is bounded.
func TestWebMute(t *testing.T) {
	idle(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	o := quiet
	o.StartTimeout = soon
	p := openPool(t, Server{URL: "https://" + l.Addr().String(), Addresses: here}, o)
	_, err = call(t, p, "echo", "")
	requireKind(t, contract.Unsent, err)
}

// The environment's proxies are none of ours.
func TestWebNoProxy(t *testing.T) {
	proxy := newSite(t)
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "ALL_PROXY"} {
		t.Setenv(name, proxy.URL)
	}
	s := newSite(t)
	require.Equal(t, "1", textOf(t, s.pool(t), "count"))
	require.Empty(t, proxy.record().taken)
}

func TestWebStateless(t *testing.T) {
	s := newSite(t)
	s.meanwhile(func(w http.ResponseWriter, r *http.Request, m message) bool {
		switch m.Method {
		case "initialize":
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no such method"}}`, m.ID)
		case "server/discover":
			answer(w, m, `{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"resultType":"complete"}`)
		case "tools/call":
			answer(w, m, fmt.Sprintf(`{"content":[],"structuredContent":{"version":%q,"method":%q,"name":%q,"session":%q}}`,
				r.Header.Get("Mcp-Protocol-Version"), r.Header.Get("Mcp-Method"), r.Header.Get("Mcp-Name"), r.Header.Get("Mcp-Session-Id")))
		}
		return true
	})
	got, err := call(t, s.pool(t), "echo", "")
	require.NoError(t, err)
	require.JSONEq(t, `{"version":"2026-07-28","method":"tools/call","name":"echo","session":""}`, string(got.Structured))
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for value, want := range map[string]time.Duration{
		"": 0, "0": 0, "7": 7 * time.Second, "-7": 0, "x": 0, "1.5": 0, "99999999999999": maxRetryAfter, "86401": maxRetryAfter,
		"Fri, 02 Jan 2026 03:04:15 GMT": 10 * time.Second, "Fri, 02 Jan 2026 03:04:00 GMT": 0, "Fri, 02 Jan 2099 03:04:00 GMT": maxRetryAfter,
	} {
		require.Equal(t, want, retryAfter(value, now), value)
	}
}

// A redirect to another host is not followed, whatever it answers, and that host gets nothing, least of all
// what this one is shown.
func TestRedirectsElsewhere(t *testing.T) {
	idle(t)
	var asked atomic.Int64
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	defer other.Close()
	for _, method := range []string{"initialize", "notifications/initialized", listOf, callOf, "the stream"} {
		for _, sse := range []bool{false, true} {
			if method == "the stream" && !sse {
				continue
			}
			for _, status := range []int{301, 302, 303, 307, 308} {
				t.Run(fmt.Sprintf("%s/sse=%v/%d", method, sse, status), func(t *testing.T) {
					var inner http.Handler = newAirwave(t)
					if !sse {
						inner = newSite(t)
					}
					var on atomic.Bool
					s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						raw, err := io.ReadAll(r.Body)
						if err != nil {
							return
						}
						var m message
						_ = json.Unmarshal(raw, &m)
						if m.Method == method || method == "the stream" && r.Method == http.MethodGet {
							on.Store(true)
							http.Redirect(w, r, other.URL+r.URL.Path, status)
							return
						}
						r.Body = io.NopCloser(bytes.NewReader(raw))
						inner.ServeHTTP(w, r)
					}))
					t.Cleanup(s.Close)
					p := openPool(t, Server{URL: s.URL + map[bool]string{false: "/mcp", true: "/sse"}[sse], SSE: sse, Addresses: here, Headers: map[string]string{"Authorization": "Bearer x"}}, quiet)
					err := func() error {
						if method == listOf {
							_, err := p.Tools(t.Context(), "h")
							return err
						}
						_, err := p.Call(t.Context(), "h", "echo", nil)
						return err
					}()
					want := contract.Unsent // it has not begun
					if method == listOf || method == callOf {
						want = contract.ServerError
					}
					requireKind(t, want, err)
					require.True(t, on.Load())
				})
			}
		}
	}
	require.Zero(t, asked.Load())
}

// What is compressed is refused before it is opened, also where it is a stream of events.
func TestCompressedStreams(t *testing.T) {
	idle(t)
	bomb := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		fmt.Fprint(z, "data: ")
		writeMuch(z, r)
		z.Close()
	}
	for name, sse := range map[string]bool{"stream": false, "sse": true} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			s.meanwhile(func(w http.ResponseWriter, r *http.Request, m message) bool {
				if m.Method != callOf && !sse {
					return false
				}
				bomb(w, r)
				return true
			})
			want := contract.ServerError
			if sse {
				want = contract.Unsent
			}
			p := openPool(t, Server{URL: s.URL + "/mcp", SSE: sse, Addresses: here}, quiet)
			var err error
			grown := peak(func() { _, err = call(t, p, "echo", "") })
			require.Contains(t, requireKind(t, want, err).Message, "compressed")
			require.Less(t, grown, uint64(16<<20))
		})
	}
}
