package syntax

import (
	"strings"
	"unicode/utf8"

	"chimera.ai/engine/diag"
)

// bom is the UTF-8 byte order mark. It belongs to no token and to no column.
const bom = "\ufeff"

// source is one file. Its values share it.
type source struct {
	name string
	text string
}

// first is the position of the file's first character.
func (s *source) first() diag.Pos {
	p := diag.Pos{Line: 1, Column: 1}
	if strings.HasPrefix(s.text, bom) {
		p.Byte = len(bom)
	}
	return p
}

// advance moves p, a position in text, forward to byte off.
func advance(p diag.Pos, text string, off int) diag.Pos {
	for p.Byte < off {
		part := text[p.Byte:off]
		if i := strings.IndexByte(part, '\n'); i >= 0 {
			p = diag.Pos{Line: p.Line + 1, Column: 1, Byte: p.Byte + i + 1}
			continue
		}
		p.Column += utf8.RuneCountInString(part)
		p.Byte = off
	}
	return p
}

// stride is the distance in bytes between the positions that a locator keeps.
const stride = 4096

// locator turns byte offsets into positions. Going forward costs the bytes
// between; going back costs at most one stride, so that a file that is one
// long line is no slower than others.
type locator struct {
	text string
	cur  diag.Pos
	// marks[i] is the position of the last character that starts at or before
	// byte i*stride.
	marks []diag.Pos
}

func newLocator(s *source) *locator {
	return &locator{text: s.text, cur: s.first(), marks: []diag.Pos{s.first()}}
}

// at returns the position of byte off, which starts a character or ends the file.
func (l *locator) at(off int) diag.Pos {
	if off < l.cur.Byte {
		l.cur = l.marks[min(off/stride, len(l.marks)-1)]
		if off < l.cur.Byte { // inside the byte order mark
			l.cur = l.marks[0]
		}
	}
	for next := len(l.marks) * stride; next <= off; next = len(l.marks) * stride {
		start := next
		for start > next-utf8.UTFMax && start < len(l.text) && !utf8.RuneStart(l.text[start]) {
			start--
		}
		l.cur = advance(l.cur, l.text, start)
		l.marks = append(l.marks, l.cur)
	}
	l.cur = advance(l.cur, l.text, off)
	return l.cur
}
