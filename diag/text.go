package diag

import (
	"bufio"
	"fmt"
	"io"
	"strings"

	"chimera.ai/engine/internal/excerpt"
)

// textWidth is the number of terminal cells after which details are wrapped,
// maxWitness the number of characters of a counterexample that are shown.
const (
	textWidth  = 80
	maxWitness = 600
)

// ANSI sequences of coloured output.
const (
	red    = "\x1b[1;31m"
	yellow = "\x1b[1;33m"
	blue   = "\x1b[34m"
	cyan   = "\x1b[36m"
	bold   = "\x1b[1m"
	reset  = "\x1b[0m"
)

// WriteText writes the findings for people: place, severity, code and summary
// on one line, then the source lines with the subject underlined by ^, the context
// and the related places by -, each with its label, then detail, counterexample
// and suggestion. Places in other files are shown under the file's name.
//
// sources holds the text of each file by the name that ranges use; a finding in
// a file that is not there has no source lines. color adds ANSI colours.
//
// Findings and sources are not trusted: whatever a terminal might act on is
// written as an escape, and long lines are cut around the subject.
func (ds Diagnostics) WriteText(w io.Writer, sources map[string][]byte, color bool) error {
	t := &text{w: bufio.NewWriter(w), color: color}
	files := make(map[string]*source, len(sources))
	for name, text := range sources {
		files[name] = newSource(text)
	}
	for i, d := range ds {
		if i > 0 {
			t.print("", "\n")
		}
		t.finding(d, files)
	}
	if err := t.w.Flush(); err != nil {
		return fmt.Errorf("write diagnostics: %w", err)
	}
	return nil
}

// text writes findings. Errors of w stay in its buffer until it is flushed.
type text struct {
	w     *bufio.Writer
	color bool
}

// print writes s, which is safe for a terminal, in a colour or in none ("").
func (t *text) print(color, s string) {
	if s == "" {
		return
	}
	if t.color && color != "" {
		s = color + s + reset
	}
	_, _ = t.w.WriteString(s) // the error is kept for Flush
}

func (t *text) finding(d Diagnostic, sources map[string]*source) {
	tone := red
	if d.Severity == Warning {
		tone = yellow
	}
	if d.Subject.File != "" {
		place := escape(d.Subject.File)
		if d.Subject.IsValid() {
			place += fmt.Sprintf(":%d:%d", d.Subject.Start.Line, d.Subject.Start.Column)
		}
		t.print(bold, place+":")
		t.print("", " ")
	}
	t.print(tone, escape(fmt.Sprintf("%s[%s]", d.Severity, d.Code)))
	t.print(bold, ": "+escape(d.Summary))
	t.print("", "\n")

	blocks := snippet(d, sources)
	gutter := 1
	for _, b := range blocks {
		gutter = max(gutter, len(fmt.Sprint(b.lines[len(b.lines)-1].number)))
	}
	for _, b := range blocks {
		head := strings.Repeat(" ", gutter) + " |"
		if b.file != "" {
			head = strings.Repeat(" ", gutter) + fmt.Sprintf("::: %s:%d:%d", escape(b.file), b.at.Line, b.at.Column)
		}
		t.print(blue, head)
		t.print("", "\n")
		for i, l := range b.lines {
			if i > 0 && l.number > b.lines[i-1].number+1 {
				t.print(blue, "...")
				t.print("", "\n")
			}
			t.line(l, gutter, tone)
		}
	}

	for paragraph := range strings.SplitSeq(strings.TrimRight(d.Detail, "\n"), "\n") {
		t.note(gutter, "", wrap(escape(paragraph), textWidth-gutter-3))
	}
	if !strings.Contains(d.Summary, "`"+d.Node+"`") {
		t.note(gutter, "node: ", verbatim(d.Node))
	}
	if !shows(blocks, d.Edge) {
		t.note(gutter, "edge: ", verbatim(d.Edge))
	}
	if d.Before == "" {
		t.note(gutter, "counterexample: ", verbatim(excerpt.Runes(d.Witness, maxWitness+1)))
	} else {
		t.note(gutter, "counterexample: ", verbatim(excerpt.Runes(d.Before, maxWitness+1)))
		t.note(gutter, "which becomes:  ", verbatim(excerpt.Runes(d.Witness, maxWitness+1)))
	}
	t.note(gutter, "suggestion: ", verbatim(d.Suggestion))
}

