package pool

import (
	"maps"
	"slices"
)

// plainWords holds the keywords that say no more about an object than about each
// port by itself, and those that refuse nothing.
var plainWords = map[string]bool{
	"type": true, "properties": true, "required": true, "additionalProperties": true,
	"title": true, "description": true, "default": true, "examples": true, "$comment": true, "deprecated": true,
	"readOnly": true, "writeOnly": true, "format": true, "$schema": true, "$id": true, "$defs": true, "definitions": true, "defs": true,
}

// shape is what a schema says about its objects, if that is obviously no more than
// which properties they have and what these are.
type shape struct {
	// named lists the properties, sorted, if no others are allowed.
	named    []string
	closed   bool
	required []string
}

// shapeOf returns the shape of a decoded schema, or nil if it says more.
func shapeOf(value any) *shape {
	m, _ := value.(map[string]any)
	if ref, alone := m["$ref"].(string); alone && !legacy(value) {
		for k := range m {
			if k != "$ref" && (!plainWords[k] || k == "type" || k == "properties" || k == "required" || k == "additionalProperties" || k == "$id") {
				return nil
			}
		}
		target, ok := Resolve(value, ref)
		if m, _ = target.(map[string]any); !ok {
			return nil
		}
	}
	if m == nil {
		return nil
	}
	for k := range m {
		if !plainWords[k] {
			return nil
		}
	}
	if t, typed := m["type"]; typed {
		if names, ok := Words(t); !ok || !slices.Contains(names, "object") {
			return nil
		}
	}
	s := &shape{}
	if _, s.closed = m["additionalProperties"]; s.closed {
		properties, _ := m["properties"].(map[string]any)
		s.named = slices.Sorted(maps.Keys(properties))
	}
	if m["required"] != nil {
		ok := false
		if s.required, ok = Words(m["required"]); !ok {
			return nil
		}
	}
	return s
}

// Lists reports whether a closed object with these ports obviously satisfies the
// schema if each port fits and the certain ones are present.
func (s *Schema) Lists(ports, certain []string) bool {
	s.Prepare()
	if s.shape == nil {
		return false
	}
	for _, p := range ports {
		if _, named := slices.BinarySearch(s.shape.named, p); s.shape.closed && !named {
			return false
		}
	}
	for _, r := range s.shape.required {
		if !slices.Contains(certain, r) {
			return false
		}
	}
	return true
}

// Words returns the value of a keyword that is a string or a list of strings.
func Words(v any) ([]string, bool) {
	switch x := v.(type) {
	case string:
		return []string{x}, true
	case []any:
		out := make([]string, 0, len(x))
		for _, e := range x {
			s, ok := e.(string)
			if !ok {
				return nil, false
			}
			out = append(out, s)
		}
		return out, true
	}
	return nil, false
}
