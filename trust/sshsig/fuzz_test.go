package sshsig

import (
	"bytes"
	"crypto/x509"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"
)

// seed makes the same keys in every process that shares a corpus.
var seed = bytes.Repeat([]byte{7}, 32)

// FuzzParseKey: a key that is read has one text, which reads as the same key.
func FuzzParseKey(f *testing.F) {
	for _, algorithm := range algorithms {
		text := line(algorithm, seededSigner(f, algorithm, seed).wire())
		f.Add(text)
		f.Add(text + " alice@laptop\r\n")
		f.Add("restrict " + text)
		f.Add(strings.TrimRight(text, "="))
	}
	f.Add(line(ssh.KeyAlgoED25519, stringsOf(ssh.KeyAlgoED25519, string(make([]byte, 32)))))
	f.Add("")
	f.Fuzz(func(t *testing.T, text string) {
		k, err := ParseKey(text)
		if err != nil {
			require.ErrorIs(t, err, ErrInvalid)
			require.Equal(t, Key{}, k)
			return
		}
		again, err := ParseKey(k.String())
		require.NoError(t, err)
		require.Equal(t, k, again)
		require.Contains(t, text, k.algorithm)
		require.Equal(t, k.Hardware(), strings.HasPrefix(k.Application(), applicationPrefix))
		_, err = k.cose()
		require.NoError(t, err)
		require.ErrorIs(t, k.Verify([]byte(text), []byte(text)), ErrInvalid)
	})
}

// FuzzVerify: of all bytes, only those verify that the key has made. Ed25519 makes one
// signature of a message, so nothing else may be taken for it.
func FuzzVerify(f *testing.F) {
	software, device := seededSigner(f, ssh.KeyAlgoED25519, seed), seededSigner(f, ssh.KeyAlgoSKED25519, seed)
	keys := map[*signer]Key{software: software.public(f), device: device.public(f)}
	for s := range keys {
		raw := s.seal(f, message)
		f.Add(raw)
		f.Add(Armor(raw))
		f.Add(append(bytes.Clone(raw), 0))
		f.Add(s.seal(f, message, func(b *blob) { b.Namespace = "file" }))
		f.Add(s.seal(f, message, func(b *blob) { b.Reserved = "x" }))
		f.Add(s.seal(f, message, func(b *blob) { b.Hash = "sha256" }))
	}
	f.Add(seededSigner(f, ssh.KeyAlgoSKECDSA256, seed).seal(f, message))
	f.Add(seededSigner(f, ssh.KeyAlgoECDSA256, seed).seal(f, message))
	f.Fuzz(func(t *testing.T, raw []byte) {
		for s, k := range keys {
			if err := k.Verify(message, raw); err == nil {
				require.Equal(t, s.seal(t, message), raw)
			} else {
				require.ErrorIs(t, err, ErrInvalid)
			}
		}
		// Whatever key it names: nothing panics.
		var b blob
		if ssh.Unmarshal(raw, &b) == nil {
			if k, err := newKey([]byte(b.PublicKey)); err == nil {
				_ = k.Verify(message, raw)
			}
		}
		if inner, err := Unarmor(raw); err == nil {
			again, err := Unarmor(Armor(inner))
			require.NoError(t, err)
			require.Equal(t, inner, again)
		}
	})
}

// FuzzAttestation: nothing panics, and what is accepted says what the device has said.
func FuzzAttestation(f *testing.F) {
	m := newMaker(f, 1)
	roots := []*x509.Certificate{m.certificate}
	other, _ := newEnrolment(f, m, seededSigner(f, ssh.KeyAlgoSKECDSA256, seed)).write(f)
	f.Add(other, challenge)
	f.Add(append(append(stringsOf(attestationV0, "cert", "sig"), 0, 0, 0, 0), stringsOf("")...), challenge)
	f.Add(append(append(stringsOf(attestationV1, "", "", ""), 0, 0, 0, 0), stringsOf("")...), challenge)
	s := seededSigner(f, ssh.KeyAlgoSKED25519, seed)
	k := s.public(f)
	e := newEnrolment(f, m, s)
	e.flags |= flagExtensions
	e.extensions = append([]byte{0xa1, 0x6b}, "credProtect\x03"...)
	valid, _ := e.write(f)
	said, err := ParseAttestation(valid)
	require.NoError(f, err)
	f.Add(valid, challenge)
	f.Fuzz(func(t *testing.T, file, asked []byte) {
		if err := k.Attested(file, asked, roots, made); err != nil {
			require.ErrorIs(t, err, ErrInvalid)
		} else {
			a, err := ParseAttestation(file)
			require.NoError(t, err)
			require.Equal(t, said.AuthData, a.AuthData)
			require.Equal(t, said.Certificate, a.Certificate)
			require.Equal(t, challenge, asked)
		}
		if a, err := ParseAttestation(file); err == nil && len(a.AuthData) > 0 {
			if d, err := parseAuthData(a.AuthData); err == nil {
				_ = d.check(k)
			}
		}
		if rest, ok := cborSkip(file, cborDepth); ok {
			require.Less(t, len(rest), len(file))
		}
	})
}
