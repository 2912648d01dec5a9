//go:build unix

package mcp

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/contract"
)

// A call that nobody wants any more is not made, wherever it waits.
func TestWithdrawn(t *testing.T) {
	// wait begins a call and returns once it waits where it should.
	type wait func(t *testing.T, s *installed, p *Pool, begin func(*Pool)) (release func())
	busy := func(t *testing.T, s *installed, p *Pool) func() {
		first := s.during(t, as(p, "a", ""), "gate")
		return func() {
			s.write(t, "gate", "")
			require.NoError(t, (<-first).err)
		}
	}
	for name, c := range map[string]struct {
		sessions, calls int
		wait            wait
	}{
		"for a session": {1, 8, func(t *testing.T, s *installed, p *Pool, begin func(*Pool)) func() {
			release := busy(t, s, p)
			begin(as(p, "b", ""))
			until(t, p, func(s *server) bool { return s.waiting == 1 })
			return release
		}},
		"for other calls": {8, 1, func(t *testing.T, s *installed, p *Pool, begin func(*Pool)) func() {
			release := busy(t, s, p)
			begin(as(p, "b", ""))
			until(t, p, func(s *server) bool { return s.tenants[Principal{Agent: "b"}] != nil })
			return release
		}},
		"for the start": {8, 8, func(t *testing.T, s *installed, p *Pool, begin func(*Pool)) func() {
			s.write(t, "main.sh", `: > starting; while [ ! -e go ]; do sleep 0.01; done; exec "$1"`)
			begin(p)
			require.Eventually(t, func() bool {
				_, err := os.Stat(s.file("starting"))
				return err == nil
			}, bound, time.Millisecond)
			return func() { s.write(t, "go", "") }
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s := install(t)
			o := quiet
			o.MaxSessions, o.MaxCalls = c.sessions, c.calls
			p := openPool(t, s.Server, o)
			wanted, cancel := context.WithCancel(t.Context())
			ended, before := make(chan error, 1), 0
			release := c.wait(t, s, p, func(p *Pool) {
				before = s.lines(t, "calls")
				go func() {
					_, err := p.While(wanted).CallPinned(context.Background(), "h", "echo", nil, Pin{Again: true})
					ended <- err
				}()
			})
			cancel()
			e := requireKind(t, contract.Unsent, <-ended)
			require.JSONEq(t, `{"sent":false}`, string(e.Details))
			require.ErrorIs(t, e, errWithdrawn)
			release()
			require.Equal(t, before, s.lines(t, "calls"))
			_, err := p.Call(t.Context(), "h", "echo", nil)
			require.NoError(t, err)
			require.Equal(t, before+1, s.lines(t, "calls"))
		})
	}
}

// The look before a call is none.
func TestWithdrawnWhileListing(t *testing.T) {
	s := newSite(t)
	p := s.pool(t)
	pin := pinOf(t, p, "echo", true)
	listing, gate := make(chan struct{}), make(chan struct{})
	s.meanwhile(func(w http.ResponseWriter, r *http.Request, m message) bool {
		if m.Method == "tools/list" {
			listing <- struct{}{}
			select {
			case <-gate:
			case <-r.Context().Done():
			}
		}
		return false
	})
	wanted, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := p.While(wanted).CallPinned(context.Background(), "h", "echo", nil, pin)
		ended <- err
	}()
	<-listing
	cancel()
	requireKind(t, contract.Unsent, <-ended)
	close(gate)
	require.Zero(t, s.called())
}

// A call that is cancelled itself ends as unsent, too, if it is one that may be withdrawn: whoever cancels
// both at once cannot know which of them is seen first.
func TestCancelledWhileWanted(t *testing.T) {
	s := install(t)
	o := quiet
	o.MaxSessions = 1
	p := openPool(t, s.Server, o)
	first := s.during(t, as(p, "a", ""), "gate")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := as(p, "b", "").While(ctx).Call(ctx, "h", "echo", nil)
		ended <- err
	}()
	cancel()
	requireKind(t, contract.Unsent, <-ended)
	s.write(t, "gate", "")
	require.NoError(t, (<-first).err)
}

// A call that was sent is awaited, whether it is wanted or not.
func TestSentCallIsAwaited(t *testing.T) {
	s := install(t)
	p := openPool(t, s.Server, quiet)
	wanted, cancel := context.WithCancel(t.Context())
	first := s.during(t, p.While(wanted), "gate")
	cancel()
	_, err := p.Call(t.Context(), "h", "echo", nil)
	require.NoError(t, err)
	require.Empty(t, first)
	s.write(t, "gate", "")
	o := <-first
	require.NoError(t, o.err)
	require.Equal(t, "fine", *o.Text)

	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	before := s.lines(t, "calls")
	go func() {
		_, err := p.While(wanted).Call(ctx, "h", "hang", nil)
		ended <- err
	}()
	requireKind(t, contract.Unsent, <-ended)
	require.Equal(t, before, s.lines(t, "calls"))
	stop()
}

// Whenever a call is withdrawn, either its outcome is known, or its server has never seen it.
func TestWithdrawnAtAnyTime(t *testing.T) {
	const rounds = 300
	for name, begin := range map[string]func(t *testing.T) (p *Pool, seen func() int){
		"stdio": func(t *testing.T) (*Pool, func() int) {
			s := install(t)
			return openPool(t, s.Server, quiet), func() int { return s.lines(t, "calls") }
		},
		"http": func(t *testing.T) (*Pool, func() int) {
			s := newSite(t)
			return s.pool(t), s.called
		},
		"sse": func(t *testing.T) (*Pool, func() int) {
			a := newAirwave(t)
			return a.pool(t), func() (n int) {
				_, heard := a.seen()
				for _, h := range heard {
					if h == "/post tools/call" {
						n++
					}
				}
				return n
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			idle(t)
			p, seen := begin(t)
			for range 20 {
				_, err := p.Call(t.Context(), "h", "echo", nil)
				require.NoError(t, err)
			}
			begin := time.Now()
			_, err := p.Call(t.Context(), "h", "echo", nil)
			require.NoError(t, err)
			lasts, before, made := time.Since(begin), seen(), 0
			for range rounds {
				wanted, cancel := context.WithCancel(t.Context())
				timer := time.AfterFunc(rand.N(2*lasts), cancel)
				_, err := p.While(wanted).Call(t.Context(), "h", "echo", nil)
				timer.Stop()
				cancel()
				var e *contract.Error
				switch {
				case err == nil:
					made++
				case errors.As(err, &e):
					require.Equal(t, contract.Unsent, e.Kind, "%v", err)
				}
			}
			require.Equal(t, before+made, seen())
			t.Logf("%d of %d calls were made", made, rounds)
		})
	}
}
