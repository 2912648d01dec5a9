package mcp

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
)

// TLS is how a remote server proves who it is, and how this side does. Version 1.3 is required.
type TLS struct {
	// CAFile is a PEM file with the authorities that are trusted instead of the system's.
	CAFile string
	// CertFile and KeyFile are PEM files with the certificate of this side and its key.
	CertFile, KeyFile string
	// ServerName is the name in the server's certificate, if it is not the host of the URL.
	ServerName string
	// Pins are digests of keys, "sha256:" and 64 hexadecimal digits of SubjectPublicKeyInfo. If
	// there are any, the server's certificate or an authority in its verified chain has one of them.
	Pins []string
}

// JWT mints a token for each request, signed with a key of this side.
type JWT struct {
	// Key is a private key, PKCS #8 in PEM: Ed25519 or P-256.
	Key string
	// Issuer and Subject are the claims iss and sub; Subject is Issuer if it is "".
	Issuer, Subject string
	// Audience is the claim aud, or "" for the server's URL.
	Audience string
	// KeyID is the header kid, or "".
	KeyID string
	// Lifetime is how long a token is good: one minute if it is 0.
	Lifetime time.Duration
}

// OAuth gets tokens by the client credentials grant of OAuth 2.1. Nothing is discovered: what the
// server says about its authorization server does not count.
type OAuth struct {
	// Issuer identifies the authorization server, and TokenURL is where it gives tokens.
	Issuer, TokenURL       string
	ClientID, ClientSecret string
	Scopes                 []string
}

// Check says what is wrong with a server's configuration, without a look at files and keys.
func (s Server) Check() error {
	switch {
	case s.Unavailable != "":
		return nil
	case s.URL != "":
		_, err := s.remote()
		return err
	case s.Command == "":
		return errors.New("it has neither a command nor a URL")
	}
	return nil
}

// remote reads and checks the URL of a server.
func (s Server) remote() (*url.URL, error) {
	u, err := address(s.URL)
	if err != nil {
		return nil, err
	}
	credentials := 0
	for _, has := range []bool{s.JWT != nil, s.OAuth != nil, hasHeader(s.Headers, "Authorization")} {
		if has {
			credentials++
		}
	}
	switch {
	case s.Command != "":
		return nil, errors.New("it has a command and a URL")
	case credentials > 1:
		return nil, errors.New("it has two credentials")
	case u.Scheme == "http" && (s.TLS.CAFile != "" || s.TLS.CertFile != "" || s.TLS.KeyFile != "" || s.TLS.ServerName != "" || len(s.TLS.Pins) > 0):
		return nil, errors.New("its URL has no TLS, which is configured")
	case (s.TLS.CertFile == "") != (s.TLS.KeyFile == ""):
		return nil, errors.New("of a client certificate and its key it has one")
	}
	for _, pin := range s.TLS.Pins {
		if !validPin(pin) {
			return nil, fmt.Errorf("%q is not a pin: sha256: and 64 small hexadecimal digits", pin)
		}
	}
	for name, value := range s.Headers {
		if err := checkHeader(name); err != nil {
			return nil, err
		}
		if strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
			return nil, fmt.Errorf("the header %s holds a control character", name)
		}
	}
	return u, nil
}

// address reads a URL to which requests are sent: https, or http to this machine.
func address(raw string) (*url.URL, error) {
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		return nil, errors.New("its URL cannot be read")
	case u.Scheme != "https" && u.Scheme != "http", u.Hostname() == "":
		return nil, errors.New("its URL is not one of https")
	case u.User != nil, u.Fragment != "":
		return nil, errors.New("its URL has a user or a fragment")
	case u.Scheme == "http" && !loopback(u.Hostname()):
		return nil, errors.New("its URL is not one of https, and not on this machine")
	}
	return u, nil
}

func loopback(host string) bool {
	a, err := netip.ParseAddr(host)
	return err == nil && a.Unmap().IsLoopback() || strings.EqualFold(host, "localhost")
}

func validPin(pin string) bool {
	digits, ok := strings.CutPrefix(pin, "sha256:")
	raw, err := hex.DecodeString(digits)
	return ok && err == nil && len(raw) == sha256.Size && strings.ToLower(digits) == digits
}

// errOtherPeer ends a session in which a connection leads to another server than the first.
var errOtherPeer = errors.New("another server than at the beginning of the session answers: its key differs")

// errUnpinned ends a connection to a server that has none of the keys that are pinned.
var errUnpinned = errors.New("no key in the server's verified chain is a pinned one")

// stranger is the error of a connection to a server that is another one than is meant, by its
// authority, its name or its key. Nothing was sent to it.
type stranger struct{ why error }

func (s *stranger) Error() string { return "another server answers: " + s.why.Error() }

func (s *stranger) Unwrap() error { return s.why }

// identify makes a stranger's error of one of TLS, if it is. A certificate that has expired is that of the
// same server.
func identify(err error) error {
	var authority x509.UnknownAuthorityError
	var name x509.HostnameError
	if errors.Is(err, errUnpinned) || errors.As(err, &authority) || errors.As(err, &name) {
		return &stranger{err}
	}
	return err
}

// verifier checks the connections of one session.
type verifier struct {
	pins []string
	mu   sync.Mutex
	leaf string
}

func keyDigest(c *x509.Certificate) string {
	sum := sha256.Sum256(c.RawSubjectPublicKeyInfo)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// verify checks a connection whose chains were verified.
func (v *verifier) verify(state tls.ConnectionState) error {
	pinned := len(v.pins) == 0
	for _, chain := range state.VerifiedChains {
		pinned = pinned || slices.ContainsFunc(chain, func(c *x509.Certificate) bool { return slices.Contains(v.pins, keyDigest(c)) })
	}
	if !pinned {
		return errUnpinned
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	leaf := keyDigest(state.PeerCertificates[0])
	if v.leaf != "" && v.leaf != leaf {
		return errOtherPeer
	}
	v.leaf = leaf
	return nil
}

// tlsConfig is that of one session, with the authorities of CAFile. Files are read anew for each, so
// that certificates can be replaced.
func (s Server) tlsConfig(authorities []*x509.Certificate) (*tls.Config, error) {
	v := &verifier{pins: s.TLS.Pins}
	conf := &tls.Config{MinVersion: tls.VersionTLS13, ServerName: s.TLS.ServerName, VerifyConnection: v.verify}
	if s.TLS.CAFile != "" {
		conf.RootCAs = x509.NewCertPool()
		for _, c := range authorities {
			conf.RootCAs.AddCert(c)
		}
	}
	if s.TLS.CertFile != "" {
		cert, err := tls.LoadX509KeyPair(s.TLS.CertFile, s.TLS.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("the client's certificate: %w", err)
		}
		conf.Certificates = []tls.Certificate{cert}
	}
	return conf, nil
}

// local refuses a connection without TLS that leads off this machine.
func local(c net.Conn) error {
	a, err := netip.ParseAddrPort(c.RemoteAddr().String())
	if err != nil || !a.Addr().Unmap().IsLoopback() {
		return errors.New("a connection without TLS leads off this machine")
	}
	return nil
}
