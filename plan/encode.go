package plan

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
)

// Encode returns the canonical bytes of p.
func (p *Plan) Encode() ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(p); err != nil {
		return nil, fmt.Errorf("encode plan: %w", err)
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n")), nil
}

// DigestOf returns the digest of canonical plan bytes, or of any bytes: "sha256:"
// and 64 hex digits.
func DigestOf(b []byte) string {
	sum := sha256.Sum256(b)
	return string(hex.AppendEncode([]byte("sha256:"), sum[:]))
}

// IsDigest reports whether s has the form of a digest: "sha256:" and 64
// lower-case hex digits.
func IsDigest(s string) bool {
	digits, ok := strings.CutPrefix(s, "sha256:")
	return ok && len(digits) == 2*sha256.Size && strings.Trim(digits, "0123456789abcdef") == ""
}

// OnlyDigest returns s if it is a digest, and otherwise "": foreign text may be
// anything, and of any length.
func OnlyDigest(s string) string {
	if IsDigest(s) {
		return s
	}
	return ""
}
