package sshsig

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"
)

// MaxKey bounds the text of a public key, in bytes.
const MaxKey = 4 << 10

// maxPrivate bounds the file of a private key, in bytes.
const maxPrivate = 16 << 10

// applicationPrefix begins the application of each FIDO key that ssh-keygen makes.
const applicationPrefix = "ssh:"

// algorithms are the kinds of keys that are accepted, by their names in ssh.
var algorithms = []string{ssh.KeyAlgoED25519, ssh.KeyAlgoECDSA256, ssh.KeyAlgoSKED25519, ssh.KeyAlgoSKECDSA256}

// Key is a public key of a person who approves. Keys are equal if and only if == says so.
// The zero value is no key, and verifies nothing.
type Key struct {
	algorithm string
	// application is empty for a key in software.
	application string
	// blob is the key in ssh's wire format. The other fields follow from it.
	blob string
}

// ParseKey reads a public key: one line of at most [MaxKey] bytes, as in a .pub file or in
// authorized_keys, with or without a comment, and without options. The algorithm is one of
// ssh-ed25519, ecdsa-sha2-nistp256, sk-ssh-ed25519@openssh.com and
// sk-ecdsa-sha2-nistp256@openssh.com; the application of a FIDO key is printable ASCII
// that begins with "ssh:". Certificates are refused, and Ed25519 keys of small order,
// whose signatures anybody can make. However a key is written, it is the same [Key].
//
// The error is [ErrInvalid], wrapped with the reason.
func ParseKey(text string) (Key, error) {
	if len(text) > MaxKey {
		return Key{}, invalid("a public key of %d bytes, more than %d", len(text), MaxKey)
	}
	line := strings.Trim(text, " \t\r\n")
	if strings.ContainsAny(line, "\r\n") {
		return Key{}, invalid("a public key is a single line")
	}
	fields := strings.FieldsFunc(line, func(r rune) bool { return r == ' ' || r == '\t' })
	if len(fields) < 2 {
		return Key{}, invalid("a public key is an algorithm and its base64, such as %s AAAA", ssh.KeyAlgoSKED25519)
	}
	if !slices.Contains(algorithms, fields[0]) {
		return Key{}, invalid("a public key begins with its algorithm, without options, and %.80q is none of %s", fields[0], strings.Join(algorithms, ", "))
	}
	blob, err := base64.StdEncoding.DecodeString(fields[1])
	if err != nil {
		return Key{}, invalid("the public key is not base64")
	}
	k, err := newKey(blob)
	if err != nil {
		return Key{}, err
	}
	if k.algorithm != fields[0] {
		return Key{}, invalid("the public key is of %s, not of %s", k.algorithm, fields[0])
	}
	return k, nil
}

// newKey reads a key in wire format.
func newKey(blob []byte) (Key, error) {
	public, err := ssh.ParsePublicKey(blob)
	if err != nil {
		return Key{}, invalid("the public key does not parse: %.200q", err.Error())
	}
	k := Key{algorithm: public.Type(), blob: string(public.Marshal())}
	switch k.algorithm {
	case ssh.KeyAlgoED25519, ssh.KeyAlgoECDSA256:
	case ssh.KeyAlgoSKED25519:
		var w struct{ Algorithm, Point, Application string }
		err = ssh.Unmarshal([]byte(k.blob), &w)
		k.application = w.Application
	case ssh.KeyAlgoSKECDSA256:
		var w struct{ Algorithm, Curve, Point, Application string }
		err = ssh.Unmarshal([]byte(k.blob), &w)
		k.application = w.Application
	default:
		return Key{}, invalid("keys are of %s, not of %.80q", strings.Join(algorithms, ", "), k.algorithm)
	}
	if err != nil {
		return Key{}, invalid("the public key does not parse: %.200q", err.Error())
	}
	if k.Hardware() && !isApplication(k.application) {
		return Key{}, invalid("the application of the key is %.80q: it begins with %q and is printable ASCII", k.application, applicationPrefix)
	}
	if point, ok := cryptoKey(public).(ed25519.PublicKey); ok && isWeak(point) {
		return Key{}, invalid("the public key has small order, or is not in canonical form")
	}
	return k, nil
}

func isApplication(s string) bool {
	return strings.HasPrefix(s, applicationPrefix) && !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' })
}

