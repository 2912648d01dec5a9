//go:build unix

package mcp

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
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
	case m.Method == "ping":
		answer(w, m, `{}`)
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
	case "exactly":
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, exactly(m.ID, n))
	case "stream exactly":
		emit(w, "data: %s", exactly(m.ID, n))
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
		w.Header().Set("Content-Type", "application/json")
		drip(w, m)
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
		deadline := time.Now().Add(bound)
		for runtime.NumGoroutine() > before {
			if time.Now().After(deadline) {
				stacks := make([]byte, 1<<20)
				require.FailNow(t, "goroutines are left", "%s", stacks[:runtime.Stack(stacks, true)])
			}
			time.Sleep(time.Millisecond)
		}
	})
}
