// Package scan reads JSON in one common form, from left to right, for verifiers that
// read millions of entries. It gives up on anything else, such as escapes; its caller
// then uses a complete decoder. Every user has a test that both agree.
package scan

import "strings"

// Scanner holds the text that is left to read. After unexpected text it has failed, and
// returns only zero values.
type Scanner struct {
	rest   string
	failed bool
}

// New returns a scanner of a text.
func New(text string) Scanner { return Scanner{rest: text} }

// Need consumes text, which must come next; otherwise the scanner fails.
func (s *Scanner) Need(text string) {
	if !s.Has(text) {
		s.failed = true
	}
}

// Has consumes text if it comes next, and reports whether it did.
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

// Fail makes the scanner fail.
func (s *Scanner) Fail() { s.failed = true }

// Text reads a string after its opening quote, and consumes the closing one. It fails on
// escapes. The caller must check for UTF-8 and control characters. The string shares the
// memory of the whole text.
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

// Plain is like Text, for a string of printable ASCII alone.
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
