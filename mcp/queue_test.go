//go:build unix

package mcp

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// Those who wait for a session have it in the order in which they came, whoever gives up meanwhile.
func TestQueueForSessions(t *testing.T) {
	const agents = 12
	s := newSite(t)
	p := s.pool(t, func(o *Options) { o.MaxSessions = 1 })
	queued := func(n int) {
		t.Helper()
		until(t, p, func(s *server) bool { return len(s.queue) == n })
	}
	for range 3 {
		gate := make(chan struct{})
		begun := make(chan struct{})
		s.meanwhile(func(w http.ResponseWriter, _ *http.Request, m message) bool {
			if m.Params.Name == "hold" {
				close(begun)
				<-gate
				answer(w, m, text("done"))
				return true
			}
			return false
		})
		var all sync.WaitGroup
		all.Go(func() { textOf(t, as(p, "first", ""), "hold") })
		<-begun
		already := len(s.record().taken)
		var want []string
		for i := range agents {
			ctx, cancel := context.WithCancel(t.Context())
			gone := make(chan struct{})
			all.Go(func() {
				defer close(gone)
				_, err := as(p, strconv.Itoa(i), "").Call(ctx, "h", fmt.Sprintf("count:%d", i), nil)
				if (err != nil) != (i%3 == 1) {
					t.Errorf("call %d: %v", i, err)
				}
			})
			queued(len(want) + 1)
			if i%3 == 1 {
				cancel()
				<-gone
				queued(len(want))
			} else {
				want = append(want, fmt.Sprintf("count:%d", i))
			}
			defer cancel()
		}
		close(gate)
		all.Wait()
		var served []string
		for _, m := range s.record().taken[already:] {
			if m.Method == callOf {
				served = append(served, m.Params.Name)
			}
		}
		require.Equal(t, want, served)
	}
}

// A call that is still in the session before its agent's last one does not keep that from others. If it has to
// be sent again, it waits for its turn.
func TestCallInAPastSession(t *testing.T) {
	idle(t)
	s := newSite(t)
	p := s.pool(t, func(o *Options) { o.MaxSessions = 1 })
	begun, gate := make(chan struct{}), make(chan struct{})
	release := sync.OnceFunc(func() { close(gate) })
	t.Cleanup(release)
	s.meanwhile(func(w http.ResponseWriter, r *http.Request, m message) bool {
		if r.Header.Get("Mcp-Session-Id") != "session-1" || m.Method != callOf {
			return false
		}
		if m.Params.Name == "stream" {
			close(begun)
			<-gate
		}
		w.WriteHeader(http.StatusNotFound)
		return true
	})
	ended := make(chan error, 1)
	go func() {
		_, err := as(p, "a", "").Call(context.Background(), "h", "stream", nil)
		ended <- err
	}()
	<-begun
	require.Equal(t, "1", textOf(t, as(p, "a", ""), "count"))
	require.Equal(t, "2", textOf(t, as(p, "b", ""), "count"))
	release()
	require.NoError(t, <-ended)
	require.Equal(t, "4", textOf(t, as(p, "b", ""), "count"))
	require.Equal(t, 5, s.beginnings())
	require.NoError(t, p.Close())
	require.Len(t, s.record().deleted, 4, "each session has ended that the server knew")
}
