package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

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
// that brings the messages of the server. No stream is opened for what a server says of its own
// accord, and none is resumed.
type web struct {
	c    *conn
	peer *peer
	// at returns where messages are posted.
	at func() string
	// answers takes the body of the answer to a request.
	answers func(*request, *http.Response)

	// ctx ends with the session.
	ctx    context.Context
	cancel context.CancelFunc
	busy   sync.WaitGroup
	errand chan []byte

	// session is the id that the server has given the session, or nil. It is implied if where
	// messages are posted says which it is.
	session, version atomic.Pointer[string]
	implied          bool
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
		w.end(bad)
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
	if w.session.Load() == nil {
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
		w.end(bad)
		return
	}
	defer response.Body.Close()
	w.answers(r, response)
}

// refusal is why a message has no answer: err, or the JSON-RPC error that came with the status.
type refusal struct {
	err   *contract.Error
	frame frame
	// over is set if the session is, too.
	over bool
}

// end ends the session if a refusal says so.
func (w *web) end(bad *refusal) {
	if bad.over {
		w.session.Store(nil)
		w.c.fail(w.c.errorf(contract.Transport, "its session is over: another begins with the next call"))
	}
}

// post sends a message. The status of the response that it returns is one of success. r is the
// request of which the message is, or nil.
func (w *web) post(ctx context.Context, line []byte, r *request) (*http.Response, *refusal) {
	body := bytes.TrimSuffix(line, []byte("\n"))
	request, bad := w.peer.request(ctx, http.MethodPost, w.at(), body)
	if bad != nil {
		own := *bad
		own.Message = w.c.errorf(bad.Kind, "%s", bad.Message).Message
		return nil, &refusal{err: &own}
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json, text/event-stream")
	inSession := w.mark(request, r, body)
	if r != nil {
		request.Body = &letter{bytes.NewReader(body), r}
		request.GetBody = func() (io.ReadCloser, error) {
			// net/http has written nothing to the connection that it replaces.
			r.stage.CompareAndSwap(sent, queued)
			return &letter{bytes.NewReader(body), r}, nil
		}
	}
	response, err := w.peer.transport.RoundTrip(request)
	if err != nil {
		return nil, w.broken(r, err)
	}
	if response.StatusCode >= 200 && response.StatusCode < 300 && r != nil && r.method == string(mcp.MethodInitialize) {
		if id := response.Header.Get(mcp.HeaderSessionID); id != "" {
			if !visible(id, maxSession) {
				response.Body.Close()
				return nil, &refusal{err: w.c.errorf(contract.ServerError, "its session id is not one of at most %d visible ASCII characters", maxSession)}
			}
			w.session.Store(&id)
		}
	}
	if refused := w.judge(r, response, inSession); refused != nil {
		response.Body.Close()
		return nil, refused
	}
	return response, nil
}

// broken says what a failed round trip means: nothing was sent if the message was never read.
func (w *web) broken(r *request, err error) *refusal {
	over := errors.Is(err, errOtherPeer)
	if over {
		w.c.closed.Store(true)
	}
	if r == nil || r.stage.CompareAndSwap(queued, withdrawn) {
		return &refusal{err: w.c.unsent("%w", err), over: over}
	}
	return &refusal{err: w.c.errorf(contract.Transport, "the connection broke: %w", err), over: over}
}

// letter is the body of a request. net/http reads it once it has a connection, so the first read
// is the moment from which the message may have been sent.
type letter struct {
	text *bytes.Reader
	r    *request
}

var errWithdrawn = errors.New("the request was withdrawn")

func (l *letter) Read(p []byte) (int, error) {
	if !l.r.stage.CompareAndSwap(queued, sent) && l.r.stage.Load() == withdrawn {
		return 0, errWithdrawn
	}
	return l.text.Read(p)
}

func (l *letter) Close() error { return nil }

// mark sets the headers of the session and of the protocol. It reports whether the server knows
// the session by an id.
func (w *web) mark(request *http.Request, r *request, body []byte) bool {
	version := ""
	if v := w.version.Load(); v != nil {
		version = *v
	} else if r != nil && r.method == string(mcp.MethodServerDiscover) {
		version = mcp.LATEST_PROTOCOL_VERSION
	}
	if version != "" {
		request.Header.Set(mcp.HeaderProtocolVersion, version)
	}
	if mcp.IsModernProtocol(version) {
		if r != nil {
			var params json.RawMessage
			if exact(body, map[string]any{"params": &params}) == nil {
				for name, value := range mcp.StandardHeaders(version, mcp.MCPMethod(r.method), params) {
					request.Header.Set(name, value)
				}
			}
		}
		return false
	}
	id := w.session.Load()
	if id != nil {
		request.Header.Set(mcp.HeaderSessionID, *id)
	}
	return id != nil || w.implied
}

// maxSession bounds the id of a session, in bytes.
const maxSession = 1024

// visible reports whether a text is one of at most so many visible ASCII characters.
func visible(text string, most int) bool {
	for i := range len(text) {
		if text[i] < 0x21 || text[i] > 0x7e {
			return false
		}
	}
	return len(text) <= most
}

// receive takes the answer to a request, which comes alone or in a stream of events.
func (w *web) receive(r *request, response *http.Response) {
	kind, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type"))
	switch kind {
	case "application/json":
		body, err := w.read(response, w.c.opts.MaxLine)
		if err != nil {
			w.c.complete(r, reply{err: err})
			return
		}
		w.c.take(body, r)
		w.c.complete(r, reply{err: w.c.errorf(contract.ServerError, "its response is not the answer to the request")})
	case "text/event-stream":
		w.stream(r, newEvents(response.Body, w.c.opts.MaxLine, w.c.opts.MaxNoise))
		w.c.complete(r, reply{err: w.c.errorf(contract.Transport, "its stream of events ended before it answered")})
	default:
		w.c.complete(r, reply{err: w.c.errorf(contract.ServerError, "its response is of another type than JSON or a stream of events")})
	}
}

// stream takes the messages of a stream of events: of r alone, or of all requests if r is nil.
// It returns at the end of the stream.
func (w *web) stream(r *request, from *events) {
	for {
		e, err := from.next()
		mine := true
		switch {
		case e.over != nil:
			w.c.log.Warn("MCP message over the limit", "limit", w.c.opts.MaxLine)
			mine = w.c.failAnswered(e.over, r)
		case err == nil && len(e.data) > 0 && (e.name == "" || e.name == "message"):
			if !w.c.take(e.data, r) {
				return
			}
		default:
			mine = false
		}
		if !mine && !w.c.hear(e.size) || err != nil {
			return
		}
	}
}

// read reads a body of at most limit bytes.
func (w *web) read(response *http.Response, limit int) ([]byte, *contract.Error) {
	if response.ContentLength > int64(limit) {
		return nil, w.c.errorf(contract.TooLarge, "the result is too large: %w", &oversize{limit})
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, int64(limit)+1))
	switch {
	case len(body) > limit:
		return nil, w.c.errorf(contract.TooLarge, "the result is too large: %w", &oversize{limit})
	case err != nil:
		return nil, w.c.errorf(contract.Transport, "the connection broke before the end of the answer: %w", err)
	}
	return body, nil
}

// drop reads a body that says nothing, as far as it is worth a connection.
func drop(response *http.Response) {
	_, _ = io.CopyN(io.Discard, response.Body, 4<<10)
	response.Body.Close()
}
