// Package pkcs11 signs with private keys that never leave a PKCS #11 token: an HSM, a
// smart card, or what a cloud offers as one. A key is named by a URI of RFC 7512,
//
//	pkcs11:token=Chimera;object=guardian?module-path=/usr/lib/softhsm/libsofthsm2.so&pin-source=file:/run/secrets/pin
//
// whose form [Parse] specifies, and is either Ed25519 (CKM_EDDSA, pure) or ECDSA on P-256
// (CKM_ECDSA over a SHA-256 digest). [Key] is a [crypto.Signer], which trust.FromSigner
// takes.
//
// A key is accepted only if the token says that it is a private key, sensitive and not
// extractable. Every signature is verified with the public key before it is returned, so
// neither a broken token nor one that was exchanged signs anything that counts.
//
// The implementation calls the token's module, a shared library of its vendor, and so
// needs cgo. It is built with the tag pkcs11; without it, [Open] returns [ErrNotBuilt].
// A module is code that runs within the process, with all of its rights: its path belongs
// in the operator's configuration, and must never come from anywhere else.
package pkcs11

import (
	"errors"
	"strings"
)

var (
	// ErrNotBuilt reports that the program has no support for tokens.
	ErrNotBuilt = errors.New("this program was built without PKCS #11; build with cgo and -tags pkcs11")
	// ErrURI reports a URI that is malformed, or asks for something that this package does
	// not support.
	ErrURI = errors.New("not a usable PKCS #11 URI")
	// ErrAway reports that the token cannot be reached: it is not plugged in, or does not
	// answer. Nothing was signed. The key recovers once the token is back.
	ErrAway = errors.New("the token is away")
	// ErrPIN reports that there is no PIN, or that the token does not accept it. Trying
	// again with the same one is pointless, and may lock the token.
	ErrPIN = errors.New("the token's PIN")
	// ErrKey reports that the token has no key of that name, or one that must not be used.
	ErrKey = errors.New("no usable key on the token")
)

const scheme = "pkcs11:"

// IsURI reports whether a reference to a key names one on a token: whether it begins with
// "pkcs11:", in whatever case, as schemes of URIs may be written. [Parse] says whether it
// is well-formed.
func IsURI(ref string) bool {
	return len(ref) >= len(scheme) && strings.EqualFold(ref[:len(scheme)], scheme)
}
