package plan

import (
	"bytes"
	"slices"
)

// Bounds of what [Rewrite] takes on.
const (
	maxRewriteBytes  = 64 << 10
	maxRewriteDepth  = 32
	maxRewriteDigits = 15
)

// Rewrite returns the canonical bytes of an object, as [Canonical] writes them, without
// decoding it. It takes on what most objects are: at most 64 KiB and 32 levels, texts of
// printable ASCII without escapes, and integers of at most 15 digits. Everything else, also
// what is no JSON, is left to whoever decodes: ok is false.
func Rewrite(raw []byte) (canonical []byte, ok bool) {
	if len(raw) > maxRewriteBytes {
		return nil, false
	}
	w := rewriter{rest: raw, out: make([]byte, 0, len(raw))}
	if !w.next('{') || !w.object(1) {
		return nil, false
	}
	if w.space(); len(w.rest) > 0 {
		return nil, false
	}
	return w.out, true
}

// rewriter has what is left to read, and what was written.
type rewriter struct {
	rest, out []byte
}

// member is one of an object, which stands in the output from one offset to another.
type member struct {
	key      []byte
	from, to int
}

// object writes an object behind its opening brace.
func (w *rewriter) object(depth int) bool {
	if depth > maxRewriteDepth {
		return false
	}
	var few [16]member
	members, sorted := few[:0], true
	begin := len(w.out)
	for !w.next('}') {
		if len(members) > 0 && !w.next(',') {
			return false
		}
		w.space()
		m := member{from: len(w.out)}
		var ok bool
		if m.key, ok = w.text(); !ok || !w.next(':') || !w.value(depth) {
			return false
		}
		m.to = len(w.out)
		sorted = sorted && (len(members) == 0 || bytes.Compare(members[len(members)-1].key, m.key) < 0)
		members = append(members, m)
	}
	return sorted || w.sort(begin, members)
}

// sort writes the members of an object again, in their order, from where the first began. It
// reports false if two have one key.
func (w *rewriter) sort(begin int, members []member) bool {
	slices.SortFunc(members, func(a, b member) int { return bytes.Compare(a.key, b.key) })
	written := bytes.Clone(w.out[begin:])
	w.out = w.out[:begin]
	for i, m := range members {
		if i > 0 {
			if bytes.Equal(members[i-1].key, m.key) {
				return false
			}
			w.out = append(w.out, ',')
		}
		w.out = append(w.out, written[m.from-begin:m.to-begin]...)
	}
	w.out = append(w.out, '}')
	return true
}

func (w *rewriter) list(depth int) bool {
	if depth > maxRewriteDepth {
		return false
	}
	for some := false; !w.next(']'); some = true {
		if some && !w.next(',') || !w.value(depth) {
			return false
		}
	}
	return true
}

func (w *rewriter) value(depth int) bool {
	switch {
	case w.next('{'):
		return w.object(depth + 1)
	case w.next('['):
		return w.list(depth + 1)
	case len(w.rest) == 0:
		return false
	}
	switch w.rest[0] {
	case '"':
		_, ok := w.text()
		return ok
	case 't':
		return w.word("true")
	case 'f':
		return w.word("false")
	case 'n':
		return w.word("null")
	}
	return w.integer()
}

// next writes a byte if it comes next, behind white space.
func (w *rewriter) next(c byte) bool {
	w.space()
	if len(w.rest) == 0 || w.rest[0] != c {
		return false
	}
	w.take(1)
	return true
}

func (w *rewriter) space() {
	for len(w.rest) > 0 && (w.rest[0] == ' ' || w.rest[0] == '\n' || w.rest[0] == '\t' || w.rest[0] == '\r') {
		w.rest = w.rest[1:]
	}
}

// text writes a text and returns what is between its quotes.
func (w *rewriter) text() (content []byte, ok bool) {
	if len(w.rest) == 0 || w.rest[0] != '"' {
		return nil, false
	}
	for i, c := range w.rest[1:] {
		switch {
		case c == '"':
			content = w.rest[1 : i+1]
			w.take(i + 2)
			return content, true
		case c < ' ' || c >= 0x7f || c == '\\':
			return nil, false
		}
	}
	return nil, false
}

func (w *rewriter) word(s string) bool {
	if len(w.rest) < len(s) || string(w.rest[:len(s)]) != s {
		return false
	}
	w.take(len(s))
	return true
}

// integer writes one. What follows it is for the caller, who takes no dot and no exponent.
func (w *rewriter) integer() bool {
	n := 0
	if w.rest[0] == '-' {
		n = 1
	}
	digits := n
	for n < len(w.rest) && '0' <= w.rest[n] && w.rest[n] <= '9' {
		n++
	}
	if digits = n - digits; digits == 0 || digits > maxRewriteDigits || digits > 1 && w.rest[n-digits] == '0' {
		return false
	}
	w.take(n)
	return true
}

// take writes so many bytes as they are.
func (w *rewriter) take(n int) {
	w.out = append(w.out, w.rest[:n]...)
	w.rest = w.rest[n:]
}
