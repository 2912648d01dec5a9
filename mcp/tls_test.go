//go:build unix

package mcp

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	protocol "github.com/mark3labs/mcp-go/mcp"
	mcpserver "github.com/mark3labs/mcp-go/server"
	"github.com/stretchr/testify/require"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/internal/testca"
)

// secure serves a handler by TLS.
func secure(t *testing.T, h http.Handler, conf *tls.Config) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.TLS = conf
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

func mcpEcho(_ context.Context, r protocol.CallToolRequest) (*protocol.CallToolResult, error) {
	return protocol.NewToolResultText("echo: " + r.GetString("message", "")), nil
}

// ofMCPGo is a server of mcp-go over streamable HTTP, with one tool.
func ofMCPGo(t *testing.T) http.Handler {
	t.Helper()
	s := mcpserver.NewMCPServer("real", "1", mcpserver.WithToolCapabilities(true))
	s.AddTool(protocol.NewTool("echo", protocol.WithString("message")), mcpEcho)
	h := mcpserver.NewStreamableHTTPServer(s, mcpserver.WithStateful(true))
	t.Cleanup(func() { require.NoError(t, h.Shutdown(context.Background())) })
	return h
}

func requireEcho(t *testing.T, p *Pool) {
	t.Helper()
	r, err := call(t, p, "echo", `{"message":"hello"}`)
	require.NoError(t, err)
	require.Equal(t, "echo: hello", *r.Text)
	_, err = p.CallPinned(t.Context(), "h", "echo", json.RawMessage(`{"message":"hello"}`), pinOf(t, p, "echo", true))
	require.NoError(t, err)
}

func TestMutualTLS(t *testing.T) {
	ours, others := testca.New(t, "authority"), testca.New(t, "authority")
	cert := ours.Server(t, "server")
	clients := x509.NewCertPool()
	clients.AddCert(ours.Cert)
	var asked atomic.Int64
	h := ofMCPGo(t)
	s := secure(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		h.ServeHTTP(w, r)
	}), &tls.Config{
		Certificates: []tls.Certificate{cert}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: clients, MinVersion: tls.VersionTLS13,
	})
	_, certFile, keyFile := ours.Client(t)
	_, otherCert, otherKey := others.Client(t)
	good := func() Server {
		return Server{URL: s.URL + "/mcp", Addresses: here, TLS: TLS{CAFile: ours.File, CertFile: certFile, KeyFile: keyFile}}
	}
	unknown := "sha256:" + strings.Repeat("0", 64)
	for name, change := range map[string]func(*TLS){
		"as it is":            func(*TLS) {},
		"pin of the leaf":     func(c *TLS) { c.Pins = []string{keyDigest(cert.Leaf)} },
		"pin of the CA":       func(c *TLS) { c.Pins = []string{keyDigest(ours.Cert)} },
		"one of several pins": func(c *TLS) { c.Pins = []string{unknown, keyDigest(cert.Leaf)} },
	} {
		t.Run(name, func(t *testing.T) {
			idle(t)
			conf := good()
			change(&conf.TLS)
			p := openPool(t, conf, quiet)
			requireEcho(t, p)
			require.NoError(t, p.Close())
			s.CloseClientConnections()
		})
	}
	for name, change := range map[string]func(*Server){
		"no client certificate":        func(s *Server) { s.TLS.CertFile, s.TLS.KeyFile = "", "" },
		"another client's certificate": func(s *Server) { s.TLS.CertFile, s.TLS.KeyFile = otherCert, otherKey },
		"another authority":            func(s *Server) { s.TLS.CAFile = others.File },
		"the system's authorities":     func(s *Server) { s.TLS.CAFile = "" },
		"another pin":                  func(s *Server) { s.TLS.Pins = []string{unknown, keyDigest(others.Cert)} },
		"another name":                 func(s *Server) { s.TLS.ServerName = "example.com" },
		"no such file":                 func(s *Server) { s.TLS.CAFile = "/no/such/file" },
		"no such key":                  func(s *Server) { s.TLS.KeyFile = "/no/such/file" },
	} {
		t.Run(name, func(t *testing.T) {
			conf := good()
			change(&conf)
			before := asked.Load()
			_, err := call(t, openPool(t, conf, quiet), "echo", "")
			requireKind(t, contract.Unsent, err)
			require.Equal(t, before, asked.Load())
		})
	}
}

