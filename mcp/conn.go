package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"

	"chimera.ai/engine/contract"
)

// queueLong is how many messages may wait to be written. Options.MaxCalls bounds calls;
// other messages are dropped if the server does not read.
const queueLong = 128

// conn is a session with one server. It is an mcp-go transport for the
// handshake; everything else goes through [conn.roundTrip].
//
// Requests have ids of the session, so several clients may share it.
type conn struct {
	name string
	opts Options
	log  *slog.Logger
	link link
	// single: one stream carries all answers, so that one that does not end delays all others.
	single bool
	// meta is what a stateless protocol version requires in every request.
	meta map[string]any
	// introduction is complete after the handshake, and instructions is the digest of those in it.
	introduction Introduction
	instructions string
	// mistaken is set if it was ended because another server was pinned. Guarded by the server's mutex.
	mistaken bool

	// closed is set once the server can take no more requests.
	closed atomic.Bool
	// announced is set once the server has said that its tools have changed.
	announced atomic.Bool
	// served is set once the server has answered a request after the handshake.
	served atomic.Bool

	mu sync.Mutex
	// users counts the calls in it.
	users int
	// doubted: a ping says whether the server still answers.
	doubted bool
	next    int64
	pending map[int64]*request
	// late holds the requests that nobody waits for any more. Their answers are not noise.
	late   map[int64]bool
	reason *contract.Error
	noise  noise
	// last is the last list of tools, whose bytes seldom change, and looked its fingerprints, or nil.
	last   listed
	looked *looked

	// failed is closed once reason is set, and gone once the link has ended, with what it
	// started.
	failed, gone chan struct{}
}

// link carries the messages of a session to its server and back. It gives what it
// receives to [conn.take]. What fails, it reports by [conn.complete] if that is one request,
// and by [conn.fail] if it is the session.
type link interface {
	// send takes a request, unless ctx or the request ends before it can. It does not wait
	// for the answer.
	send(ctx context.Context, out *outgoing)
	// say takes a message without an answer, or drops it: a server that does not read cannot
	// make messages pile up.
	say(line []byte)
	// notify sends a notification of the handshake before what is sent after it.
	notify(ctx context.Context, line []byte) *contract.Error
	// agreed says which version of the protocol the handshake has negotiated.
	agreed(version string)
	// kill ends a server that broke the protocol, as far as the link can.
	kill()
	// serve returns once the session has failed and the link has ended.
	serve()
	// detail adds what the link knows about its server to the details of an error, which are
	// an object or nil.
	detail(details json.RawMessage) json.RawMessage
}

// newConn returns a session without a link.
func newConn(name string, opts Options) *conn {
	return &conn{
		name: name, opts: opts,
		log:     opts.Logger.With("server", name),
		pending: map[int64]*request{},
		late:    map[int64]bool{},
		failed:  make(chan struct{}),
		gone:    make(chan struct{}),
	}
}

// begin gives a session its link.
func (c *conn) begin(l link) {
	c.link = l
	go func() {
		defer close(c.gone)
		l.serve()
	}()
}

// outgoing is a message to write; request is nil for those without an answer.
type outgoing struct {
	line    []byte
	request *request
}

// request is a request that waits for its answer.
type request struct {
	id     int64
	method string
	answer chan reply
	stage  atomic.Int32
	// over ends when nobody waits for the answer any more.
	over context.Context
	end  context.CancelFunc
	// answered is set before over ends, if that is since the answer has come.
	answered bool
	// asked is the method by which the server asked for input while only this
	// call was in flight. Guarded by conn.mu.
	asked string
}

// recall takes back a request of which nothing was sent, and reports whether it could: it is not sent then.
func (r *request) recall() bool {
	return r.stage.CompareAndSwap(queued, withdrawn) || r.stage.Load() == withdrawn
}

// The stages of a request: only one that is still queued is provably unsent.
const (
	queued int32 = iota
	sent
	withdrawn
)

// reply is what became of a request: an answer, or err.
type reply struct {
	frame
	asked string
	err   *contract.Error
	// sent is set if the request may have been sent, whatever the kind of err says that its server made of it.
	sent bool
}

// fail ends the session for the given reason; only the first counts. Every waiting
// request fails with it, or as unsent if that is certain and the reason says no more.
func (c *conn) fail(reason *contract.Error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over(reason)
}

// over is fail; the caller holds c.mu.
func (c *conn) over(reason *contract.Error) {
	if c.reason != nil {
		return
	}
	c.closed.Store(true)
	c.reason = reason
	for _, id := range slices.Sorted(maps.Keys(c.pending)) {
		r := c.pending[id]
		if r.recall() && !reason.Kind.NothingSent() {
			r.answer <- reply{err: c.unsent("%s", c.words(reason))}
		} else {
			own := *reason
			r.answer <- reply{err: &own, asked: r.asked}
		}
		r.end()
	}
	clear(c.pending)
	close(c.failed)
}

// offend ends the connection to a server that breaks the protocol.
func (c *conn) offend(kind contract.Kind, format string, args ...any) {
	err := c.errorf(kind, format, args...)
	c.log.Warn("MCP server broke the protocol and is stopped", "reason", err.Message)
	c.fail(err)
	c.link.kill()
}

// join adds a call to those in the session.
func (c *conn) join() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.users++
}

// leave takes a call away. A session that takes no more calls ends with the last one in it.
func (c *conn) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.users--
	c.ebb()
}

// retire lets a session take no more calls. Those in it are not harmed.
func (c *conn) retire(why string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed.Swap(true) {
		c.log.Warn("MCP session takes no more calls", "reason", why)
	}
	c.ebb()
}

