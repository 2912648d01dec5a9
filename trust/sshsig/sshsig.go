// Package sshsig verifies the OpenSSH signatures by which people approve effects.
//
// A signature is what ssh-keygen -Y sign makes, in the format that OpenSSH's
// PROTOCOL.sshsig describes, without its armor:
//
//	byte[6]  "SSHSIG"
//	uint32   1
//	string   public key
//	string   namespace, always [Namespace]
//	string   reserved, always empty
//	string   hash algorithm, always "sha512"
//	string   signature
//
// The format also knows sha256. It is refused, because ssh-keygen uses sha512 unless
// told otherwise, and one form is enough.
//
// Keys are Ed25519 or ECDSA on P-256, in software or in a FIDO device. A signature of a
// device carries flags that the device has signed too (PROTOCOL.u2f): it counts only if
// the user was present, by a touch, and verified, by a PIN or a fingerprint. The name of
// the algorithm alone proves no device, since anybody can publish a key under it;
// [Key.Attested] proves it, once, at enrolment.
//
// A person makes such a key, and approves, by
//
//	ssh-keygen -t ed25519-sk -O verify-required -O challenge=FILE -O write-attestation=FILE
//	ssh-keygen -Y sign -n approval@chimera.ai -f KEY FILE
//
// Everything that the package reads is bounded and may be hostile. It reads no clock:
// instants are arguments.
package sshsig

import (
	"bytes"
	"errors"
	"fmt"
	"math/big"

	wire "github.com/hiddeco/sshsig"
	"golang.org/x/crypto/ssh"
)

// Namespace is the namespace of every signature, so that one made for a file, a commit or
// a login approves nothing.
const Namespace = "approval@chimera.ai"

// MaxSignature bounds a signature without its armor, in bytes.
const MaxSignature = 16 << 10

// magic begins a signature.
const magic = "SSHSIG"

// Flags of a FIDO device's data, from WebAuthn, section 6.1.
const (
	flagPresent    = 0x01
	flagVerified   = 0x04
	flagCredential = 0x40
	flagExtensions = 0x80
)

// flagsSize is the length of what a FIDO device adds to a signature: one byte of flags
// and a counter of four.
const flagsSize = 5

// ErrInvalid reports a key, a signature or an attestation that is malformed, not
// accepted, or does not verify.
var ErrInvalid = errors.New("not valid for ssh approvals")

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrInvalid, fmt.Sprintf(format, args...))
}

// Verify returns nil if signature, a blob without armor of at most [MaxSignature] bytes,
// is one of k over message in [Namespace]. Every bit of it is checked: there are no
// trailing bytes, no reserved field and no second encoding of a number. For a FIDO key,
// presence and verification of the user must be flagged, and no other flag. The
// signature covers the application of k, because the device signs a digest of it.
//
// A message may nevertheless have many signatures of one key. Whoever counts signatures
// counts keys, never bytes. The counter of a FIDO device is not looked at.
//
// The error is [ErrInvalid], wrapped with the reason.
func (k Key) Verify(message, signature []byte) error {
	public, err := k.public()
	if err != nil {
		return err
	}
	if len(signature) > MaxSignature {
		return invalid("a signature of %d bytes, more than %d", len(signature), MaxSignature)
	}
	if !bytes.HasPrefix(signature, []byte(magic)) {
		return invalid("a signature begins with %s; remove its armor first", magic)
	}
	s, err := wire.ParseSignature(signature)
	if err != nil {
		return invalid("the signature does not parse: %.200q", err.Error())
	}
	if !bytes.Equal(s.Marshal(), signature) {
		return invalid("the signature is not in canonical form, or its reserved field is not empty")
	}
	if !bytes.Equal(s.PublicKey.Marshal(), public.Marshal()) {
		return invalid("the signature is by the key %s, not by %s", ssh.FingerprintSHA256(s.PublicKey), k.ID())
	}
	if s.Namespace != Namespace {
		return invalid("the signature is for the namespace %.80q, not for %s", s.Namespace, Namespace)
	}
	if s.HashAlgorithm != wire.HashSHA512 {
		return invalid("the signature is over a hash by %s, not by %s", s.HashAlgorithm, wire.HashSHA512)
	}
	if err := k.checkForm(s.Signature); err != nil {
		return err
	}
	if err := wire.Verify(bytes.NewReader(message), s, public, wire.HashSHA512, Namespace); err != nil {
		return invalid("the signature does not verify")
	}
	return nil
}

// checkForm checks what the verification of ssh does not: that there is one encoding, and
// the flags of a device.
func (k Key) checkForm(s *ssh.Signature) error {
	if s.Format != k.algorithm {
		return invalid("the signature is by %.80q, the key is for %s", s.Format, k.algorithm)
	}
	if k.algorithm == ssh.KeyAlgoECDSA256 || k.algorithm == ssh.KeyAlgoSKECDSA256 {
		var rs struct{ R, S *big.Int }
		if err := ssh.Unmarshal(s.Blob, &rs); err != nil || !bytes.Equal(ssh.Marshal(rs), s.Blob) {
			return invalid("the signature's numbers are not in canonical form")
		}
	}
	if !k.Hardware() {
		if len(s.Rest) > 0 {
			return invalid("%d bytes follow the signature", len(s.Rest))
		}
		return nil
	}
	if len(s.Rest) != flagsSize {
		return invalid("%d bytes follow the signature; a device's flags and counter have %d", len(s.Rest), flagsSize)
	}
	switch flags := s.Rest[0]; {
	case flags&flagPresent == 0:
		return invalid("the device did not see its user (flags %#02x)", flags)
	case flags&flagVerified == 0:
		return invalid("the device did not verify its user (flags %#02x); make the key with -O verify-required", flags)
	case flags != flagPresent|flagVerified:
		return invalid("the device has set unknown flags (%#02x)", flags)
	}
	return nil
}

// Sign signs message in [Namespace] and returns the blob without armor, which the
// signer's key verifies. It is meant for keys in software, as [ParsePrivate] reads them.
// The error is [ErrInvalid], wrapped, if the key is of another kind than [ParseKey]
// accepts, or what the signer returns does not verify; else it is the signer's.
func Sign(signer ssh.Signer, message []byte) ([]byte, error) {
	k, err := newKey(signer.PublicKey().Marshal())
	if err != nil {
		return nil, err
	}
	s, err := wire.Sign(bytes.NewReader(message), signer, wire.HashSHA512, Namespace)
	if err != nil {
		return nil, fmt.Errorf("sign with ssh key %s: %w", k.ID(), err)
	}
	raw := s.Marshal()
	if err := k.Verify(message, raw); err != nil {
		return nil, fmt.Errorf("sign with ssh key %s: %w", k.ID(), err)
	}
	return raw, nil
}
