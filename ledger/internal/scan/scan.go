// Package scan reads JSON that is written in one form, from left to right: what
// a verifier of a log reads a million times. It knows the commonest writing
// alone, and gives up on whatever needs more care, such as escapes; its caller
// then takes the decoder that knows all of JSON. Whoever uses it says in a test
// that both give the same.
package scan

import "strings"

// Scanner is what is left to read. Once something was not as it must be it has
// failed, and gives nothing more.
type Scanner struct {
	rest   string
	failed bool
}

// New begins to read a text.
func New(text string) Scanner { return Scanner{rest: text} }

// Need takes a text that must come now.
func (s *Scanner) Need(text string) {
	if !s.Has(text) {
		s.failed = true
	}
}

// Has takes a text if it comes now, and says so.
func (s *Scanner) Has(text string) bool {
	if s.failed {
		return false
	}
	rest, ok := strings.CutPrefix(s.rest, text)
	if ok {
		s.rest = rest
	}
	return ok
}

// Fail says that what was read is not what it must be.
func (s *Scanner) Fail() { s.failed = true }

// Text takes a string behind its first quote, with its last one. It fails on
// escapes; whether the rest is UTF-8 without control characters is the caller's
// to see. The string shares the memory of the whole.
func (s *Scanner) Text() string {
	i := strings.IndexByte(s.rest, '"')
	if s.failed || i < 0 || strings.IndexByte(s.rest[:i], '\\') >= 0 {
		s.failed = true
		return ""
	}
	out := s.rest[:i]
	s.rest = s.rest[i+1:]
	return out
}

// Plain takes a string as Text does, of printable ASCII alone.
func (s *Scanner) Plain() string {
	out := s.Text()
	for i := range len(out) {
		if c := out[i]; c < ' ' || c > '~' {
			s.failed = true
			return ""
		}
	}
	return out
}

// maxDigits is how many decimal digits fit in 63 bits, whichever they are.
const maxDigits = 18

// Number takes a number that is not negative, of at most 18 digits, as it is
// written: without zeros before it, fraction or exponent.
func (s *Scanner) Number() int64 {
	var n int64
	i := 0
	for ; !s.failed && i < len(s.rest) && s.rest[i] >= '0' && s.rest[i] <= '9' && i <= maxDigits; i++ {
		n = 10*n + int64(s.rest[i]-'0')
	}
	if s.failed || i == 0 || i > maxDigits || i > 1 && s.rest[0] == '0' || i < len(s.rest) && strings.IndexByte(".eE", s.rest[i]) >= 0 {
		s.failed = true
		return 0
	}
	s.rest = s.rest[i:]
	return n
}

// OK reports whether nothing has failed.
func (s *Scanner) OK() bool { return !s.failed }

// Done reports whether nothing has failed and nothing is left.
func (s *Scanner) Done() bool { return !s.failed && s.rest == "" }
