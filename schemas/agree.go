package schemas

import "slices"

// agree reports whether a schema inside a document means the same in two drafts: its
// own, and that of the document, by which the library reads it anyway. It accepts the
// forms of keywords that all drafts from the older to the newer one read alike, and
// considers everything else a difference.
func agree(v any, a, b string) bool {
	old, young := age(a), age(b)
	if old > young {
		old, young = young, old
	}
	return alike(v, old, young)
}

// age counts drafts from the oldest, 0.
func age(draft string) int { return len(drafts) - 1 - slices.Index(drafts, draft) }

// The drafts by age.
const (
	draft4 = iota
	draft6
	draft7
	draft2019
	draft2020
)

// alikeIn maps keywords whose value holds no schema to the oldest draft from which on
// they are read alike.
var alikeIn = map[string]int{
	"$schema": draft4, "type": draft4, "enum": draft4, "required": draft4,
	"minProperties": draft4, "maxProperties": draft4, "minItems": draft4, "maxItems": draft4, "uniqueItems": draft4,
	"minLength": draft4, "maxLength": draft4, "pattern": draft4, "multipleOf": draft4, "minimum": draft4, "maximum": draft4,
	"exclusiveMinimum": draft6, "exclusiveMaximum": draft6, "const": draft6,
	"title": draft4, "description": draft4, "default": draft4, "format": draft4, "examples": draft4, "$comment": draft4,
}

func alike(v any, old, young int) bool {
	m, ok := v.(map[string]any)
	if !ok {
		_, boolean := v.(bool)
		return boolean && old >= draft6
	}
	for key, v := range m {
		if since, plain := alikeIn[key]; plain {
			if old < since {
				return false
			}
			continue
		}
		same := false
		switch key {
		case "properties", "patternProperties":
			same = all(v, old, young)
		case "not":
			same = alike(v, old, young)
		case "propertyNames":
			same = old >= draft6 && alike(v, old, young)
		case "if", "then", "else":
			same = old >= draft7 && alike(v, old, young)
		case "allOf", "anyOf", "oneOf":
			same = all(v, old, young)
		case "additionalProperties":
			_, boolean := v.(bool)
			same = boolean || alike(v, old, young)
		case "items":
			if _, list := v.([]any); list {
				same = young < draft2020 && all(v, old, young)
			} else {
				same = alike(v, old, young)
			}
		case "additionalItems":
			_, boolean := v.(bool)
			same = young < draft2020 && (boolean || alike(v, old, young))
		}
		if !same {
			return false
		}
	}
	return true
}

// all reports whether all members or elements are alike.
func all(v any, old, young int) bool {
	switch v := v.(type) {
	case map[string]any:
		for _, e := range v {
			if !alike(e, old, young) {
				return false
			}
		}
		return true
	case []any:
		return !slices.ContainsFunc(v, func(e any) bool { return !alike(e, old, young) })
	}
	return false
}