// ebb ends a session that takes no more calls, if there is none in it; the caller holds c.mu.
func (c *conn) ebb() {
	if c.users == 0 && c.closed.Load() {
		c.over(c.errorf(contract.Transport, "its session is over: another begins with the next call"))
	}
}

// calls counts the calls in the session.
func (c *conn) calls() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.users
}

// isOver reports whether the session has ended, or is ending.
func (c *conn) isOver() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.reason != nil
}

// blocking says when a call was stopped that waited for the end of the session.
func (c *conn) blocking() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return fmt.Sprintf("while it waited for the session before, which takes no more calls and has %d in it: no other process of the server may start before that has ended, or max_sessions leaves room", c.users)
}

// close ends the connection and waits until the server and all that it started have
// ended.
func (c *conn) close() {
	c.fail(c.errorf(contract.Transport, "the client was closed"))
	<-c.gone
}

func (c *conn) usable() bool { return !c.closed.Load() }

func (c *conn) errorf(kind contract.Kind, format string, args ...any) *contract.Error {
	err := contract.Errorf(kind, format, args...)
	err.Message = c.prefix() + err.Message
	return err
}

// prefix begins the messages of the session's errors.
func (c *conn) prefix() string { return "MCP server " + c.name + ": " }

// words is the message of an error of the session without its prefix, for another one.
func (c *conn) words(err *contract.Error) string { return strings.TrimPrefix(err.Message, c.prefix()) }

func (c *conn) unsent(format string, args ...any) *contract.Error {
	return c.errorf(contract.Unsent, format, args...)
}

// refuse returns the error of a message that could not be encoded.
func (c *conn) refuse(err error) *contract.Error {
	if over, ok := err.(*oversize); ok {
		return c.errorf(contract.TooLarge, "the arguments are too large: %w", over)
	}
	return c.errorf(contract.Contract, "the arguments are not JSON: %w", err)
}

// forget removes a request from the list; the caller holds c.mu.
func (c *conn) forget(r *request, answerMayCome bool) {
	delete(c.pending, r.id)
	r.end()
	if !answerMayCome {
		return
	}
	// The list would grow if a server never answers.
	const most = 4096
	if len(c.late) >= most {
		clear(c.late)
	}
	c.late[r.id] = true
}

// cancel tells the server, as a best effort, that nobody waits any more.
func (c *conn) cancel(r *request, reason string) {
	// The handshake must not be cancelled.
	if r.method == string(mcp.MethodInitialize) || r.method == string(mcp.MethodServerDiscover) {
		return
	}
	c.say(map[string]any{
		"jsonrpc": mcp.JSONRPC_VERSION,
		"method":  mcp.MethodNotificationCancelled,
		"params":  map[string]any{"requestId": r.id, "reason": reason},
	})
}

// say sends a message that needs no answer, as a best effort.
func (c *conn) say(message any) {
	line, err := encode(message, c.opts.MaxLine)
	if err != nil {
		c.log.Warn("MCP message left out", "err", err)
		return
	}
	c.link.say(line)
}

// complete delivers the answer of a request that still waits for one, and reports whether
// it did.
func (c *conn) complete(r *request, answer reply) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pending[r.id] != r {
		return false
	}
	answer.asked = r.asked
	r.answered = answer.err == nil
	r.answer <- answer
	c.forget(r, answer.err != nil && answer.err.Kind != contract.Unsent)
	return true
}

// The rest makes conn an mcp-go transport.

var _ transport.HTTPConnection = (*conn)(nil)

// Start has nothing to do: the process belongs to the pool, never to the
// context of whoever calls first.
func (c *conn) Start(context.Context) error { return nil }

// SendNotification serves the handshake.
func (c *conn) SendNotification(ctx context.Context, notification mcp.JSONRPCNotification) error {
	line, err := encode(notification, c.opts.MaxLine)
	if err != nil {
		return c.refuse(err)
	}
	if err := c.link.notify(ctx, line); err != nil {
		return err
	}
	return nil
}

// SetNotificationHandler does nothing: a handler would run on the reading goroutine, where
// a call would wait for itself.
func (c *conn) SetNotificationHandler(func(mcp.JSONRPCNotification)) {}

// SetProtocolVersion tells the link what the handshake has negotiated.
func (c *conn) SetProtocolVersion(version string) { c.link.agreed(version) }

// Close ends the session.
func (c *conn) Close() error {
	c.close()
	return nil
}

// GetSessionId is empty: ids of sessions are the link's.
//
//lint:ignore ST1003 the name is that of mcp-go's interface
func (c *conn) GetSessionId() string { return "" }

// stopped returns the error of a call whose context has ended. If nothing was sent, a
// passed deadline is unsent, as is a call that nobody wants any more; the details of a cancelled call say
// so too.
func stopped(ctx context.Context, name, when string, wasSent bool) *contract.Error {
	kind, word := contract.Unsent, "the deadline passed"
	switch {
	case context.Cause(ctx) == errWithdrawn:
		word, when, wasSent = "the call was withdrawn", "before it was sent", false // what was sent was a look
	case ctx.Err() != context.DeadlineExceeded:
		kind, word = contract.Cancelled, "the call was cancelled"
	case wasSent:
		kind = contract.Timeout
	}
	err := contract.Errorf(kind, "MCP server %s: %s %s", name, word, when)
	err.Cause = context.Cause(ctx)
	err.Details = object("sent", wasSent)
	return err
}

// object returns a JSON object with one entry.
func object(key string, value any) json.RawMessage {
	raw, err := json.Marshal(map[string]any{key: value})
	if err != nil {
		return nil
	}
	return raw
}
