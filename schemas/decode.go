package schemas

import (
	"encoding/json"
	"fmt"
	"unicode/utf16"
	"unicode/utf8"

	"chimera.ai/engine/internal/excerpt"
)

// SyntaxError says why a text is not acceptable JSON.
type SyntaxError struct {
	// Offset counts bytes from the start of the text.
	Offset  int
	Message string

	limit bool
}

func (e *SyntaxError) Error() string { return fmt.Sprintf("at byte %d: %s", e.Offset, e.Message) }

// Is reports whether target is [ErrTooLarge] and the text exceeds a bound.
func (e *SyntaxError) Is(target error) bool { return e.limit && target == ErrTooLarge }

// Decode reads one JSON text (RFC 8259). It returns nil, bool, string,
// [json.Number] (as written), []any and map[string]any. Its error is a
// [*SyntaxError].
//
// Unlike encoding/json it refuses duplicate keys, invalid UTF-8, lone
// surrogates and whatever exceeds the bounds of this package: two readers
// must never see different values in one text.
func Decode(raw []byte) (any, error) {
	v, _, err := decode(raw)
	return v, err
}

func decode(raw []byte) (any, size, error) {
	d := decoder{data: raw}
	if len(raw) > MaxBytes {
		return nil, size{}, d.over("the text has %d bytes, more than %d", len(raw), MaxBytes)
	}
	d.space()
	v, err := d.value(0)
	if err != nil {
		return nil, size{}, err
	}
	d.space()
	if d.pos < len(raw) {
		return nil, size{}, d.fail("data after the JSON value")
	}
	return v, d.size, nil
}

type decoder struct {
	data []byte
	pos  int
	size size
	// keys shares the strings of keys, since the objects of a list often have the same.
	keys map[string]string
}

func (d *decoder) fail(format string, args ...any) error {
	return &SyntaxError{Offset: d.pos, Message: fmt.Sprintf(format, args...)}
}

func (d *decoder) over(format string, args ...any) error {
	return &SyntaxError{Offset: d.pos, Message: fmt.Sprintf(format, args...), limit: true}
}

// unexpected describes what is at the current position instead of wanted.
func (d *decoder) unexpected(wanted string) error {
	if d.pos >= len(d.data) {
		return d.fail("the text ends where %s is expected", wanted)
	}
	r, _ := utf8.DecodeRune(d.data[d.pos:])
	return d.fail("%q where %s is expected", r, wanted)
}

func (d *decoder) space() {
	for d.pos < len(d.data) {
		switch d.data[d.pos] {
		case ' ', '\t', '\n', '\r':
			d.pos++
		default:
			return
		}
	}
}

func (d *decoder) peek() byte {
	if d.pos < len(d.data) {
		return d.data[d.pos]
	}
	return 0
}

func (d *decoder) value(depth int) (any, error) {
	d.size.nodes++
	if d.size.nodes > MaxNodes {
		return nil, d.over("more than %d values", MaxNodes)
	}
	switch c := d.peek(); {
	case c == '{':
		return d.object(depth)
	case c == '[':
		return d.list(depth)
	case c == '"':
		s, err := d.text()
		d.size.bytes += len(s)
		return s, err
	case c == '-' || '0' <= c && c <= '9':
		return d.number()
	case c == 't':
		return true, d.word("true")
	case c == 'f':
		return false, d.word("false")
	case c == 'n':
		return nil, d.word("null")
	}
	return nil, d.unexpected("a JSON value")
}

func (d *decoder) word(w string) error {
	if len(d.data)-d.pos < len(w) || string(d.data[d.pos:d.pos+len(w)]) != w {
		return d.unexpected(w)
	}
	d.pos += len(w)
	return nil
}

func (d *decoder) number() (any, error) {
	n, exponent, ok := scanNumber(d.data[d.pos:])
	if !ok {
		d.pos += n
		return nil, d.unexpected("a digit")
	}
	if n > MaxNumber {
		return nil, d.over("a number of %d digits, more than %d", n, MaxNumber)
	}
	if exponent > MaxExponent {
		return nil, d.over("a number with an exponent beyond %d", MaxExponent)
	}
	s := string(d.data[d.pos : d.pos+n])
	d.pos += n
	d.size.bytes += n + exponent
	return json.Number(s), nil
}

func (d *decoder) list(depth int) (any, error) {
	if err := d.enter(depth); err != nil {
		return nil, err
	}
	d.pos++
	list := []any{}
	if d.space(); d.peek() == ']' {
		d.pos++
		return list, nil
	}
	for {
		d.space()
		v, err := d.value(depth + 1)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
		d.space()
		switch d.peek() {
		case ',':
			d.pos++
		case ']':
			d.pos++
			return list, nil
		default:
			return nil, d.unexpected("',' or ']'")
		}
	}
}

