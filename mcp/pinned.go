package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/fingerprint"
	"chimera.ai/engine/internal/excerpt"
)

// Pin says which tool is meant. What is empty is not compared.
type Pin struct {
	// Fingerprint is that of its definition: see [fingerprint.Tool].
	Fingerprint string
	// Parts are those of the fingerprint, or of one that differs from it in prose alone. Without them a tool
	// that has changed in its prose alone is like any other that has changed.
	Parts map[string]string
	// Endpoints are where the server may be, by [fingerprint.Endpoint]. What counts is what the server
	// was when it was started, or the session with it began.
	Endpoints []string
	// Instructions is the digest of the server's instructions: see [fingerprint.Instructions].
	Instructions string
	// Again: the call has an effect. It is sent once at most, and the tool is looked at after it, too, since
	// the server may have changed between the look and the call.
	Again bool
}

// MaxListed bounds the definition of a changed tool that an error carries, in bytes.
const MaxListed = 64 << 10

// CallPinned calls a tool as [Pool.Call] does, if it is the one that is pinned: it compares where the
// server is and what it said of itself, lists its tools, compares, calls, and with Again lists and
// compares once more, all by the same process, or in one session with a remote server whose key stays
// the same. A server at no pinned endpoint is not started. Its result, and its error, have the snapshots
// of what was listed. With Again the kinds throttled and auth are what the pinned tool's server says:
// whoever else says so may have acted. Further kinds of the error are
//   - drift: the server or the tool is another one, or is not there, and was not called: so it is, too,
//     if a remote server has a certificate of another authority or name, or no key of TLS.Pins;
//   - needs_review: the tool differs from the pinned one in its prose alone, and was not called. The
//     error has the definition, if that is not longer than [MaxListed];
//   - blocked: the tools could not be listed, or the server's files not be read, and it was not called;
//   - outcome_unknown, with Again alone: it was called, and was another one, or could not be listed, after
//     that; or the server answered the call by saying that it does not know the session.
func (p *Pool) CallPinned(ctx context.Context, server, tool string, args json.RawMessage, pin Pin) (Result, error) {
	s, args, bad := p.prepare(server, tool, args)
	if bad != nil {
		return Result{}, bad
	}
	var seen contract.Snapshots
	before, done := p.before(ctx)
	defer done()
	answer, c := s.through(before, pin, func(c *conn) reply {
		var err *contract.Error
		seen = contract.Snapshots{}
		if seen.Before, err = c.matches(before, tool, pin); err != nil {
			return reply{err: c.unasked(err, "tools", fmt.Sprintf("%q was not called", tool))}
		}
		if pin.Again && pin.Fingerprint == "" {
			if err = c.remembered(before); err != nil {
				return reply{err: err}
			}
		}
		answer := c.ask(before, ctx, tool, args)
		if !pin.Again || !answer.sent {
			return answer
		}
		how := ""
		if answer.err != nil {
			how = ", and answered: " + c.words(answer.err)
			switch answer.err.Kind {
			case contract.Auth, contract.Throttled:
			case contract.Unsent:
				return reply{err: c.unknown(answer.err, "%q was called%s", tool, how)}
			default:
				return answer
			}
		}
		if seen.After, err = c.matchesStill(ctx, tool, pin); err != nil {
			return reply{err: c.unknown(err, "%q was called%s, and may have been another tool: %s", tool, how, c.words(err))}
		}
		return answer
	})
	result, bad := Result{}, answer.err
	if bad == nil {
		result, bad = c.judge(ctx, tool, answer)
	}
	var known *contract.Snapshots
	if seen != (contract.Snapshots{}) {
		known = &seen
	}
	if bad != nil {
		bad.Snapshots = known
		return Result{}, bad
	}
	result.Snapshots = known
	return result, nil
}

// unknown is the error of a call that may have had its effect.
func (c *conn) unknown(cause error, format string, args ...any) *contract.Error {
	err := c.errorf(contract.OutcomeUnknown, format, args...)
	err.Cause = cause
	return err
}

// remembered returns an error, with which nothing else was sent, if the server does not know the session any
// more, which only a request tells. What else it answers to a ping does not matter.
func (c *conn) remembered(ctx context.Context) *contract.Error {
	if c.single || c.meta != nil {
		return nil // a session ends with its stream, and a stateless protocol has none
	}
	err := c.roundTrip(ctx, string(mcp.MethodPing), nil).err
	switch {
	case err == nil:
		return nil
	case err.Kind == contract.Unsent:
		return err
	case ctx.Err() != nil:
		return stopped(ctx, c.name, "before the call was sent", false)
	case !c.usable():
		return c.unsent("its session is over: %s", c.words(err))
	}
	return nil
}

