package syntax

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"chimera.ai/engine/diag"
)

// Span says that the text of a rewritten string from Start on, up to the next span, stands for
// the bytes [Origin, End) of the string that it was made of. Copied reports that the two are
// equal.
type Span struct {
	Start, Origin, End int
	Copied             bool
}

// rewriting is what a rewritten string was made of.
type rewriting struct {
	origin *Value
	// spans are sorted by Start.
	spans []Span
	// names maps names in the text to what the author wrote.
	names map[string]string
	// partial reports that the text does not stand for the whole of origin.
	partial bool
}

// Rewrite returns a string with another text in the place of the string v. Positions in it are
// those of v, by spans, which are sorted by Start and cover the text. names maps names in the
// text to what the author wrote in their place, for [Value.Authored]. partial reports that the
// text does not stand for all of v.
func (v *Value) Rewrite(text string, spans []Span, names map[string]string, partial bool) *Value {
	out := *v
	out.Text = text
	out.Parts = &Parts{rewriting: &rewriting{v, spans, names, partial}}
	return &out
}

// Authored returns an expression over the names of a rewritten string as its author would write
// it, by replace; it returns text as it is if v was not rewritten.
func (v *Value) Authored(text string, replace func(text string, names map[string]string) string) string {
	if v == nil || v.rewriting == nil || len(v.rewriting.names) == 0 {
		return text
	}
	return replace(text, v.rewriting.names)
}

// Whole reports whether v is written in the file, or stands for a string that is, so that another
// text may take its place there.
func (v *Value) Whole() bool {
	switch {
	case v == nil:
		return false
	case v.rewriting != nil:
		return !v.rewriting.partial && v.rewriting.origin.Whole()
	}
	return v.source == nil || v.written().style != unwritten || v.Kind == List || v.Kind == Map
}

// Origin returns the string of the file that v was made of, or v.
func (v *Value) Origin() *Value {
	for v != nil && v.rewriting != nil {
		v = v.rewriting.origin
	}
	return v
}

// at returns the position of an offset in a rewritten string. end reports that it is the end of a
// range, which belongs to what stands before it.
func (r *rewriting) at(offset int, end bool) diag.Pos {
	i, found := slices.BinarySearchFunc(r.spans, offset, func(s Span, at int) int { return s.Start - at })
	if !found || end && i > 0 {
		i--
	}
	of := func(offset int) diag.Pos {
		if r.origin.rewriting != nil {
			return r.origin.rewriting.at(offset, end)
		}
		return r.origin.At(offset)
	}
	if i < 0 || i >= len(r.spans) {
		return of(0)
	}
	switch s := r.spans[i]; {
	case s.Copied:
		return of(min(s.Origin+offset-s.Start, s.End))
	case end && offset > s.Start:
		return of(s.End)
	default:
		return of(s.Origin)
	}
}

// TextAs returns a string that is not written in the file, in the place of v.
func (v *Value) TextAs(text string) *Value { return v.ScalarAs(String, text) }

// ScalarAs returns a scalar that is not written in the file, in the place of v.
func (v *Value) ScalarAs(kind Kind, text string) *Value {
	out := *v
	out.Kind, out.Text, out.Parts, out.style, out.commented = kind, text, noParts, unwritten, false
	return &out
}

// MapAs returns a map of entries that is not written in the file, in the place of v.
func (v *Value) MapAs(entries []Field) *Value {
	out := *v
	out.Kind, out.Text, out.Parts, out.style = Map, "", &Parts{Fields: entries}, unwritten
	return &out
}

// ListAs is MapAs for a list.
func (v *Value) ListAs(items []*Value) *Value {
	out := *v
	out.Kind, out.Text, out.Parts, out.style = List, "", &Parts{Items: items}, unwritten
	return &out
}

// AnyAs returns decoded JSON as a value that is not written in the file, in the place of v. The
// keys of maps are sorted, but for "type", which comes first.
func (v *Value) AnyAs(x any) *Value {
	switch x := x.(type) {
	case nil:
		return v.ScalarAs(Null, "")
	case bool:
		return v.ScalarAs(Bool, strconv.FormatBool(x))
	case json.Number:
		return v.ScalarAs(Number, x.String())
	case string:
		return v.TextAs(x)
	case []any:
		items := make([]*Value, len(x))
		for i, item := range x {
			items[i] = v.AnyAs(item)
		}
		return v.ListAs(items)
	case map[string]any:
		entries := make([]Field, 0, len(x))
		for _, key := range slices.SortedFunc(maps.Keys(x), typeFirst) {
			entries = append(entries, Field{v.TextAs(key), v.AnyAs(x[key])})
		}
		return v.MapAs(entries)
	}
	panic("syntax: not decoded JSON")
}

// typeFirst orders keys by name, but for "type", which people read first.
func typeFirst(a, b string) int {
	switch {
	case a == b:
		return 0
	case a == "type":
		return -1
	case b == "type":
		return 1
	}
	return strings.Compare(a, b)
}
