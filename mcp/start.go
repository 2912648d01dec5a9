package mcp

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/mcp"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/fingerprint"
)

// connect starts a server, or a session with it, and does the handshake. No tool was called
// then: the kind of its error is unsent, or auth or throttled where a remote server says so.
func (t *tenant) connect(ctx context.Context) (*conn, error) {
	ctx, cancel := context.WithTimeout(ctx, t.opts.StartTimeout)
	defer cancel()
	c, err := t.session()
	if err != nil {
		return nil, contract.Errorf(contract.Unsent, "MCP server %s: %w", t.name, err)
	}
	if err = c.handshake(ctx); err == nil {
		err = t.same(c)
	}
	if err == nil {
		return c, nil
	}
	bad := c.unsent("handshake: %w", err)
	var seen *contract.Error
	switch {
	case ctx.Err() == context.DeadlineExceeded:
		bad = c.unsent("handshake: not done within %v", t.opts.StartTimeout)
		bad.Cause = err
	case errors.As(err, &seen):
		bad = c.unsent("handshake: %s", c.words(seen))
		bad.Cause, bad.Details = err, seen.Details
		if seen.Kind == contract.Auth || seen.Kind == contract.Throttled {
			bad.Kind, bad.RetryAfterMS = seen.Kind, seen.RetryAfterMS
		}
	}
	c.close()
	bad.Details = c.link.detail(bad.Details)
	return nil, bad
}

// session begins a session, before its handshake.
func (t *tenant) session() (*conn, error) {
	identity, authorities, err := t.conf.endpoint()
	if err != nil {
		return nil, err
	}
	endpoint, err := fingerprint.Endpoint(identity)
	if err != nil {
		return nil, err
	}
	c, err := t.open(authorities)
	if err != nil {
		return nil, err
	}
	c.introduction.Identity, c.introduction.Endpoint = identity, endpoint
	return c, nil
}

// open starts a server, or opens a link to it.
func (t *tenant) open(authorities []*x509.Certificate) (*conn, error) {
	if t.conf.URL == "" {
		return spawn(t.name, t.conf, t.opts)
	}
	cred := t.credential
	if cred != nil {
		cred = cred.of(t.key.Agent)
	}
	p, err := t.conf.reach(cred, t.opts, authorities)
	if err != nil {
		return nil, err
	}
	if t.conf.SSE {
		return listen(t.name, p, t.opts), nil
	}
	return open(t.name, p, t.opts), nil
}

// same returns an error if a child that has started may be another program than the one that was looked
// at, since files have changed meanwhile.
func (s *server) same(c *conn) error {
	if s.conf.URL != "" {
		return nil
	}
	endpoint, err := s.at()
	if err == nil && endpoint != c.introduction.Endpoint {
		err = errors.New("its files have changed while it was starting")
	}
	return err
}

// at returns the digest of the endpoint as it is configured now.
func (s *server) at() (string, error) {
	identity, err := s.conf.Endpoint()
	if err != nil {
		return "", err
	}
	return fingerprint.Endpoint(identity)
}

// handshake negotiates a protocol version. It asks for the newest one that begins with
// initialize, which every server in use answers, and tries the stateless versions only if
// the server does not know initialize: the other way round, a server that ignores unknown
// requests would cost a timeout.
//
// No capability is declared: see the package comment.
func (c *conn) handshake(ctx context.Context) error {
	request := mcp.InitializeRequest{}
	request.Params.ClientInfo = mcp.Implementation{Name: "chimera", Version: version()}

	cl := client.NewClient(c, client.WithProtocolVersion(mcp.LATEST_LEGACY_PROTOCOL_VERSION))
	result, err := cl.Initialize(ctx, request)
	if errors.Is(err, mcp.ErrMethodNotFound) || errors.As(err, new(mcp.UnsupportedProtocolVersionError)) {
		cl = client.NewClient(c)
		result, err = cl.Initialize(ctx, request)
	}
	if err != nil {
		return err
	}
	if mcp.IsModernProtocol(cl.ProtocolVersion()) {
		c.meta = map[string]any{
			mcp.MetaKeyProtocolVersion:    cl.ProtocolVersion(),
			mcp.MetaKeyClientCapabilities: struct{}{},
			mcp.MetaKeyClientInfo:         request.Params.ClientInfo,
		}
	}
	if err := c.introduced(cl.ProtocolVersion()); err != nil {
		return err
	}
	c.log.Info("MCP server started", "protocol", cl.ProtocolVersion(),
		"implementation", fmt.Sprintf("%.100q %.100q", result.ServerInfo.Name, result.ServerInfo.Version))
	return nil
}

// version returns the version of this build, for the logs of servers.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "devel"
}
