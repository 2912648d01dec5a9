package console_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"
	"google.golang.org/protobuf/encoding/protojson"

	"chimera.ai/engine/blob"
	"chimera.ai/engine/console"
	"chimera.ai/engine/contract"
	"chimera.ai/engine/payload"
)

const (
	token  = "0123456789abcdef-token"
	origin = "https://temporal.example.com"
)

// stand is an endpoint with keys and a store.
type stand struct {
	*httptest.Server
	sealing payload.Sealing
	blobs   blob.Store
	now     time.Time
}

func open(t *testing.T) *stand {
	t.Helper()
	key, err := payload.NewKey("k1")
	require.NoError(t, err)
	ring, err := payload.ParseKeys([]string{key})
	require.NoError(t, err)
	dir, err := blob.Open(t.TempDir())
	require.NoError(t, err)
	s := &stand{sealing: payload.Sealing{Keys: ring, Compress: true}, blobs: dir, now: time.Unix(1_800_000_000, 0)}
	handler, err := console.Codec{Token: token, Origins: []string{origin}, Keys: ring, Blobs: dir, Now: func() time.Time { return s.now }}.Handler()
	require.NoError(t, err)
	s.Server = httptest.NewServer(handler)
	t.Cleanup(s.Close)
	return s
}

// sealed returns a payload as an activity's worker writes it.
func (s *stand) sealed(t *testing.T, value any) *commonpb.Payload {
	t.Helper()
	c := converter.WithDataConverterSerializationContext(payload.NewConverter(payload.NewPlans(s.blobs, 0), s.sealing),
		converter.ActivitySerializationContext{Namespace: "ns", WorkflowID: "run", ActivityType: "files/read"})
	p, err := c.ToPayload(value)
	require.NoError(t, err)
	return p
}

// stored puts a payload into the store and returns the reference that stands in
// the history.
func (s *stand) stored(t *testing.T, p *commonpb.Payload) *commonpb.Payload {
	t.Helper()
	claims, err := payload.NewStorage(s.blobs, s.sealing).Drivers[0].Store(converter.StorageDriverStoreContext{Context: t.Context()}, []*commonpb.Payload{p})
	require.NoError(t, err)
	data, err := json.Marshal(map[string]any{"driverName": "chimera-blob", "claimData": claims[0].ClaimData})
	require.NoError(t, err)
	return &commonpb.Payload{Data: data, Metadata: map[string][]byte{
		"encoding": []byte("json/protobuf"), "messageType": []byte("temporal.api.sdk.v1.ExternalStorageReference"),
	}}
}

func body(t *testing.T, ps ...*commonpb.Payload) []byte {
	t.Helper()
	b, err := protojson.Marshal(&commonpb.Payloads{Payloads: ps})
	require.NoError(t, err)
	return b
}

// call sends a request; change may alter it. It has the token.
func (s *stand) call(t *testing.T, method, path string, body []byte, change func(*http.Request)) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, s.URL+path, bytes.NewReader(body))
	require.NoError(t, err)
	r.Header.Set("Authorization", "Bearer "+token)
	if change != nil {
		change(r)
	}
	answer, err := s.Client().Do(r)
	require.NoError(t, err)
	b, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	return answer, string(b)
}

func TestTheEndpointOpensPayloads(t *testing.T) {
	s := open(t)
	outcome := contract.Outcome{Values: []contract.Value{contract.Value(`"` + strings.Repeat("long ", 10_000) + `"`)}}
	plain := &commonpb.Payload{Metadata: map[string][]byte{"encoding": []byte("json/plain")}, Data: []byte(`"plain"`)}
	answer, text := s.call(t, http.MethodPost, console.CodecDecode, body(t, s.sealed(t, "small"), s.stored(t, s.sealed(t, outcome)), plain), nil)
	require.Equal(t, http.StatusOK, answer.StatusCode, text)
	require.Equal(t, "no-store", answer.Header.Get("Cache-Control"))
	var opened commonpb.Payloads
	require.NoError(t, protojson.Unmarshal([]byte(text), &opened))
	require.Equal(t, `"small"`, string(opened.GetPayloads()[0].GetData()))
	var back contract.Outcome
	require.NoError(t, json.Unmarshal(opened.GetPayloads()[1].GetData(), &back))
	require.Equal(t, outcome, back)
	require.Equal(t, `"plain"`, string(opened.GetPayloads()[2].GetData()))

	answer, text = s.call(t, http.MethodPost, "/codec/download", body(t, s.stored(t, s.sealed(t, outcome))), nil)
	require.Equal(t, http.StatusOK, answer.StatusCode, text)

	// Temporal's own client of the protocol.
	remote := converter.NewRemotePayloadCodec(converter.RemotePayloadCodecOptions{
		Endpoint: s.URL + "/codec", Client: *s.Client(),
		ModifyRequest: func(r *http.Request) error { r.Header.Set("Authorization", "Bearer "+token); return nil },
	})
	out, err := remote.Decode([]*commonpb.Payload{s.sealed(t, "once more")})
	require.NoError(t, err)
	require.Equal(t, `"once more"`, string(out[0].GetData()))
	_, err = remote.Encode([]*commonpb.Payload{plain})
	require.Error(t, err, "nothing is sealed here")
}

