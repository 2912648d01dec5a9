package adversary

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/internal/testca"
	"chimera.ai/engine/mcp"
)

// Bank makes an MCP server over streamable HTTP with a tool pay, which has an effect, and a tool
// look, which has none. Both take a line. It adds the lines of the calls that it got to calls.
type Bank func(t testing.TB, calls *Calls) http.Handler

// Calls are the lines of the calls that a server got.
type Calls struct {
	mu    sync.Mutex
	lines []string
}

// Add notes a call.
func (c *Calls) Add(line string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lines = append(c.lines, line)
}

// of counts the calls with a line.
func (c *Calls) of(line string) (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, l := range c.lines {
		if l == line {
			n++
		}
	}
	return n
}

// The remote MCP servers of the deployment, which are doors of one site: bank asks for tokens that
// the deployment signs, vault for a client's certificate, desk for tokens of an OAuth client, and till
// for a secret in a header.
const (
	bank  = "bank"
	vault = "vault"
	desk  = "desk"
	till  = "till"
)

// header is the one that has the secret.
const header = "X-Api-Key"

// issuer signs the deployment's tokens, and clientID is its OAuth client.
const (
	issuer   = "chimera"
	clientID = "chimera"
)

// site has the remote servers, and what both sides prove who they are by.
type site struct {
	*httptest.Server
	calls map[string]*Calls
	// authority vouches for both sides.
	authority *testca.Authority
	// token is the key of the deployment's tokens, secret the secret of its OAuth client, and static the one
	// in a header.
	token                  ed25519.PrivateKey
	secret, access, static string
	// client is the deployment's certificate, in certFile and keyFile.
	client            tls.Certificate
	certFile, keyFile string
	// shown is the certificate of the site, and own the genuine one.
	shown atomic.Pointer[tls.Certificate]
	own   tls.Certificate
	// bend is what a hostile server makes of its answers, or nil, and heard what it has been told.
	mu    sync.Mutex
	bend  func(method string, answer []byte) []byte
	heard []http.Header
	// forgotten are sessions that the site has ended.
	forgotten map[string]bool
}

// newSite starts the remote servers.
func newSite(t testing.TB, make Bank) *site {
	t.Helper()
	s := &site{calls: map[string]*Calls{}, forgotten: map[string]bool{}, authority: testca.New(t, "authority"), secret: rand.Text(), access: rand.Text(), static: rand.Text()}
	_, token, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	s.token, s.own = token, s.authority.Server(t, "site")
	s.shown.Store(&s.own)
	s.client, s.certFile, s.keyFile = s.authority.Client(t)
	mux := http.NewServeMux()
	for _, name := range []string{bank, vault, desk, till} {
		s.calls[name] = new(Calls)
		mux.Handle("/"+name, s.door(name, make(t, s.calls[name])))
	}
	mux.HandleFunc("/token", s.grants)
	s.Server = httptest.NewUnstartedServer(mux)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	clients := x509.NewCertPool()
	clients.AddCert(s.authority.Cert)
	s.TLS = &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		return &tls.Config{Certificates: []tls.Certificate{*s.shown.Load()}, ClientAuth: tls.VerifyClientCertIfGiven, ClientCAs: clients, MinVersion: tls.VersionTLS13}, nil
	}}
	s.StartTLS()
	s.Client().Transport = &http.Transport{TLSClientConfig: &tls.Config{RootCAs: clients}, DisableKeepAlives: true}
	t.Cleanup(s.Close)
	return s
}

// server is how the deployment reaches a door.
func (s *site) server(t testing.TB, name string) mcp.Server {
	t.Helper()
	m := mcp.Server{URL: s.URL + "/" + name, Addresses: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, TLS: mcp.TLS{CAFile: s.authority.File}}
	switch name {
	case bank:
		m.TLS.Pins = []string{testca.Pin(s.own.Leaf)}
		m.JWT = &mcp.JWT{Key: testca.PEM(t, s.token), Issuer: issuer}
	case vault:
		m.TLS.CertFile, m.TLS.KeyFile = s.certFile, s.keyFile
	case desk:
		m.OAuth = &mcp.OAuth{Issuer: s.URL, TokenURL: s.URL + "/token", ClientID: clientID, ClientSecret: s.secret}
	case till:
		m.Headers = map[string]string{header: s.static}
	}
	return m
}

