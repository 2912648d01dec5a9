package trust

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"encoding/pem"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/plan"
	"chimera.ai/engine/schemas"
)

// FuzzBootstrap: the root of a deployment is refused, or says the same to whoever
// reads it, in whatever order its fields stand.
func FuzzBootstrap(f *testing.F) {
	w := newWorld(f)
	raw, err := w.b.Encode()
	require.NoError(f, err)
	f.Add(raw)
	f.Add(bytes.Replace(raw, []byte(`"prod"`), []byte(`"dev"`), 1))
	f.Add(bytes.Replace(raw, []byte(`"quorum":2`), []byte(`"quorum":2.0`), 1))
	f.Add(bytes.Replace(raw, []byte(`{"admins"`), []byte(`{"Quorum":1,"admins"`), 1))
	f.Add(bytes.Replace(raw, []byte(`"person":"`), []byte(`"person":" `), 1))
	f.Fuzz(func(t *testing.T, raw []byte) {
		b, err := ParseBootstrap(raw)
		if err != nil {
			require.ErrorIs(t, err, ErrInvalid)
			return
		}
		v, err := schemas.Decode(raw)
		require.NoError(t, err)
		canonical, err := plan.Canonical(v)
		require.NoError(t, err)
		require.Equal(t, plan.DigestOf(canonical), b.Digest())
		again, err := Pinned(raw, b.Digest())
		require.NoError(t, err)
		require.Equal(t, b, again)
		_, err = Pinned(raw, plan.DigestOf([]byte("x")))
		require.ErrorIs(t, err, ErrInvalid)
		require.GreaterOrEqual(t, b.Quorum, 1)
		if b.Audience == Prod {
			require.GreaterOrEqual(t, b.Quorum, 2)
		}
		_, _ = VerifyStatements(b, [][]byte{raw})
	})
}

// FuzzKey: a key has one text, and an error about a secret key does not contain it.
func FuzzKey(f *testing.F) {
	k, secret, err := NewKey()
	require.NoError(f, err)
	f.Add(secret)
	f.Add([]byte(k.Public()))
	der, err := base64.StdEncoding.DecodeString(k.Public())
	require.NoError(f, err)
	f.Add(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
	for _, curve := range []elliptic.Curve{elliptic.P256(), elliptic.P384()} {
		private, err := ecdsa.GenerateKey(curve, rand.Reader)
		require.NoError(f, err)
		k, err := FromSigner(private)
		if err == nil {
			f.Add([]byte(k.Public()))
		}
	}
	f.Add([]byte(strings.TrimRight(k.Public(), "=")))
	f.Add([]byte(k.Public() + "\n"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if p, err := ParsePublic(string(raw)); err == nil {
			require.Equal(t, string(raw), p.String())
			require.False(t, p.Verify([]byte("m"), raw))
			require.False(t, p.Verify([]byte("m"), make([]byte, 64)))
		}
		if p, err := ParsePublicPEM(raw); err == nil {
			again, err := ParsePublic(p.String())
			require.NoError(t, err)
			require.Equal(t, p.ID(), again.ID())
		}
		k, err := ParseKey(raw)
		if err != nil {
			if body := strings.TrimSpace(string(raw)); len(body) > 12 {
				require.NotContains(t, err.Error(), body)
			}
			return
		}
		p, err := ParsePublic(k.Public())
		require.NoError(t, err)
		sig, err := k.sign([]byte("m"))
		require.NoError(t, err)
		require.True(t, p.Verify([]byte("m"), sig))
		require.False(t, p.Verify([]byte("n"), sig))
	})
}