func TestTheEndpointRefuses(t *testing.T) {
	s := open(t)
	good := body(t, s.sealed(t, "secret"))
	many := make([]*commonpb.Payload, 1001)
	for i := range many {
		many[i] = new(commonpb.Payload)
	}
	big := s.stored(t, s.sealed(t, json.RawMessage(`"`+strings.Repeat("x", 9<<20)+`"`)))
	changed := s.sealed(t, "secret")
	changed.Data[len(changed.Data)-1] ^= 1
	for _, c := range []struct {
		name   string
		method string
		path   string
		body   []byte
		change func(*http.Request)
		want   int
	}{
		{"no token", "", "", good, func(r *http.Request) { r.Header.Del("Authorization") }, http.StatusUnauthorized},
		{"a wrong token", "", "", good, func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token+"x") }, http.StatusUnauthorized},
		{"a part of the token", "", "", good, func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token[:10]) }, http.StatusUnauthorized},
		{"an empty token", "", "", good, func(r *http.Request) { r.Header.Set("Authorization", "Bearer ") }, http.StatusUnauthorized},
		{"another scheme", "", "", good, func(r *http.Request) { r.SetBasicAuth("x", token) }, http.StatusUnauthorized},
		{"a made up cookie", "", "", good, func(r *http.Request) {
			r.Header.Del("Authorization")
			r.AddCookie(&http.Cookie{Name: "chimera-codec", Value: "9999999999.00"})
		}, http.StatusUnauthorized},
		{"another origin", "", "", good, func(r *http.Request) { r.Header.Set("Origin", "https://evil.example.com") }, http.StatusForbidden},
		{"a null origin", "", "", good, func(r *http.Request) { r.Header.Set("Origin", "null") }, http.StatusForbidden},
		{"an origin that only begins alike", "", "", good, func(r *http.Request) { r.Header.Set("Origin", origin+".evil.example.com") }, http.StatusForbidden},
		{"encoding", "", "/codec/encode", good, nil, http.StatusNotFound},
		{"another path", "", "/x/codec/decode", good, nil, http.StatusNotFound},
		{"the root", "", "/", good, nil, http.StatusNotFound},
		{"reading", http.MethodGet, "", nil, nil, http.StatusMethodNotAllowed},
		{"no payloads", "", "", []byte("hello"), nil, http.StatusBadRequest},
		{"too many", "", "", body(t, many...), nil, http.StatusRequestEntityTooLarge},
		{"too large", "", "", bytes.Repeat([]byte(" "), 9<<20), nil, http.StatusRequestEntityTooLarge},
		{"too much to open", "", "", body(t, big, big, big, big), nil, http.StatusBadRequest},
		{"changed", "", "", body(t, changed), nil, http.StatusBadRequest},
		{"a reference to nothing", "", "", body(t, &commonpb.Payload{Metadata: big.Metadata,
			Data: []byte(`{"driverName":"chimera-blob","claimData":{"digest":"../../etc/passwd"}}`)}), nil, http.StatusBadRequest},
	} {
		t.Run(c.name, func(t *testing.T) {
			method, path := c.method, c.path
			if method == "" {
				method = http.MethodPost
			}
			if path == "" {
				path = console.CodecDecode
			}
			answer, text := s.call(t, method, path, c.body, c.change)
			require.Equal(t, c.want, answer.StatusCode, text)
			require.NotContains(t, text, "secret")
			if c.want == http.StatusForbidden {
				require.Empty(t, answer.Header.Get("Access-Control-Allow-Origin"))
			}
		})
	}
}

