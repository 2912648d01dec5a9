package trust

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
)

const (
	// maxPublic bounds the DER of a public key, maxSecret the PEM of a private one.
	maxPublic, maxSecret = 256, 4 << 10
	// scalar is the length of each half of a raw P-256 signature.
	scalar = 32
)

// Public is a public key.
type Public struct {
	key crypto.PublicKey
	der string
}

// ParsePublic reads the base64 of a DER SubjectPublicKeyInfo.
func ParsePublic(text string) (Public, error) {
	der, err := unbase64(text)
	if err != nil || len(der) > maxPublic {
		return Public{}, invalid("%.80q is not a public key: the base64 of its DER (SubjectPublicKeyInfo)", text)
	}
	key, err := x509.ParsePKIXPublicKey(der)
	if err != nil {
		return Public{}, invalid("%.80q is not a public key: %s", text, err)
	}
	if err := usable(key); err != nil {
		return Public{}, err
	}
	// A key has exactly one text.
	if again, err := x509.MarshalPKIXPublicKey(key); err != nil || string(again) != string(der) {
		return Public{}, invalid("%.80q is not a public key in canonical form", text)
	}
	return Public{key, string(der)}, nil
}

// ParsePublicPEM reads a public key in PEM, as openssl pkey -pubout writes it.
func ParsePublicPEM(raw []byte) (Public, error) {
	if len(raw) > maxSecret {
		return Public{}, invalid("a public key of %d bytes", len(raw))
	}
	block, rest := pem.Decode(raw)
	if block == nil || block.Type != "PUBLIC KEY" || len(rest) > 0 {
		return Public{}, invalid("it is not one public key in PEM (PUBLIC KEY)")
	}
	return ParsePublic(base64.StdEncoding.EncodeToString(block.Bytes))
}

func usable(key crypto.PublicKey) error {
	switch k := key.(type) {
	case ed25519.PublicKey:
		return nil
	case *ecdsa.PublicKey:
		if k.Curve == elliptic.P256() {
			return nil
		}
	}
	return invalid("keys are Ed25519 or ECDSA on P-256")
}

// String returns the key's text.
func (p Public) String() string { return base64.StdEncoding.EncodeToString([]byte(p.der)) }

// ID returns the SHA-256 of the key's DER in hex, which our signatures carry as a hint.
func (p Public) ID() string {
	sum := sha256.Sum256([]byte(p.der))
	return hex.EncodeToString(sum[:])
}

// Verify reports whether sig is a signature of the key over message.
func (p Public) Verify(message, sig []byte) bool {
	switch k := p.key.(type) {
	case ed25519.PublicKey:
		return len(sig) == ed25519.SignatureSize && ed25519.Verify(k, message, sig)
	case *ecdsa.PublicKey:
		sum := sha256.Sum256(message)
		if ecdsa.VerifyASN1(k, sum[:], sig) {
			return true
		}
		if len(sig) != 2*scalar {
			return false
		}
		return ecdsa.Verify(k, sum[:], new(big.Int).SetBytes(sig[:scalar]), new(big.Int).SetBytes(sig[scalar:]))
	}
	return false
}

// Key is a private key. It never prints itself.
type Key struct {
	signer crypto.Signer
	public Public
}

// NewKey makes an Ed25519 key, and returns it with its secret form.
func NewKey() (*Key, []byte, error) {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("make key: %w", err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return nil, nil, fmt.Errorf("make key: %w", err)
	}
	secret := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
	k, err := ParseKey(secret)
	return k, secret, err
}

// ParseKey reads a private key: PKCS #8 in PEM. Its error does not repeat it.
func ParseKey(secret []byte) (*Key, error) {
	wrong := errors.New("read key: it is not one private key in PEM (PKCS #8, PRIVATE KEY)")
	if len(secret) > maxSecret {
		return nil, wrong
	}
	block, _ := pem.Decode(secret)
	if block == nil || block.Type != "PRIVATE KEY" {
		return nil, wrong
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, wrong
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, wrong
	}
	return FromSigner(signer)
}

// FromSigner makes a key from a signer, such as one in an HSM.
func FromSigner(signer crypto.Signer) (*Key, error) {
	if err := usable(signer.Public()); err != nil {
		return nil, fmt.Errorf("read key: %w", err)
	}
	der, err := x509.MarshalPKIXPublicKey(signer.Public())
	if err != nil {
		return nil, fmt.Errorf("read key: %w", err)
	}
	return &Key{signer, Public{signer.Public(), string(der)}}, nil
}

// Public returns the text of the public key.
func (k *Key) Public() string { return k.public.String() }

// ID returns that of the public key.
func (k *Key) ID() string { return k.public.ID() }

// String names the key by its public key.
func (k *Key) String() string { return "key " + k.ID() }

// GoString hides the key from %#v.
func (k *Key) GoString() string { return k.String() }

func (k *Key) sign(message []byte) ([]byte, error) {
	var sig []byte
	var err error
	if _, ok := k.public.key.(ed25519.PublicKey); ok {
		sig, err = k.signer.Sign(rand.Reader, message, crypto.Hash(0))
	} else {
		sum := sha256.Sum256(message)
		sig, err = k.signer.Sign(rand.Reader, sum[:], crypto.SHA256)
	}
	if err != nil {
		return nil, fmt.Errorf("sign: %w", err)
	}
	return sig, nil
}

// unbase64 reads standard base64 in its one form: padded, without line ends and
// stray bits.
func unbase64(s string) ([]byte, error) {
	b, err := base64.StdEncoding.Strict().DecodeString(s)
	if err == nil && base64.StdEncoding.EncodeToString(b) != s {
		return nil, base64.CorruptInputError(0)
	}
	return b, err
}
