package mcp

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"

	"chimera.ai/engine/contract"
)

// Bounds of the endpoint of tokens: time of a request, and bytes of a token and of an answer.
const (
	tokenTime  = 30 * time.Second
	maxToken   = 16 << 10
	maxGranted = 64 << 10
)

// grant has a token of the client credentials grant, and gets another when that expires or is
// refused.
type grant struct {
	conf   clientcredentials.Config
	client func() (*http.Client, error)
	issued func(token string, until time.Time)
	// turn holds one value while nobody asks for a token.
	turn chan struct{}

	mu    sync.Mutex
	token *oauth2.Token
}

func newGrant(s Server, issued func(string, time.Time)) (*grant, error) {
	o := *s.OAuth
	u, err := address(o.TokenURL)
	if err != nil {
		return nil, fmt.Errorf("oauth.token_url: %w", err)
	}
	if _, err := address(o.Issuer); err != nil {
		return nil, fmt.Errorf("oauth.issuer: %w", err)
	}
	if o.ClientID == "" || o.ClientSecret == "" {
		return nil, errors.New("its tokens need oauth.client_id and oauth.client_secret")
	}
	g := &grant{
		conf: clientcredentials.Config{
			ClientID: o.ClientID, ClientSecret: o.ClientSecret, TokenURL: o.TokenURL, Scopes: o.Scopes,
			// RFC 8707: a token for this server is none for another.
			EndpointParams: url.Values{"resource": {s.URL}},
		},
		issued: issued,
		turn:   make(chan struct{}, 1),
	}
	g.client = func() (*http.Client, error) { return s.tokenClient(u) }
	return g, nil
}

// tokenClient reaches the endpoint of tokens. Pins, the client's certificate and the name are those
// of the server alone; the authorities of ca_file count in addition to the system's.
func (s Server) tokenClient(u *url.URL) (*http.Client, error) {
	conf := &tls.Config{MinVersion: tls.VersionTLS13}
	if s.TLS.CAFile != "" {
		pool, err := x509.SystemCertPool()
		if err != nil {
			return nil, fmt.Errorf("the system's authorities: %w", err)
		}
		authorities, err := readCAs(s.TLS.CAFile)
		if err != nil {
			return nil, err
		}
		for _, c := range authorities {
			pool.AddCert(c)
		}
		conf.RootCAs = pool
	}
	t := s.transport(u, conf, 1)
	t.DisableKeepAlives = true
	return &http.Client{
		Transport:     bounded{t},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, nil
}

// bounded bounds the bodies of answers.
type bounded struct{ http.RoundTripper }

func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := b.RoundTripper.RoundTrip(r)
	if err == nil {
		response.Body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(response.Body, maxGranted), response.Body}
	}
	return response, err
}

// of returns g: by client credentials, all agents are the same client.
func (g *grant) of(string) credential { return g }

func (g *grant) authorization(ctx context.Context) (string, *contract.Error) {
	select {
	case g.turn <- struct{}{}:
		defer func() { <-g.turn }()
	case <-ctx.Done():
		return "", contract.Errorf(contract.Unsent, "get a token: %w", ctx.Err())
	}
	g.mu.Lock()
	token := g.token
	g.mu.Unlock()
	if !token.Valid() {
		var bad *contract.Error
		if token, bad = g.fetch(ctx); bad != nil {
			return "", bad
		}
		g.mu.Lock()
		g.token = token
		g.mu.Unlock()
	}
	return "Bearer " + token.AccessToken, nil
}

// refused drops the token, so that a call that is tried again has another.
func (g *grant) refused() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.token = nil
}

// fetch gets a token. No error repeats what the endpoint says.
func (g *grant) fetch(ctx context.Context) (*oauth2.Token, *contract.Error) {
	client, err := g.client()
	if err != nil {
		return nil, contract.Errorf(contract.Unsent, "get a token: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, tokenTime)
	defer cancel()
	token, err := g.conf.Token(context.WithValue(ctx, oauth2.HTTPClient, client))
	var refused *oauth2.RetrieveError
	switch {
	case errors.As(err, &refused) && refused.Response != nil:
		status := refused.Response.StatusCode
		bad := contract.Errorf(contract.Unsent, "get a token: the endpoint answers with HTTP status %d", status)
		switch status {
		case http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden:
			bad.Kind = contract.Auth
		case http.StatusTooManyRequests, http.StatusServiceUnavailable:
			bad.Kind = contract.Throttled
			bad.RetryAfterMS = retryAfter(refused.Response.Header.Get("Retry-After"), time.Now()).Milliseconds()
		}
		return nil, bad
	case err != nil:
		bad := contract.Errorf(contract.Unsent, "get a token: the endpoint cannot be reached, or its answer read")
		bad.Cause = err
		return nil, bad
	case !visible(token.AccessToken, maxToken) || token.Type() != "Bearer":
		return nil, contract.Errorf(contract.Unsent, "get a token: it is not a bearer token of at most %d visible ASCII characters", maxToken)
	}
	until := token.Expiry
	if !until.IsZero() {
		until = until.Add(leeway)
	}
	g.issued(token.AccessToken, until)
	return token, nil
}
