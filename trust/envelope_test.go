package trust

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"math/big"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPAE(t *testing.T) {
	require.Equal(t, "DSSEv1 29 http://example.com/HelloWorld 11 hello world", string(PAE("http://example.com/HelloWorld", []byte("hello world"))))
	require.Equal(t, "DSSEv1 0  0 ", string(PAE("", nil)))
	require.Equal(t, "DSSEv1 2 ö 1 \x00", string(PAE("ö", []byte{0})), "lengths are in bytes")
}

// TestVector is the test vector of the specification: P-256, r and s raw.
func TestVector(t *testing.T) {
	big10 := func(s string) *big.Int {
		n, ok := new(big.Int).SetString(s, 10)
		require.True(t, ok)
		return n
	}
	point := append([]byte{4}, append(big10("46950820868899156662930047687818585632848591499744589407958293238635476079160").FillBytes(make([]byte, 32)),
		big10("5640078356564379163099075877009565129882514886557779369047442380624545832820").FillBytes(make([]byte, 32))...)...)
	pub, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), point)
	require.NoError(t, err)
	der, err := x509.MarshalPKIXPublicKey(pub)
	require.NoError(t, err)
	key, err := ParsePublic(base64.StdEncoding.EncodeToString(der))
	require.NoError(t, err)
	e, err := ParseEnvelope([]byte(`{"payload": "aGVsbG8gd29ybGQ=", "payloadType": "http://example.com/HelloWorld",
		"signatures": [{"sig": "A3JqsQGtVsJ2O2xqrI5IcnXip5GToJ3F+FnZ+O88SjtR6rDAajabZKciJTfUiHqJPcIAriEGAHTVeCUjW2JIZA=="}]}`), "http://example.com/HelloWorld")
	require.NoError(t, err)
	require.Equal(t, "hello world", string(e.Payload))
	require.Equal(t, []int{0}, e.By([]Public{key}))
	e.Payload = []byte("hello World")
	require.Empty(t, e.By([]Public{key}))
}

func p256(t testing.TB) *Key {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	der, err := x509.MarshalPKCS8PrivateKey(private)
	require.NoError(t, err)
	k, err := ParseKey(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
	require.NoError(t, err)
	return k
}

func ed(t testing.TB) *Key {
	t.Helper()
	k, _, err := NewKey()
	require.NoError(t, err)
	return k
}

func public(t testing.TB, k *Key) Public {
	t.Helper()
	p, err := ParsePublic(k.Public())
	require.NoError(t, err)
	return p
}

func TestEnvelope(t *testing.T) {
	for _, k := range []*Key{ed(t), p256(t)} {
		e := &Envelope{Type: "x", Payload: []byte("payload")}
		require.NoError(t, e.Sign(k))
		require.NoError(t, e.Sign(k), "again")
		require.Len(t, e.Signatures, 1, "one key signs once")
		raw, err := e.Encode()
		require.NoError(t, err)
		again, err := ParseEnvelope(raw, "x")
		require.NoError(t, err)
		require.Equal(t, e, again)
		require.Equal(t, []int{1}, again.By([]Public{public(t, ed(t)), public(t, k)}))

		again.Signatures[0].KeyID = "somebody else"
		require.Equal(t, []int{0}, again.By([]Public{public(t, k)}), "the key id is a hint only")
		again.Signatures = append(again.Signatures, again.Signatures[0])
		require.Equal(t, []int{0}, again.By([]Public{public(t, k)}), "a signature that is there twice counts once")
		again.Type = "y"
		require.Empty(t, again.By([]Public{public(t, k)}), "the type is signed")
		require.NotContains(t, fmt.Sprintf("%v %+v %#v", k, k, k), "PRIVATE")
	}
}

func TestEnvelopeRefuses(t *testing.T) {
	const sig = `{"sig":"AAAA"}`
	for name, raw := range map[string]string{
		"unknown field":          `{"payload":"","payloadType":"x","signatures":[` + sig + `],"more":1}`,
		"another case":           `{"Payload":"","payloadType":"x","signatures":[` + sig + `]}`,
		"a field twice":          `{"payload":"","payload":"AAAA","payloadType":"x","signatures":[` + sig + `]}`,
		"another type":           `{"payload":"","payloadType":"y","signatures":[` + sig + `]}`,
		"no signatures":          `{"payload":"","payloadType":"x","signatures":[]}`,
		"many signatures":        `{"payload":"","payloadType":"x","signatures":[` + strings.Repeat(sig+",", MaxSignatures) + sig + `]}`,
		"URL-safe base64":        `{"payload":"_-8=","payloadType":"x","signatures":[` + sig + `]}`,
		"no padding":             `{"payload":"AA","payloadType":"x","signatures":[` + sig + `]}`,
		"stray bits":             `{"payload":"AB==","payloadType":"x","signatures":[` + sig + `]}`,
		"line end in the base64": `{"payload":"AAAA\n","payloadType":"x","signatures":[` + sig + `]}`,
		"signature not base64":   `{"payload":"","payloadType":"x","signatures":[{"sig":"!"}]}`,
		"empty signature":        `{"payload":"","payloadType":"x","signatures":[{"sig":""}]}`,
		"data after it":          `{"payload":"","payloadType":"x","signatures":[` + sig + `]} {}`,
		"too large":              `{"payload":"` + strings.Repeat("AAAA", MaxEnvelope/4) + `","payloadType":"x","signatures":[` + sig + `]}`,
		"not JSON":               `-----BEGIN`,
	} {
		_, err := ParseEnvelope([]byte(raw), "x")
		require.ErrorIs(t, err, ErrInvalid, name)
	}
}

func TestKeys(t *testing.T) {
	other, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	require.NoError(t, err)
	der, err := x509.MarshalPKIXPublicKey(other.Public())
	require.NoError(t, err)
	for _, text := range []string{"", "AAAA", base64.StdEncoding.EncodeToString(der), ed(t).Public() + "\n", strings.Repeat("A", 4000)} {
		_, err := ParsePublic(text)
		require.ErrorIs(t, err, ErrInvalid)
	}
	_, err = FromSigner(other)
	require.ErrorIs(t, err, ErrInvalid)
	for _, secret := range []string{"", "x", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", strings.Repeat("x", 5000)} {
		_, err := ParseKey([]byte(secret))
		require.Error(t, err)
	}
	k := p256(t)
	require.False(t, public(t, k).Verify([]byte("m"), make([]byte, 64)), "r and s of 0")
}