// unasked is the error of a look at what is pinned, as one that says that nothing else was sent: things were
// to be listed, and something was not done for that.
func (c *conn) unasked(err *contract.Error, things, undone string) *contract.Error {
	var own *contract.Error
	switch err.Kind {
	case contract.Drift, contract.NeedsReview, contract.Unsent, contract.Throttled, contract.Auth:
		return err
	case contract.Timeout:
		own = c.unsent("the %s were not listed in time, and %s", things, undone)
	case contract.Transport:
		own = c.unsent("the %s were not listed, and %s: %s", things, undone, c.words(err))
	case contract.Cancelled:
		own = c.errorf(contract.Cancelled, "the call was cancelled while the %s were listed, and %s", things, undone)
	default:
		own = c.errorf(contract.Blocked, "%s, since nobody knows whether it is what was approved: %s", undone, c.words(err))
		own.Cause = err
		return own
	}
	own.Cause, own.Details = err, c.link.detail(object("sent", false))
	return own
}

// at returns an error if an endpoint, by its digest, is none of those that are pinned.
func (p Pin) at(endpoint string) error {
	if len(p.Endpoints) == 0 || slices.Contains(p.Endpoints, endpoint) {
		return nil
	}
	return fmt.Errorf("it is not the server that was approved: the digest of its endpoint is %s, and %s is pinned", endpoint, strings.Join(p.Endpoints, " or "))
}

// drifted is the error of what was not sent to a server, where something is pinned: if another server
// answers in its place, it is not the one that was approved. Where nothing is, nobody has said which it
// has to be, and the server is out of reach.
func (p Pin) drifted(err *contract.Error) *contract.Error {
	pinned := p.Fingerprint != "" || len(p.Endpoints) > 0 || p.Instructions != ""
	if !pinned || err.Kind != contract.Unsent || !errors.As(err, new(*stranger)) {
		return err
	}
	drift := *err
	drift.Kind = contract.Drift
	return &drift
}

// expects returns an error if there is no client, and one would be of a server at no endpoint that is
// pinned.
func (t *tenant) expects(pin Pin) *contract.Error {
	if len(pin.Endpoints) == 0 {
		return nil
	}
	t.mu.Lock()
	running := t.conn != nil && t.conn.usable()
	t.mu.Unlock()
	if running {
		return nil
	}
	endpoint, err := t.at()
	if err != nil {
		return contract.Errorf(contract.Blocked, "MCP server %s is not started, since nobody knows whether it is the one that was approved: %w", t.name, err)
	}
	if err := pin.at(endpoint); err != nil {
		return contract.Errorf(contract.Drift, "MCP server %s: %w", t.name, err)
	}
	return nil
}

// said is what pins are compared with in all sessions alike.
type said struct{ endpoint, instructions string }

func (c *conn) said() said { return said{c.introduction.Endpoint, c.instructions} }

