//go:build unix

package mcp

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/contract"
)

// A server that hangs within an answer is replaced, as is one that reads no more.
func TestServerThatAnswersNoPing(t *testing.T) {
	for name, c := range map[string]struct{ before, tool string }{
		"drips":   {"count", "drip"},
		"is deaf": {"deaf", "echo"},
	} {
		t.Run(name, func(t *testing.T) {
			p := hostilePool(t, "ok", func(o *Options) { o.PingTimeout = soon })
			pid := pidOf(t, p)
			require.NotEmpty(t, textOf(t, p, c.before))
			requireKind(t, contract.Timeout, brief(t, p, c.tool, ""))
			require.Eventually(t, func() bool { return syscall.Kill(pid, 0) != nil }, bound, time.Millisecond, "it ends without another call")
			require.NotEqual(t, pid, pidOf(t, p))
		})
	}
}

// A server that is alive stays, whatever it answers.
func TestServerThatAnswersPings(t *testing.T) {
	for _, mode := range []string{"ok", "no ping"} {
		t.Run(mode, func(t *testing.T) {
			p := hostilePool(t, mode)
			pid := strconv.Itoa(pidOf(t, p))
			requireKind(t, contract.Timeout, brief(t, p, "hang", ""))
			require.Eventually(t, func() bool { return textOf(t, p, "pings") == "1" }, bound, time.Millisecond)
			c := connOf(p)
			require.Eventually(t, func() bool { return !c.asksForLife() }, bound, time.Millisecond)
			require.Equal(t, pid, textOf(t, p, "pid"))
		})
	}
}

// A stream that carries all answers is like an output.
func TestStreamThatAnswersNoPing(t *testing.T) {
	idle(t)
	a := newAirwave(t)
	p := a.pool(t, func(o *Options) { o.PingTimeout = soon })
	requireKind(t, contract.Timeout, brief(t, p, "hang", ""))
	require.Eventually(t, func() bool { return !connOf(p).usable() }, bound, time.Millisecond)
	require.Equal(t, "fine", textOf(t, p, "echo"))
	streams, _ := a.seen()
	require.Equal(t, 2, streams)
}

// Whoever refuses a ping is alive.
func TestStreamThatRefusesPings(t *testing.T) {
	for _, status := range []int{http.StatusUnauthorized, http.StatusInternalServerError, http.StatusServiceUnavailable} {
		t.Run(strconv.Itoa(status), func(t *testing.T) {
			idle(t)
			a := newAirwave(t)
			a.ping = status
			p := a.pool(t)
			requireKind(t, contract.Timeout, brief(t, p, "hang", ""))
			c := connOf(p)
			require.Eventually(t, func() bool {
				_, heard := a.seen()
				return slices.Contains(heard, "/post ping") && !c.asksForLife()
			}, bound, time.Millisecond)
			require.True(t, c.usable())
			require.Equal(t, "fine", textOf(t, p, "echo"))
			streams, _ := a.seen()
			require.Equal(t, 1, streams)
		})
	}
}

// dripping begins a call that is not answered, and returns once it was sent.
func dripping(ctx context.Context, t *testing.T, p *Pool) <-chan error {
	t.Helper()
	ended, more := make(chan error, 1), p.sendsMore()
	go func() {
		_, err := p.Call(ctx, "h", "drip", nil)
		ended <- err
	}()
	require.Eventually(t, more, bound, time.Millisecond)
	return ended
}

// A call that its caller gives up says nothing about its server, which may be in the middle of an effect.
func TestCancelledCallIsNotDoubted(t *testing.T) {
	p := hostilePool(t, "ok")
	require.NotEmpty(t, textOf(t, p, "count"))
	c := connOf(p)
	ctx, cancel := context.WithCancel(t.Context())
	ended := dripping(ctx, t, p)
	cancel()
	requireKind(t, contract.Cancelled, <-ended)
	require.False(t, c.asksForLife())
	require.True(t, c.usable())
}

// asksForLife reports whether a ping is out.
func (c *conn) asksForLife() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.doubted
}
