package mcp

import (
	"context"

	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"

	"chimera.ai/engine/contract"
)

// roundTrip sends a request and waits for its answer, for the end of ctx, or for the end
// of the session.
func (c *conn) roundTrip(ctx context.Context, method string, params any) reply {
	return c.roundTripIf(ctx, ctx, method, params)
}

// roundTripIf is roundTrip for a request that is not sent any more once before has ended. One that may
// have been sent by then is waited for, until ctx ends.
func (c *conn) roundTripIf(before, ctx context.Context, method string, params any) reply {
	r := &request{method: method, answer: make(chan reply, 1)}
	r.over, r.end = context.WithCancel(context.Background())
	defer r.end()
	c.mu.Lock()
	if c.reason != nil {
		defer c.mu.Unlock()
		return reply{err: c.notRunning()}
	}
	c.next++
	r.id = c.next
	c.mu.Unlock()

	line, err := encode(struct {
		JSONRPC string `json:"jsonrpc"`
		ID      int64  `json:"id"`
		Method  string `json:"method"`
		Params  any    `json:"params,omitempty"`
	}{mcp.JSONRPC_VERSION, r.id, method, params}, c.opts.MaxLine)
	if err != nil {
		return reply{err: c.refuse(err)}
	}

	c.mu.Lock()
	if c.reason != nil {
		defer c.mu.Unlock()
		return reply{err: c.notRunning()}
	}
	c.pending[r.id] = r
	c.mu.Unlock()

	c.link.send(before, &outgoing{line, r})
	answer := c.await(before, ctx, r)
	answer.sent = r.stage.Load() == sent
	return answer
}

// await waits for the answer to a request that was given to the link.
func (c *conn) await(before, ctx context.Context, r *request) reply {
	select {
	case answer := <-r.answer:
		return answer
	case <-before.Done():
		if r.recall() {
			return c.withdraw(before, r)
		}
	}
	select {
	case answer := <-r.answer:
		return answer
	case <-ctx.Done():
		return c.withdraw(ctx, r)
	}
}

// notRunning is the error of a request for which the connection is gone; the caller holds c.mu. What
// refuses credentials, or everything for now, refuses this request, too.
func (c *conn) notRunning() *contract.Error {
	if c.reason.Kind == contract.Auth || c.reason.Kind == contract.Throttled {
		own := *c.reason
		return &own
	}
	bad := c.unsent("not running: %s", c.words(c.reason))
	bad.Cause = c.reason
	return bad
}

// withdraw gives up a request whose context has ended.
func (c *conn) withdraw(ctx context.Context, r *request) reply {
	unsent := r.recall()
	c.mu.Lock()
	waiting := c.pending[r.id] == r
	if waiting {
		c.forget(r, !unsent)
	}
	asked := r.asked
	c.mu.Unlock()
	if !waiting {
		// The answer came first.
		return <-r.answer
	}
	if ctx.Err() == context.DeadlineExceeded {
		c.doubt(r)
	}
	if unsent {
		return reply{err: stopped(ctx, c.name, "before the request was sent", false)}
	}
	c.cancel(r, "the caller stopped waiting")
	if asked != "" {
		return reply{err: c.needsInput(asked)}
	}
	err := stopped(ctx, c.name, "after "+r.method+" was sent", true)
	err.Details = c.link.detail(err.Details)
	return reply{err: err}
}

// doubt asks a server that has not answered a request in time for a sign of life, if no other answer can
// come before that one. Without a sign the session takes no more calls. Whoever refuses to answer is alive.
func (c *conn) doubt(r *request) {
	switch mcp.MCPMethod(r.method) {
	case mcp.MethodInitialize, mcp.MethodServerDiscover, mcp.MethodPing:
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.single || c.doubted || c.reason != nil {
		return
	}
	c.doubted = true
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), c.opts.PingTimeout)
		defer cancel()
		answer := c.roundTrip(ctx, string(mcp.MethodPing), nil)
		if e := answer.err; e != nil && (e.Kind == contract.Timeout || e.Kind == contract.Unsent || e.Kind == contract.Transport) {
			c.retire("it answers no ping: " + e.Message)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.doubted = false
	}()
}

// SendRequest serves the handshake.
func (c *conn) SendRequest(ctx context.Context, request transport.JSONRPCRequest) (*transport.JSONRPCResponse, error) {
	answer := c.roundTrip(ctx, request.Method, request.Params)
	if answer.err != nil {
		return nil, answer.err
	}
	c.introduction.Raw = answer.result
	response := &transport.JSONRPCResponse{JSONRPC: mcp.JSONRPC_VERSION, ID: request.ID, Result: answer.result}
	if answer.fault != nil {
		response.Error = new(mcp.JSONRPCErrorDetails)
		if err := response.Error.UnmarshalJSON(answer.fault); err != nil {
			return nil, err
		}
	}
	return response, nil
}
