package expr_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"pgregory.net/rapid"

	"chimera.ai/engine/schemas"
)

// shape is a schema of which values can be drawn.
type shape struct {
	schema map[string]any
	draw   func(r *rapid.T) any
	// keys and item say what is inside, to write expressions that mean something.
	keys map[string]*shape
	item *shape
	kind string
}

func pick[T any](r *rapid.T, of ...T) T { return rapid.SampledFrom(of).Draw(r, "pick") }

var keyNames = []string{"a", "b", "c", "kind", "n", "s", "list", "x-y"}

func drawShape(r *rapid.T, depth int) *shape {
	forms := []string{"null", "bool", "int", "int", "number", "number", "text", "text", "enum", "const", "anything"}
	if depth > 0 {
		forms = append(forms, "list", "list", "list", "object", "object", "object", "object", "union", "tagged", "tuple", "map")
	}
	switch pick(r, forms...) {
	case "null":
		return &shape{kind: "null", schema: map[string]any{"type": "null"}, draw: func(*rapid.T) any { return nil }}
	case "bool":
		return &shape{kind: "bool", schema: map[string]any{"type": "boolean"}, draw: func(r *rapid.T) any { return rapid.Bool().Draw(r, "b") }}
	case "int":
		return wholeShape(r)
	case "number":
		return numberShape(r)
	case "text":
		return textShape(r)
	case "enum":
		values := []any{"a", "red", json.Number("1"), json.Number("2.5"), nil, true, "", json.Number("0"), []any{json.Number("1")}, map[string]any{"a": "x"}}
		n := rapid.IntRange(1, 4).Draw(r, "n")
		var all []any
		for range n {
			if v := pick(r, values...); !slices.ContainsFunc(all, func(o any) bool { return fmt.Sprint(o) == fmt.Sprint(v) }) {
				all = append(all, v)
			}
		}
		return &shape{kind: "enum", schema: map[string]any{"enum": all}, draw: func(r *rapid.T) any { return pick(r, all...) }}
	case "const":
		v := pick[any](r, "a", json.Number("3"), json.Number("0.5"), true, nil, "circle")
		return &shape{kind: "const", schema: map[string]any{"const": v}, draw: func(*rapid.T) any { return v }}
	case "anything":
		return &shape{kind: "any", schema: map[string]any{}, draw: func(r *rapid.T) any { return drawShape(r, 1).draw(r) }}
	case "list":
		return listShape(r, depth)
	case "tuple":
		first, second := drawShape(r, depth-1), drawShape(r, depth-1)
		return &shape{kind: "list", item: first, schema: map[string]any{"type": "array", "minItems": 2, "maxItems": 2, "prefixItems": []any{first.schema, second.schema}},
			draw: func(r *rapid.T) any { return []any{first.draw(r), second.draw(r)} }}
	case "object":
		return objectShape(r, depth, "")
	case "map":
		item := drawShape(r, depth-1)
		return &shape{kind: "object", keys: map[string]*shape{"a": item}, schema: map[string]any{"type": "object", "additionalProperties": item.schema},
			draw: func(r *rapid.T) any {
				out := map[string]any{}
				for _, k := range keyNames {
					if rapid.IntRange(0, 3).Draw(r, "has") == 0 {
						out[k] = item.draw(r)
					}
				}
				return out
			}}
	case "union":
		one, two := drawShape(r, depth-1), drawShape(r, depth-1)
		keys := one.keys
		if keys == nil {
			keys = two.keys
		}
		item := one.item
		if item == nil {
			item = two.item
		}
		return &shape{kind: pick(r, one.kind, two.kind), keys: keys, item: item, schema: map[string]any{"anyOf": []any{one.schema, two.schema}},
			draw: func(r *rapid.T) any { return pick(r, one, two).draw(r) }}
	}
	one, two := objectShape(r, depth, "circle"), objectShape(r, depth, "square")
	keys := map[string]*shape{}
	for k, s := range two.keys {
		keys[k] = s
	}
	for k, s := range one.keys {
		keys[k] = s
	}
	return &shape{kind: "object", keys: keys, schema: map[string]any{"oneOf": []any{one.schema, two.schema}},
		draw: func(r *rapid.T) any { return pick(r, one, two).draw(r) }}
}

func wholeShape(r *rapid.T) *shape {
	s := map[string]any{"type": "integer"}
	lo, hi := -1<<30, 1<<30
	bounded := rapid.IntRange(0, 3).Draw(r, "bounds") > 0
	if bounded {
		lo = pick(r, -100, -1, 0, 1, 5)
		hi = lo + pick(r, 0, 1, 3, 1000)
		s["minimum"], s["maximum"] = lo, hi
	}
	return &shape{kind: "number", schema: s, draw: func(r *rapid.T) any {
		if !bounded && rapid.IntRange(0, 3).Draw(r, "wild") == 0 {
			return json.Number(pick(r, "9223372036854775807", "-9223372036854775808", "1e30", "123456789012345678901234567890", "-0", "0.0", "1e400"))
		}
		n := strconv.Itoa(rapid.IntRange(lo, hi).Draw(r, "n"))
		if rapid.IntRange(0, 3).Draw(r, "notation") == 0 {
			return json.Number(n + pick(r, ".0", "e0", ".00e0"))
		}
		return json.Number(n)
	}}
}