// line writes one source line and the marks under it.
func (t *text) line(l line, gutter int, tone string) {
	t.print(blue, fmt.Sprintf("%*d |", gutter, l.number))
	if l.text != "" {
		t.print("", " "+l.text)
	}
	t.print("", "\n")
	if l.marks == "" {
		return
	}
	// The last label stands behind the marks, the others below them, each at the
	// end of a bar.
	inline := ""
	below := l.labels
	if n := len(below); n > 0 && below[n-1].cell >= strings.LastIndexByte(l.marks, ' ') {
		inline, below = below[n-1].text, below[:n-1]
	}
	t.print(blue, strings.Repeat(" ", gutter)+" |")
	t.print("", " ")
	t.marks(l.marks, tone)
	if inline != "" {
		color := cyan
		if l.labels[len(l.labels)-1].mark == '^' {
			color = tone
		}
		t.print("", " ")
		t.print(color, inline)
	}
	t.print("", "\n")
	for i := len(below) - 1; i >= 0; i-- {
		bars := ""
		for _, b := range below[:i+1] {
			if pad := b.cell - len(bars); pad >= 0 {
				bars += strings.Repeat(" ", pad) + "|"
			}
		}
		t.print(blue, strings.Repeat(" ", gutter)+" |")
		t.print(cyan, " "+bars)
		t.print("", "\n")
		t.print(blue, strings.Repeat(" ", gutter)+" |")
		t.print(cyan, " "+strings.TrimSuffix(bars, "|")+below[i].text)
		t.print("", "\n")
	}
}

// marks writes the line of marks.
func (t *text) marks(marks, tone string) {
	for rest := marks; rest != ""; {
		n := len(rest) - len(strings.TrimLeft(rest, rest[:1]))
		color := ""
		switch rest[0] {
		case '^':
			color = tone
		case '-':
			color = cyan
		}
		t.print(color, rest[:n])
		rest = rest[n:]
	}
}

// shows reports whether a line that is shown holds the text, which then need
// not be repeated.
func shows(blocks []block, s string) bool {
	for _, b := range blocks {
		for _, l := range b.lines {
			if s != "" && strings.Contains(l.text, s) {
				return true
			}
		}
	}
	return false
}

// note writes lines that belong to one thing that is said about a finding.
func (t *text) note(gutter int, label string, lines []string) {
	lead := " = "
	for _, l := range lines {
		t.print(blue, strings.Repeat(" ", gutter)+lead)
		t.print(bold, label)
		t.print("", l+"\n")
		lead, label = "   ", ""
	}
}

// verbatim gives the lines of s as they stand.
func verbatim(s string) []string {
	if s == "" {
		return nil
	}
	lines := strings.Split(s, "\n")
	for i := range lines {
		lines[i] = escape(lines[i])
	}
	return lines
}

// wrap breaks s between words into lines of at most width cells. Words that are
// longer stay whole.
func wrap(s string, width int) []string {
	var lines []string
	var line strings.Builder
	used := 0
	for word := range strings.FieldsSeq(s) {
		n := cells(word)
		if used > 0 && used+1+n > width {
			lines = append(lines, line.String())
			line.Reset()
			used = 0
		}
		if used > 0 {
			line.WriteByte(' ')
			used++
		}
		line.WriteString(word)
		used += n
	}
	if used > 0 {
		lines = append(lines, line.String())
	}
	return lines
}
