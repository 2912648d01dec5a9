package diag

import (
	"slices"
	"strings"
	"unicode/utf8"

	"chimera.ai/engine/internal/excerpt"
)

// lineWidth is the number of bytes of a source line that are shown: enough for
// what people write, and a bound for a file that is one long line. Around a
// subject that stands further right, margin bytes before it are shown.
const (
	lineWidth = 160
	margin    = 40
)

// maxRelated bounds the places that are shown beside the subject, and maxLabel
// the characters that are said about one.
const (
	maxRelated = 4
	maxLabel   = 120
)

// tabWidth is the number of cells between tab stops.
const tabWidth = 4

// line is one source line, ready to be printed.
type line struct {
	number int
	text   string
	marks  string // '^' under the subject, '-' under all else
	// labels stand under the marks, by the cell where they begin.
	labels []label
}

// label is what is said about a marked piece of a line.
type label struct {
	cell int
	mark byte
	text string
}

// span is the part [from, to) of a file to be underlined. Its label stands on
// the line number on.
type span struct {
	from, to int
	mark     byte
	label    string
	on       int
}

// block is the lines of one file that a finding shows.
type block struct {
	// file is "" for the file of the subject, and at the first place of another.
	file  string
	at    Pos
	lines []line
}

// snippet gives the lines that show the subject of d (all that it stands on, or
// the first and the last), and those where its context and the related places
// begin; places in other files follow, a block for each file. A finding about a secret shows
// nothing: its line may hold one.
func snippet(d Diagnostic, sources map[string]*source) []block {
	if d.Code == ConfigSecret {
		return nil
	}
	related := d.Related
	if d.Context.IsValid() {
		related = append([]Related{{Range: d.Context}}, related...)
	}
	if len(related) > maxRelated {
		related = related[:maxRelated]
	}
	var blocks []block
	if src, ok := sources[d.Subject.File]; ok && src.fits(d.Subject) {
		spans, shown := []span{}, []Pos{}
		first, last := d.Subject.Start, lastPlace(d.Subject, src)
		spans = append(spans, span{first.Byte, d.Subject.End.Byte, '^', d.Label, last.Line})
		shown = append(shown, first)
		if last.Line > first.Line {
			if last.Line == first.Line+2 {
				// One line left out would take as much room as showing it.
				next := src.nextLine(first.Byte)
				shown = append(shown, Pos{Line: first.Line + 1, Byte: next})
			}
			shown = append(shown, last)
		}
		blocks = append(blocks, block{lines: render(src, spans, shown, of(d.Subject.File, related))})
	}
	var files []string
	for _, r := range related {
		if f := r.Range.File; f != d.Subject.File && !slices.Contains(files, f) {
			files = append(files, f)
		}
	}
	for _, file := range files {
		src, ok := sources[file]
		if !ok {
			continue
		}
		here := of(file, related)
		if lines := render(src, nil, nil, here); len(lines) > 0 {
			blocks = append(blocks, block{file: file, at: here[0].Range.Start, lines: lines})
		}
	}
	return blocks
}

// of lists the places in one file.
func of(file string, related []Related) []Related {
	var out []Related
	for _, r := range related {
		if r.Range.File == file {
			out = append(out, r)
		}
	}
	return out
}

// render gives the lines of one file that are shown already and those where
// the related places begin.
func render(src *source, spans []span, shown []Pos, related []Related) []line {
	for _, r := range related {
		if !src.fits(r.Range) {
			continue
		}
		at := r.Range.Start
		spans = append(spans, span{at.Byte, min(r.Range.End.Byte, src.lineEnd(at.Byte)), '-', r.Label, at.Line})
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

// lastPlace is the place of the last character of r: a range that ends at the
// beginning of a line ends, for people, on the line before.
func lastPlace(r Range, src *source) Pos {
	last := r.End
	for last.Line > r.Start.Line && last.Byte > r.Start.Byte && src.text[last.Byte-1] == '\n' {
		last.Line--
		last.Byte--
	}
	return last
}

// show renders the line that p stands on.
func show(file *source, p Pos, spans []span) line {
	src, start, end := file.text, file.lineStart(p.Byte), file.lineEnd(p.Byte)
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
	starts := make([]int, len(spans)) // the first cell of each span, counted from 1
	for i := from; i < to; {
		r, size := utf8.DecodeRune(src[i:to])
		piece, width := visible(r, size, src[i])
		if r == '\t' {
			width = tabWidth - column%tabWidth
			piece = strings.Repeat(" ", width)
		}
		indented = indented && (r == ' ' || r == '\t')
		mark := markAt(spans, i, indented)
		for k, s := range spans {
			if starts[k] == 0 && (i == s.from || i > s.from && i < s.to && !indented) {
				starts[k] = marks.Len() + 1
			}
		}
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
	out := line{number: p.Line, text: strings.TrimRight(text.String(), " "), marks: strings.TrimRight(marks.String(), " ")}
	for k, s := range spans {
		if s.label == "" || s.on != p.Line {
			continue
		}
		if starts[k] == 0 {
			starts[k] = len(out.marks) // it begins where the line ends, or was cut
		}
		out.labels = append(out.labels, label{max(starts[k]-1, 0), s.mark, excerpt.Runes(escape(s.label), maxLabel+1)})
	}
	slices.SortStableFunc(out.labels, func(a, b label) int { return a.cell - b.cell })
	return out
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
