package sshsig

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/asn1"
	"encoding/binary"
	"io"
	"math/big"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"
)

// signer is a key of any algorithm, held in software: for a FIDO key it does what a
// device would do, with flags that tests choose.
type signer struct {
	algorithm   string
	key         crypto.Signer
	application string
	flags       byte
}

// newSigner makes a key. FIDO keys have the application "ssh:" and set the flags that an
// approval needs.
func newSigner(t testing.TB, algorithm string) *signer {
	t.Helper()
	seed := make([]byte, 32)
	_, err := rand.Read(seed)
	require.NoError(t, err)
	return seededSigner(t, algorithm, seed)
}

// seededSigner makes the key that follows from a seed of 32 bytes.
func seededSigner(t testing.TB, algorithm string, seed []byte) *signer {
	t.Helper()
	s := &signer{algorithm: algorithm}
	if algorithm == ssh.KeyAlgoED25519 || algorithm == ssh.KeyAlgoSKED25519 {
		s.key = ed25519.NewKeyFromSeed(seed)
	} else {
		s.key = onP256(t, seed)
	}
	if algorithm == ssh.KeyAlgoSKED25519 || algorithm == ssh.KeyAlgoSKECDSA256 {
		s.application, s.flags = "ssh:", flagPresent|flagVerified
	}
	return s
}

// onP256 returns the private key of that scalar, with a first bit of 0 to be below the order.
func onP256(t testing.TB, scalar []byte) *ecdsa.PrivateKey {
	t.Helper()
	scalar = bytes.Clone(scalar)
	scalar[0] &= 0x7f
	k, err := ecdsa.ParseRawPrivateKey(elliptic.P256(), scalar)
	require.NoError(t, err)
	return k
}

// wire returns the public key in wire format, without checking anything.
func (s *signer) wire() []byte {
	fields := []string{s.algorithm}
	switch p := s.key.Public().(type) {
	case ed25519.PublicKey:
		fields = append(fields, string(p))
	case *ecdsa.PublicKey:
		point, err := p.Bytes()
		if err != nil {
			panic(err)
		}
		fields = append(fields, "nistp256", string(point))
	}
	if s.application != "" {
		fields = append(fields, s.application)
	}
	return stringsOf(fields...)
}

// stringsOf encodes strings in wire format, one after the other.
func stringsOf(fields ...string) []byte {
	var b []byte
	for _, f := range fields {
		b = append(b, ssh.Marshal(struct{ S string }{f})...)
	}
	return b
}

func (s *signer) PublicKey() ssh.PublicKey {
	p, err := ssh.ParsePublicKey(s.wire())
	if err != nil {
		panic(err)
	}
	return p
}

func (s *signer) Sign(_ io.Reader, data []byte) (*ssh.Signature, error) {
	var rest []byte
	if s.application != "" {
		application, message := sha256.Sum256([]byte(s.application)), sha256.Sum256(data)
		rest = binary.BigEndian.AppendUint32([]byte{s.flags}, 7)
		data = slices.Concat(application[:], rest, message[:])
	}
	if k, ok := s.key.(ed25519.PrivateKey); ok {
		return &ssh.Signature{Format: s.algorithm, Blob: ed25519.Sign(k, data), Rest: rest}, nil
	}
	digest := sha256.Sum256(data)
	// Without randomness ECDSA is deterministic: one message has one signature.
	der, err := s.key.Sign(nil, digest[:], crypto.SHA256)
	if err != nil {
		return nil, err
	}
	var rs struct{ R, S *big.Int }
	if _, err := asn1.Unmarshal(der, &rs); err != nil {
		return nil, err
	}
	return &ssh.Signature{Format: s.algorithm, Blob: ssh.Marshal(rs), Rest: rest}, nil
}

func (s *signer) public(t testing.TB) Key {
	t.Helper()
	k, err := newKey(s.wire())
	require.NoError(t, err)
	return k
}

// blob is a signature as PROTOCOL.sshsig has it, section 2.
type blob struct {
	Magic                                           [6]byte
	Version                                         uint32
	PublicKey, Namespace, Reserved, Hash, Signature string
}

// seal signs a message. Edits take place before: namespace, reserved field and hash are
// signed as they are then.
func (s *signer) seal(t testing.TB, message []byte, edits ...func(*blob)) []byte {
	t.Helper()
	b := blob{Version: 1, PublicKey: string(s.wire()), Namespace: Namespace, Hash: "sha512"}
	copy(b.Magic[:], magic)
	for _, edit := range edits {
		edit(&b)
	}
	digest := sha512.Sum512(message)
	hash := string(digest[:])
	if b.Hash == "sha256" {
		digest := sha256.Sum256(message)
		hash = string(digest[:])
	}
	sig, err := s.Sign(rand.Reader, append([]byte(magic), stringsOf(b.Namespace, b.Reserved, b.Hash, hash)...))
	require.NoError(t, err)
	b.Signature = string(ssh.Marshal(sig))
	return ssh.Marshal(b)
}

// patch changes a signature after it was made.
func patch(t testing.TB, raw []byte, edit func(*blob)) []byte {
	t.Helper()
	var b blob
	require.NoError(t, ssh.Unmarshal(raw, &b))
	edit(&b)
	return ssh.Marshal(b)
}

// patchInner changes the signature inside a signature after it was made.
func patchInner(t testing.TB, raw []byte, edit func(*ssh.Signature)) []byte {
	t.Helper()
	return patch(t, raw, func(b *blob) {
		var s ssh.Signature
		require.NoError(t, ssh.Unmarshal([]byte(b.Signature), &s))
		edit(&s)
		b.Signature = string(ssh.Marshal(s))
	})
}