func TestPagesOfTheUIMayAsk(t *testing.T) {
	s := open(t)
	answer, _ := s.call(t, http.MethodOptions, console.CodecDecode, nil, func(r *http.Request) {
		r.Header.Del("Authorization") // a preflight has none
		r.Header.Set("Origin", origin)
		r.Header.Set("Access-Control-Request-Method", "POST")
		r.Header.Set("Access-Control-Request-Headers", "content-type,x-namespace")
	})
	require.Equal(t, http.StatusNoContent, answer.StatusCode)
	require.Equal(t, origin, answer.Header.Get("Access-Control-Allow-Origin"))
	require.Equal(t, "true", answer.Header.Get("Access-Control-Allow-Credentials"))
	require.Contains(t, answer.Header.Get("Access-Control-Allow-Headers"), "X-Namespace")
	require.Equal(t, "Origin", answer.Header.Get("Vary"))

	answer, text := s.call(t, http.MethodPost, console.CodecDecode, body(t, s.sealed(t, "x")), func(r *http.Request) { r.Header.Set("Origin", origin) })
	require.Equal(t, http.StatusOK, answer.StatusCode, text)
	require.Equal(t, origin, answer.Header.Get("Access-Control-Allow-Origin"))
}

// TestABrowserVisitsThePage and may read then, until the cookie's end.
func TestABrowserVisitsThePage(t *testing.T) {
	s := open(t)
	send := func(token string) (*http.Response, string) {
		return s.call(t, http.MethodPost, "/codec", []byte(url.Values{"token": {token}}.Encode()), func(r *http.Request) {
			r.Header.Del("Authorization")
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		})
	}
	answer, text := s.call(t, http.MethodGet, "/codec", nil, nil)
	require.Equal(t, http.StatusOK, answer.StatusCode)
	require.Contains(t, text, "<form method=\"post\"")
	require.Contains(t, answer.Header.Get("Content-Security-Policy"), "default-src 'none'")
	require.Empty(t, answer.Cookies())
	answer, _ = send("wrong")
	require.Equal(t, http.StatusUnauthorized, answer.StatusCode)
	require.Empty(t, answer.Cookies())
	answer, _ = send(token)
	require.Len(t, answer.Cookies(), 1)
	cookie := answer.Cookies()[0]
	require.True(t, cookie.HttpOnly && cookie.Secure && cookie.SameSite == http.SameSiteStrictMode)
	require.NotContains(t, cookie.Value, token)

	read := func() int {
		answer, _ := s.call(t, http.MethodPost, console.CodecDecode, body(t, s.sealed(t, "x")), func(r *http.Request) {
			r.Header.Del("Authorization")
			r.Header.Set("Origin", origin)
			r.AddCookie(cookie)
		})
		return answer.StatusCode
	}
	require.Equal(t, http.StatusOK, read())
	s.now = s.now.Add(13 * time.Hour)
	require.Equal(t, http.StatusUnauthorized, read())
	cookie.Value = fmt.Sprint(s.now.Add(time.Hour).Unix()) + cookie.Value[strings.IndexByte(cookie.Value, '.'):]
	require.Equal(t, http.StatusUnauthorized, read(), "a later end is not believed")
}

func TestSettings(t *testing.T) {
	for _, c := range []struct {
		name  string
		codec console.Codec
		want  string
	}{
		{"no token", console.Codec{}, "fewer than 16"},
		{"a short token", console.Codec{Token: "short"}, "fewer than 16"},
		{"all origins", console.Codec{Token: token, Origins: []string{"*"}}, "not an origin"},
		{"a path", console.Codec{Token: token, Origins: []string{origin + "/"}}, "not an origin"},
		{"another scheme", console.Codec{Token: token, Origins: []string{"file://x"}}, "not an origin"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := c.codec.Handler()
			require.ErrorContains(t, err, c.want)
			require.NotContains(t, err.Error(), token)
		})
	}
}

func TestServe(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- console.Serve(ctx, l, http.NotFoundHandler()) }()
	answer, err := http.Get("http://" + l.Addr().String())
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	cancel()
	require.NoError(t, <-done)
	_, err = http.Get("http://" + l.Addr().String())
	require.Error(t, err)
}
