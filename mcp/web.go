package mcp

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"chimera.ai/engine/contract"
)

// Bounds of time of a link over HTTP, where no caller's deadline holds.
const (
	// linger is how long an event stream that has brought its answer may take to end, so that
	// its connection can be used again.
	linger = 250 * time.Millisecond
	// errandTime bounds a message without an answer.
	errandTime = 10 * time.Second
)

// web is the link to a server over streamable HTTP: each message is a POST, and the answer to
// that brings the messages of the server. A stream that ends before it has answered is resumed. None
// is opened for what a server says of its own accord.
type web struct {
	c    *conn
	peer *peer
	// at returns where messages are posted.
	at func() string
	// answers takes the body of the answer to a request.
	answers func(context.Context, *request, *http.Response)

	// ctx ends with the session.
	ctx    context.Context
	cancel context.CancelFunc
	busy   sync.WaitGroup
	errand chan []byte

	// session is the id that the server has given the session, or nil. It is implied if where
	// messages are posted says which it is.
	session, version atomic.Pointer[string]
	implied          bool
	// forgotten is set once the server does not know the session any more.
	forgotten atomic.Bool
}

// open begins a session with a server over streamable HTTP.
func open(name string, p *peer, opts Options) *conn {
	c := newConn(name, opts)
	w := newWeb(c, p)
	w.at = func() string { return p.url.String() }
	w.answers = w.receive
	c.begin(w)
	return c
}

func newWeb(c *conn, p *peer) *web {
	w := &web{c: c, peer: p, errand: make(chan []byte, queueLong)}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	return w
}

func (w *web) send(_ context.Context, out *outgoing) {
	w.c.mu.Lock()
	defer w.c.mu.Unlock()
	if w.c.reason == nil {
		w.busy.Go(func() { w.exchange(out) })
	}
}

func (w *web) say(line []byte) {
	select {
	case w.errand <- line:
	default:
	}
}

func (w *web) notify(ctx context.Context, line []byte) *contract.Error {
	response, bad := w.post(ctx, line, nil)
	if bad != nil {
		return bad.err
	}
	drop(response)
	return nil
}

func (w *web) agreed(version string) { w.version.Store(&version) }

func (w *web) kill() { w.cancel() }

func (w *web) detail(details json.RawMessage) json.RawMessage { return details }

func (w *web) serve() {
	w.busy.Go(w.errands)
	<-w.c.failed
	w.cancel()
	w.busy.Wait()
	w.leave()
	w.peer.transport.CloseIdleConnections()
}

// errands sends messages without an answer, one after the other.
func (w *web) errands() {
	for {
		select {
		case line := <-w.errand:
			ctx, cancel := context.WithTimeout(w.ctx, errandTime)
			err := w.notify(ctx, line)
			cancel()
			if err != nil {
				w.c.log.Debug("MCP message not taken", "kind", err.Kind)
			}
		case <-w.ctx.Done():
			return
		}
	}
}

// leave ends the session at the server, as a best effort.
func (w *web) leave() {
	if w.session.Load() == nil || w.forgotten.Load() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), w.c.opts.StopGrace)
	defer cancel()
	request, bad := w.peer.request(ctx, http.MethodDelete, w.at(), nil)
	if bad != nil {
		return
	}
	w.mark(request, nil, nil)
	if response, err := w.peer.transport.RoundTrip(request); err == nil {
		drop(response)
	}
}

// exchange posts a request and takes what the answer brings, until nobody waits any more.
func (w *web) exchange(out *outgoing) {
	r := out.request
	ctx, cancel := context.WithCancel(w.ctx)
	defer cancel()
	defer context.AfterFunc(r.over, func() {
		if r.answered {
			time.AfterFunc(linger, cancel)
			return
		}
		cancel()
	})()
	response, bad := w.post(ctx, out.line, r)
	if bad != nil {
		w.c.complete(r, reply{frame: bad.frame, err: bad.err})
		return
	}
	defer response.Body.Close()
	w.answers(ctx, r, response)
}
