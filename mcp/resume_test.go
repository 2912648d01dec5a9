//go:build unix

package mcp

import (
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/contract"
)

// interrupted makes the stream of a call end before its answer, after an event with the id 0. A
// request for the rest is answered by rest, which gets the call and the id of the event to follow.
func interrupted(t *testing.T, rest func(w http.ResponseWriter, r *http.Request, m message, after int)) (*site, *Pool) {
	t.Helper()
	s := newSite(t)
	var call message
	s.meanwhile(func(w http.ResponseWriter, r *http.Request, m message) bool {
		switch {
		case m.Method == "tools/call":
			s.with(func() { s.calls++; call = m })
			emit(w, "id: 0\nretry: 1\ndata:")
			return true
		case r.Method == http.MethodGet:
			after, err := strconv.Atoi(r.Header.Get("Last-Event-ID"))
			if err != nil || r.Header.Get("Accept") != "text/event-stream" || r.Header.Get("Mcp-Session-Id") == "" {
				w.WriteHeader(http.StatusBadRequest)
				return true
			}
			var m message
			s.with(func() { m = call })
			rest(w, r, m, after)
			return true
		}
		return false
	})
	return s, s.pool(t)
}

func (s *site) resumed() (n int) {
	for _, r := range s.record().requests {
		if r.Method == http.MethodGet {
			n++
		}
	}
	return n
}

func TestResumed(t *testing.T) {
	s, p := interrupted(t, func(w http.ResponseWriter, _ *http.Request, m message, after int) {
		if after < 2 {
			emit(w, "id: %d\ndata:", after+1)
			return
		}
		emit(w, `data: {"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"rest"}]}}`, m.ID)
	})
	require.Equal(t, "rest", textOf(t, p, "x"))
	require.Equal(t, 3, s.resumed())
	require.Equal(t, 1, s.called(), "the call must not be sent again")
	require.NoError(t, p.Close())
}

func TestNotResumed(t *testing.T) {
	for name, rest := range map[string]func(w http.ResponseWriter, r *http.Request, m message, after int){
		"no such method": func(w http.ResponseWriter, _ *http.Request, _ message, _ int) {
			w.WriteHeader(http.StatusMethodNotAllowed)
		},
		"not found": func(w http.ResponseWriter, _ *http.Request, _ message, _ int) { w.WriteHeader(http.StatusNotFound) },
		"accepted":  func(w http.ResponseWriter, _ *http.Request, _ message, _ int) { w.WriteHeader(http.StatusAccepted) },
		"another type": func(w http.ResponseWriter, _ *http.Request, m message, _ int) {
			answer(w, m, `{"content":[]}`)
		},
		"redirect": func(w http.ResponseWriter, r *http.Request, _ message, _ int) {
			http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
		},
		"compressed": func(w http.ResponseWriter, _ *http.Request, m message, _ int) {
			w.Header().Set("Content-Encoding", "gzip")
			emit(w, `data: {"jsonrpc":"2.0","id":%s,"result":{"content":[]}}`, m.ID)
		},
		"broken": func(w http.ResponseWriter, _ *http.Request, _ message, _ int) {
			if c, _, err := http.NewResponseController(w).Hijack(); err == nil {
				c.Close()
			}
		},
		"an id that is none": func(w http.ResponseWriter, _ *http.Request, _ message, _ int) { emit(w, "id\ndata:") },
	} {
		t.Run(name, func(t *testing.T) {
			s, p := interrupted(t, rest)
			_, err := call(t, p, "x", "")
			e := requireKind(t, contract.Transport, err)
			require.Contains(t, e.Message, "ended before it answered")
			require.Positive(t, s.resumed()) // net/http repeats a GET for which it used an old connection
			require.Equal(t, 1, s.called())
			s.meanwhile(nil)
			require.JSONEq(t, `{"a":1}`, func() string {
				r, err := call(t, p, "echo", `{"a":1}`)
				require.NoError(t, err)
				return string(r.Structured)
			}(), "the session goes on")
			require.Equal(t, 1, s.beginnings())
		})
	}
}

func TestResumedForEver(t *testing.T) {
	idle(t)
	s, p := interrupted(t, func(w http.ResponseWriter, _ *http.Request, _ message, after int) { emit(w, "id: %d\ndata:", after+1) })
	begun := time.Now()
	requireKind(t, contract.Timeout, late(t, func() bool { return s.resumed() >= 5 }, calling(p, "x", "")))
	require.Equal(t, 1, s.called())
	most := s.resumed()
	require.GreaterOrEqual(t, time.Since(begun), time.Duration(most-1)*minPause)
	require.NoError(t, p.Close())
	s.Server.Close()
	require.LessOrEqual(t, s.resumed(), most+1)
}
