package mcp

import (
	"cmp"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"time"

	"chimera.ai/engine/contract"
)

// leeway is how much longer than it says a token may be accepted, since clocks differ.
const leeway = time.Minute

// credential returns what says who asks, or nil if nothing does but TLS and headers. issued is told
// its tokens.
func (s Server) credential(issued func(token string, until time.Time)) (credential, error) {
	switch {
	case s.JWT != nil:
		return newMinter(*s.JWT, s.URL, issued)
	case s.OAuth != nil:
		return newGrant(s, issued)
	}
	return nil, nil
}

// minter signs a JSON Web Token (RFC 7519) for each request.
type minter struct {
	conf JWT
	key  crypto.Signer
	// header is the encoded JOSE header.
	header string
	issued func(token string, until time.Time)
	// agent is on whose behalf the tokens are used, or "".
	agent string
}

// of returns a minter of tokens that name the agent.
func (m *minter) of(agent string) credential {
	own := *m
	own.agent = agent
	return &own
}

// defaultLifetime is how long a token is good: a request is one moment, and clocks differ.
const defaultLifetime = time.Minute

func newMinter(conf JWT, url string, issued func(string, time.Time)) (*minter, error) {
	key, err := signer(conf.Key)
	if err != nil {
		return nil, err
	}
	if conf.Issuer == "" {
		return nil, errors.New("its tokens have no issuer (jwt.issuer)")
	}
	conf.Key = ""
	conf.Subject, conf.Audience = cmp.Or(conf.Subject, conf.Issuer), cmp.Or(conf.Audience, url)
	conf.Lifetime = cmp.Or(conf.Lifetime, defaultLifetime)
	algorithm := "EdDSA"
	if _, ok := key.(*ecdsa.PrivateKey); ok {
		algorithm = "ES256"
	}
	header, err := json.Marshal(struct {
		Algorithm string `json:"alg"`
		Type      string `json:"typ"`
		KeyID     string `json:"kid,omitempty"`
	}{algorithm, "JWT", conf.KeyID})
	if err != nil {
		return nil, err
	}
	return &minter{conf: conf, key: key, header: base64.RawURLEncoding.EncodeToString(header), issued: issued}, nil
}

// signer reads a private key. Its error does not repeat it.
func signer(text string) (crypto.Signer, error) {
	wrong := errors.New("the key of its tokens (jwt.key) is not an Ed25519 or P-256 key in PEM (PKCS #8, PRIVATE KEY)")
	block, _ := pem.Decode([]byte(text))
	if block == nil || block.Type != "PRIVATE KEY" {
		return nil, wrong
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, wrong
	}
	switch key := key.(type) {
	case ed25519.PrivateKey:
		return key, nil
	case *ecdsa.PrivateKey:
		if key.Curve == elliptic.P256() {
			return key, nil
		}
	}
	return nil, wrong
}

func (m *minter) authorization(context.Context) (string, *contract.Error) {
	now := time.Now()
	token, err := m.mint(now)
	if err != nil {
		return "", contract.Errorf(contract.Unsent, "sign a token: %w", err)
	}
	m.issued(token, now.Add(m.conf.Lifetime+leeway))
	return "Bearer " + token, nil
}

// refused changes nothing: the next request has another token anyway.
func (m *minter) refused() {}

// actor is the claim act (RFC 8693, section 4.1): sub is whose rights count, and the agent acts with
// them. A server that does not know the claim still knows sub.
type actor struct {
	Subject string `json:"sub"`
}

func (m *minter) mint(now time.Time) (string, error) {
	var by *actor
	if m.agent != "" {
		by = &actor{m.agent}
	}
	claims, err := json.Marshal(struct {
		Issuer   string `json:"iss"`
		Subject  string `json:"sub"`
		Audience string `json:"aud"`
		IssuedAt int64  `json:"iat"`
		Expires  int64  `json:"exp"`
		ID       string `json:"jti"`
		Actor    *actor `json:"act,omitempty"`
	}{m.conf.Issuer, m.conf.Subject, m.conf.Audience, now.Unix(), now.Add(m.conf.Lifetime).Unix(), rand.Text(), by})
	if err != nil {
		return "", err
	}
	signed := m.header + "." + base64.RawURLEncoding.EncodeToString(claims)
	var signature []byte
	switch key := m.key.(type) {
	case *ecdsa.PrivateKey:
		// RFC 7518, section 3.4: two numbers of 32 bytes.
		digest := sha256.Sum256([]byte(signed))
		r, s, err := ecdsa.Sign(rand.Reader, key, digest[:])
		if err != nil {
			return "", err
		}
		signature = s.FillBytes(make([]byte, 64))
		r.FillBytes(signature[:32])
	default:
		if signature, err = key.Sign(nil, []byte(signed), crypto.Hash(0)); err != nil {
			return "", err
		}
	}
	return signed + "." + base64.RawURLEncoding.EncodeToString(signature), nil
}
