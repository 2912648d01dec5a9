//go:build unix

package mcp

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/contract"
)

// here are the addresses of this machine, which tests may dial.
var here = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}

// site is a server over streamable HTTP that tests make misbehave: what a call does is told by
// the tool's name, as with hostile.
type site struct {
	*httptest.Server
	// before, if not nil, handles a request, and reports whether that was all.
	before func(w http.ResponseWriter, r *http.Request, m message) bool

	mu       sync.Mutex
	sessions map[string]bool
	began    int
	calls    int
	tools    string
	then     string
	deleted  []string
	requests []*http.Request
	taken    []message
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{sessions: map[string]bool{}, tools: echoTool}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *site) pool(t *testing.T, change ...func(*Options)) *Pool {
	t.Helper()
	o := quiet
	for _, c := range change {
		c(&o)
	}
	return openPool(t, Server{URL: s.URL + "/mcp", Addresses: here}, o)
}

// with calls f while nothing changes.
func (s *site) with(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

func (s *site) called() (n int) {
	s.with(func() { n = s.calls })
	return n
}

// meanwhile sets before.
func (s *site) meanwhile(f func(w http.ResponseWriter, r *http.Request, m message) bool) {
	s.with(func() { s.before = f })
}

func (s *site) beginnings() (n int) {
	s.with(func() { n = s.began })
	return n
}

// record is what a site has seen: requests, and the message of each.
type record struct {
	requests []*http.Request
	taken    []message
	deleted  []string
}

func (s *site) record() (r record) {
	s.with(func() { r = record{slices.Clone(s.requests), slices.Clone(s.taken), slices.Clone(s.deleted)} })
	return r
}

func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	var m message
	_ = json.Unmarshal(body, &m)
	s.with(func() {
		s.requests = append(s.requests, r)
		s.taken = append(s.taken, m)
	})
	var before func(http.ResponseWriter, *http.Request, message) bool
	s.with(func() { before = s.before })
	if before != nil && before(w, r, m) {
		return
	}
	id := r.Header.Get("Mcp-Session-Id")
	var known bool
	s.with(func() { known = s.sessions[id] })
	switch {
	case r.Method == http.MethodDelete:
		s.with(func() { s.deleted = append(s.deleted, id); delete(s.sessions, id) })
		return
	case r.Method != http.MethodPost:
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	case m.Method == "initialize":
		s.with(func() { s.began++; id = fmt.Sprintf("session-%d", s.began); s.sessions[id] = true })
		w.Header().Set("Mcp-Session-Id", id)
		answer(w, m, `{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"site","version":"1"}}`)
		return
	case !known:
		w.WriteHeader(http.StatusNotFound)
		return
	case m.ID == nil || m.Method == "":
		w.WriteHeader(http.StatusAccepted)
		return
	case m.Method == "tools/list":
		var tools string
		s.with(func() { tools = s.tools })
		answer(w, m, `{"tools":[`+tools+`]}`)
		return
	}
	s.with(func() { s.calls++ })
	s.call(w, r, m)
}

func answer(w http.ResponseWriter, m message, result string) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
}

func emit(w http.ResponseWriter, format string, args ...any) {
	w.Header().Set("Content-Type", "text/event-stream")
	fmt.Fprintf(w, format+"\n\n", args...)
	_ = http.NewResponseController(w).Flush()
}

