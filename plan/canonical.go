package plan

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// Canonical gives the canonical JSON of a decoded value: nil, bool, string,
// [json.Number], []any and map[string]any. Keys are sorted by bytes, nothing is
// escaped that need not be, there is no white space, and numbers stand as they
// were written.
func Canonical(v any) (json.RawMessage, error) {
	var buf bytes.Buffer
	if err := appendCanonical(&buf, v); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}

func appendCanonical(buf *bytes.Buffer, v any) error {
	switch v := v.(type) {
	case nil:
		buf.WriteString("null")
	case bool:
		fmt.Fprintf(buf, "%t", v)
	case json.Number:
		buf.WriteString(v.String())
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
		for i, k := range slices.Sorted(maps.Keys(v)) {
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
	enc := json.NewEncoder(buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(s); err != nil {
		return fmt.Errorf("canonical JSON: %w", err)
	}
	buf.Truncate(buf.Len() - 1)
	return nil
}
