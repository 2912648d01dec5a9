package plan

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Canonical returns the canonical JSON of a decoded value: nil, bool, string,
// [json.Number], []any or map[string]any. Keys are sorted by bytes, there is no
// white space, and numbers are as written. Strings escape quotes, backslashes,
// control characters, U+2028 and U+2029, as encoding/json does, and nothing else.
//
// Strings that are not UTF-8 and numbers that are not JSON are errors: encoded,
// they would be other values, or two keys would become one.
func Canonical(v any) (json.RawMessage, error) {
	var buf bytes.Buffer
	if err := WriteCanonical(&buf, v); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}

// WriteCanonical appends what [Canonical] returns to a buffer. After an error the buffer has a
// part of it.
func WriteCanonical(buf *bytes.Buffer, v any) error { return appendCanonical(buf, v) }

func appendCanonical(buf *bytes.Buffer, v any) error {
	switch v := v.(type) {
	case nil:
		buf.WriteString("null")
	case bool:
		fmt.Fprintf(buf, "%t", v)
	case json.Number:
		if !isNumber(string(v)) {
			return fmt.Errorf("canonical JSON: %.40q is not a number", string(v))
		}
		buf.WriteString(string(v))
	case string:
		return appendString(buf, v)
	case []any:
		buf.WriteByte('[')
		for i, e := range v {
			if i > 0 {
				buf.WriteByte(',')
			}
			if err := appendCanonical(buf, e); err != nil {
				return err
			}
		}
		buf.WriteByte(']')
	case map[string]any:
		buf.WriteByte('{')
		keys := make([]string, 0, len(v))
		for k := range v {
			keys = append(keys, k)
		}
		slices.Sort(keys)
		for i, k := range keys {
			if i > 0 {
				buf.WriteByte(',')
			}
			if err := appendString(buf, k); err != nil {
				return err
			}
			buf.WriteByte(':')
			if err := appendCanonical(buf, v[k]); err != nil {
				return err
			}
		}
		buf.WriteByte('}')
	default:
		return fmt.Errorf("canonical JSON: %T is not a JSON value", v)
	}
	return nil
}

func appendString(buf *bytes.Buffer, s string) error {
	if plain(s) {
		buf.WriteByte('"')
		buf.WriteString(s)
		buf.WriteByte('"')
		return nil
	}
	if !utf8.ValidString(s) {
		return fmt.Errorf("canonical JSON: %.40q is not UTF-8", s)
	}
	enc := json.NewEncoder(buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(s); err != nil {
		return fmt.Errorf("canonical JSON: %w", err)
	}
	buf.Truncate(buf.Len() - 1)
	return nil
}

// plain reports whether a string needs no escapes in JSON, as nearly all do not.
func plain(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= 0x80 || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}

// isNumber reports whether s is a JSON number (RFC 8259, section 6).
func isNumber(s string) bool {
	digits := func() bool {
		rest := strings.TrimLeft(s, "0123456789")
		some := len(rest) < len(s)
		s = rest
		return some
	}
	s = strings.TrimPrefix(s, "-")
	if rest, zero := strings.CutPrefix(s, "0"); zero {
		s = rest
	} else if !digits() {
		return false
	}
	if rest, ok := strings.CutPrefix(s, "."); ok {
		if s = rest; !digits() {
			return false
		}
	}
	if s != "" && (s[0] == 'e' || s[0] == 'E') {
		if s = s[1:]; s != "" && (s[0] == '+' || s[0] == '-') {
			s = s[1:]
		}
		if !digits() {
			return false
		}
	}
	return s == ""
}
