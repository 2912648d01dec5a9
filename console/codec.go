// Package console is Chimera's HTTP server. It has the codec endpoint, which opens sealed
// and large payloads for people who look at runs in the Temporal UI or with Temporal's
// command line, and the guardian's, which tells other judges what it would decide.
//
//	POST /v1/guardian/evaluate   an action in; the decision out, which is advice
//
//	POST /codec/decode     the protocol of Temporal's remote codecs: payloads in, opened payloads out
//	POST /codec/download   the same, for large values that the UI asks for one by one
//	GET  /codec            a page that takes the token, for browsers
//	POST /codec            the form of that page; the response sets a cookie
//
// Whoever has the token reads every payload of the deployment, and every blob
// whose digest they know. The endpoint seals nothing and decides nothing. A command
// line sends the token (Authorization: Bearer). The UI has no field for one: its user
// opens the page once, and lets the UI send credentials to the endpoint.
package console

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"
	"google.golang.org/protobuf/encoding/protojson"

	"chimera.ai/engine/blob"
	"chimera.ai/engine/payload"
)

const (
	// MinToken is the least length of a token, in bytes.
	MinToken = 16
	// maxBody bounds a request, in bytes: the UI asks for one event at a time.
	maxBody = 8 << 20
	// maxPayloads bounds the payloads of a request.
	maxPayloads = 1000
	// maxOpened bounds what a request opens, and what it reads from the store, in bytes.
	maxOpened = 32 << 20
	// maxRequests bounds the requests that are served at the same time, and so the
	// memory that they take.
	maxRequests = 4
)

// Paths of the codec endpoint.
const (
	codecRoot = "/codec"
	// CodecDecode is what Temporal's clients call; they are told the path without
	// its last element.
	CodecDecode   = codecRoot + "/decode"
	codecDownload = codecRoot + "/download"
)

// Codec is the codec endpoint.
type Codec struct {
	// Token authorizes callers; see [MinToken].
	Token string
	// Origins are the origins whose pages may call, such as "https://temporal.example.com".
	Origins []string
	// Keys opens what is sealed, or is nil.
	Keys *payload.Keyring
	// Blobs holds the large values.
	Blobs blob.Store
	// Now is the clock for the page's cookies; nil is the system's.
	Now func() time.Time
}

// Handler checks the settings and returns the endpoint.
func (c Codec) Handler() (http.Handler, error) {
	if len(c.Token) < MinToken {
		return nil, fmt.Errorf("the codec endpoint's token has fewer than %d characters", MinToken)
	}
	for _, origin := range c.Origins {
		u, err := url.Parse(origin)
		if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.Scheme+"://"+u.Host != strings.ToLower(origin) {
			return nil, fmt.Errorf("%.200q is not an origin: it is a scheme, a host and perhaps a port, in small letters, such as https://temporal.example.com", origin)
		}
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return &codec{Codec: c, slots: make(chan struct{}, maxRequests)}, nil
}

type codec struct {
	Codec
	slots chan struct{}
}

// ServeHTTP serves authorized requests, and refuses others before it reads their bodies.
func (c *codec) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	switch r.URL.Path {
	case codecRoot:
		c.page(w, r)
		return
	case codecRoot + "/": // the page's address is the endpoint's, to the letter
		http.Redirect(w, r, codecRoot, http.StatusPermanentRedirect)
		return
	}
	if r.URL.Path != CodecDecode && r.URL.Path != codecDownload {
		http.NotFound(w, r)
		return
	}
	h.Add("Vary", "Origin")
	if origin := r.Header.Get("Origin"); origin != "" {
		if !slices.Contains(c.Origins, origin) {
			http.Error(w, "this origin may not ask (console.codec.origins)", http.StatusForbidden)
			return
		}
		h.Set("Access-Control-Allow-Origin", origin)
		h.Set("Access-Control-Allow-Credentials", "true")
	}
	switch r.Method {
	case http.MethodOptions:
		h.Set("Access-Control-Allow-Methods", http.MethodPost)
		h.Set("Access-Control-Allow-Headers", "Authorization, Content-Type, X-Namespace")
		h.Set("Access-Control-Max-Age", "600")
		w.WriteHeader(http.StatusNoContent)
		return
	case http.MethodPost:
	default:
		h.Set("Allow", "OPTIONS, POST")
		http.Error(w, "use POST to send payloads", http.StatusMethodNotAllowed)
		return
	}
	if !c.known(r) {
		h.Set("WWW-Authenticate", `Bearer realm="chimera"`)
		http.Error(w, "the token is missing or wrong", http.StatusUnauthorized)
		return
	}
	select {
	case c.slots <- struct{}{}:
		defer func() { <-c.slots }()
	case <-r.Context().Done():
		return
	}
	c.open(w, r)
}

// known reports whether a request has the token, or a cookie that the page set for it.
func (c *codec) known(r *http.Request) bool {
	if token, ok := bearer(r); ok {
		return c.right(token)
	}
	return c.visited(r)
}

// bearer returns the token that a request has in its header.
func bearer(r *http.Request) (token string, ok bool) {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	return token, strings.EqualFold(scheme, "bearer")
}

// right compares a token in constant time.
func (c *codec) right(token string) bool { return equal(c.Token, token) }

func equal(want, have string) bool {
	a, b := sha256.Sum256([]byte(want)), sha256.Sum256([]byte(have))
	return subtle.ConstantTimeCompare(a[:], b[:]) == 1
}

// body reads the body of a request, of at most limit bytes. If it cannot, it has answered.
func body(w http.ResponseWriter, r *http.Request, limit int64) (raw []byte, ok bool) {
	raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	var large *http.MaxBytesError
	if errors.As(err, &large) {
		http.Error(w, "the request is too large", http.StatusRequestEntityTooLarge)
	}
	return raw, err == nil // any other error means that the caller is gone
}

// open reads the request and lets the SDK's handler answer it, which knows the form of
// references to the store. That handler reads whatever it is given, so bounds come
// first.
func (c *codec) open(w http.ResponseWriter, r *http.Request) {
	raw, ok := body(w, r, maxBody)
	if !ok {
		return
	}
	var asked commonpb.Payloads
	if err := protojson.Unmarshal(raw, &asked); err != nil {
		http.Error(w, "the request is not payloads in JSON", http.StatusBadRequest)
		return
	}
	if len(asked.GetPayloads()) > maxPayloads {
		http.Error(w, "the request has too many payloads", http.StatusRequestEntityTooLarge)
		return
	}
	handler, err := converter.NewPayloadHTTPHandler(converter.PayloadHTTPHandlerOptions{
		PreStorageCodecs: []converter.PayloadCodec{payload.Codec{Keys: c.Keys, Limit: maxOpened}},
		ExternalStorage:  payload.NewStorage(payload.Bounded(c.Blobs, maxOpened), payload.Sealing{}),
	})
	if err != nil {
		http.Error(w, "the endpoint is not set up", http.StatusInternalServerError)
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(raw))
	handler.ServeHTTP(w, r)
}
