package mcp

import (
	"context"
	"slices"
	"time"

	"chimera.ai/engine/contract"
)

// Principal is on whose behalf something is asked of a server. The zero value is nobody: who looks
// at what a server offers.
type Principal struct {
	// Agent is the agent of the plan.
	Agent string
	// Run identifies a run.
	Run string
}

// Sharing says whose calls may meet in one session with a server.
type Sharing string

// The values of Sharing. The zero value means ByAgent.
const (
	ByAgent Sharing = "agent"
	// ByRun gives each run of an agent a session of its own.
	ByRun Sharing = "run"
	// Shared is right for servers alone that keep nothing between calls.
	Shared Sharing = "shared"
)

// key is what principals have in common who share a session.
func (s Sharing) key(of Principal) Principal {
	switch s {
	case Shared:
		return Principal{}
	case ByRun:
		return of
	case ByAgent:
	}
	return Principal{Agent: of.Agent}
}

// tenant is the place of one key among the sessions of a server. What is not the server's is
// guarded by the server's mutex.
type tenant struct {
	*server
	key   Principal
	conn  *conn
	start *start
	// past are the sessions before conn that may still have calls in them.
	past []*conn
	// users counts the calls that use it, or are about to.
	users int
	// used is when the last of them ended, and idle runs from then on.
	used time.Time
	idle *time.Timer
	// ending is set once the session is being ended for good.
	ending bool
	// mistaken is what the session said that was last ended at mistakenAt because another server was
	// pinned, until one says something else.
	mistaken   said
	mistakenAt time.Time
}

// place is one in the queue for sessions: of a caller, who needs the tenant with a key, or of the next
// session of that tenant, which needs room beside the one before it.
type place struct {
	key    Principal
	beside bool
	// served is closed once tenant is set, which then has the caller as a user or is the next session's, or
	// the server is closed.
	served chan struct{}
	tenant *tenant
}

// admit returns the tenant with a key, of which the caller becomes a user. It waits while the last
// session with the key is ending, and while there is no room for another: then that which was not
// used for the longest time is ended. Room is for those who wait for it in the order in which they came.
func (s *server) admit(ctx context.Context, key Principal) (*tenant, *contract.Error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.wait(ctx, nil, &place{key: key})
	switch {
	case t != nil:
		return t, nil
	case s.closed:
		return nil, s.isClosed()
	}
	return nil, stopped(ctx, s.name, "while the call waited for a session with the server", false)
}

// wait queues for a session, until over is closed or ctx ends, and returns the tenant that the place was
// served with, or nil. The caller holds s.mu, which wait releases meanwhile.
func (s *server) wait(ctx context.Context, over <-chan struct{}, p *place) *tenant {
	p.served = make(chan struct{})
	s.queue = append(s.queue, p)
	s.serve()
	s.mu.Unlock()
	select {
	case <-p.served:
	case <-over:
	case <-ctx.Done():
	}
	s.mu.Lock()
	if i := slices.Index(s.queue, p); i >= 0 {
		s.queue = slices.Delete(s.queue, i, i+1)
	}
	return p.tenant
}

// serve gives those who wait what there is for them, the first first, and has as many sessions end as others
// wait for; the caller holds s.mu. It is called when there may be something.
func (s *server) serve() {
	waiting := map[Principal]bool{}
	s.queue = slices.DeleteFunc(s.queue, func(p *place) bool {
		t := s.tenants[p.key]
		room := len(s.tenants)+len(s.lingering) < s.opts.MaxSessions
		switch {
		case s.closed:
			close(p.served)
			return true
		case p.beside && s.lingering[p.key], !p.beside && t != nil && t.ending:
			return false // until that is gone
		case (p.beside || t == nil) && !room:
			waiting[p.key] = true
			return false
		case p.beside:
			s.lingering[p.key] = true
		default:
			if t == nil {
				t = &tenant{server: s, key: p.key}
				s.tenants[p.key] = t
			}
			t.users++
			if t.idle != nil {
				t.idle.Stop()
			}
		}
		p.tenant = t
		close(p.served)
		return true
	})
	s.waiting = len(waiting)
	for s.ending < s.waiting && s.evict() {
	}
}

// evict ends the session that was not used for the longest time, and reports whether there is one that is
// not in use; the caller holds s.mu.
func (s *server) evict() bool {
	var oldest *tenant
	for _, t := range s.tenants {
		if t.resting() && t.conn != nil && (oldest == nil || t.used.Before(oldest.used)) {
			oldest = t
		}
	}
	if oldest != nil {
		oldest.end()
	}
	return oldest != nil
}

// close ends all sessions, and begins no other. It does not wait for their end.
func (s *server) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for _, t := range s.tenants {
		if t.conn != nil && t.start == nil && !t.ending {
			t.end()
		}
	}
	s.serve()
}

// release ends the use of a tenant.
func (t *tenant) release() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.users--
	t.rest()
}

// resting reports whether there is a session that nobody uses; the caller holds the mutex. Calls in a session
// before it need it no more.
func (t *tenant) resting() bool {
	if t.start != nil || t.ending {
		return false
	}
	users := t.users
	for _, c := range t.past {
		users -= c.calls()
	}
	return users == 0
}

// ended reports whether the place of the tenant is, or will be, another's.
func (t *tenant) ended() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.ending
}

// rest looks at a tenant that may not be used any more; the caller holds the mutex.
func (t *tenant) rest() {
	t.past = slices.DeleteFunc(t.past, func(c *conn) bool { return c.calls() == 0 })
	switch {
	case !t.resting():
		return
	case t.conn == nil:
		t.ending = true
		delete(t.tenants, t.key)
	case !t.conn.usable() && !t.conn.mistaken:
		t.buries(t.conn)
		t.end()
	default: // the place of a session that was mistaken knows what that said
		t.used = time.Now()
		if t.idle == nil {
			t.idle = time.AfterFunc(t.opts.MaxIdle, t.expire)
		} else {
			t.idle.Reset(t.opts.MaxIdle)
		}
	}
	t.serve()
}

// expire ends a session that nobody has used for long. It may be late: the session may be gone, or another
// tenant have its place.
func (t *tenant) expire() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.conn != nil && t.tenants[t.key] == t && t.resting() && time.Since(t.used) >= t.opts.MaxIdle {
		t.end()
	}
}

// end ends a session for good, which makes room once it is gone; the caller holds the mutex.
func (t *tenant) end() {
	t.ending = true
	t.server.ending++
	if t.idle != nil {
		t.idle.Stop()
	}
	c := t.conn
	t.work.Go(func() {
		c.close()
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.tenants, t.key)
		t.server.ending--
		t.serve()
	})
}
