package notation

import (
	"bytes"
	"slices"
	"strings"

	"chimera.ai/engine/compiler/lint"
	"chimera.ai/engine/internal/syntax"
)

// editor changes the text of a file here and there.
type editor struct {
	text  []byte
	edits []edit
	// failed reports that the text cannot be changed so.
	failed bool
}

// edit puts a text in the place of the bytes [start, end).
type edit struct {
	start, end int
	text       string
}

func (e *editor) replace(start, end int, text string) {
	e.edits = append(e.edits, edit{start, end, text})
}

// result returns the changed text, or nil if it could not be changed.
func (e *editor) result() []byte {
	if e.failed {
		return nil
	}
	slices.SortStableFunc(e.edits, func(a, b edit) int { return a.start - b.start })
	var out []byte
	done := 0
	returns := bytes.Contains(e.text, []byte("\r\n"))
	for _, x := range e.edits {
		if x.start < done || x.end < x.start || x.end > len(e.text) {
			return nil
		}
		text := strings.ReplaceAll(x.text, "\r\n", "\n")
		if returns {
			text = strings.ReplaceAll(text, "\n", "\r\n")
		}
		out = append(append(out, e.text[done:x.start]...), text...)
		done = x.end
	}
	return append(out, e.text[done:]...)
}

func start(v *syntax.Value) int { return v.Range().Start.Byte }

func end(v *syntax.Value) int { return v.Range().End.Byte }

// slice is the text of the file from the start of one value to the end of another.
func (e *editor) slice(from, to *syntax.Value) string { return string(e.text[start(from):end(to)]) }

// lineStart is where the line of an offset begins, lineEnd where it ends, without its line feed.
func (e *editor) lineStart(at int) int {
	for at > 0 && e.text[at-1] != '\n' {
		at--
	}
	return at
}

func (e *editor) lineEnd(at int) int {
	for at < len(e.text) && e.text[at] != '\n' {
		at++
	}
	if at > 0 && at < len(e.text) && e.text[at-1] == '\r' {
		at--
	}
	return at
}

// nextLine is where the line behind that of an offset begins.
func (e *editor) nextLine(at int) int {
	for at < len(e.text) && e.text[at] != '\n' {
		at++
	}
	return min(at+1, len(e.text))
}

// flow reports whether a map or list is written between brackets.
func (e *editor) flow(v *syntax.Value) bool {
	c := e.text[min(start(v), len(e.text)-1)]
	return c == '{' || c == '['
}

// dash is the place of the dash before an entry of a block list.
func (e *editor) dash(v *syntax.Value) int {
	at := start(v) - 1
	for at >= 0 && (e.text[at] == ' ' || e.text[at] == '\t') {
		at--
	}
	if at < 0 || e.text[at] != '-' || strings.TrimSpace(string(e.text[e.lineStart(at):at])) != "" {
		e.failed = true
		return 0
	}
	return at
}

// field is a change of a field of a map: to a text, or away if that is "".
type field struct {
	name, text string
	value      *syntax.Value
}

// changeTo is the change of a field to a value.
func changeTo(name string, v *syntax.Value) field { return field{name, inline(v), v} }

// longLine is the length of a line that is broken, if it is a map of a block.
const longLine = 110

// lines writes a field of a block: on one line, or, if that is long, each entry on its own.
func lines(indent, name string, v *syntax.Value) string {
	text := inline(v)
	if v.Kind != syntax.Map || len(v.Fields) == 0 || len(indent)+len(name)+len(text) < longLine {
		return name + ": " + text
	}
	var b strings.Builder
	b.WriteString(name + ":")
	for _, f := range v.Fields {
		b.WriteString("\n" + indent + "  " + inline(f.Key) + ": " + inline(f.Value))
	}
	return b.String()
}

// change changes the fields of a map; those that it does not have are added.
func (e *editor) change(m *syntax.Value, changes []field) {
	if len(changes) == 0 {
		return
	}
	if m.Range().Start.Byte == m.Range().End.Byte || len(m.Fields) == 0 {
		e.failed = true
		return
	}
	if e.flow(m) {
		e.changeFlow(m, changes)
		return
	}
	e.changeBlock(m, changes)
}

func changed(changes []field, name string) (text string, is bool) {
	for _, c := range changes {
		if c.name == name {
			return c.text, true
		}
	}
	return "", false
}

func valueOf(changes []field, name string) *syntax.Value {
	for _, c := range changes {
		if c.name == name {
			return c.value
		}
	}
	return nil
}

func (e *editor) changeFlow(m *syntax.Value, changes []field) {
	var b strings.Builder
	b.WriteByte('{')
	last := -2
	for i, f := range m.Fields {
		text, is := changed(changes, f.Key.Text)
		if is && text == "" {
			continue
		}
		switch {
		case last == i-1:
			b.WriteString(string(e.text[end(m.Fields[last].Value):start(f.Key)]))
		case last >= 0:
			b.WriteString(", ")
		}
		last = i
		if is {
			b.WriteString(f.Key.Text + ": " + text)
		} else {
			b.WriteString(e.slice(f.Key, f.Value))
		}
	}
	for _, c := range changes {
		if c.text == "" || m.Get(c.name) != nil {
			continue
		}
		if last >= 0 {
			b.WriteString(", ")
		}
		last = len(m.Fields)
		b.WriteString(c.name + ": " + c.text)
	}
	b.WriteByte('}')
	e.replace(start(m), end(m), b.String())
}

func (e *editor) changeBlock(m *syntax.Value, changes []field) {
	kept := -1
	indent := strings.Repeat(" ", m.Fields[0].Key.Range().Start.Column-1)
	for i, f := range m.Fields {
		text, is := changed(changes, f.Key.Text)
		switch {
		case !is:
			kept = i
		case text != "":
			kept = i
			e.replace(start(f.Key), end(f.Value), lines(indent, f.Key.Text, valueOf(changes, f.Key.Text)))
		case i == 0 && len(m.Fields) > 1:
			e.replace(start(f.Key), start(m.Fields[1].Key), "")
		default:
			e.replace(e.lineStart(start(f.Key)), e.nextLine(end(f.Value)), "")
		}
	}
	if kept < 0 {
		e.failed = true
		return
	}
	at := e.lineEnd(end(m.Fields[kept].Value))
	for _, c := range changes {
		if c.text != "" && m.Get(c.name) == nil {
			e.replace(at, at, "\n"+indent+lines(indent, c.name, c.value))
		}
	}
}

// differences lists how a node in the other notation differs from the one in the file.
func differences(n *lint.Node, other *syntax.Value) (out []field) {
	for _, f := range n.At.Fields {
		v := other.Get(f.Key.Text)
		switch {
		case v == nil:
			out = append(out, field{name: f.Key.Text})
		case v != f.Value:
			out = append(out, changeTo(f.Key.Text, v))
		}
	}
	for _, f := range other.Fields {
		if n.At.Get(f.Key.Text) == nil {
			out = append(out, changeTo(f.Key.Text, f.Value))
		}
	}
	return out
}
