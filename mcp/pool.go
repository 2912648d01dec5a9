package mcp

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"chimera.ai/engine/contract"
)

// Pool has sessions with servers on behalf of one [Principal]. It is safe for concurrent use.
type Pool struct {
	servers map[string]*server
	cancel  context.CancelFunc
	// work counts the starts in progress, and the sessions that are being ended.
	work *sync.WaitGroup
	of   Principal
	// wanted is as While was given it, or nil.
	wanted context.Context
}

// server is one configured server with its sessions.
type server struct {
	name string
	conf Server
	opts Options
	// bad is what is wrong with conf, or nil.
	bad error
	// credential serves all sessions, or is nil.
	credential credential
	// ctx is the pool's: a session outlives the call that caused its start.
	ctx  context.Context
	work *sync.WaitGroup
	// calls is a semaphore of the calls in flight.
	calls chan struct{}
	// turn is held by the one start that may go on while nobody knows that the server starts.
	turn chan struct{}

	mu      sync.Mutex
	closed  bool
	tenants map[Principal]*tenant
	// lingering has the keys of the processes whose sessions take no more calls, and still have some,
	// while the next session of the tenant has begun. They count for MaxSessions.
	lingering map[Principal]bool
	// queue has those who wait for a session, in the order in which they came.
	queue []*place
	// waiting counts the sessions for which there is no room, and ending those that make it.
	waiting, ending int
	// proven is set once a session has begun, and failures counts the sessions that did not begin, for
	// another reason than that the server has refused them, or ended by themselves before they had
	// served a call, since the last that did.
	proven   bool
	failures int
}

// start is a start in progress; conn and err are set when done is closed.
type start struct {
	done chan struct{}
	conn *conn
	err  error
	// behind is what it waits for, or nil: a session that takes no more calls.
	behind atomic.Pointer[conn]
}

// NewPool returns a pool for the principal "", which the caller must close. It starts no server
// before its first use.
func NewPool(servers map[string]Server, o Options) *Pool {
	o = o.withDefaults()
	ctx, cancel := context.WithCancel(context.Background())
	p := &Pool{servers: make(map[string]*server, len(servers)), cancel: cancel, work: new(sync.WaitGroup)}
	for name, conf := range servers {
		conf.Args, conf.Env, conf.Headers = slices.Clone(conf.Args), maps.Clone(conf.Env), maps.Clone(conf.Headers)
		s := &server{
			name: name, conf: conf, opts: o, ctx: ctx, work: p.work,
			calls: make(chan struct{}, o.MaxCalls), turn: make(chan struct{}, 1),
			tenants: map[Principal]*tenant{}, lingering: map[Principal]bool{},
		}
		if conf.MaxSessions > 0 {
			s.opts.MaxSessions = conf.MaxSessions
		}
		if s.bad = conf.Check(); s.bad == nil && conf.Unavailable == "" {
			s.credential, s.bad = conf.credential(o.Issued)
		}
		p.servers[name] = s
	}
	return p
}

// For returns the pool for another principal. It has the same servers and bounds, and is closed
// with p.
func (p *Pool) For(of Principal) *Pool {
	own := *p
	own.of = of
	return &own
}

// While returns the pool for calls of tools that are not wanted any more once a context has ended. A call of which
// nothing was sent by then is not made, and fails with kind unsent. One that may have been sent goes on as
// if nothing had happened, since it may have an effect: only its own context ends it. The pool has the same
// servers and bounds, and is closed with p.
func (p *Pool) While(wanted context.Context) *Pool {
	own := *p
	own.wanted = wanted
	return &own
}

// before returns the context of what a call does before it is sent. Where calls may be unwanted, it ends
// with errWithdrawn once the call is, or is cancelled: so it does only while nothing of the call was sent.
func (p *Pool) before(ctx context.Context) (context.Context, context.CancelFunc) {
	if p.wanted == nil {
		return ctx, func() {}
	}
	steady := context.WithoutCancel(ctx)
	release := func() {}
	if end, ok := ctx.Deadline(); ok {
		steady, release = context.WithDeadline(steady, end)
	}
	before, cancel := context.WithCancelCause(steady)
	unwanted := context.AfterFunc(p.wanted, func() { cancel(errWithdrawn) })
	cancelled := context.AfterFunc(ctx, func() {
		if ctx.Err() == context.Canceled {
			cancel(errWithdrawn)
		}
	})
	if p.wanted.Err() != nil {
		cancel(errWithdrawn) // at once: the other is a matter of time
	}
	return before, func() {
		unwanted()
		cancelled()
		cancel(nil)
		release()
	}
}

// errWithdrawn is why something is not sent: nobody wants it any more.
var errWithdrawn = errors.New("the request was withdrawn")

// Close stops all servers and sessions and waits until they and all that they started have ended. Calls
// in flight fail with kind transport, later ones with kind unsent. It may be called more
// than once.
func (p *Pool) Close() error {
	p.cancel()
	for _, s := range p.servers {
		s.close()
	}
	p.work.Wait()
	return nil
}

// access is a server as one principal has it.
type access struct {
	*server
	key Principal
}

