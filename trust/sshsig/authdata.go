package sshsig

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/binary"
	"slices"
)

const (
	// maxCredentialID bounds the id of a credential, in bytes: WebAuthn, section 7.1.
	maxCredentialID = 1023
	// cborDepth bounds how deep CBOR nests: CTAP 2.0, section 6.
	cborDepth = 4
)

// authData is the authenticator data of an enrolment: WebAuthn, sections 6.1 and 6.5.1.
type authData struct {
	application [sha256.Size]byte
	flags       byte
	// model is the AAGUID.
	model [16]byte
	// tail is the public key in COSE, then the extensions.
	tail []byte
}

func parseAuthData(b []byte) (*authData, error) {
	var head struct {
		Application [sha256.Size]byte
		Flags       byte
		Counter     uint32
		Model       [16]byte
		ID          uint16
	}
	n, err := binary.Decode(b, binary.BigEndian, &head)
	if err != nil {
		return nil, invalid("authenticator data of %d bytes is too short", len(b))
	}
	b = b[n:]
	if id := int(head.ID); id == 0 || id > maxCredentialID || id > len(b) {
		return nil, invalid("the authenticator data has a credential id of %d bytes", id)
	}
	return &authData{head.Application, head.Flags, head.Model, b[head.ID:]}, nil
}

// check holds the data against the key that they are said to be about.
func (d *authData) check(k Key) error {
	if d.application != sha256.Sum256([]byte(k.application)) {
		return invalid("the attestation is for another application than %q", k.application)
	}
	if d.flags&flagPresent == 0 || d.flags&flagCredential == 0 {
		return invalid("the attestation is not of an enrolment in the presence of the user (flags %#02x)", d.flags)
	}
	// Among the flags that are refused is the one for keys that may be backed up.
	if other := d.flags &^ (flagPresent | flagVerified | flagCredential | flagExtensions); other != 0 {
		return invalid("the attestation is for a key that may be backed up, or has unknown flags (%#02x)", d.flags)
	}
	want, err := k.cose()
	if err != nil {
		return err
	}
	extensions, ok := bytes.CutPrefix(d.tail, want)
	if !ok {
		return invalid("the attestation is for another key than %s", k.ID())
	}
	if has := d.flags&flagExtensions != 0; has != (len(extensions) > 0) {
		return invalid("the authenticator data has %d bytes after the key (flags %#02x)", len(extensions), d.flags)
	}
	if len(extensions) == 0 {
		return nil
	}
	if rest, ok := cborSkip(extensions, cborDepth); !ok || len(rest) > 0 || extensions[0]>>5 != cborMap {
		return invalid("the extensions of the authenticator data are not one map in CBOR")
	}
	return nil
}

// cose returns the key as a COSE key (RFC 9053, section 7). WebAuthn, section 6.5.1,
// demands canonical CBOR of devices, and no optional parameters but the algorithm, so a
// key has one encoding.
func (k Key) cose() ([]byte, error) {
	public, err := k.public()
	if err != nil {
		return nil, err
	}
	switch p := cryptoKey(public).(type) {
	case ed25519.PublicKey:
		// kty: OKP, alg: EdDSA, crv: Ed25519, x.
		return slices.Concat([]byte{0xa4, 0x01, 0x01, 0x03, 0x27, 0x20, 0x06, 0x21, 0x58, 32}, p), nil
	case *ecdsa.PublicKey:
		// kty: EC2, alg: ES256, crv: P-256, x, y. The point is 4, x, y.
		point, err := p.Bytes()
		if err != nil || len(point) != 65 {
			return nil, invalid("the public key is not on P-256")
		}
		return slices.Concat([]byte{0xa5, 0x01, 0x02, 0x03, 0x26, 0x20, 0x01, 0x21, 0x58, 32}, point[1:33], []byte{0x22, 0x58, 32}, point[33:]), nil
	}
	return nil, invalid("the public key is neither of Ed25519 nor of ECDSA")
}

// Major types of CBOR: RFC 8949, section 3.1.
const (
	cborUnsigned = iota
	cborNegative
	cborByteString
	cborText
	cborArray
	cborMap
	cborTag
	cborSimple
)

// cborHead reads the head of an item: its major type and its number, in the shortest form.
func cborHead(b []byte) (major byte, n uint64, rest []byte, ok bool) {
	if len(b) == 0 {
		return 0, 0, nil, false
	}
	major, short, b := b[0]>>5, b[0]&0x1f, b[1:]
	if short < 24 {
		return major, uint64(short), b, true
	}
	if short > 27 {
		return 0, 0, nil, false
	}
	size := 1 << (short - 24)
	if len(b) < size {
		return 0, 0, nil, false
	}
	for _, x := range b[:size] {
		n = n<<8 | uint64(x)
	}
	least := uint64(24)
	if size > 1 {
		least = 1 << (4 * size)
	}
	return major, n, b[size:], n >= least
}

// cborBytes returns the content of b, which is one byte string.
func cborBytes(b []byte) ([]byte, bool) {
	major, n, rest, ok := cborHead(b)
	if !ok || major != cborByteString || n != uint64(len(rest)) {
		return nil, false
	}
	return rest, true
}

// cborSkip returns what follows the first item of b. It accepts what a device may send by
// CTAP2: definite lengths, no tags, and of the simple values false, true and null.
func cborSkip(b []byte, depth int) ([]byte, bool) {
	major, n, rest, ok := cborHead(b)
	if !ok {
		return nil, false
	}
	items := uint64(0)
	switch major {
	case cborUnsigned, cborNegative:
		return rest, true
	case cborByteString, cborText:
		if n > uint64(len(rest)) {
			return nil, false
		}
		return rest[n:], true
	case cborArray:
		items = n
	case cborMap:
		items = 2 * n
	case cborSimple:
		return rest, n >= 20 && n <= 22
	default:
		return nil, false
	}
	// An item has at least one byte.
	if depth == 0 || n > uint64(len(rest)) || items > uint64(len(rest)) {
		return nil, false
	}
	for range items {
		if rest, ok = cborSkip(rest, depth-1); !ok {
			return nil, false
		}
	}
	return rest, true
}
