package plangen

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
)

// object is decoded JSON. Numbers in it are json.Number, so that a schema reads
// the same whether it was drawn here or read from a text.
type object = map[string]any

func num[T int | int64 | float64](n T) json.Number {
	raw, _ := json.Marshal(n)
	return json.Number(raw)
}

func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

func chance(r *rand.Rand, percent int) bool { return r.IntN(100) < percent }

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// The words that names, constants and patterns are drawn from: few, so that
// they meet.
var (
	names    = []string{"a", "b", "n", "text", "items", "kind", "more", "flag", "dash-ed", "x1"}
	words    = []string{"", "a", "b", "ab", "red", "green", "Ünï", "two words", "5", "${x}", "\u2028", "line\nline"}
	patterns = []string{"^[a-z]+$", "^a", "b$", "^[a-z]{2,5}$", "^(red|green|blue)$", "^\\S+$"}
)

// schema draws a schema: what plans and tools say of values, up to depth.
func schema(r *rand.Rand, depth int) any {
	kinds := 12
	if depth <= 0 {
		kinds = 8
	}
	switch r.IntN(kinds) {
	case 0, 1:
		return integer(r)
	case 2:
		return decimal(r)
	case 3, 4:
		return text(r)
	case 5:
		return object{"type": "boolean"}
	case 6:
		return enum(r)
	case 7:
		return pick[any](r, object{"type": "null"}, true, object{}, object{"type": []any{"integer", "null"}}, object{"type": []any{"string", "integer"}},
			object{"type": []any{"number", "boolean"}, "maximum": num(10)}, object{"not": object{"type": "object"}})
	case 8:
		return list(r, depth)
	case 9:
		return union(r, depth)
	}
	return structure(r, depth)
}

// bounds puts bounds on a schema of numbers.
func bounds(r *rand.Rand, s object, low, high json.Number) object {
	if chance(r, 70) {
		s[pick(r, "minimum", "minimum", "exclusiveMinimum")] = low
	}
	if chance(r, 70) {
		s[pick(r, "maximum", "maximum", "exclusiveMaximum")] = high
	}
	return s
}

func integer(r *rand.Rand) object {
	s := object{"type": "integer"}
	switch r.IntN(6) {
	case 0:
	case 1:
		bounds(r, s, num(-1<<53), num(1<<53))
	case 2:
		bounds(r, s, json.Number("-9223372036854775808"), json.Number("9223372036854775807"))
	default:
		low := r.IntN(20) - 10
		bounds(r, s, num(low), num(low+2+r.IntN(100)))
	}
	if chance(r, 10) {
		s["multipleOf"] = num(1 + r.IntN(4))
	}
	return s
}

func decimal(r *rand.Rand) object {
	s := object{"type": "number"}
	if chance(r, 80) {
		low := r.IntN(20) - 10
		bounds(r, s, json.Number(fmt.Sprintf("%d.%d", low, r.IntN(10))), num(low+12+r.IntN(100)))
	}
	if chance(r, 10) {
		s["multipleOf"] = pick(r, json.Number("0.5"), json.Number("0.01"))
	}
	return s
}

func text(r *rand.Rand) object {
	s := object{"type": "string"}
	if chance(r, 30) {
		s["minLength"] = num(r.IntN(3))
	}
	if chance(r, 30) {
		s["maxLength"] = num(3 + r.IntN(20))
	}
	if chance(r, 20) {
		s["pattern"] = pick(r, patterns...)
	}
	return s
}

func enum(r *rand.Rand) object {
	if chance(r, 25) {
		return object{"const": constant(r)}
	}
	if chance(r, 60) {
		return object{"enum": []any{"red", "green", "blue"}[:2+r.IntN(2)]}
	}
	return object{"enum": []any{constant(r), constant(r), "red"}}
}

func constant(r *rand.Rand) any {
	return pick[any](r, nil, true, num(1), json.Number("1.0"), json.Number("2.5"), num(0), "a", "red", []any{}, object{"a": num(1)}, json.Number("1e30"))
}

func list(r *rand.Rand, depth int) object {
	s := object{"type": "array"}
	if chance(r, 85) {
		s["items"] = schema(r, depth-1)
	}
	if chance(r, 40) {
		s["minItems"] = num(1 + r.IntN(2))
	}
	if chance(r, 40) {
		s["maxItems"] = num(3 + r.IntN(3))
	}
	if chance(r, 10) {
		s["prefixItems"] = []any{schema(r, depth-1), schema(r, depth-1)}
	}
	return s
}

func structure(r *rand.Rand, depth int) object {
	properties := object{}
	var required []any
	for range 1 + r.IntN(4) {
		name := pick(r, names...)
		properties[name] = schema(r, depth-1)
	}
	for _, name := range sorted(properties) {
		if chance(r, 60) {
			required = append(required, name)
		}
	}
	s := object{"type": "object", "properties": properties}
	if len(required) > 0 {
		s["required"] = required
	}
	switch r.IntN(6) {
	case 0, 1:
		s["additionalProperties"] = false
	case 2:
		s["additionalProperties"] = schema(r, 0)
	}
	return s
}

// union draws alternatives: of different types, or objects told apart by kind.
func union(r *rand.Rand, depth int) object {
	keyword := pick(r, "anyOf", "oneOf")
	if chance(r, 50) {
		var of []any
		for _, kind := range words[3 : 5+r.IntN(2)] {
			s := structure(r, depth-1)
			s["properties"].(object)["kind"] = object{"const": kind}
			required, _ := s["required"].([]any)
			if !slices.Contains(required, any("kind")) {
				s["required"] = append(required, "kind")
			}
			of = append(of, s)
		}
		return object{keyword: of}
	}
	return object{keyword: []any{integer(r), text(r), pick[any](r, object{"type": "null"}, object{"type": "boolean"}, structure(r, depth-1))}[:2+r.IntN(2)]}
}

// wider gives a schema that takes all that s takes, and often more.
func wider(r *rand.Rand, s any) any {
	o, ok := s.(object)
	if !ok || chance(r, 30) {
		return s
	}
	o = maps.Clone(o)
	switch r.IntN(6) {
	case 0:
		return true
	case 1:
		return object{"anyOf": []any{s, schema(r, 0)}}
	}
	for _, keyword := range sorted(o) {
		if !chance(r, 40) {
			continue
		}
		switch keyword {
		case "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minLength", "maxLength", "pattern", "multipleOf", "minItems", "maxItems", "additionalProperties":
			// What is not a property alone may be more than what the others take,
			// but what a schema takes grows with each keyword that goes.
			delete(o, keyword)
		case "required":
			required := o["required"].([]any)
			o["required"] = required[:r.IntN(len(required)+1)]
		case "enum":
			o["enum"] = append(slices.Clone(o["enum"].([]any)), "more")
		case "items":
			o["items"] = wider(r, o["items"])
		case "properties":
			properties := maps.Clone(o["properties"].(object))
			for _, name := range sorted(properties) {
				properties[name] = wider(r, properties[name])
			}
			o["properties"] = properties
		case "type":
			if o["type"] == "integer" {
				o["type"] = "number"
			}
		}
	}
	return o
}
