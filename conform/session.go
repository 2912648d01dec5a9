package conform

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"chimera.ai/engine/internal/excerpt"
)

// session is what was seen of a server in one session: it was started, greeted, a call and an
// unknown request were cancelled, and its input was closed.
type session struct {
	// greeting and cancelled are what went wrong then, and skipped is why nothing was cancelled.
	greeting, cancelled error
	skipped             string
	// strays counts lines that are no messages, of which stray is the first.
	strays int
	stray  string
	// flood is set if it wrote more than is read.
	flood error
	// stays reports that it did not end, and status is how it did.
	stays  bool
	status string
	clean  bool
}

// observe runs the session, once.
func (s *suite) observe(ctx context.Context) *session {
	if s.session != nil {
		return s.session
	}
	o := &session{}
	s.session = o
	err := s.client.Close() // some servers cannot run twice
	var w *wire
	if err == nil {
		w, err = s.start()
	}
	if err != nil {
		o.greeting = err
		return o
	}
	o.greet(ctx, s, w)
	if o.greeting == nil && o.skipped == "" {
		o.cancelled = s.interrupt(ctx, w)
	}
	_ = w.proc.Stdin.Close()
	ending, cancel := context.WithTimeout(ctx, s.opts.Timeout)
	defer cancel()
	if o.stays = !w.ended(ending); !o.stays {
		o.status, o.clean = w.proc.State().String(), w.proc.State().Success()
	}
	o.strays, o.stray = w.strays, w.stray
	if err := w.end(); err != nil && o.greeting == nil {
		o.greeting = err
	}
	o.flood = w.err
	return o
}

// greet does the handshake.
func (o *session) greet(ctx context.Context, s *suite, w *wire) {
	answer, err := w.ask(ctx, "initialize", map[string]any{
		"protocolVersion": protocolVersion, "capabilities": map[string]any{},
		"clientInfo": map[string]any{"name": "chimera-conform", "version": Suite},
	}, maxStart+s.opts.Timeout)
	switch {
	case err != nil:
		o.greeting = fmt.Errorf("initialize: %w", err)
	case answer["error"] != nil:
		o.skipped = "the server has no initialize"
	default:
		if err := w.send(map[string]any{"method": "notifications/initialized"}); err != nil {
			o.greeting = err
		}
	}
}

// interrupt cancels a call, if there is an example of one that may be repeated, and a request that
// was never made; then the server has to answer.
func (s *suite) interrupt(ctx context.Context, w *wire) error {
	cancel := func(id int) error {
		return w.send(map[string]any{"method": "notifications/cancelled", "params": map[string]any{"requestId": id, "reason": "a test"}})
	}
	alive := func(after string) error {
		_, err := w.ask(ctx, "tools/list", map[string]any{}, w.patience)
		if err != nil {
			return fmt.Errorf("after %s was cancelled, tools/list failed: %w", after, err)
		}
		return nil
	}
	for _, c := range s.calls {
		if !c.tool.repeatable() || c.ExpectError {
			continue
		}
		id, err := w.request("tools/call", map[string]any{"name": c.Tool, "arguments": json.RawMessage(c.Arguments)})
		if err == nil {
			err = cancel(id)
		}
		if err == nil {
			err = alive("a call of " + excerpt.Quote(c.Tool, 200))
		}
		if err != nil {
			return err
		}
		break
	}
	if err := cancel(1 << 30); err != nil {
		return err
	}
	return alive("a request that was never made")
}

func (s *suite) cancel(ctx context.Context) []Result {
	o := s.observe(ctx)
	switch {
	case o.skipped != "":
		return skip("%s", o.skipped)
	case o.greeting != nil:
		return skip("the session did not begin: %s", o.greeting)
	case o.cancelled != nil:
		return []Result{fail("", "%s: stop the call on notifications/cancelled, pass over one for a request that is not in progress, and go on reading", o.cancelled)}
	}
	return nil
}

func (s *suite) cleanOutput(ctx context.Context) []Result {
	o := s.observe(ctx)
	const change = "write logs to standard error"
	switch {
	case o.strays > 0:
		return []Result{fail("", "lines of standard output that are no messages: %d, the first of which is %s: %s", o.strays, excerpt.Quote(o.stray, 100), change)}
	case o.flood != nil:
		return []Result{fail("", "%s: %s", o.flood, change)}
	case o.greeting != nil:
		return []Result{fail("", "the session did not begin: %s", o.greeting)}
	}
	return nil
}

func (s *suite) stops(ctx context.Context) []Result {
	o := s.observe(ctx)
	switch {
	case o.stays:
		return []Result{fail("", "it still ran %s after its standard input was closed: end at the end of input", s.opts.Timeout)}
	case o.greeting != nil:
		return skip("the session did not begin: %s", o.greeting)
	case errors.Is(o.cancelled, errGone):
		return skip("it had ended before")
	case !o.clean:
		return []Result{warn("", "after its standard input was closed it ended with %s: end with status 0", o.status)}
	}
	return nil
}
