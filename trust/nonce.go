package trust

import (
	"crypto/rand"
	"encoding/hex"
)

// Nonce returns 128 random bits in hex, so that two signatures over the same contents differ.
func Nonce() string {
	bits := make([]byte, 16)
	_, _ = rand.Read(bits) // it never fails
	return hex.EncodeToString(bits)
}
