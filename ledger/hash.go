package ledger

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"golang.org/x/mod/sumdb/tlog"
)

// Hash is a SHA-256: the leaf hash of an entry in the Merkle tree
// (RFC 6962, section 2.1), or a node of the tree. Its text is 64 hex digits.
type Hash [sha256.Size]byte

// LeafHash is the hash under which the log holds the bytes of an entry.
func LeafHash(b []byte) Hash { return Hash(tlog.RecordHash(b)) }

// String is the hash in hex.
func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// IsZero reports whether the hash is absent.
func (h Hash) IsZero() bool { return h == Hash{} }

// MarshalText writes the hash in hex; an absent one is "".
func (h Hash) MarshalText() ([]byte, error) {
	if h.IsZero() {
		return []byte{}, nil
	}
	return []byte(h.String()), nil
}

// UnmarshalText reads what [Hash.MarshalText] writes, and nothing else.
func (h *Hash) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		*h = Hash{}
		return nil
	}
	v, err := ParseHash(string(text))
	if err == nil {
		*h = v
	}
	return err
}

// ParseHash reads 64 lower-case hex digits.
func ParseHash(s string) (Hash, error) {
	var h Hash
	if !isHex(s) {
		return Hash{}, fmt.Errorf("%.80q is not a hash: 64 lower-case hex digits", s)
	}
	if _, err := hex.Decode(h[:], []byte(s)); err != nil {
		return Hash{}, fmt.Errorf("%.80q is not a hash: %w", s, err)
	}
	return h, nil
}

// isHex reports whether s is as long as a hash and of lower-case hex digits.
func isHex(s string) bool {
	if len(s) != 2*len(Hash{}) {
		return false
	}
	for i := range len(s) {
		if !hexDigits[s[i]] {
			return false
		}
	}
	return true
}

// hexDigits has the lower-case hex digits.
var hexDigits = func() (is [256]bool) {
	for _, c := range "0123456789abcdef" {
		is[c] = true
	}
	return is
}()
