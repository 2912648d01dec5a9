//go:build pkcs11 && cgo

package pkcs11

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"encoding/asn1"
	"encoding/binary"
	"fmt"
	"math/big"

	p11 "github.com/miekg/pkcs11"
)

// Numbers of PKCS #11 3.0 (pkcs11t.h) that miekg/pkcs11 lacks.
const (
	keyEdwards = 0x40   // CKK_EC_EDWARDS
	signEdDSA  = 0x1057 // CKM_EDDSA
)

// kind is a kind of key.
type kind struct {
	keyType, mechanism uint
	// params are the forms of CKA_EC_PARAMS that name the curve, in DER.
	params [][]byte
	// point is the length of a public key.
	point int
	// public makes a public key of as many bytes.
	public func(point []byte) (crypto.PublicKey, error)
	// encode makes the signature of a token that of a [crypto.Signer].
	encode func(raw []byte) ([]byte, error)
}

var ed25519Kind = kind{
	keyType:   keyEdwards,
	mechanism: signEdDSA,
	params: [][]byte{
		{0x06, 0x03, 0x2b, 0x65, 0x70},                // the OID 1.3.101.112, RFC 8410
		append([]byte{0x13, 0x0c}, "edwards25519"...), // the name, as PKCS #11 3.0 has it
	},
	point:  ed25519.PublicKeySize,
	public: func(point []byte) (crypto.PublicKey, error) { return ed25519.PublicKey(bytes.Clone(point)), nil },
	encode: func(raw []byte) ([]byte, error) { return raw, nil },
}

// scalar is the length of each half of a raw P-256 signature.
const scalar = 32

var p256Kind = kind{
	keyType:   p11.CKK_EC,
	mechanism: p11.CKM_ECDSA,
	params:    [][]byte{{0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07}}, // the OID 1.2.840.10045.3.1.7
	point:     1 + 2*scalar,
	public: func(point []byte) (crypto.PublicKey, error) {
		return ecdsa.ParseUncompressedPublicKey(elliptic.P256(), point)
	},
	encode: func(raw []byte) ([]byte, error) {
		if len(raw) != 2*scalar {
			return nil, fmt.Errorf("the token's signature has %d bytes, not %d", len(raw), 2*scalar)
		}
		return asn1.Marshal(struct{ R, S *big.Int }{new(big.Int).SetBytes(raw[:scalar]), new(big.Int).SetBytes(raw[scalar:])})
	},
}

// kindOf returns the kind of a key on the token.
func (k *Key) kindOf(object p11.ObjectHandle) (*kind, error) {
	values, err := k.attributes(object, p11.CKA_KEY_TYPE, p11.CKA_EC_PARAMS)
	if err != nil && !is(err, p11.CKR_ATTRIBUTE_TYPE_INVALID) { // as of an RSA key
		return nil, err
	}
	if err == nil {
		for _, kind := range []*kind{&ed25519Kind, &p256Kind} {
			if number(values[0]) != kind.keyType {
				continue
			}
			for _, params := range kind.params {
				if bytes.Equal(values[1], params) {
					return kind, nil
				}
			}
		}
	}
	return nil, fmt.Errorf("%w: keys are Ed25519 or ECDSA on P-256, and this one is neither", ErrKey)
}

// number reads a CK_ULONG, which has the machine's size and order of bytes.
func number(raw []byte) uint {
	switch len(raw) {
	case 4:
		return uint(binary.NativeEndian.Uint32(raw))
	case 8:
		return uint(binary.NativeEndian.Uint64(raw))
	}
	return ^uint(0)
}

// publics returns the public keys on the token that may belong to the private one: those
// with its id or, if it has none, its label.
func (k *Key) publics() ([]crypto.PublicKey, error) {
	private, err := k.attributes(k.on.key, p11.CKA_ID, p11.CKA_LABEL)
	if err != nil {
		return nil, err
	}
	same := p11.NewAttribute(p11.CKA_ID, private[0])
	if len(private[0]) == 0 {
		same = p11.NewAttribute(p11.CKA_LABEL, private[1])
	}
	found, err := k.objects([]*p11.Attribute{
		p11.NewAttribute(p11.CKA_CLASS, p11.CKO_PUBLIC_KEY), p11.NewAttribute(p11.CKA_TOKEN, true),
		p11.NewAttribute(p11.CKA_KEY_TYPE, k.on.kind.keyType), same,
	})
	if err != nil {
		return nil, err
	}
	var all []crypto.PublicKey
	for _, object := range found {
		values, err := k.attributes(object, p11.CKA_EC_POINT)
		if err != nil {
			return nil, err
		}
		if public, err := k.on.kind.read(values[0]); err == nil {
			all = append(all, public)
		}
	}
	return all, nil
}

// read reads CKA_EC_POINT: a DER OCTET STRING or, as some modules and later editions have
// it, a BIT STRING or the bytes alone.
func (d *kind) read(raw []byte) (crypto.PublicKey, error) {
	if len(raw) == d.point {
		return d.public(raw)
	}
	var octets []byte
	if rest, err := asn1.Unmarshal(raw, &octets); err == nil && len(rest) == 0 && len(octets) == d.point {
		return d.public(octets)
	}
	var bits asn1.BitString
	if rest, err := asn1.Unmarshal(raw, &bits); err == nil && len(rest) == 0 && bits.BitLength == 8*d.point {
		return d.public(bits.Bytes)
	}
	return nil, fmt.Errorf("a public key of %d bytes", len(raw))
}

// verify reports whether sig is a signature over a message or, of P-256, a digest.
func verify(public crypto.PublicKey, digest, sig []byte) bool {
	switch p := public.(type) {
	case ed25519.PublicKey:
		return ed25519.Verify(p, digest, sig)
	case *ecdsa.PublicKey:
		return ecdsa.VerifyASN1(p, digest, sig)
	}
	return false
}
