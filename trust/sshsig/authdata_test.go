package sshsig

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"
)

func TestParseAttestation(t *testing.T) {
	reserved := func(b []byte) []byte { return append(append(b, 0, 0, 0, 0), stringsOf("")...) }
	a, err := ParseAttestation(reserved(stringsOf(attestationV1, "cert", "sig", "\x44data")))
	require.NoError(t, err)
	require.Equal(t, &Attestation{1, []byte("cert"), []byte("sig"), []byte("data")}, a)

	old := reserved(stringsOf(attestationV0, "cert", "sig"))
	a, err = ParseAttestation(old)
	require.NoError(t, err)
	require.Equal(t, &Attestation{0, []byte("cert"), []byte("sig"), nil}, a)
	err = newSigner(t, ssh.KeyAlgoSKECDSA256).public(t).Attested(old, challenge, nil, made)
	require.ErrorIs(t, err, ErrInvalid, "it says nothing about the key")
	require.ErrorContains(t, err, "no authenticator data")

	raw := reserved(stringsOf(attestationV1, "cert", "sig", "\x44data"))
	a, err = ParseAttestation(raw)
	require.NoError(t, err)
	clear(raw)
	require.Equal(t, []byte("cert"), a.Certificate, "it shares no memory with its input")

	for name, file := range map[string][]byte{
		"nothing":           nil,
		"format alone":      stringsOf(attestationV1),
		"v00 as v01":        reserved(stringsOf(attestationV1, "cert", "sig")),
		"v01 as v00":        reserved(stringsOf(attestationV0, "cert", "sig", "\x44data")),
		"v02":               reserved(stringsOf("ssh-sk-attest-v02", "cert", "sig", "\x44data")),
		"no reserved":       stringsOf(attestationV1, "cert", "sig", "\x44data"),
		"length past end":   {0xff, 0xff, 0xff, 0xff},
		"data in two items": reserved(stringsOf(attestationV1, "cert", "sig", "\x42da\x42ta")),
	} {
		_, err := ParseAttestation(file)
		require.ErrorIs(t, err, ErrInvalid, name)
	}
}

func TestCBORSkip(t *testing.T) {
	for item, fine := range map[string]bool{
		"\x00": true, "\x17": true, "\x18\x18": true, "\x19\x01\x00": true, "\x1a\x00\x01\x00\x00": true, "\x1b\x00\x00\x00\x01\x00\x00\x00\x00": true,
		"\x20": true, "\x40": true, "\x41x": true, "\x61x": true, "\x80": true, "\xa0": true, "\x82\x00\x01": true, "\xa1\x61x\xf5": true,
		"\xf4": true, "\xf5": true, "\xf6": true, "\x81\x81\x81\x81\x00": true,
		"": false, "\x18": false, "\x18\x17": false, "\x19\x00\xff": false, "\x1a\x00\x00\xff\xff": false, "\x1b\x00\x00\x00\x00\xff\xff\xff\xff": false,
		"\x1c": false, "\x1f": false, "\x1c" + strings.Repeat("\x01", 16): false, "\x1f" + strings.Repeat("\x01", 128): false, "\xe0": false, "\x42x": false, "\x5f\xff": false, "\x82\x00": false, "\xa1\x00": false, "\x9f\xff": false, "\xbf\xff": false,
		"\xc0\x00": false, "\xf7": false, "\xf8\x20": false, "\xf9\x00\x00": false, "\xff": false, "\x81\x81\x81\x81\x81\x00": false,
		"\x9b\xff\xff\xff\xff\xff\xff\xff\xff": false, "\xbb\x80\x00\x00\x00\x00\x00\x00\x00": false, "\x5b\xff\xff\xff\xff\xff\xff\xff\xff": false,
	} {
		rest, ok := cborSkip([]byte(item), cborDepth)
		require.Equal(t, fine, ok, "%x", item)
		if fine {
			require.Empty(t, rest, "%x", item)
		}
	}
}
