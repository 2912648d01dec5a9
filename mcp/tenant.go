package mcp

import (
	"context"
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

// admit returns the tenant with a key, of which the caller becomes a user. It waits while the last
// session with the key is ending, and while there is no room for another: then that which was not
// used for the longest time is ended.
func (s *server) admit(ctx context.Context, key Principal) (*tenant, *contract.Error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		if s.closed {
			return nil, s.isClosed()
		}
		t := s.tenants[key]
		if t == nil && len(s.tenants)+len(s.lingering) < s.opts.MaxSessions {
			t = &tenant{server: s, key: key}
			s.tenants[key] = t
		}
		if t != nil && !t.ending {
			t.users++
			if t.idle != nil {
				t.idle.Stop()
			}
			return t, nil
		}
		if !s.wait(ctx, nil, t == nil) {
			return nil, stopped(ctx, s.name, "while the call waited for a session with the server", false)
		}
	}
}

// wait waits until something has changed, or until over is closed, and reports whether ctx goes on. The
// caller holds s.mu, which wait releases meanwhile.
func (s *server) wait(ctx context.Context, over <-chan struct{}, forRoom bool) bool {
	if forRoom {
		s.waiting++
		defer func() { s.waiting-- }()
		if s.ending < s.waiting {
			s.evict()
		}
	}
	changed := s.changed
	s.mu.Unlock()
	defer s.mu.Lock()
	select {
	case <-changed:
		return ctx.Err() == nil
	case <-over:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

// evict ends the session that was not used for the longest time, if one is not in use; the caller
// holds s.mu.
func (s *server) evict() {
	var oldest *tenant
	for _, t := range s.tenants {
		if t.resting() && (oldest == nil || t.used.Before(oldest.used)) {
			oldest = t
		}
	}
	if oldest != nil {
		oldest.end()
	}
}

// wake tells those who wait that something has changed; the caller holds s.mu.
func (s *server) wake() {
	close(s.changed)
	s.changed = make(chan struct{})
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
	s.wake()
}

// release ends the use of a tenant.
func (t *tenant) release() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.users--
	t.rest()
}

// resting reports whether there is a session that nobody uses; the caller holds the mutex.
func (t *tenant) resting() bool { return t.users == 0 && t.start == nil && !t.ending }

// rest looks at a tenant that may not be used any more; the caller holds the mutex.
func (t *tenant) rest() {
	switch {
	case !t.resting():
		return
	case t.conn == nil:
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
	t.wake()
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
		t.wake()
	})
}
