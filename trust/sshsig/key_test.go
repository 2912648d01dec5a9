package sshsig

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"
)

func line(algorithm string, blob []byte) string {
	return algorithm + " " + base64.StdEncoding.EncodeToString(blob)
}

func TestParseKey(t *testing.T) {
	for _, algorithm := range algorithms {
		t.Run(algorithm, func(t *testing.T) {
			s := newSigner(t, algorithm)
			want := line(algorithm, s.wire())
			encoded := strings.Fields(want)[1]
			first, err := ParseKey(want)
			require.NoError(t, err)
			require.Equal(t, want, first.String())
			require.Equal(t, ssh.FingerprintSHA256(s.PublicKey()), first.ID())
			for _, text := range []string{
				want + "\n", want + "\r\n", "  " + want, want + "\t", algorithm + " \t " + encoded,
				want + " alice@laptop", want + "\talice and her dog  \n", want + " \u00e4\xff", want + " " + want,
			} {
				k, err := ParseKey(text)
				require.NoError(t, err, "%q", text)
				require.Equal(t, first, k)
				require.True(t, first.Equal(k))
			}
			other, err := ParseKey(line(algorithm, newSigner(t, algorithm).wire()))
			require.NoError(t, err)
			require.False(t, first.Equal(other))
			require.NotEqual(t, first.ID(), other.ID())

			for name, text := range map[string]string{
				"algorithm alone":   algorithm,
				"blob alone":        encoded,
				"two lines":         want + "\n" + want,
				"lone CR":           want + "\r" + want,
				"comment line":      "# " + want,
				"option":            "no-touch-required " + want,
				"options":           `command="x",restrict ` + want,
				"certificate":       "cert-authority " + want,
				"quoted":            `"` + algorithm + `" ` + encoded,
				"upper case":        strings.ToUpper(algorithm) + " " + encoded,
				"no-break space":    algorithm + "\u00a0" + encoded,
				"truncated":         algorithm + " " + encoded[:len(encoded)-4],
				"no base64":         algorithm + " " + encoded[:8] + "-" + encoded[9:],
				"trailing byte":     line(algorithm, append(s.wire(), 0)),
				"as a certificate":  line(strings.TrimSuffix(algorithm, "@openssh.com")+"-cert-v01@openssh.com", s.wire()),
				"too long":          want + " " + strings.Repeat("x", MaxKey),
				"line end in blob":  algorithm + " " + encoded[:8] + "\n" + encoded[8:],
				"second blob glued": want + encoded,
			} {
				_, err := ParseKey(text)
				require.ErrorIs(t, err, ErrInvalid, name)
			}
			for _, said := range append([]string{"ssh-rsa", "x", ""}, algorithms...) {
				_, err := ParseKey(line(said, s.wire()))
				require.Equal(t, said == algorithm, err == nil, "said to be %q", said)
			}
		})
	}
	require.Empty(t, Key{}.String())
	require.False(t, Key{}.Hardware())
}

// TestParseKeyStrayBits: bits that base64 ignores make no second key.
func TestParseKeyStrayBits(t *testing.T) {
	s := newSigner(t, ssh.KeyAlgoSKED25519)
	want := line(s.algorithm, s.wire())
	for len(s.wire())%3 == 0 {
		s.application += "x"
		want = line(s.algorithm, s.wire())
	}
	trimmed := strings.TrimRight(want, "=")
	last := strings.IndexByte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", trimmed[len(trimmed)-1])
	stray := trimmed[:len(trimmed)-1] + "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"[last+1:last+2] + want[len(trimmed):]
	require.NotEqual(t, want, stray)
	k, err := ParseKey(stray)
	require.NoError(t, err)
	require.Equal(t, want, k.String())
}

func TestParseKeyRefuses(t *testing.T) {
	ec := newSigner(t, ssh.KeyAlgoECDSA256)
	point, err := ec.key.Public().(*ecdsa.PublicKey).Bytes()
	require.NoError(t, err)
	offCurve := append([]byte{}, point...)
	offCurve[64] ^= 1
	compressed := append([]byte{2 | point[64]&1}, point[1:33]...)
	p384, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	require.NoError(t, err)
	r, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	for name, text := range map[string]string{
		"off the curve": line(ssh.KeyAlgoECDSA256, stringsOf(ssh.KeyAlgoECDSA256, "nistp256", string(offCurve))),
		"compressed":    line(ssh.KeyAlgoECDSA256, stringsOf(ssh.KeyAlgoECDSA256, "nistp256", string(compressed))),
		"infinity":      line(ssh.KeyAlgoECDSA256, stringsOf(ssh.KeyAlgoECDSA256, "nistp256", "\x00")),
		"other curve":   line(ssh.KeyAlgoECDSA256, stringsOf(ssh.KeyAlgoECDSA256, "nistp384", string(point))),
		"short point":   line(ssh.KeyAlgoED25519, stringsOf(ssh.KeyAlgoED25519, strings.Repeat("x", 31))),
		"long point":    line(ssh.KeyAlgoSKED25519, stringsOf(ssh.KeyAlgoSKED25519, strings.Repeat("x", 33), "ssh:")),
		"P-384":         authorized(t, &p384.PublicKey),
		"RSA":           authorized(t, &r.PublicKey),
		"DSA":           line("ssh-dss", stringsOf("ssh-dss", "1", "1", "1", "1")),
		"webauthn":      line("webauthn-sk-ecdsa-sha2-nistp256@openssh.com", stringsOf("webauthn-sk-ecdsa-sha2-nistp256@openssh.com", "nistp256", string(point), "ssh:")),
	} {
		_, err := ParseKey(text)
		require.ErrorIs(t, err, ErrInvalid, name)
	}
}

