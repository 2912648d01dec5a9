package trust

import (
	"reflect"
	"slices"
	"unicode/utf8"

	"chimera.ai/engine/trust/sshsig"
)

// The types of signatures by which people approve. Those in software count in development
// only.
const (
	// SigSSH is made with a key of OpenSSH in a file, SigSSHHardware with one on a FIDO token.
	SigSSH         = "sshsig"
	SigSSHHardware = "sshsig-sk"
	// SigToken is made with a key on a PKCS #11 token, SigDev with one in a file.
	SigToken = "pkcs11"
	SigDev   = "dev"
	// SigWeb is made in a browser.
	SigWeb = "webauthn"
)

// verifier verifies signatures of one key over a message.
type verifier func(message, signature []byte) bool

// software reports that the key may be copied.
func (a *EnrollSigner) software() bool { return a.SigType == SigDev || a.SigType == SigSSH }

// verifier returns how the signer's signatures are verified, or says what is wrong with the
// key or its type. A key has one form, so that no two signers have the same one.
func (a *EnrollSigner) verifier() (verifier, error) {
	switch a.SigType {
	case SigDev, SigToken:
		k, err := ParsePublic(a.PublicKey)
		return k.Verify, err
	case SigSSH, SigSSHHardware:
		k, err := sshsig.ParseKey(a.PublicKey)
		switch {
		case err != nil:
			return nil, invalid("the key of the signer %s: %s", a.ID, err)
		case k.String() != a.PublicKey:
			return nil, invalid("the key of the signer %s has a comment, or is not written in its one form: %s", a.ID, k)
		case k.Hardware() != (a.SigType == SigSSHHardware):
			return nil, invalid("the key of the signer %s is not one for %s", a.ID, a.SigType)
		}
		return func(message, signature []byte) bool { return k.Verify(message, signature) == nil }, nil
	case SigWeb:
		return nil, invalid("not supported yet: signatures of type %s", SigWeb)
	}
	return nil, invalid("%.40q is not a type of signature: %s, %s, %s or %s", a.SigType, SigSSHHardware, SigToken, SigSSH, SigDev)
}

// Has reports whether the signer, who is not revoked, has a role now.
func (v Signer) Has(role string) bool { return v.Revoked == nil && slices.Contains(v.Now, role) }

// Signed reports whether the signer's key has signed an envelope.
func (v Signer) Signed(e *Envelope) bool {
	verify, err := v.verifier()
	if err != nil {
		return false
	}
	pae := PAE(e.Type, e.Payload)
	return slices.ContainsFunc(e.Signatures, func(s Signature) bool { return verify(pae, s.Sig) })
}

// Encode returns the canonical JSON of a payload.
func Encode(payload any) ([]byte, error) {
	if !readable(reflect.ValueOf(payload)) {
		return nil, invalid("the payload: a text is not UTF-8")
	}
	raw, err := canon(payload)
	if err != nil {
		return nil, invalid("the payload: %s", err)
	}
	return raw, nil
}

// Decode reads a payload that has only fields of T, each at most once and spelled as in T.
func Decode[T any](payload []byte, into *T) error {
	if _, err := exact(payload, into); err != nil {
		return invalid("%s", bare(err))
	}
	return nil
}

// readable reports whether all texts of a value are UTF-8, without which JSON has others.
func readable(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.String:
		return utf8.ValidString(v.String())
	case reflect.Pointer, reflect.Interface:
		return v.IsNil() || readable(v.Elem())
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			if !readable(v.Index(i)) {
				return false
			}
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if !readable(v.Field(i)) {
				return false
			}
		}
	default:
	}
	return true
}
