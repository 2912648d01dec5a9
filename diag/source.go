package diag

import (
	"bytes"
	"sort"
)

// blockSize is how many bytes of a source are looked at to find a line.
const blockSize = 1 << 16

// source is the text of a file with what finds its lines: a file may be large,
// one long line, and have many findings.
type source struct {
	text []byte
	// before counts the newlines before each block, and last in the whole text.
	before []int
}

func newSource(text []byte) *source {
	s := &source{text: text, before: make([]int, 1, len(text)/blockSize+2)}
	for at, n := 0, 0; at < len(text); at += blockSize {
		n += bytes.Count(text[at:min(at+blockSize, len(text))], newline)
		s.before = append(s.before, n)
	}
	return s
}

var newline = []byte{'\n'}

// newlines counts those before byte at.
func (s *source) newlines(at int) int {
	block := at / blockSize
	return s.before[block] + bytes.Count(s.text[block*blockSize:at], newline)
}

// fits reports whether r is a range of the source: its bytes are there, and
// stand on the lines that it says.
func (s *source) fits(r Range) bool {
	start, end := r.Start, r.End
	return r.IsValid() && start.Byte >= 0 && start.Byte <= end.Byte && end.Byte <= len(s.text) &&
		s.newlines(start.Byte) == start.Line-1 && s.newlines(end.Byte) == end.Line-1
}

// lineStart is where the line begins that byte at stands on.
func (s *source) lineStart(at int) int {
	start := 0
	if n := s.newlines(at); n > 0 {
		// The last block with fewer newlines before it holds the last one.
		block := sort.SearchInts(s.before, n) - 1
		start = block*blockSize + bytes.LastIndexByte(s.text[block*blockSize:min(at, (block+1)*blockSize)], '\n') + 1
	}
	if start == 0 && bytes.HasPrefix(s.text, []byte("\ufeff")) {
		start = min(at, len("\ufeff"))
	}
	return start
}

// nextLine is where the line begins behind the one that byte at stands on; there
// is one.
func (s *source) nextLine(at int) int {
	end := s.lineEnd(at)
	return end + bytes.IndexByte(s.text[end:], '\n') + 1
}

// lineEnd is where the line ends that byte at stands on, its newline left out.
func (s *source) lineEnd(at int) int {
	end := len(s.text)
	if n := s.newlines(at); n < s.before[len(s.before)-1] {
		// The first block with more newlines behind it holds the next one.
		block := sort.SearchInts(s.before, n+1) - 1
		from := max(at, block*blockSize)
		end = from + bytes.IndexByte(s.text[from:], '\n')
	}
	if end > at && s.text[end-1] == '\r' {
		end--
	}
	return end
}
