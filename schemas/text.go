package schemas

import (
	"bytes"
	"encoding/json"
	"math/big"
	"strings"
)

// show returns a decoded value as JSON.
func show(v any) string {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return "a value that is not JSON"
	}
	return strings.TrimSuffix(buf.String(), "\n")
}

// decimal returns r exactly: as a finite decimal if it is one, otherwise as a fraction.
func decimal(r *big.Rat) string {
	if n, exact := r.FloatPrec(); exact {
		return r.FloatString(n)
	}
	return r.RatString()
}

// token escapes a key for use in a JSON pointer (RFC 6901).
func token(key string) string {
	return strings.ReplaceAll(strings.ReplaceAll(key, "~", "~0"), "/", "~1")
}

// Unescape returns the key that a token of a JSON pointer names (RFC 6901).
func Unescape(s string) string {
	return strings.ReplaceAll(strings.ReplaceAll(s, "~1", "/"), "~0", "~")
}
