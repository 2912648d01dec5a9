// Package syntax reads YAML 1.2 and JSON documents into values that know
// exactly where each of their tokens stands in the file.
package syntax

import (
	"encoding/json"

	"chimera.ai/engine/diag"
)

// Kind is the type of a [Value], one of the six of JSON.
type Kind int

// The kinds.
const (
	Null Kind = iota
	Bool
	Number
	String
	List
	Map
)

// Value is one node of a document.
type Value struct {
	Kind Kind
	// Range covers the value's tokens, half open.
	Range diag.Range
	// Text is a String's decoded text, a Number's canonical JSON literal, a
	// Bool's "true" or "false".
	Text string
	// Items are a List's elements.
	Items []*Value
	// Fields are a Map's entries in file order.
	Fields []Field
}

// Field is one entry of a Map. Key is always of kind String.
type Field struct{ Key, Value *Value }

// Get returns the value of key, or nil if v is no Map or has no such key.
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
		for i, x := range v.Items {
			out[i] = x.Any()
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

// At returns the file position of byte offset of a String's decoded Text.
func (v *Value) At(offset int) diag.Pos { return v.Range.Start }

// Sub returns the file range of the bytes [start, end) of a String's decoded
// Text.
func (v *Value) Sub(start, end int) diag.Range {
	return diag.Range{File: v.Range.File, Start: v.At(start), End: v.At(end)}
}

// Plain reports whether v is an unquoted scalar.
func (v *Value) Plain() bool { return false }

// Commented reports whether a comment follows the scalar on its last line.
func (v *Value) Commented() bool { return false }

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
