package display

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

const (
	// width is where a row ends, in columns. A terminal of 80 columns does not break it.
	width = 78
	// column is where values begin.
	column = 18
	// more begins a row that continues the one before.
	more = "+ "
)

// page is a text that is being written.
type page struct {
	b strings.Builder
	// limit is the number of bytes up to which a string is shown whole.
	limit int
	// indent is of labels, hang of rows that continue a line.
	indent, hang int
	// col is the column of the next character. bare says that the row has only its
	// label or its plus sign so far.
	col  int
	bare bool
}

// line writes a line of the frame.
func (p *page) line(indent int, text string) {
	p.b.WriteString(strings.Repeat(" ", indent) + text + "\n")
}

// label begins a line that has values.
func (p *page) label(label string) {
	head := strings.Repeat(" ", p.indent) + label + ":"
	p.b.WriteString(head + strings.Repeat(" ", column-len(head)))
	p.hang, p.col, p.bare = column, column, true
}

// path begins a line of inputs, which hangs by two.
func (p *page) path(indent int) {
	p.b.WriteString(strings.Repeat(" ", indent) + "$")
	p.hang, p.col, p.bare = indent+2, indent+1, false
}

func (p *page) end() { p.b.WriteByte('\n') }

// wrap continues the line on another row.
func (p *page) wrap() {
	p.b.WriteString("\n" + strings.Repeat(" ", p.hang) + more)
	p.col, p.bare = p.hang+len(more), true
}

// room makes room for n columns behind a separator, or behind none on a row of its own.
func (p *page) room(sep string, n int) {
	switch {
	case p.bare:
	case p.col+len(sep)+n > width:
		p.wrap()
	default:
		p.b.WriteString(sep)
		p.col += len(sep)
	}
	p.bare = false
}

// word writes ASCII of the frame, which stays in one piece.
func (p *page) word(sep, s string) {
	p.room(sep, len(s))
	p.b.WriteString(s)
	p.col += len(s)
}

// words writes a line of the frame's own words.
func (p *page) words(label, words string) {
	p.label(label)
	p.word("", words)
	p.end()
}

// sentence writes a line of the frame's own words, on as many rows as it needs.
func (p *page) sentence(label, text string) {
	p.label(label)
	sep := ""
	for word := range strings.FieldsSeq(text) {
		p.word(sep, word)
		sep = " "
	}
	p.end()
}

// field writes a foreign string on a line of its own.
func (p *page) field(label, value string) {
	if value == "" {
		p.words(label, "none")
		return
	}
	p.element(label, value)
}

// list writes a line for each foreign string.
func (p *page) list(label string, values []string) {
	for _, s := range values {
		p.element(label, s)
	}
	if len(values) == 0 {
		p.words(label, "none")
	}
}

func (p *page) element(label, value string) {
	p.label(label)
	p.quote("", show(value, p.limit))
	p.end()
}

// quote writes a foreign string, and what is to be said of it.
func (p *page) quote(sep string, s *shown) {
	p.pieces(sep, s.head)
	if s.left > 0 {
		p.word(" ", fmt.Sprintf("... %d of %d bytes left out ...", s.left, s.size))
		p.pieces(" ", s.tail)
	}
	if names := s.scripts.names(); len(names) > 0 {
		names[0] = "(" + names[0]
		names[len(names)-1] += ")"
		sep := "  "
		for i, name := range names {
			if i < len(names)-1 {
				name += ","
			}
			p.word(sep, name)
			sep = " "
		}
	}
	if s.left > 0 {
		p.word(" ", s.sum)
	}
}

// pieces writes a string in quotes, on as many rows as it needs. It is split behind spaces
// where that saves a word, and never before a mark.
func (p *page) pieces(sep string, ps []piece) {
	n := 2
	if len(ps) > 0 {
		n += cells(ps[:cluster(ps)])
	}
	p.room(sep, n)
	p.b.WriteByte('"')
	p.col++
	fresh := true
	split := func() {
		p.b.WriteByte('"')
		p.wrap()
		p.b.WriteByte('"')
		p.col++
		p.bare, fresh = false, true
	}
	for len(ps) > 0 {
		word := ps[:spaced(ps)]
		if n := cells(word); !fresh && p.col+n+1 > width && n+2 <= width-p.hang-len(more) {
			split()
		}
		for len(word) > 0 {
			c := word[:cluster(word)]
			n := cells(c)
			if !fresh && p.col+n+1 > width {
				split()
			}
			for _, q := range c {
				p.b.WriteString(q.text)
			}
			p.col += n
			fresh = false
			word, ps = word[len(c):], ps[len(c):]
		}
	}
	p.b.WriteByte('"')
	p.col++
}

// spaced is the number of pieces up to and including the first space.
func spaced(ps []piece) int {
	for i, q := range ps {
		if q.text == " " {
			return i + 1
		}
	}
	return len(ps)
}

// cluster is the number of pieces of the first character and its marks.
func cluster(ps []piece) int {
	n := 1
	for n < len(ps) && ps[n].mark {
		n++
	}
	return n
}

// cells is the number of columns of pieces, at most.
func cells(ps []piece) int {
	n := 0
	for _, q := range ps {
		if q.text[0] < utf8.RuneSelf {
			n += len(q.text)
		} else {
			n += 2
		}
	}
	return n
}
