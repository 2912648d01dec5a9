package mcp

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"chimera.ai/engine/contract"
)

// Pool has one client for each server. It is safe for concurrent use.
type Pool struct {
	servers map[string]*server
	cancel  context.CancelFunc
	// starts counts the starts in progress.
	starts sync.WaitGroup
}

// server is one configured server and its current client.
type server struct {
	pool *Pool
	name string
	conf Server
	opts Options
	// bad is what is wrong with conf, or nil.
	bad error
	// credential serves all sessions, or is nil.
	credential credential
	// ctx is the pool's: a client outlives the call that caused its start.
	ctx context.Context
	// calls is a semaphore of the calls in flight.
	calls chan struct{}

	mu     sync.Mutex
	closed bool
	conn   *conn
	start  *start
	// failures counts the starts since the last served call.
	failures int
}

// start is a start in progress; conn and err are set when done is closed.
type start struct {
	done chan struct{}
	conn *conn
	err  error
}

// NewPool returns a pool, which the caller must close. It starts no server before its
// first use.
func NewPool(servers map[string]Server, o Options) *Pool {
	o = o.withDefaults()
	ctx, cancel := context.WithCancel(context.Background())
	p := &Pool{servers: make(map[string]*server, len(servers)), cancel: cancel}
	for name, conf := range servers {
		conf.Args, conf.Env, conf.Headers = slices.Clone(conf.Args), maps.Clone(conf.Env), maps.Clone(conf.Headers)
		s := &server{
			pool: p, name: name, conf: conf, opts: o, ctx: ctx,
			calls: make(chan struct{}, o.MaxCalls),
		}
		if s.bad = conf.Check(); s.bad == nil {
			s.credential, s.bad = conf.credential()
		}
		p.servers[name] = s
	}
	return p
}

// Close stops all servers and sessions and waits until they and all that they started have ended. Calls
// in flight fail with kind transport, later ones with kind unsent. It may be called more
// than once.
func (p *Pool) Close() error {
	p.cancel()
	var all sync.WaitGroup
	for _, s := range p.servers {
		s.mu.Lock()
		s.closed = true
		c := s.conn
		s.mu.Unlock()
		if c != nil {
			all.Go(c.close)
		}
	}
	all.Wait()
	p.starts.Wait()
	return nil
}

// server finds a configured server.
func (p *Pool) server(name string) (*server, *contract.Error) {
	s, ok := p.servers[name]
	switch {
	case !ok:
		return nil, contract.Errorf(contract.Contract, "no MCP server is called %q", name)
	case s.bad != nil:
		return nil, contract.Errorf(contract.Contract, "MCP server %s: %w", name, s.bad)
	}
	return s, nil
}

// enter waits until another call may be in flight. The caller must call leave.
func (s *server) enter(ctx context.Context) (leave func(), _ *contract.Error) {
	if ctx.Err() != nil {
		return nil, stopped(ctx, s.name, "before the call began", false)
	}
	select {
	case s.calls <- struct{}{}:
		return func() { <-s.calls }, nil
	case <-ctx.Done():
		return nil, stopped(ctx, s.name, "while the call waited for others on the same server", false)
	}
}

// client returns the current client. If there is none or it has died, client starts one.
// Concurrent callers wait for the same start.
func (s *server) client(ctx context.Context) (*conn, *contract.Error) {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil, contract.Errorf(contract.Unsent, "MCP server %s: the pool is closed", s.name)
	}
	if s.conn != nil && s.conn.usable() {
		defer s.mu.Unlock()
		return s.conn, nil
	}
	if s.start == nil {
		s.start = &start{done: make(chan struct{})}
		if s.conn != nil && s.conn.served.Load() {
			s.failures = 0
		}
		pause := s.pause()
		s.failures++
		go s.run(s.start, s.conn, pause)
		s.pool.starts.Add(1)
	}
	st := s.start
	s.mu.Unlock()

	select {
	case <-st.done:
	case <-ctx.Done():
		return nil, stopped(ctx, s.name, "while the server was starting", false)
	}
	if st.err != nil {
		own := contract.Error{Kind: contract.Unsent, Message: st.err.Error(), Cause: st.err}
		if e, ok := st.err.(*contract.Error); ok {
			own = *e
		}
		return nil, &own
	}
	return st.conn, nil
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

// run starts a client once the previous one is gone and the pause is over.
func (s *server) run(st *start, old *conn, pause time.Duration) {
	defer s.pool.starts.Done()
	if old != nil {
		<-old.gone
	}
	st.conn, st.err = s.attempt(pause)

	s.mu.Lock()
	closed := s.closed
	s.conn, s.start = st.conn, nil
	s.mu.Unlock()
	if closed && st.conn != nil {
		st.conn.close()
	}
	close(st.done)
}

func (s *server) attempt(pause time.Duration) (*conn, error) {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.ctx.Done():
		return nil, contract.Errorf(contract.Unsent, "MCP server %s: the pool is closed", s.name)
	}
	c, err := s.connect(s.ctx)
	if err != nil && s.ctx.Err() == nil {
		s.opts.Logger.Warn("MCP server could not be started", "server", s.name, "err", err)
	}
	return c, err
}
