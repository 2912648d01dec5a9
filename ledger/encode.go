package ledger

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
)

// write writes the entry's fields as encoding/json would, without escapes for
// HTML: a log writes many entries, and this takes a quarter of the time.
func (e *Entry) write(b []byte) ([]byte, error) {
	if y := e.At.t.Year(); y < 1 || y > 9999 {
		return nil, fmt.Errorf("the year %d cannot be written", y)
	}
	b = appendField(b, `{"format":`, e.Format)
	b = appendField(b, `,"origin":`, e.Origin)
	b = appendField(b, `,"chain":`, e.Chain)
	b = strconv.AppendInt(append(b, `,"n":`...), e.N, 10)
	b = append(b, `,"prev":"`...)
	if !e.Prev.IsZero() {
		b = hex.AppendEncode(b, e.Prev[:])
	}
	b = appendField(append(b, '"'), `,"key":`, e.Key)
	b = appendField(b, `,"kind":`, string(e.Kind))
	b = append(e.At.t.UTC().AppendFormat(append(b, `,"at":"`...), timeLayout), '"')
	b = appendField(b, `,"class":`, string(e.Class))
	for _, f := range [...]struct{ name, value string }{{`,"agent":`, e.Agent}, {`,"plan":`, e.Plan}, {`,"run":`, e.Run}, {`,"node":`, e.Node}} {
		if f.value != "" {
			b = appendField(b, f.name, f.value)
		}
	}
	if e.Visit != 0 {
		b = strconv.AppendInt(append(b, `,"visit":`...), int64(e.Visit), 10)
	}
	if e.Element != 0 {
		b = strconv.AppendInt(append(b, `,"element":`...), int64(e.Element), 10)
	}
	if e.Task != "" {
		b = appendField(b, `,"task":`, e.Task)
	}
	for i, r := range e.Refs {
		if i == 0 {
			b = append(b, `,"refs":[`...)
		} else {
			b = append(b, ',')
		}
		b = appendField(b, `{"name":`, r.Name)
		b = append(appendField(b, `,"digest":`, r.Digest), '}')
	}
	if len(e.Refs) > 0 {
		b = append(b, ']')
	}
	if e.Body != "" {
		b = appendField(b, `,"body":`, e.Body)
	}
	return append(b, '}'), nil
}

func appendField(b []byte, name, s string) []byte {
	b = append(b, name...)
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= 0x80 || c == '"' || c == '\\' {
			return appendText(b, s)
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}

// appendText writes a text that may need escapes.
func appendText(b []byte, s string) []byte {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(s); err != nil {
		return append(b, `""`...) // a text can always be written
	}
	return append(b, bytes.TrimSuffix(buf.Bytes(), []byte("\n"))...)
}