func (d *decoder) object(depth int) (any, error) {
	if err := d.enter(depth); err != nil {
		return nil, err
	}
	d.pos++
	object := map[string]any{}
	if d.space(); d.peek() == '}' {
		d.pos++
		return object, nil
	}
	for {
		d.space()
		if d.peek() != '"' {
			return nil, d.unexpected("a key in double quotes")
		}
		start := d.pos
		key, err := d.key()
		if err != nil {
			return nil, err
		}
		if _, twice := object[key]; twice {
			d.pos = start
			return nil, d.fail("the key %s stands twice in one object", excerpt.Quote(key, 80))
		}
		if d.space(); d.peek() != ':' {
			return nil, d.unexpected("':'")
		}
		d.pos++
		d.space()
		v, err := d.value(depth + 1)
		if err != nil {
			return nil, err
		}
		object[key] = v
		d.space()
		switch d.peek() {
		case ',':
			d.pos++
		case '}':
			d.pos++
			return object, nil
		default:
			return nil, d.unexpected("',' or '}'")
		}
	}
}

func (d *decoder) enter(depth int) error {
	if depth >= MaxDepth {
		return d.over("nested deeper than %d", MaxDepth)
	}
	d.size.depth = max(d.size.depth, depth+1)
	return nil
}

// key reads a key. Equal short keys share one string.
func (d *decoder) key() (string, error) {
	const short = 64
	for i := d.pos + 1; i < len(d.data) && i <= d.pos+short; i++ {
		switch c := d.data[i]; {
		case c == '"':
			raw := d.data[d.pos+1 : i]
			s, known := d.keys[string(raw)]
			if !known {
				s = string(raw)
				if d.keys == nil {
					d.keys = make(map[string]string)
				}
				d.keys[s] = s
			}
			d.size.bytes += len(s)
			d.pos = i + 1
			return s, nil
		case c == '\\' || c < ' ' || c >= utf8.RuneSelf:
			i = len(d.data)
		}
	}
	s, err := d.text()
	d.size.bytes += len(s)
	return s, err
}

// text reads a string. The current byte is its opening quote.
func (d *decoder) text() (string, error) {
	start := d.pos + 1
	ascii := true
	for i := start; i < len(d.data); i++ {
		switch c := d.data[i]; {
		case c == '"':
			if !ascii && !utf8.Valid(d.data[start:i]) {
				return "", d.fail("a string that is not UTF-8")
			}
			d.pos = i + 1
			return string(d.data[start:i]), nil
		case c == '\\':
			return d.escaped(start, i)
		case c < ' ':
			d.pos = i
			return "", d.fail("a control character inside a string")
		case c >= utf8.RuneSelf:
			ascii = false
		}
	}
	return "", d.fail("a string that does not end")
}

// escaped reads the rest of a string whose first escape is at i.
func (d *decoder) escaped(start, i int) (string, error) {
	buf := append(make([]byte, 0, i-start+16), d.data[start:i]...)
	for i < len(d.data) {
		switch c := d.data[i]; {
		case c == '"':
			if !utf8.Valid(buf) {
				return "", d.fail("a string that is not UTF-8")
			}
			d.pos = i + 1
			return string(buf), nil
		case c == '\\':
			r, n := unescape(d.data[i:])
			if n == 0 {
				d.pos = i
				return "", d.fail("an escape that JSON does not know, or half of a surrogate pair")
			}
			buf = utf8.AppendRune(buf, r)
			i += n
		case c < ' ':
			d.pos = i
			return "", d.fail("a control character inside a string")
		default:
			buf = append(buf, c)
			i++
		}
	}
	return "", d.fail("a string that does not end")
}

// unescape reads one escape at the start of b. n is its length, or 0 if it is invalid.
func unescape(b []byte) (r rune, n int) {
	if len(b) < 2 {
		return 0, 0
	}
	switch b[1] {
	case '"', '\\', '/':
		return rune(b[1]), 2
	case 'b':
		return '\b', 2
	case 'f':
		return '\f', 2
	case 'n':
		return '\n', 2
	case 'r':
		return '\r', 2
	case 't':
		return '\t', 2
	case 'u':
		r, ok := hex4(b[2:])
		if !ok {
			return 0, 0
		}
		if !utf16.IsSurrogate(r) {
			return r, 6
		}
		if len(b) < 12 || b[6] != '\\' || b[7] != 'u' {
			return 0, 0
		}
		low, ok := hex4(b[8:])
		if r = utf16.DecodeRune(r, low); !ok || r == utf8.RuneError {
			return 0, 0
		}
		return r, 12
	}
	return 0, 0
}

func hex4(b []byte) (rune, bool) {
	if len(b) < 4 {
		return 0, false
	}
	var r rune
	for _, c := range b[:4] {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}
