package syntax

import (
	"encoding/json"
	"strings"
	"unicode/utf8"

	"chimera.ai/engine/diag"
)

// Kind is the type of a [Value], one of the six of JSON.
type Kind uint8

// The kinds.
const (
	Null Kind = iota
	Bool
	Number
	String
	List
	Map
)

// String names the kind as messages do: "null", "boolean", "number", "string",
// "list", "map".
func (k Kind) String() string {
	switch k {
	case Null:
		return "null"
	case Bool:
		return "boolean"
	case Number:
		return "number"
	case String:
		return "string"
	case List:
		return "list"
	case Map:
		return "map"
	}
	return "unknown"
}

// style is how a scalar is written.
type style uint8

const (
	unwritten style = iota // a value that is not there, or no scalar
	plain
	single
	double
	literal
	folded
)

// Value is one node of a document.
type Value struct {
	// Text is a String's decoded text, a Number's JSON literal, a Bool's "true"
	// or "false". Two literals of one number may differ ("1.0", "1.00"): nothing
	// that the author wrote is lost.
	Text string
	// Parts is never nil.
	*Parts

	source     *source
	start, end position
	Kind       Kind
	style      style
	commented  bool
}

// Parts is what few values have, apart from them, since a large plan has millions:
// most are keys and short texts.
type Parts struct {
	// Items are a List's elements.
	Items []*Value
	// Fields are a Map's entries in file order, with distinct keys.
	Fields []Field

	// target is the value that an alias stands for.
	target *Value
	// indent is the number of spaces before each line of a block scalar.
	indent int
	// rewriting is what a string was made of that is not written in the file.
	rewriting *rewriting
}

// noParts is shared by all values that have none.
var noParts = &Parts{}

// position is a position, as small as the largest file lets it be: a large plan has
// millions of values.
type position struct{ line, column, byte int32 }

func positionOf(p diag.Pos) position { return position{int32(p.Line), int32(p.Column), int32(p.Byte)} }

func (s position) pos() diag.Pos {
	return diag.Pos{Line: int(s.line), Column: int(s.column), Byte: int(s.byte)}
}

// Range covers the value's tokens, half open: a quoted scalar with its quotes, a
// flow collection with its brackets, a block collection from its first key or
// dash to the end of its last entry, a block scalar from its indicator to the
// end of its last line. A value that is not written ("a:") has an empty range
// behind its key or dash. An alias has the range of the alias; what it holds has
// that of where it is written.
func (v *Value) Range() diag.Range {
	if v.source == nil {
		return diag.Range{}
	}
	return diag.Range{File: v.source.name, Start: v.start.pos(), End: v.end.pos()}
}

// Field is one entry of a Map. Key is always of kind String.
type Field struct{ Key, Value *Value }

// Get returns the value of key, or nil if v is nil, no Map, or has no such key.
func (v *Value) Get(key string) *Value {
	if v == nil {
		return nil
	}
	for i := range v.Fields {
		if v.Fields[i].Key.Text == key {
			return v.Fields[i].Value
		}
	}
	return nil
}

// Any returns v as nil, bool, json.Number, string, []any or map[string]any.
func (v *Value) Any() any {
	if v == nil {
		return nil
	}
	switch v.Kind {
	case Bool:
		return v.Text == "true"
	case Number:
		return json.Number(v.Text)
	case String:
		return v.Text
	case List:
		out := make([]any, len(v.Items))
		for i, item := range v.Items {
			out[i] = item.Any()
		}
		return out
	case Map:
		out := make(map[string]any, len(v.Fields))
		for _, f := range v.Fields {
			out[f.Key.Text] = f.Value.Any()
		}
		return out
	}
	return nil
}

// Plain reports whether v is a scalar without quotes that is no block scalar.
func (v *Value) Plain() bool { return v != nil && v.written().style == plain }

// Commented reports whether a comment follows v, a scalar or an alias, on its
// last line. Behind an unquoted text that is often no comment but text that its
// author forgot to quote.
func (v *Value) Commented() bool { return v != nil && v.commented }

// written is the value whose token is in the file: v, or what an alias means.
func (v *Value) written() *Value {
	if v.target != nil {
		return v.target
	}
	return v
}

// At returns the file position of byte offset of a String's decoded Text:
// through escapes, folded lines and the indentation of block scalars. An offset
// inside a character means its first byte, one beyond the text its end (the
// closing quote). Line feeds that a block scalar ends with stand at its end. In
// the text of an alias it is the position where the text is written. For other
// kinds it is the start of v.
func (v *Value) At(offset int) diag.Pos {
	if v == nil {
		return diag.Pos{}
	}
	v = v.written()
	if v.rewriting != nil {
		return v.rewriting.at(offset, false)
	}
	if v.source == nil || v.Kind != String || v.style == unwritten {
		return v.start.pos()
	}
	text, from, end := v.source.text, int(v.start.byte), int(v.end.byte)
	if v.style == single || v.style == double {
		from, end = from+1, end-1
	}
	offset = max(offset, 0)
	at := end
	switch {
	case offset >= len(v.Text):
	case len(v.Text) == end-from: // nothing is escaped or folded
		at = from + offset
	default:
		d := decoder{stop: offset, at: -1}
		switch v.style {
		case plain:
			d.plain(text, from, end)
		case single:
			d.single(text, from, end)
		case double:
			d.double(text, from, end)
		case literal, folded:
			line := from + strings.IndexByte(text[from:], '\n') + 1
			d.block(text, line, end, v.indent, v.style == folded, keep)
		}
		if d.at >= 0 {
			at = d.at
		}
	}
	for at > from && at < end && !utf8.RuneStart(text[at]) {
		at--
	}
	return advance(v.start.pos(), text, at)
}

// Sub returns the file range of the bytes [start, end) of a String's decoded
// Text.
func (v *Value) Sub(start, end int) diag.Range {
	if v == nil {
		return diag.Range{}
	}
	if v.rewriting != nil {
		return diag.Range{File: v.Range().File, Start: v.rewriting.at(start, false), End: v.rewriting.at(max(start, end), true)}
	}
	return diag.Range{File: v.Range().File, Start: v.At(start), End: v.At(max(start, end))}
}