func numberShape(r *rapid.T) *shape {
	s := map[string]any{"type": "number"}
	lo, hi := -1000.0, 1000.0
	bounded := rapid.IntRange(0, 3).Draw(r, "bounds") > 0
	if bounded {
		lo = pick(r, -2.5, -1, 0, 0.1, 1)
		hi = lo + pick(r, 0.3, 1, 2.5, 1e6)
		s["minimum"], s["maximum"] = json.Number(fmt.Sprint(lo)), json.Number(fmt.Sprint(hi))
		if rapid.IntRange(0, 3).Draw(r, "open") == 0 {
			delete(s, "minimum")
			s["exclusiveMinimum"] = json.Number(fmt.Sprint(lo))
		}
	}
	check := validator(s)
	return &shape{kind: "number", schema: s, draw: func(r *rapid.T) any {
		var n json.Number
		switch rapid.IntRange(0, 4).Draw(r, "notation") {
		case 0:
			n = json.Number(pick(r, "1e400", "-1e400", "0.12345678901234567890123456789", "1e-400", "0.1", "0.30000000000000000001", "1", "2.0", "-0.0", "2.5"))
		case 1:
			n = json.Number(strconv.Itoa(int(rapid.Float64Range(lo, hi).Draw(r, "n"))))
		default:
			n = json.Number(strconv.FormatFloat(rapid.Float64Range(lo, hi).Draw(r, "n"), 'g', -1, 64))
		}
		if check(n) != nil {
			n = json.Number(strconv.FormatFloat(hi, 'g', -1, 64))
		}
		return n
	}}
}

func validator(s map[string]any) func(v any) error {
	text, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	c, err := schemas.Compile(text)
	if err != nil {
		panic(err)
	}
	return c.Validate
}

func textShape(r *rapid.T) *shape {
	s := map[string]any{"type": "string"}
	least := pick(r, 0, 0, 1, 3)
	if least > 0 {
		s["minLength"] = least
	}
	if rapid.Bool().Draw(r, "most") {
		s["maxLength"] = least + 5
	}
	digits := rapid.IntRange(0, 4).Draw(r, "digits") == 0
	if digits {
		s["pattern"] = "^[0-9]+$"
		least = max(least, 1)
	}
	return &shape{kind: "text", schema: s, draw: func(r *rapid.T) any {
		n := rapid.IntRange(least, least+4).Draw(r, "len")
		var sb strings.Builder
		for range n {
			if digits {
				sb.WriteString(pick(r, "0", "1", "9"))
			} else {
				sb.WriteString(pick(r, "a", "b", "é", " ", ",", "1", "😀", "\n"))
			}
		}
		return sb.String()
	}}
}

func listShape(r *rapid.T, depth int) *shape {
	item := drawShape(r, depth-1)
	s := map[string]any{"type": "array", "items": item.schema}
	least := pick(r, 0, 0, 1, 2)
	if least > 0 {
		s["minItems"] = least
	}
	if rapid.Bool().Draw(r, "most") {
		s["maxItems"] = least + 3
	}
	return &shape{kind: "list", item: item, schema: s, draw: func(r *rapid.T) any {
		out := []any{}
		for range rapid.IntRange(least, least+3).Draw(r, "len") {
			out = append(out, item.draw(r))
		}
		return out
	}}
}

func objectShape(r *rapid.T, depth int, tag string) *shape {
	keys := map[string]*shape{}
	var required []string
	for range rapid.IntRange(1, 4).Draw(r, "keys") {
		k := pick(r, keyNames...)
		if keys[k] == nil {
			keys[k] = drawShape(r, depth-1)
			if rapid.IntRange(0, 2).Draw(r, "required") > 0 {
				required = append(required, k)
			}
		}
	}
	if tag != "" {
		keys["kind"] = &shape{kind: "text", schema: map[string]any{"const": tag}, draw: func(*rapid.T) any { return tag }}
		if !slices.Contains(required, "kind") {
			required = append(required, "kind")
		}
	}
	props := map[string]any{}
	for k, s := range keys {
		props[k] = s.schema
	}
	s := map[string]any{"type": "object", "properties": props}
	if len(required) > 0 {
		s["required"] = required
	}
	closed := rapid.IntRange(0, 2).Draw(r, "closed") == 0
	if closed {
		s["additionalProperties"] = false
	}
	return &shape{kind: "object", keys: keys, schema: s, draw: func(r *rapid.T) any {
		out := map[string]any{}
		for _, k := range sortedKeys(keys) {
			if slices.Contains(required, k) || rapid.Bool().Draw(r, "there") {
				out[k] = keys[k].draw(r)
			}
		}
		if !closed && rapid.IntRange(0, 3).Draw(r, "more") == 0 {
			if k := pick(r, append(keyNames, "zz")...); keys[k] == nil {
				out[k] = pick[any](r, nil, "more", json.Number("7"), []any{})
			}
		}
		return out
	}}
}

func sortedKeys(m map[string]*shape) []string {
	var out []string
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}
