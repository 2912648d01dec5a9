//go:build unix

package mcp

import (
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/fingerprint"
	"chimera.ai/engine/internal/testca"
)

// shown is a remote server whose certificate a test replaces. Each of its requests comes by a
// connection of its own.
type shown struct {
	inner *site
	url   string
	cert  atomic.Pointer[tls.Certificate]
	// asked counts requests, and met the connections that were tried.
	asked, met atomic.Int64
	// then, if not nil, is shown once the tools were listed.
	then atomic.Pointer[tls.Certificate]
}

func show(t *testing.T, cert tls.Certificate) *shown {
	t.Helper()
	s := &shown{inner: newSite(t)}
	s.cert.Store(&cert)
	s.inner.meanwhile(func(w http.ResponseWriter, _ *http.Request, m message) bool {
		w.Header().Set("Connection", "close")
		if next := s.then.Load(); next != nil && m.Method == "tools/list" {
			s.cert.Store(next)
		}
		return false
	})
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.asked.Add(1)
		s.inner.ServeHTTP(w, r)
	})
	s.url = secure(t, h, &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		s.met.Add(1)
		return &tls.Config{Certificates: []tls.Certificate{*s.cert.Load()}}, nil
	}}).URL
	return s
}

// renewed is the certificate of a server with the same key, changed as a test says.
func renewed(t *testing.T, a *testca.Authority, was tls.Certificate, change func(*x509.Certificate)) tls.Certificate {
	t.Helper()
	c := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: was.Leaf.Subject, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(2 * time.Hour),
		ExtKeyUsage: was.Leaf.ExtKeyUsage, IPAddresses: was.Leaf.IPAddresses,
	}
	change(c)
	der, err := x509.CreateCertificate(rand.Reader, c, a.Cert, was.Leaf.PublicKey, a.Key)
	require.NoError(t, err)
	leaf, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: was.PrivateKey, Leaf: leaf}
}

// A server with another certificate is the same one if its authority, its name and a pinned key are
// those that are configured, and another one if they are not: then it gets no request.
func TestStrangers(t *testing.T) {
	ours, others := testca.New(t, "authority"), testca.New(t, "authority")
	cert, other := ours.Server(t, "first"), ours.Server(t, "second")
	same := func(*x509.Certificate) {}
	expired := func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }
	elsewhere := func(c *x509.Certificate) { c.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 2)} }
	leaf, next, ca := keyDigest(cert.Leaf), keyDigest(other.Leaf), keyDigest(ours.Cert)
	for name, c := range map[string]struct {
		pins []string
		now  tls.Certificate
		want contract.Kind // of a pinned call, or "" if it is made
	}{
		"renewed":                                    {nil, renewed(t, ours, cert, same), ""},
		"renewed, its key pinned":                    {[]string{leaf}, renewed(t, ours, cert, same), ""},
		"renewed with another key":                   {nil, other, ""},
		"renewed with another key, authority pinned": {[]string{ca}, other, ""},
		"renewed with another key, which is pinned":  {[]string{leaf, next}, other, ""},
		"renewed with another key, not the pinned":   {[]string{leaf}, other, contract.Drift},
		"another authority":                          {nil, renewed(t, others, cert, same), contract.Drift},
		"another authority, the same key pinned":     {[]string{leaf}, renewed(t, others, cert, same), contract.Drift},
		"another name":                               {nil, renewed(t, ours, cert, elsewhere), contract.Drift},
		"another name, the same key pinned":          {[]string{leaf}, renewed(t, ours, cert, elsewhere), contract.Drift},
		"expired":                                    {nil, renewed(t, ours, cert, expired), contract.Unsent},
		"expired, its key pinned":                    {[]string{leaf}, renewed(t, ours, cert, expired), contract.Unsent},
		"no certificate":                             {nil, tls.Certificate{}, contract.Unsent},
	} {
		t.Run(name, func(t *testing.T) {
			idle(t)
			s := show(t, cert)
			conf := Server{URL: s.url + "/mcp", Addresses: here, TLS: TLS{CAFile: ours.File, Pins: c.pins}}
			p := openPool(t, conf, quiet)
			whole := placed(t, p, true)
			whole.Fingerprint = pinOf(t, p, "echo", true).Fingerprint
			_, err := pinned(t, p, whole)
			require.NoError(t, err)

			// Between the look and the call.
			s.then.Store(&c.now)
			asked, called := s.asked.Load(), s.inner.called()
			_, err = pinned(t, p, whole)
			if c.want == "" {
				require.NoError(t, err)
				require.Equal(t, called+1, s.inner.called())
			} else {
				require.True(t, requireKind(t, c.want, err).Kind.NothingSent())
				require.Equal(t, asked+1, s.asked.Load(), "it was looked at")
				require.Equal(t, called, s.inner.called())
			}

			// Afterwards, in the session that is there, and before one begins.
			asked, called = s.asked.Load(), s.inner.called()
			for what, pin := range map[string]Pin{
				"all": whole, "endpoint": {Endpoints: whole.Endpoints}, "fingerprint": {Fingerprint: whole.Fingerprint}, "instructions": {Instructions: whole.Instructions},
			} {
				for i, p := range []*Pool{p, openPool(t, conf, quiet)} {
					met := s.met.Load()
					_, err := pinned(t, p, pin)
					require.Greater(t, s.met.Load(), met)
					if c.want == "" {
						require.NoError(t, err, "%s %d", what, i)
						continue
					}
					require.True(t, requireKind(t, c.want, err).Kind.NothingSent(), "%s %d", what, i)
				}
			}
			if c.want == "" {
				require.Equal(t, called+8, s.inner.called())
				return
			}
			// Where nothing is pinned, nobody has said which server it has to be.
			_, err = call(t, openPool(t, conf, quiet), "echo", "")
			requireKind(t, contract.Unsent, err)
			_, err = pinned(t, openPool(t, conf, quiet), Pin{Again: true})
			requireKind(t, contract.Unsent, err)
			require.Equal(t, asked, s.asked.Load())
		})
	}
}