// mistook ends a session with another server than is pinned, unless another session would be like it, as far
// as that is known: it may be the pin that is wrong, and others use the session. So it ends one within
// MaxBackoff, and one within MaxIdle if it says what the one before it was ended for: by then the server
// may have been put right.
func (t *tenant) mistook(c *conn, pin Pin) {
	moved := pin.at(c.introduction.Endpoint) != nil
	if moved {
		if endpoint, err := t.at(); err == nil && endpoint == c.introduction.Endpoint {
			return
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	pause := t.opts.MaxBackoff
	if t.mistaken == c.said() {
		pause = max(pause, t.opts.MaxIdle)
	}
	if t.conn != c || !c.usable() || !moved && time.Since(t.mistakenAt) < pause {
		return
	}
	t.mistaken, t.mistakenAt, c.mistaken = c.said(), time.Now(), true
	c.retire("it introduced itself as another server than is pinned")
}

// matches returns an error unless the tool is as it is pinned, and the digest of all tools, if they were
// listed and that is known.
func (c *conn) matches(ctx context.Context, tool string, pin Pin) (snapshot string, _ *contract.Error) {
	if pin.Fingerprint == "" {
		return "", nil
	}
	tools, err := c.list(ctx)
	if err != nil {
		return "", err
	}
	all := c.prints(tools)
	is, ok := all.prints[tool]
	switch {
	case !ok:
		return all.digest, c.errorf(contract.Drift, "it has no tool %s any more", excerpt.Quote(tool, 200))
	case is.err != nil:
		return all.digest, c.errorf(contract.Drift, "%w", is.err)
	case is.digest != pin.Fingerprint:
		at := slices.IndexFunc(tools, func(t Tool) bool { return t.Name == tool })
		return all.digest, c.drifted(tools[at], pin)
	}
	return all.digest, nil
}

// matchesStill is matches after a call. If the server refuses that for now, it looks once more when the
// server asks for that, unless ctx ends before.
func (c *conn) matchesStill(ctx context.Context, tool string, pin Pin) (snapshot string, _ *contract.Error) {
	for {
		snapshot, err := c.matches(ctx, tool, pin)
		if err == nil || err.Kind != contract.Throttled {
			return snapshot, err
		}
		wait := max(time.Duration(err.RetryAfterMS)*time.Millisecond, time.Second)
		if end, ok := ctx.Deadline(); !ok || time.Until(end) < wait {
			return snapshot, err
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return snapshot, err
		}
	}
}

// drifted is the error of a tool that is not the pinned one: by its parts, where they are pinned.
func (c *conn) drifted(t Tool, pin Pin) *contract.Error {
	is, err := fingerprint.Tool(t.Raw)
	if err != nil {
		return c.errorf(contract.Drift, "%w", err)
	}
	kind, what := contract.Drift, ""
	if pin.Parts != nil {
		var changed []fingerprint.Part
		for _, part := range fingerprint.Parts() {
			if is.Parts[part] != pin.Parts[string(part)] {
				changed = append(changed, part)
			}
		}
		if len(changed) == 0 { // people have approved other words than those of the parts
			changed = []fingerprint.Part{fingerprint.Prose}
		}
		if slices.Equal(changed, []fingerprint.Part{fingerprint.Prose}) {
			kind = contract.NeedsReview
		}
		what = ": it differs in " + join(changed)
	}
	bad := c.errorf(kind, "%q is not the tool that was approved%s; its fingerprint is %s, and %s is pinned (chimera tools diff %s shows what has changed)",
		t.Name, what, is.Digest, pin.Fingerprint, excerpt.Quote(c.name+"/"+t.Name, 300))
	if kind == contract.NeedsReview && len(t.Raw) <= MaxListed {
		bad.Listed = bytes.Clone(t.Raw) // a page would stay with it
	}
	return bad
}

// join writes a list of parts as text does.
func join(parts []fingerprint.Part) string {
	text := ""
	for i, p := range parts {
		switch {
		case i > 0 && i == len(parts)-1:
			text += " and "
		case i > 0:
			text += ", "
		}
		text += string(p)
	}
	return text
}

// looked has the fingerprints of what a server has listed.
type looked struct {
	of     []Tool
	prints map[string]printed
	// digest is [fingerprint.Tools] of them, or "" if a definition has no fingerprint.
	digest string
}

// printed is the fingerprint of a definition, or why it has none.
type printed struct {
	definition json.RawMessage
	digest     string
	err        error
}

// prints returns the fingerprints of what was listed. Those of the last listing are kept, since
// definitions seldom change.
func (c *conn) prints(tools []Tool) *looked {
	c.mu.Lock()
	last := c.looked
	c.mu.Unlock()
	if last != nil && len(tools) > 0 && len(last.of) == len(tools) && &last.of[0] == &tools[0] {
		return last
	}
	all := &looked{of: tools, prints: make(map[string]printed, len(tools))}
	complete := true
	digests := make([]fingerprint.Print, len(tools))
	for i, t := range tools {
		p := printed{definition: t.Raw}
		if was, ok := last.print(t.Name); ok && bytes.Equal(was.definition, t.Raw) {
			p = was
		} else if is, err := fingerprint.Tool(t.Raw); err == nil {
			p.digest = is.Digest
		} else {
			p.err = err
		}
		complete = complete && p.err == nil
		all.prints[t.Name], digests[i] = p, fingerprint.Print{Tool: t.Name, Digest: p.digest}
	}
	if complete {
		all.digest, _ = fingerprint.Tools(digests) // a listing has no name twice
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.looked = all
	return all
}

// print is that of a tool, of a look that may be nil.
func (l *looked) print(tool string) (printed, bool) {
	if l == nil {
		return printed{}, false
	}
	p, ok := l.prints[tool]
	return p, ok
}

// ask sends a call, unless before has ended until then, and waits for its answer until ctx ends.
func (c *conn) ask(before, ctx context.Context, tool string, args json.RawMessage) reply {
	params := map[string]any{"name": tool, "arguments": args}
	if c.meta != nil {
		params["_meta"] = c.meta
	}
	return c.roundTripIf(before, ctx, string(mcp.MethodToolsCall), params)
}