func TestTLSVersion(t *testing.T) {
	ours := testca.New(t, "authority")
	s := secure(t, ofMCPGo(t), &tls.Config{Certificates: []tls.Certificate{ours.Server(t, "server")}, MaxVersion: tls.VersionTLS12})
	_, err := call(t, openPool(t, Server{URL: s.URL + "/mcp", Addresses: here, TLS: TLS{CAFile: ours.File}}, quiet), "echo", "")
	require.Contains(t, requireKind(t, contract.Unsent, err).Message, "protocol version")
}

func TestServerName(t *testing.T) {
	ours := testca.New(t, "authority")
	s := secure(t, ofMCPGo(t), &tls.Config{Certificates: []tls.Certificate{ours.Server(t, "server", "mcp.internal")}})
	conf := Server{URL: s.URL + "/mcp", Addresses: here, TLS: TLS{CAFile: ours.File}}
	_, err := call(t, openPool(t, conf, quiet), "echo", "")
	requireKind(t, contract.Unsent, err)
	conf.TLS.ServerName = "mcp.internal"
	requireEcho(t, openPool(t, conf, quiet))
}

// All connections of a session lead to one key: another one, though it verifies, is another session.
func TestOtherPeer(t *testing.T) {
	ours := testca.New(t, "authority")
	certs := []tls.Certificate{ours.Server(t, "first"), ours.Server(t, "second")}
	var which atomic.Int64
	inner := newSite(t)
	s := secure(t, inner, &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		return &tls.Config{Certificates: certs[which.Load():][:1]}, nil
	}})
	p := openPool(t, Server{URL: s.URL + "/mcp", Addresses: here, TLS: TLS{CAFile: ours.File}}, quiet)
	require.Equal(t, "1", textOf(t, p, "count"))
	c := connOf(p)
	which.Store(1)
	// The connection that is there is lost in the midst of a call, and the next one leads elsewhere.
	_, err := call(t, p, "close", "")
	requireKind(t, contract.Transport, err)
	require.Equal(t, "3", textOf(t, p, "count"))
	require.NotSame(t, c, connOf(p))
	require.Equal(t, 2, inner.beginnings())
	seen := inner.record()
	for i, m := range seen.taken {
		if m.Params.Name == "count" && i > 4 {
			require.Equal(t, "session-2", seen.requests[i].Header.Get("Mcp-Session-Id"))
		}
	}
}

// privateKey returns a key in PEM.
func privateKey(t *testing.T, key crypto.Signer) string {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}

// claimed verifies a token as a server does, and returns its header and its claims.
func claimed(t *testing.T, authorization string, public crypto.PublicKey) (header, claims map[string]any) {
	t.Helper()
	token, ok := strings.CutPrefix(authorization, "Bearer ")
	require.True(t, ok)
	parts := strings.Split(token, ".")
	require.Len(t, parts, 3)
	var raw [3][]byte
	for i, p := range parts {
		var err error
		raw[i], err = base64.RawURLEncoding.DecodeString(p)
		require.NoError(t, err)
	}
	require.NoError(t, json.Unmarshal(raw[0], &header))
	require.NoError(t, json.Unmarshal(raw[1], &claims))
	signed := parts[0] + "." + parts[1]
	switch public := public.(type) {
	case ed25519.PublicKey:
		require.Equal(t, "EdDSA", header["alg"])
		require.True(t, ed25519.Verify(public, []byte(signed), raw[2]))
	case *ecdsa.PublicKey:
		require.Equal(t, "ES256", header["alg"])
		digest := sha256.Sum256([]byte(signed))
		require.Len(t, raw[2], 64)
		require.True(t, ecdsa.Verify(public, digest[:], new(big.Int).SetBytes(raw[2][:32]), new(big.Int).SetBytes(raw[2][32:])))
	}
	return header, claims
}