// door lets those in who prove who they are.
func (s *site) door(name string, inner http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		in := false
		switch name {
		case bank:
			in = s.signed(token, s.URL+"/"+name)
		case vault:
			in = len(r.TLS.PeerCertificates) > 0
		case desk:
			in = token == s.access
		case till:
			in = r.Header.Get(header) == s.static
		}
		s.mu.Lock()
		bend := s.bend
		gone := s.forgotten[r.Header.Get("Mcp-Session-Id")]
		s.heard = append(s.heard, r.Header.Clone())
		s.mu.Unlock()
		switch {
		case !in:
			w.WriteHeader(http.StatusUnauthorized)
		case gone:
			w.WriteHeader(http.StatusNotFound)
		case bend == nil || r.Method != http.MethodPost:
			inner.ServeHTTP(w, r)
		default:
			body, err := io.ReadAll(r.Body)
			if err != nil {
				return
			}
			var m struct{ Method string }
			_ = json.Unmarshal(body, &m)
			r.Body = io.NopCloser(strings.NewReader(string(body)))
			answer := httptest.NewRecorder()
			inner.ServeHTTP(answer, r)
			for h, v := range answer.Header() {
				w.Header()[h] = v
			}
			bent := bend(m.Method, answer.Body.Bytes())
			w.Header().Del("Content-Length")
			w.WriteHeader(answer.Code)
			_, _ = w.Write(bent)
		}
	})
}

// signed reports whether a token is one of the deployment's, for an audience, now.
func (s *site) signed(token, audience string) bool {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return false
	}
	signature, err := base64.RawURLEncoding.DecodeString(parts[2])
	if err != nil || !ed25519.Verify(s.token.Public().(ed25519.PublicKey), []byte(parts[0]+"."+parts[1]), signature) {
		return false
	}
	raw, err := base64.RawURLEncoding.DecodeString(parts[1])
	var claims struct {
		Issuer   string `json:"iss"`
		Audience string `json:"aud"`
		Expires  int64  `json:"exp"`
	}
	return err == nil && json.Unmarshal(raw, &claims) == nil && claims.Issuer == issuer && claims.Audience == audience && time.Now().Unix() < claims.Expires
}

// grants gives the OAuth client a token.
func (s *site) grants(w http.ResponseWriter, r *http.Request) {
	id, secret, ok := r.BasicAuth()
	if !ok {
		id, secret = r.PostFormValue("client_id"), r.PostFormValue("client_secret")
	}
	if id != clientID || secret != s.secret {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"access_token": s.access, "token_type": "Bearer", "expires_in": 3600})
}

// hostile makes the site a hostile one, as long as f runs, and ends what connections and sessions
// there are.
func (s *site) hostile(cert *tls.Certificate, bend func(method string, answer []byte) []byte, f func()) {
	set := func(cert *tls.Certificate, bend func(string, []byte) []byte) {
		s.shown.Store(cert)
		s.mu.Lock()
		s.bend = bend
		for _, h := range s.heard {
			s.forgotten[h.Get("Mcp-Session-Id")] = true
		}
		delete(s.forgotten, "")
		s.mu.Unlock()
		s.CloseClientConnections()
	}
	set(cert, bend)
	defer set(&s.own, nil)
	f()
}

// credentials are the last ones that the site has seen: a token and a session.
func (s *site) credentials() (token, session string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range s.heard {
		if id := h.Get("Mcp-Session-Id"); id != "" && strings.Count(h.Get("Authorization"), ".") == 2 {
			token, session = h.Get("Authorization"), id
		}
	}
	return token, session
}