func (s *site) call(w http.ResponseWriter, r *http.Request, m message) {
	name, rest, _ := strings.Cut(m.Params.Name, ":")
	n, _ := strconv.Atoi(rest)
	good := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"fine"}]}}`, m.ID)
	switch name {
	case "echo":
		s.with(func() {
			if s.then == "end" {
				clear(s.sessions)
			} else if s.then != "" {
				s.tools = s.then
			}
		})
		answer(w, m, fmt.Sprintf(`{"content":[],"structuredContent":%s}`, m.Params.Arguments))
	case "count":
		answer(w, m, text(strconv.Itoa(s.called())))
	case "status":
		if n == 429 || n == 503 {
			w.Header().Set("Retry-After", "7")
		}
		w.Header().Set("Location", "/elsewhere")
		w.WriteHeader(n)
		fmt.Fprintf(w, "secret-of-the-server")
	case "fault":
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(n)
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32602,"message":"no such tool"}}`, m.ID)
	case "type":
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, good)
	case "accepted":
		w.WriteHeader(http.StatusAccepted)
	case "garbage":
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, "<html>")
	case "batch":
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, "["+good+"]")
	case "wrong id":
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s000,"result":{"content":[]}}`, m.ID)
	case "gzip":
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		fmt.Fprint(z, good[:len(good)-1])
		writeMuch(z, r)
		z.Close()
	case "cut":
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", "1000")
		fmt.Fprint(w, good)
	case "close":
		c, _, err := http.NewResponseController(w).Hijack()
		if err == nil {
			c.Close()
		}
	case "hang":
		<-r.Context().Done()
	case "drip":
		// A byte at a time, for ever.
		w.Header().Set("Content-Type", "application/json")
		for r.Context().Err() == nil {
			if _, err := fmt.Fprint(w, " "); err != nil {
				return
			}
			_ = http.NewResponseController(w).Flush()
		}
	case "large":
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", strconv.Itoa(1<<30))
		writeMuch(w, r)
	case "endless":
		w.Header().Set("Content-Type", "application/json")
		writeMuch(w, r)
	case "headers":
		// net/http of the server bounds nothing here.
		c, b, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer c.Close()
		fmt.Fprint(b, "HTTP/1.1 200 OK\r\n")
		for i := 0; ; i++ {
			if _, err := fmt.Fprintf(b, "X-%d: %s\r\n", i, strings.Repeat("x", 1000)); err != nil {
				return
			}
		}
	case "continue":
		c, b, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer c.Close()
		for {
			if _, err := fmt.Fprintf(b, "HTTP/1.1 103 Early Hints\r\nLink: %s\r\n\r\n", strings.Repeat("x", 1000)); err != nil {
				return
			}
		}
	case "stream":
		emit(w, ": hello\nid: 1\ndata:")
		emit(w, "event: message\ndata: "+`{"jsonrpc":"2.0","method":"notifications/progress","params":{}}`)
		emit(w, "event: other\ndata: x")
		emit(w, "data: {\ndata: %s", good[1:])
	case "stream stays":
		emit(w, "data: %s", good)
		<-r.Context().Done()
	case "stream ends":
		emit(w, "data: "+`{"jsonrpc":"2.0","method":"notifications/progress","params":{}}`)
	case "stream cut":
		emit(w, "data: x")
		fmt.Fprintf(w, "data: %s\n", good) // an event without an end is none
	case "stream wrong id":
		emit(w, `data: {"jsonrpc":"2.0","id":%s000,"result":{"content":[]}}`, m.ID)
	case "stream long":
		emit(w, `data: {"jsonrpc":"2.0","method":"notifications/message","params":%q}`, strings.Repeat("x", n))
		emit(w, "data: %s", good)
	case "stream large":
		emit(w, `data: {"jsonrpc":"2.0","id":%s,"result":%q}`, m.ID, strings.Repeat("x", n))
		<-r.Context().Done()
	case "stream line":
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, "data: ")
		writeMuch(w, r)
	case "stream comment":
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, ": ")
		writeMuch(w, r)
	case "stream blank":
		w.Header().Set("Content-Type", "text/event-stream")
		for r.Context().Err() == nil {
			if _, err := io.WriteString(w, strings.Repeat("\n", 4096)); err != nil {
				return
			}
		}
	case "stream notifications":
		for r.Context().Err() == nil {
			emit(w, `data: {"jsonrpc":"2.0","method":"notifications/message","params":{"data":%q}}`, strings.Repeat("x", 4096))
		}
	case "stream requests":
		for i := 0; r.Context().Err() == nil; i++ {
			emit(w, `data: {"jsonrpc":"2.0","id":%d,"method":"ping"}`, i)
		}
	case "ask":
		emit(w, `data: {"jsonrpc":"2.0","id":"a","method":%q,"params":{}}`, rest)
		<-r.Context().Done()
	case "ask and cope":
		emit(w, `data: {"jsonrpc":"2.0","id":"b","method":%q,"params":{}}`, rest)
		emit(w, "data: %s", good)
	default:
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32602,"message":"no such tool"}}`, m.ID)
	}
}

// writeMuch writes 1 GiB, as far as somebody reads it.
func writeMuch(w io.Writer, r *http.Request) {
	chunk := strings.Repeat("x", 1<<16)
	for i := 0; i < 1<<14 && r.Context().Err() == nil; i++ {
		if _, err := io.WriteString(w, chunk); err != nil {
			return
		}
	}
}

// idle fails the test if goroutines are left that were not there before.
func idle(t *testing.T) {
	t.Helper()
	before := runtime.NumGoroutine()
	t.Cleanup(func() {
		for deadline := time.Now().Add(bound); runtime.NumGoroutine() > before; runtime.Gosched() {
			if time.Now().After(deadline) {
				stacks := make([]byte, 1<<20)
				require.FailNow(t, "goroutines are left", "%s", stacks[:runtime.Stack(stacks, true)])
			}
		}
	})
}

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
	small := func(o *Options) { o.MaxNoise, o.MaxLine = 1<<20, 1<<16 }
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
			p := s.pool(t, small)
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
			ctx, cancel := context.WithTimeout(t.Context(), time.Second/2)
			defer cancel()
			_, err := p.Call(ctx, "h", tool, nil)
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
		_, err := call(t, s.pool(t, func(o *Options) { o.StartTimeout = 200 * time.Millisecond }), "echo", "")
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

	// It may end between the look and the call, which the server then does not take.
	s.meanwhile(func(_ http.ResponseWriter, r *http.Request, m message) bool {
		if m.Method == "tools/call" && r.Header.Get("Mcp-Session-Id") == "session-3" {
			s.with(func() { clear(s.sessions) })
		}
		return false
	})
	_, err = pinned(t, p, pin)
	require.NoError(t, err)
	require.Equal(t, 4, s.beginnings())
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
	require.Equal(t, "session-4", last)
	require.Equal(t, 1, again)
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
	requireKind(t, contract.Drift, err)
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
	o.StartTimeout = 300 * time.Millisecond
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