func TestJWT(t *testing.T) {
	_, edwards, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	nist, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	ours := testca.New(t, "authority")
	for name, key := range map[string]crypto.Signer{"Ed25519": edwards, "P-256": nist} {
		t.Run(name, func(t *testing.T) {
			idle(t)
			h, ids := ofMCPGo(t), map[string]bool{}
			var s *httptest.Server
			var mu sync.Mutex
			requests := 0
			s = secure(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				header, claims := claimed(t, r.Header.Get("Authorization"), key.Public())
				if claims["aud"] != s.URL+"/mcp" {
					w.WriteHeader(http.StatusUnauthorized)
					return
				}
				mu.Lock()
				requests++
				ids[claims["jti"].(string)] = true
				mu.Unlock()
				require.Equal(t, map[string]any{"alg": header["alg"], "typ": "JWT", "kid": "2026a"}, header)
				require.Equal(t, "chimera", claims["iss"])
				require.Equal(t, "worker-1", claims["sub"])
				require.InDelta(t, time.Now().Unix(), claims["iat"], 5)
				require.InDelta(t, 30, claims["exp"].(float64)-claims["iat"].(float64), 0)
				require.Len(t, claims, 6)
				h.ServeHTTP(w, r)
			}), &tls.Config{Certificates: []tls.Certificate{ours.Server(t, "server")}})
			conf := Server{
				URL: s.URL + "/mcp", Addresses: here, TLS: TLS{CAFile: ours.File},
				JWT: &JWT{Key: privateKey(t, key), Issuer: "chimera", Subject: "worker-1", KeyID: "2026a", Lifetime: 30 * time.Second},
			}
			p := openPool(t, conf, quiet)
			requireEcho(t, p)
			require.NoError(t, p.Close())
			mu.Lock()
			defer mu.Unlock()
			require.Len(t, ids, requests, "a token is used once")
			require.Greater(t, requests, 5)

			conf.JWT.Audience = "https://another.example.com"
			_, err := call(t, openPool(t, conf, quiet), "echo", "")
			requireKind(t, contract.Auth, err)
		})
	}
	rsaLike, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	require.NoError(t, err)
	for name, text := range map[string]string{
		"empty": "", "no PEM": "secret-key", "another curve": privateKey(t, rsaLike),
		"not PKCS #8": "-----BEGIN EC PRIVATE KEY-----\nAAAA\n-----END EC PRIVATE KEY-----\n",
	} {
		p := openPool(t, Server{URL: "https://example.com", JWT: &JWT{Key: text, Issuer: "x"}}, quiet)
		_, err := call(t, p, "echo", "")
		require.NotContains(t, requireKind(t, contract.Contract, err).Message, "secret-key", name)
	}
}

// issuer is an authorization server.
type issuer struct {
	*httptest.Server
	// answer, if there is one, answers instead of it.
	answer atomic.Pointer[http.HandlerFunc]
	tokens atomic.Int64
}

func newIssuer(t *testing.T, a *testca.Authority) *issuer {
	t.Helper()
	i := &issuer{}
	i.Server = secure(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if answer := i.answer.Load(); answer != nil {
			(*answer)(w, r)
			return
		}
		id, secret, _ := r.BasicAuth()
		if r.URL.Path != "/token" || id != "client" || secret != "secret-of-client" || r.FormValue("grant_type") != "client_credentials" ||
			r.FormValue("scope") != "tools:read tools:call" || !strings.HasSuffix(r.FormValue("resource"), "/mcp") {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"access_token": "token-" + string(rune('a'+i.tokens.Add(1)-1)), "token_type": "bearer", "expires_in": 3600})
	}), &tls.Config{Certificates: []tls.Certificate{a.Server(t, "issuer")}})
	return i
}

