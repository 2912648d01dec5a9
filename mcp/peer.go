package mcp

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/internal/dial"
)

// Bounds of connections to remote servers.
const (
	dialTime   = 10 * time.Second
	idleTime   = 60 * time.Second
	maxHeaders = 64 << 10
)

// peer is a remote server, as one session reaches it.
type peer struct {
	url        *url.URL
	headers    map[string]string
	credential credential // or nil
	transport  *http.Transport
}

// credential says in the header Authorization who asks. One serves all sessions with a server.
type credential interface {
	// of returns what sessions for an agent use; "" means no agent.
	of(agent string) credential
	// authorization returns the header. The kind of its error says that nothing was sent to the
	// server.
	authorization(ctx context.Context) (string, *contract.Error)
	// refused says that the server did not accept the last one.
	refused()
}

// reach prepares a session with a remote server, with the authorities of CAFile.
func (s Server) reach(cred credential, opts Options, authorities []*x509.Certificate) (*peer, error) {
	u, err := s.remote()
	if err != nil {
		return nil, err
	}
	conf, err := s.tlsConfig(authorities)
	if err != nil {
		return nil, err
	}
	return &peer{url: u, headers: s.Headers, credential: cred, transport: s.transport(u, conf, opts.MaxCalls+1)}, nil
}

// transport connects to what u names, as the server's configuration says. It knows no proxy, asks
// for no compression, and speaks HTTP/1.1: there a request is written to one connection, and what
// of it was sent is certain.
func (s Server) transport(u *url.URL, conf *tls.Config, conns int) *http.Transport {
	var one http.Protocols
	one.SetHTTP1(true)
	dialer := dial.Guard{Allowed: s.Addresses}.Dialer(dialTime)
	return &http.Transport{
		Protocols:              &one,
		TLSClientConfig:        conf,
		TLSHandshakeTimeout:    dialTime,
		DisableCompression:     true,
		MaxIdleConnsPerHost:    conns,
		IdleConnTimeout:        idleTime,
		MaxResponseHeaderBytes: maxHeaders,
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			c, err := dialer.DialContext(ctx, network, addr)
			if err != nil || u.Scheme == "https" {
				return c, err
			}
			if err := local(c); err != nil {
				c.Close()
				return nil, err
			}
			return c, nil
		},
	}
}

// request makes a request to the server. Its error says that nothing was sent.
func (p *peer) request(ctx context.Context, method, url string, body []byte) (*http.Request, *contract.Error) {
	r, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return nil, contract.Errorf(contract.Unsent, "make a request: %w", err)
	}
	for name, value := range p.headers {
		r.Header.Set(name, value)
	}
	r.Header.Set("User-Agent", "chimera/"+version())
	r.Header.Set("Accept-Encoding", "identity")
	if p.credential != nil {
		value, bad := p.credential.authorization(ctx)
		if bad != nil {
			return nil, bad
		}
		r.Header.Set("Authorization", value)
	}
	return r, nil
}

// refused says that the server does not accept the credential.
func (p *peer) refused() {
	if p.credential != nil {
		p.credential.refused()
	}
}

// reserved are the headers that no configuration sets: those of the protocols, and those
// with which net/http would send a request again that it has written.
var reserved = []string{
	"Accept", "Accept-Encoding", "Connection", "Content-Encoding", "Content-Length", "Content-Type", "Cookie", "Expect", "Host", "Idempotency-Key", "Keep-Alive",
	"Last-Event-Id", "Te", "Trailer", "Transfer-Encoding", "Upgrade", "User-Agent", "X-Idempotency-Key",
}

// checkHeader says why no configuration sets a header of this name, or returns nil.
func checkHeader(name string) error {
	canonical := http.CanonicalHeaderKey(name)
	switch {
	case !headerName.MatchString(name):
		return fmt.Errorf("%q is not the name of a header", name)
	case slices.Contains(reserved, canonical), strings.HasPrefix(canonical, "Mcp-"), strings.HasPrefix(canonical, "Proxy-"):
		return fmt.Errorf("the header %s is not for a configuration to set", canonical)
	}
	return nil
}

var headerName = regexp.MustCompile(`^[0-9A-Za-z_-]+$`)

func hasHeader(headers map[string]string, name string) bool {
	for h := range headers {
		if strings.EqualFold(h, name) {
			return true
		}
	}
	return false
}
