package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/fingerprint"
	"chimera.ai/engine/internal/excerpt"
)

// Pin says which tool is meant. What is empty is not compared.
type Pin struct {
	// Fingerprint is that of its definition: see [fingerprint.Tool].
	Fingerprint string
	// Endpoints are where the server may be, by [fingerprint.Endpoint]. What counts is what the server
	// was when it was started, or the session with it began.
	Endpoints []string
	// Instructions is the digest of the server's instructions: see [fingerprint.Instructions].
	Instructions string
	// Again: the tool is looked at after the call, too, as it must be where the call has an
	// effect. A server may have changed between the look and the call.
	Again bool
}

// CallPinned calls a tool as [Pool.Call] does, if it is the one that is pinned: it compares where the
// server is and what it said of itself, lists its tools, compares, calls, and with Again lists and
// compares once more, all by the same process, or in one session with a remote server whose key stays
// the same. A server at no pinned endpoint is not started. Further kinds of its error are
//   - drift: the server or the tool is another one, or is not there, and was not called: so it is, too,
//     if a remote server has a certificate of another authority or name, or no key of TLS.Pins;
//   - blocked: the tools could not be listed, or the server's files not be read, and it was not called;
//   - outcome_unknown: it was called, and was another one, or could not be listed, after that.
func (p *Pool) CallPinned(ctx context.Context, server, tool string, args json.RawMessage, pin Pin) (Result, error) {
	s, args, bad := p.prepare(server, tool, args)
	if bad != nil {
		return Result{}, bad
	}
	answer, c := s.through(ctx, pin, func(c *conn) reply {
		if err := c.before(ctx, tool, pin); err != nil {
			return reply{err: err}
		}
		answer := c.ask(ctx, tool, args)
		if answer.err != nil || !pin.Again {
			return answer
		}
		if err := c.matches(ctx, tool, pin); err != nil {
			return reply{err: c.errorf(contract.OutcomeUnknown, "%q was called, and may have been another tool: %w", tool, err)}
		}
		return answer
	})
	if answer.err != nil {
		return Result{}, answer.err
	}
	result, bad := c.judge(tool, answer)
	if bad != nil {
		return Result{}, bad
	}
	return result, nil
}

// before looks at a tool before it is called. Its errors say that nothing was sent.
func (c *conn) before(ctx context.Context, tool string, pin Pin) *contract.Error {
	err := c.matches(ctx, tool, pin)
	if err == nil {
		return nil
	}
	return c.unasked(err, fmt.Sprintf("%q was not called, since nobody knows whether it is the tool that was approved", tool))
}

// unasked is the error of a look at what is pinned, as one that says that nothing else was sent.
func (c *conn) unasked(err *contract.Error, why string) *contract.Error {
	switch err.Kind {
	case contract.Drift, contract.Unsent, contract.Throttled, contract.Auth, contract.Cancelled:
		return err
	case contract.Transport, contract.Timeout:
		unsent := *err
		unsent.Kind = contract.Unsent
		return &unsent
	default:
		return c.errorf(contract.Blocked, "%s: %w", why, err)
	}
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

// matches returns an error unless the server and its tool are as they are pinned.
func (c *conn) matches(ctx context.Context, tool string, pin Pin) *contract.Error {
	if err := c.isAt(pin); err != nil || pin.Fingerprint == "" {
		return err
	}
	tools, err := c.list(ctx)
	if err != nil {
		return err
	}
	for _, t := range tools {
		if t.Name != tool {
			continue
		}
		is, err := c.print(t)
		if err != nil {
			return c.errorf(contract.Drift, "%w", err)
		}
		if is != pin.Fingerprint {
			return c.errorf(contract.Drift, "%q is not the tool that was approved: its fingerprint is %s, and %s is pinned", tool, is, pin.Fingerprint)
		}
		return nil
	}
	return c.errorf(contract.Drift, "it has no tool %s any more", excerpt.Quote(tool, 200))
}

// seen is the fingerprint of a tool's definition.
type seen struct {
	definition json.RawMessage
	digest     string
}

// print is the fingerprint of a tool. The last one of each tool is kept with the bytes that it is
// of, since those seldom change.
func (c *conn) print(t Tool) (string, error) {
	c.mu.Lock()
	last := c.prints[t.Name]
	c.mu.Unlock()
	if bytes.Equal(last.definition, t.Raw) {
		return last.digest, nil
	}
	p, err := fingerprint.Tool(t.Raw)
	if err != nil {
		return "", err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.prints == nil {
		c.prints = map[string]seen{}
	}
	c.prints[t.Name] = seen{bytes.Clone(t.Raw), p.Digest} // a page would stay with its tools
	return p.Digest, nil
}

// ask sends a call.
func (c *conn) ask(ctx context.Context, tool string, args json.RawMessage) reply {
	params := map[string]any{"name": tool, "arguments": args}
	if c.meta != nil {
		params["_meta"] = c.meta
	}
	return c.roundTrip(ctx, string(mcp.MethodToolsCall), params)
}