// The stream of events of the older transport is held to the same, and so are resources.
func TestStrangersElsewhere(t *testing.T) {
	ours, others := testca.New(t, "authority"), testca.New(t, "authority")
	a := newAirwave(t)
	var asked atomic.Int64
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		a.ServeHTTP(w, r)
	})
	s := secure(t, h, &tls.Config{Certificates: []tls.Certificate{others.Server(t, "server")}})
	conf := Server{URL: s.URL + "/sse", SSE: true, Addresses: here, TLS: TLS{CAFile: ours.File}}
	endpoint, err := conf.Endpoint()
	require.NoError(t, err)
	digest, err := fingerprint.Endpoint(endpoint)
	require.NoError(t, err)
	pin := Pin{Endpoints: []string{digest}}
	p := openPool(t, conf, quiet)
	_, err = pinned(t, p, pin)
	requireKind(t, contract.Drift, err)
	_, err = p.Read(t.Context(), "h", "file:///a", pin)
	requireKind(t, contract.Drift, err)
	_, err = p.Resources(t.Context(), "h", pin)
	requireKind(t, contract.Drift, err)
	_, err = p.Tools(t.Context(), "h")
	requireKind(t, contract.Unsent, err)
	require.Zero(t, asked.Load())
}

// A token that cannot be got, since another server answers at its endpoint, says nothing about the
// server of the tool.
func TestStrangeIssuer(t *testing.T) {
	ours, others := testca.New(t, "authority"), testca.New(t, "authority")
	from := newIssuer(t, others)
	s := secure(t, newSite(t), &tls.Config{Certificates: []tls.Certificate{ours.Server(t, "server")}})
	conf := Server{URL: s.URL + "/mcp", Addresses: here, TLS: TLS{CAFile: ours.File}, OAuth: &OAuth{
		Issuer: from.URL, TokenURL: from.URL + "/token", ClientID: "client", ClientSecret: "secret-of-client",
	}}
	_, err := pinned(t, openPool(t, conf, quiet), Pin{Fingerprint: fmt.Sprintf("sha256:%064d", 0)})
	requireKind(t, contract.Unsent, err)
	require.Zero(t, from.tokens.Load())
}