func TestOAuth(t *testing.T) {
	idle(t)
	ours := testca.New(t, "authority")
	from := newIssuer(t, ours)
	var good atomic.Value
	good.Store("Bearer token-a")
	inner := ofMCPGo(t)
	s := secure(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != good.Load() {
			w.Header().Set("WWW-Authenticate", `Bearer resource_metadata="https://evil.example.com/"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		inner.ServeHTTP(w, r)
	}), &tls.Config{Certificates: []tls.Certificate{ours.Server(t, "server")}})
	conf := Server{URL: s.URL + "/mcp", Addresses: here, TLS: TLS{CAFile: ours.File}}
	oauth := OAuth{Issuer: from.URL, TokenURL: from.URL + "/token", ClientID: "client", ClientSecret: "secret-of-client", Scopes: []string{"tools:read", "tools:call"}}
	conf.OAuth = &oauth
	p := openPool(t, conf, quiet)
	requireEcho(t, p)
	require.EqualValues(t, 1, from.tokens.Load(), "one token serves many requests")

	// The server accepts it no more: the call fails, and when it is tried again there is another token.
	good.Store("Bearer token-b")
	_, err := call(t, p, "echo", "")
	requireKind(t, contract.Auth, err)
	requireEcho(t, p)
	require.EqualValues(t, 2, from.tokens.Load())
	require.NoError(t, p.Close())

	elsewhere := newSite(t)
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		kind   contract.Kind
	}{
		"invalid client": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `{"error":"invalid_client","error_description":"secret-of-client"}`)
		}, contract.Auth},
		"throttled": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTooManyRequests) }, contract.Throttled},
		"broken":    {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }, contract.Unsent},
		"redirect": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
		}, contract.Unsent},
		"endless": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			writeMuch(w, r)
		}, contract.Unsent},
		"no token": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"access_token":"","token_type":"bearer"}`)
		}, contract.Unsent},
		"another type": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"access_token":"token-b","token_type":"mac"}`)
		}, contract.Unsent},
		"a header in it": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"access_token":"token-b\r\nX: y","token_type":"bearer"}`)
		}, contract.Unsent},
	} {
		t.Run(name, func(t *testing.T) {
			from.answer.Store(&c.answer)
			_, err := call(t, openPool(t, conf, quiet), "echo", "")
			require.NotContains(t, requireKind(t, c.kind, err).Message, "secret-of-client")
		})
	}
	require.Empty(t, elsewhere.record().taken)

	// The endpoint's address must be one that may be dialled, too, and its certificate is verified.
	from.answer.Store(nil)
	conf.Addresses = []netip.Prefix{netip.MustParsePrefix("127.0.0.9/32")}
	_, err = call(t, openPool(t, conf, quiet), "echo", "")
	requireKind(t, contract.Unsent, err)
	conf.Addresses, conf.TLS.CAFile = here, testca.New(t, "authority").File
	_, err = call(t, openPool(t, conf, quiet), "echo", "")
	requireKind(t, contract.Unsent, err)
	require.EqualValues(t, 2, from.tokens.Load())
}

func TestHeaders(t *testing.T) {
	s := newSite(t)
	p := openPool(t, Server{URL: s.URL + "/mcp", Addresses: here, Headers: map[string]string{"authorization": "Bearer static", "X-Tenant": "a"}}, quiet)
	require.Equal(t, "1", textOf(t, p, "count"))
	require.NoError(t, p.Close())
	requests := s.record().requests
	for _, r := range requests {
		require.Equal(t, "Bearer static", r.Header.Get("Authorization"))
		require.Equal(t, "a", r.Header.Get("X-Tenant"))
	}
	require.Equal(t, http.MethodDelete, requests[len(requests)-1].Method)
}

func TestCheck(t *testing.T) {
	jwt, oauth := &JWT{}, &OAuth{}
	for name, s := range map[string]Server{
		"nothing":         {},
		"both":            {Command: "x", URL: "https://example.com"},
		"plain":           {URL: "http://example.com"},
		"plain, private":  {URL: "http://10.0.0.1"},
		"another scheme":  {URL: "ftp://127.0.0.1"},
		"no host":         {URL: "https:///mcp"},
		"a user":          {URL: "https://a:b@example.com"},
		"a fragment":      {URL: "https://example.com/#x"},
		"no URL":          {URL: "https://[::1"},
		"two credentials": {URL: "https://example.com", JWT: jwt, OAuth: oauth},
		"and a header":    {URL: "https://example.com", JWT: jwt, Headers: map[string]string{"authorization": "x"}},
		"TLS without":     {URL: "http://127.0.0.1", TLS: TLS{Pins: []string{"sha256:" + strings.Repeat("0", 64)}}},
		"half a pair":     {URL: "https://example.com", TLS: TLS{CertFile: "x"}},
		"no pin":          {URL: "https://example.com", TLS: TLS{Pins: []string{"sha256:00"}}},
		"capitals":        {URL: "https://example.com", TLS: TLS{Pins: []string{"sha256:" + strings.Repeat("A", 64)}}},
		"the protocol's":  {URL: "https://example.com", Headers: map[string]string{"mcp-session-id": "x"}},
		"sent twice":      {URL: "https://example.com", Headers: map[string]string{"Idempotency-Key": "x"}},
		"no name":         {URL: "https://example.com", Headers: map[string]string{"a b": "x"}},
		"no value":        {URL: "https://example.com", Headers: map[string]string{"a": "x\r\ny: z"}},
	} {
		require.Error(t, s.Check(), name)
	}
	for _, url := range []string{"https://example.com", "http://localhost:8080/mcp", "http://127.0.0.1", "http://[::1]:1/x?y=z"} {
		require.NoError(t, Server{URL: url}.Check(), url)
	}
}