func authorized(t *testing.T, key any) string {
	t.Helper()
	public, err := ssh.NewPublicKey(key)
	require.NoError(t, err)
	return string(ssh.MarshalAuthorizedKey(public))
}

func TestParseKeyApplication(t *testing.T) {
	for _, algorithm := range []string{ssh.KeyAlgoSKED25519, ssh.KeyAlgoSKECDSA256} {
		s := newSigner(t, algorithm)
		for application, fine := range map[string]bool{
			"ssh:": true, "ssh:approvals": true, "ssh:the house": true,
			"": false, "ssh": false, "SSH:": false, " ssh:": false, "example.com": false, "https://example.com": false,
			"ssh:\x00": false, "ssh:a\nb": false, "ssh:\u00e4": false, "ssh:\xff": false, "ssh:\x7f": false,
		} {
			point := s.wire()[:len(s.wire())-len(stringsOf(s.application))]
			k, err := ParseKey(line(algorithm, append(point, stringsOf(application)...)))
			if fine {
				require.NoError(t, err, "%q", application)
				require.Equal(t, application, k.Application())
				continue
			}
			require.ErrorIs(t, err, ErrInvalid, "%q", application)
		}
	}
}

// TestWeakKeys forges signatures of keys of small order, with the curve's own verification,
// and finds that all of those keys are refused.
func TestWeakKeys(t *testing.T) {
	var points []ed25519.PublicKey
	for _, y := range smallOrder {
		b, err := hex.DecodeString(y)
		require.NoError(t, err)
		points = append(points, append([]byte{}, b...))
		b[31] |= 0x80
		points = append(points, b)
	}
	for i, key := range points {
		forged := false
		for n := 0; n < 200 && !forged; n++ {
			for _, r := range points {
				forged = forged || ed25519.Verify(key, fmt.Append(nil, n), append(append([]byte{}, r...), make([]byte, 32)...))
			}
		}
		require.True(t, forged, "key %d of small order: nobody needs its private key", i)
	}
	// The field's prime and what is above it, up to 2^255-1, are second encodings.
	for low := 0xed; low <= 0xff; low++ {
		b, err := hex.DecodeString(strings.Replace(smallOrder[1], "ec", fmt.Sprintf("%02x", low), 1))
		require.NoError(t, err)
		points = append(points, b)
	}
	for i, key := range points {
		_, err := ParseKey(line(ssh.KeyAlgoED25519, stringsOf(ssh.KeyAlgoED25519, string(key))))
		require.ErrorIs(t, err, ErrInvalid, "key %d", i)
		_, err = ParseKey(line(ssh.KeyAlgoSKED25519, stringsOf(ssh.KeyAlgoSKED25519, string(key), "ssh:")))
		require.ErrorIs(t, err, ErrInvalid, "key %d of a device", i)
	}
}

func TestParsePrivate(t *testing.T) {
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	p256, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	p384, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	require.NoError(t, err)
	r, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	text := func(key any) []byte {
		block, err := ssh.MarshalPrivateKey(key, "alice")
		require.NoError(t, err)
		return pem.EncodeToMemory(block)
	}
	for _, key := range []any{ed, p256} {
		s, err := ParsePrivate(text(key))
		require.NoError(t, err)
		raw, err := Sign(s, message)
		require.NoError(t, err)
		k, err := ParseKey(string(ssh.MarshalAuthorizedKey(s.PublicKey())))
		require.NoError(t, err)
		require.NoError(t, k.Verify(message, raw))
	}
	locked, err := ssh.MarshalPrivateKeyWithPassphrase(ed, "", []byte("secret"))
	require.NoError(t, err)
	_, err = ParsePrivate(pem.EncodeToMemory(locked))
	require.ErrorIs(t, err, ErrInvalid)
	require.ErrorContains(t, err, "encrypted")
	for name, raw := range map[string][]byte{
		"nothing":    nil,
		"public key": []byte(line(ssh.KeyAlgoED25519, nil)),
		"P-384":      text(p384),
		"RSA":        text(r),
		"two keys":   append(text(ed), text(p256)...),
		"PKCS #8":    pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: []byte("x")}),
		"broken":     pem.EncodeToMemory(&pem.Block{Type: "OPENSSH PRIVATE KEY", Bytes: []byte("openssh-key-v1\x00")}),
		"too long":   append(text(ed), make([]byte, maxPrivate)...),
	} {
		_, err := ParsePrivate(raw)
		require.ErrorIs(t, err, ErrInvalid, name)
	}
}