// cryptoKey returns an [ed25519.PublicKey], an [*ecdsa.PublicKey], or nil.
func cryptoKey(public ssh.PublicKey) any {
	if c, ok := public.(ssh.CryptoPublicKey); ok {
		return c.CryptoPublicKey()
	}
	return nil
}

// smallOrder are the y of the points of order 1, 2, 4, 8 and 8 in Ed25519, little-endian.
// With each of them as public key a signature verifies that needs no private key.
var smallOrder = []string{
	"0100000000000000000000000000000000000000000000000000000000000000",
	"ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
	"0000000000000000000000000000000000000000000000000000000000000000",
	"26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
	"c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
}

// isWeak reports whether an Ed25519 key has small order, or a y that is not below the
// field's prime, 2^255-19, so that the point has a second encoding.
func isWeak(key ed25519.PublicKey) bool {
	y := bytes.Clone(key)
	y[len(y)-1] &= 0x7f
	if slices.Contains(smallOrder, hex.EncodeToString(y)) {
		return true
	}
	high := bytes.Count(y[1:len(y)-1], []byte{0xff}) == len(y)-2 && y[len(y)-1] == 0x7f
	return high && y[0] >= 0xed
}

func (k Key) public() (ssh.PublicKey, error) {
	if k == (Key{}) {
		return nil, invalid("there is no public key")
	}
	public, err := ssh.ParsePublicKey([]byte(k.blob))
	if err != nil {
		return nil, invalid("the public key does not parse: %.200q", err.Error())
	}
	return public, nil
}

// String returns the one text of the key, which [ParseKey] reads: the algorithm, a space
// and the base64. It is empty for no key.
func (k Key) String() string {
	if k == (Key{}) {
		return ""
	}
	return k.algorithm + " " + base64.StdEncoding.EncodeToString([]byte(k.blob))
}

// ID returns the fingerprint that ssh-keygen prints, "SHA256:" and 43 characters of base64
// without padding.
func (k Key) ID() string {
	sum := sha256.Sum256([]byte(k.blob))
	return "SHA256:" + base64.RawStdEncoding.EncodeToString(sum[:])
}

// Hardware reports whether the key says that it is held by a FIDO device; see
// [Key.Attested] for the proof.
func (k Key) Hardware() bool {
	return k.algorithm == ssh.KeyAlgoSKED25519 || k.algorithm == ssh.KeyAlgoSKECDSA256
}

// Application returns the FIDO application of the key, which begins with "ssh:". It is
// empty for a key in software.
func (k Key) Application() string { return k.application }

// Equal reports whether k and other are the same key. A key in software and one of a
// device, or keys of two applications, are different even if they have the same point.
func (k Key) Equal(other Key) bool { return k == other }

// ParsePrivate reads a private key in software, for development: a file of OpenSSH with
// one key of Ed25519 or ECDSA on P-256 that is not encrypted. The error is [ErrInvalid],
// wrapped with the reason. It repeats nothing of the key.
func ParsePrivate(text []byte) (ssh.Signer, error) {
	if len(text) > maxPrivate {
		return nil, invalid("a private key of %d bytes, more than %d", len(text), maxPrivate)
	}
	block, rest := pem.Decode(text)
	if block == nil || block.Type != "OPENSSH PRIVATE KEY" || len(bytes.TrimSpace(rest)) > 0 {
		return nil, invalid("it is not one private key of OpenSSH (OPENSSH PRIVATE KEY)")
	}
	key, err := ssh.ParseRawPrivateKey(text)
	var encrypted *ssh.PassphraseMissingError
	if errors.As(err, &encrypted) {
		return nil, invalid("the private key is encrypted; sign with ssh-keygen instead, or use a key without passphrase")
	}
	if err != nil {
		return nil, invalid("the private key does not parse, or is held by a device")
	}
	switch k := key.(type) {
	case *ed25519.PrivateKey:
	case *ecdsa.PrivateKey:
		if k.Curve != elliptic.P256() {
			return nil, invalid("the private key is of another curve than P-256")
		}
	default:
		return nil, invalid("the private key is neither of Ed25519 nor of ECDSA")
	}
	signer, err := ssh.NewSignerFromKey(key)
	if err != nil {
		return nil, invalid("the private key makes no signatures")
	}
	return signer, nil
}