// server finds a configured server.
func (p *Pool) server(name string) (access, *contract.Error) {
	s, ok := p.servers[name]
	switch {
	case !ok:
		return access{}, contract.Errorf(contract.Contract, "no MCP server is called %q", name)
	case s.conf.Unavailable != "":
		return access{}, contract.Errorf(contract.Auth, "MCP server %s is not available: %s", name, s.conf.Unavailable)
	case s.bad != nil:
		return access{}, contract.Errorf(contract.Contract, "MCP server %s: %w", name, s.bad)
	}
	return access{s, s.conf.Sessions.key(p.of)}, nil
}

// enter waits until there is room for the principal's session, and until another call may be in
// flight. The caller must call leave.
func (a access) enter(ctx context.Context) (_ *tenant, leave func(), _ *contract.Error) {
	if ctx.Err() != nil {
		return nil, nil, stopped(ctx, a.name, "before the call began", false)
	}
	t, bad := a.admit(ctx, a.key)
	if bad != nil {
		return nil, nil, bad
	}
	select {
	case a.calls <- struct{}{}:
		return t, func() { <-a.calls; t.release() }, nil
	case <-ctx.Done():
		t.release()
		return nil, nil, stopped(ctx, a.name, "while the call waited for others on the same server", false)
	}
}

// client returns the current connection, which the caller must leave. If there is none or it takes no
// more calls, client starts one. Concurrent callers wait for the same start.
func (t *tenant) client(ctx context.Context) (*conn, *contract.Error) {
	t.mu.Lock()
	if t.closed {
		t.mu.Unlock()
		return nil, t.isClosed()
	}
	if t.conn != nil && t.conn.usable() {
		defer t.mu.Unlock()
		t.conn.join()
		return t.conn, nil
	}
	if t.start == nil {
		st, old := &start{done: make(chan struct{})}, t.conn
		if old != nil {
			t.buries(old)
			st.behind.Store(old)
		}
		t.start = st
		t.work.Go(func() { t.run(st, old) })
	}
	st := t.start
	t.mu.Unlock()

	select {
	case <-st.done:
	case <-ctx.Done():
		when := "while the server was starting"
		if old := st.behind.Load(); old != nil {
			when = old.blocking()
		}
		return nil, stopped(ctx, t.name, when, false)
	}
	if st.err != nil {
		own := contract.Error{Kind: contract.Unsent, Message: st.err.Error(), Cause: st.err}
		if e, ok := st.err.(*contract.Error); ok {
			own = *e
		}
		return nil, &own
	}
	st.conn.join()
	return st.conn, nil
}

// buries notes that a session has ended, which is a failure if it has done so by itself; the caller holds
// s.mu.
func (s *server) buries(c *conn) {
	if !c.served.Load() && !c.mistaken {
		s.failures++
	}
}

func (s *server) isClosed() *contract.Error {
	return contract.Errorf(contract.Unsent, "MCP server %s: the pool is closed", s.name)
}

// pause returns how long the next start must wait; the caller holds s.mu.
func (s *server) pause() time.Duration {
	const first = 100 * time.Millisecond
	if s.failures < 2 {
		return 0
	}
	if shift := s.failures - 2; shift < 30 && first<<shift < s.opts.MaxBackoff {
		return first << shift
	}
	return s.opts.MaxBackoff
}

// run begins a session once the previous one is gone and it is its turn.
func (t *tenant) run(st *start, old *conn) {
	if old != nil {
		t.follow(old)
		st.behind.Store(nil)
	}
	st.conn, st.err = t.attempt()

	t.mu.Lock()
	defer t.mu.Unlock()
	t.conn, t.start = st.conn, nil
	if old != nil {
		t.past = append(t.past, old)
	}
	if st.conn != nil && st.conn.said() != t.mistaken {
		t.mistaken = said{}
	}
	if t.closed && st.conn != nil {
		t.end()
	} else {
		t.rest()
	}
	close(st.done)
}

// follow waits until there may be another session after one: that is when the old one is gone, or the pool
// is closed. An old one that takes no more calls, and still has some, may hang: it is left alone with them
// if there is room for two processes, and none is left alone already. A remote server has room always.
func (t *tenant) follow(old *conn) {
	gone := func() {
		select {
		case <-old.gone:
		case <-t.ctx.Done():
			old.close()
		}
	}
	if t.conf.URL != "" {
		t.work.Go(gone)
		return
	}
	t.mu.Lock()
	beside := !old.isOver() && t.wait(t.ctx, old.failed, &place{key: t.key, beside: true}) != nil
	t.mu.Unlock()
	if !beside {
		gone()
		return
	}
	t.work.Go(func() {
		gone()
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.lingering, t.key)
		t.serve()
	})
}

// attempt begins a session. All principals together do not try a server that fails more often than
// one would.
func (t *tenant) attempt() (*conn, error) {
	select {
	case t.turn <- struct{}{}:
	case <-t.ctx.Done():
		return nil, t.isClosed()
	}
	t.mu.Lock()
	well, pause := t.proven && t.failures == 0, t.pause()
	t.mu.Unlock()
	if well {
		<-t.turn
	} else {
		defer func() { <-t.turn }()
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-t.ctx.Done():
		return nil, t.isClosed()
	}
	c, err := t.connect(t.ctx)
	if err != nil && t.ctx.Err() == nil {
		t.opts.Logger.Warn("MCP server could not be started", "server", t.name, "err", err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	var seen *contract.Error
	switch {
	case err == nil:
		t.proven = true
	case errors.As(err, &seen) && seen.Kind != contract.Unsent:
		// It answers: what it refuses to one agent, it may give to others.
	default:
		t.failures++
	}
	return c, err
}
