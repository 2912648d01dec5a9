package lint

import (
	"strings"

	"chimera.ai/engine/internal/syntax"
)

// writer writes a string that stands for one of the file, of parts of it and of other text.
type writer struct {
	v     *syntax.Value
	b     strings.Builder
	spans []syntax.Span
	// authored maps names in the text to what the author wrote.
	authored map[string]string
}

// copy copies bytes of the string.
func (w *writer) copy(start, end int) {
	if start < end {
		w.spans = append(w.spans, syntax.Span{Start: w.b.Len(), Origin: start, End: end, Copied: true})
		w.b.WriteString(w.v.Text[start:end])
	}
}

// put writes a text that stands for bytes of the string.
func (w *writer) put(text string, start, end int) {
	if text != "" {
		w.spans = append(w.spans, syntax.Span{Start: w.b.Len(), Origin: start, End: end})
		w.b.WriteString(text)
	}
}

// renamed copies bytes of the string with other names for the ports that the references in it
// read, which are in their order.
func (w *writer) renamed(refs []reference, names map[port]string, start, end int) {
	at := start
	for i := range refs {
		ref := &refs[i]
		if ref.in != w.v || ref.Start < start || ref.End > end {
			continue
		}
		w.copy(at, ref.Start)
		name := names[ref.port()]
		if w.authored == nil {
			w.authored = map[string]string{}
		}
		w.authored[name] = w.v.Text[ref.Start:ref.End]
		w.put(name, ref.Start, ref.End)
		at = ref.End
	}
	w.copy(at, end)
}

// value returns the string. partial reports that it does not stand for the whole one.
func (w *writer) value(partial bool) *syntax.Value {
	return w.v.Rewrite(w.b.String(), w.spans, w.authored, partial)
}
