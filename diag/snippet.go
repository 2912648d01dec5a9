package diag

import (
	"bytes"
	"slices"
	"strings"
	"unicode/utf8"
)

// lineWidth is the number of bytes of a source line that are shown: enough for
// what people write, and a bound for a file that is one long line. Around a
// subject that stands further right, margin bytes before it are shown.
const (
	lineWidth = 160
	margin    = 40
)

// tabWidth is the number of cells between tab stops.
const tabWidth = 4

// line is one source line, ready to be printed.
type line struct {
	number int
	text   string
	marks  string // '^' under the subject, '-' under the context
}

// span is the part [from, to) of a file to be underlined.
type span struct {
	from, to int
	mark     byte
}

// snippet gives the lines of the file that show the subject of d: all that it
// stands on, or the first and the last, and the line where its context begins.
func snippet(d Diagnostic, sources map[string][]byte) []line {
	src, ok := sources[d.Subject.File]
	if !ok || !fits(d.Subject, src) {
		return nil
	}
	subject := span{d.Subject.Start.Byte, d.Subject.End.Byte, '^'}
	first, last := d.Subject.Start, lastPlace(d.Subject, src)
	shown := []Pos{first}
	if last.Line > first.Line {
		if last.Line == first.Line+2 {
			// One line left out would take as much room as showing it.
			next := lineEnd(src, first.Byte) + 1
			shown = append(shown, Pos{Line: first.Line + 1, Byte: next})
		}
		shown = append(shown, last)
	}
	spans := []span{subject}
	if c := d.Context; c.File == d.Subject.File && fits(c, src) {
		at := c.Start
		spans = append(spans, span{at.Byte, min(c.End.Byte, lineEnd(src, at.Byte)), '-'})
		if !slices.ContainsFunc(shown, func(p Pos) bool { return p.Line == at.Line }) {
			shown = append(shown, at)
		}
	}
	slices.SortFunc(shown, func(a, b Pos) int { return a.Line - b.Line })
	lines := make([]line, 0, len(shown))
	for _, p := range shown {
		lines = append(lines, show(src, p, spans))
	}
	return lines
}

// fits reports whether r is a range of src: its bytes are there, and stand on
// the lines that it says.
func fits(r Range, src []byte) bool {
	start, end := r.Start, r.End
	return r.IsValid() && start.Byte >= 0 && start.Byte <= end.Byte && end.Byte <= len(src) &&
		bytes.Count(src[:start.Byte], newline) == start.Line-1 &&
		bytes.Count(src[start.Byte:end.Byte], newline) == end.Line-start.Line
}

var newline = []byte{'\n'}

// lastPlace is the place of the last character of r: a range that ends at the
// beginning of a line ends, for people, on the line before.
func lastPlace(r Range, src []byte) Pos {
	last := r.End
	for last.Line > r.Start.Line && last.Byte > r.Start.Byte && src[last.Byte-1] == '\n' {
		last.Line--
		last.Byte--
	}
	return last
}

// lineStart and lineEnd are the bounds of the line that byte at stands on.
func lineStart(src []byte, at int) int {
	start := bytes.LastIndexByte(src[:at], '\n') + 1
	if start == 0 && bytes.HasPrefix(src, []byte("\ufeff")) {
		start = min(at, len("\ufeff"))
	}
	return start
}

func lineEnd(src []byte, at int) int {
	end := len(src)
	if n := bytes.IndexByte(src[at:], '\n'); n >= 0 {
		end = at + n
	}
	if end > at && src[end-1] == '\r' {
		end--
	}
	return end
}

// show renders the line that p stands on.
func show(src []byte, p Pos, spans []span) line {
	start, end := lineStart(src, p.Byte), lineEnd(src, p.Byte)
	from, to := start, end
	if to-from > lineWidth {
		if p.Byte-from > lineWidth-margin {
			from = p.Byte - margin
			for from > start && !utf8.RuneStart(src[from]) {
				from--
			}
		}
		to = min(end, from+lineWidth)
		for to < end && to > from && !utf8.RuneStart(src[to]) {
			to--
		}
	}
	var text, marks strings.Builder
	if from > start {
		text.WriteString("…")
		marks.WriteByte(' ')
	}
	column := 0
	indented := true
	for i := from; i < to; {
		r, size := utf8.DecodeRune(src[i:to])
		piece, width := visible(r, size, src[i])
		if r == '\t' {
			width = tabWidth - column%tabWidth
			piece = strings.Repeat(" ", width)
		}
		indented = indented && (r == ' ' || r == '\t')
		mark := markAt(spans, i, indented)
		text.WriteString(piece)
		for range width {
			marks.WriteByte(mark)
		}
		column += width
		i += size
	}
	if to < end {
		text.WriteString("…")
	} else if mark := markAt(spans, to, false); mark != ' ' && !strings.ContainsRune(marks.String(), rune(mark)) {
		marks.WriteByte(mark)
	}
	return line{number: p.Line, text: strings.TrimRight(text.String(), " "), marks: strings.TrimRight(marks.String(), " ")}
}

// markAt gives the mark under the character at byte at. The first span wins.
// The indentation of a line inside a range is not marked. An empty range marks
// the character behind it.
func markAt(spans []span, at int, indentation bool) byte {
	for _, s := range spans {
		if at == s.from || at > s.from && at < s.to && !indentation {
			return s.mark
		}
	}
	return ' '
}
