package mcp

import (
	"context"
	"encoding/json"
	"errors"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/fingerprint"
	"chimera.ai/engine/schemas"
)

// Introduction is where a server is, and what it said at the beginning of a session.
type Introduction struct {
	fingerprint.Introduction
	// Raw is the result of initialize, or of server/discover, as it was on the wire.
	Raw json.RawMessage
	// Identity is what [Server.Endpoint] returned when the session began, and is not to be changed;
	// Endpoint is its digest.
	Identity map[string]any
	Endpoint string
}

// Introduction returns that of the session that calls of a server go to. It begins one if there is
// none. Its error is one of those of [Pool.Tools].
func (p *Pool) Introduction(ctx context.Context, server string) (Introduction, error) {
	s, bad := p.server(server)
	if bad != nil {
		return Introduction{}, bad
	}
	t, leave, bad := s.enter(ctx)
	if bad != nil {
		return Introduction{}, bad
	}
	defer leave()
	c, bad := t.client(ctx)
	if bad != nil {
		return Introduction{}, bad
	}
	defer c.leave()
	return c.introduction, nil
}

// introduced reads what a server has said of itself.
func (c *conn) introduced(protocol string) error {
	v, err := schemas.Decode(c.introduction.Raw)
	if err != nil {
		return err
	}
	said, ok := v.(map[string]any)
	if !ok {
		return errors.New("it introduced itself with what is not an object")
	}
	c.introduction.Protocol = protocol
	if x := said["instructions"]; x != nil {
		if c.introduction.Instructions, ok = x.(string); !ok {
			return errors.New("its instructions are not text")
		}
	}
	if said["capabilities"] != nil {
		if err := exact(c.introduction.Raw, map[string]any{"capabilities": &c.introduction.Capabilities}); err != nil {
			return err
		}
	}
	c.instructions, err = fingerprint.Instructions(c.introduction.Instructions)
	return err
}

// isAt returns an error unless the session is with a server at an endpoint that is pinned, which has
// the instructions that are pinned.
func (c *conn) isAt(pin Pin) *contract.Error {
	if err := pin.at(c.introduction.Endpoint); err != nil {
		return c.errorf(contract.Drift, "%w", err)
	}
	if pin.Instructions != "" && pin.Instructions != c.instructions {
		return c.errorf(contract.Drift, "its instructions are not those that were approved: their digest is %s, and %s is pinned", c.instructions, pin.Instructions)
	}
	return nil
}
