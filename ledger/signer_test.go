package ledger_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"errors"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/ledger"
)

// elsewhere is a private key that lies somewhere else.
type elsewhere struct {
	ed25519.PrivateKey
	sign func(sig []byte) ([]byte, error)
}

func (e *elsewhere) Sign(r io.Reader, message []byte, o crypto.SignerOpts) ([]byte, error) {
	sig, err := e.PrivateKey.Sign(r, message, o)
	if err != nil || e.sign == nil {
		return sig, err
	}
	return e.sign(sig)
}

// TestKeyOfASigner: it signs like any other, and nothing that does not verify.
func TestKeyOfASigner(t *testing.T) {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	signer := &elsewhere{PrivateKey: private}
	key, err := ledger.FromSigner("example.com/log", signer)
	require.NoError(t, err)
	require.Equal(t, "example.com/log", key.Name())
	c := grow(t, ledger.NewTree(), 3)
	c.Origin = key.Name()
	raw, err := key.Sign(c)
	require.NoError(t, err)
	opened, err := ledger.Signers{Log: key.Public()}.Open(raw)
	require.NoError(t, err)
	require.Equal(t, c, opened.Checkpoint)

	away := errors.New("away")
	signer.sign = func([]byte) ([]byte, error) { return nil, away }
	_, err = key.Sign(c)
	require.ErrorIs(t, err, away)
	signer.sign = func(sig []byte) ([]byte, error) { sig[3] ^= 1; return sig, nil }
	_, err = key.Sign(c)
	require.ErrorContains(t, err, "does not verify")

	for _, name := range []string{"", "a name", "a+b"} {
		_, err = ledger.FromSigner(name, private)
		require.ErrorContains(t, err, "is not the name of a log", name)
	}
	other, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	_, err = ledger.FromSigner("example.com/log", other)
	require.ErrorContains(t, err, "not an Ed25519 key")
}
