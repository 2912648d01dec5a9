package plangen

import (
	"encoding/json"
	"math/rand/v2"
	"strings"

	"chimera.ai/engine/schemas"
)

// Instances draws values of one schema.
type Instances struct {
	schema   any
	compiled *schemas.Schema
}

// NewInstances prepares a schema, which stands on its own.
func NewInstances(raw json.RawMessage) (*Instances, error) {
	compiled, err := schemas.Compile(raw)
	if err != nil {
		return nil, err
	}
	v, err := schemas.Decode(raw)
	if err != nil {
		return nil, err
	}
	return &Instances{schema: v, compiled: compiled}, nil
}

// tries is how often a value is drawn before the schema passes for empty.
const tries = 200

// Draw gives decoded JSON that the schema takes, often at an edge of what it
// takes; false where none is found.
func (i *Instances) Draw(r *rand.Rand) (any, bool) {
	for range tries {
		if v := instance(r, i.schema, 4); i.compiled.Validate(v) == nil {
			return v, true
		}
	}
	return nil, false
}

// Takes reports whether the schema takes a value.
func (i *Instances) Takes(v any) bool { return i.compiled.Validate(v) == nil }

// instance draws a value that often matches the schema.
func instance(r *rand.Rand, s any, depth int) any {
	o, ok := s.(object)
	if !ok || len(o) == 0 {
		return anything(r, depth)
	}
	if c, ok := o["const"]; ok {
		return other(r, c)
	}
	if values, ok := o["enum"].([]any); ok {
		return other(r, pick(r, values...))
	}
	for _, keyword := range []string{"anyOf", "oneOf"} {
		if of, ok := o[keyword].([]any); ok {
			return instance(r, pick(r, of...), depth)
		}
	}
	kind, _ := o["type"].(string)
	if kinds, ok := o["type"].([]any); ok {
		kind, _ = pick(r, kinds...).(string)
	}
	switch kind {
	case "integer":
		return whole(r, o)
	case "number":
		return fraction(r, o)
	case "string":
		return line(r, o)
	case "boolean":
		return chance(r, 50)
	case "null":
		return nil
	case "array":
		return sequence(r, o, depth)
	case "object":
		return members(r, o, depth)
	}
	return anything(r, depth)
}

// other writes a number in another way, sometimes.
func other(r *rand.Rand, v any) any {
	n, ok := v.(json.Number)
	if !ok || !chance(r, 30) {
		return v
	}
	switch s := string(n); {
	case strings.ContainsAny(s, "eE"):
		return n
	case strings.Contains(s, "."):
		return json.Number(s + "0")
	case strings.TrimLeft(s, "-0") == "":
		return pick(r, json.Number("0.0"), json.Number("-0"), json.Number("0e5"))
	case len(s) < 19:
		return pick(r, json.Number(s+".0"), json.Number(s+"e0"), json.Number(s+"0e-1"), json.Number(s+".00"))
	}
	return n
}

func anything(r *rand.Rand, depth int) any {
	kinds := 9
	if depth <= 0 {
		kinds = 7
	}
	switch r.IntN(kinds) {
	case 0:
		return nil
	case 1:
		return chance(r, 50)
	case 2, 3:
		return whole(r, object{})
	case 4:
		return fraction(r, object{})
	case 5, 6:
		return line(r, object{})
	case 7:
		return sequence(r, object{}, depth)
	}
	return members(r, object{}, depth)
}

// edge gives one of the bounds of a schema of numbers, or "".
func edge(r *rand.Rand, o object) json.Number {
	n, _ := o[pick(r, "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")].(json.Number)
	return n
}

func whole(r *rand.Rand, o object) any {
	if n := edge(r, o); n != "" && chance(r, 60) && !strings.Contains(string(n), ".") {
		if i, err := n.Int64(); err == nil && chance(r, 60) && i > -1<<62 && i < 1<<62 {
			n = num(i + int64(r.IntN(5)-2))
		}
		return other(r, n)
	}
	switch r.IntN(10) {
	case 0:
		return pick(r, json.Number("9223372036854775807"), json.Number("-9223372036854775808"), json.Number("9007199254740993"),
			json.Number("9223372036854775808"), json.Number("1e30"), json.Number("-1e400"))
	case 1, 2:
		return other(r, num(r.IntN(2000)-1000))
	}
	return other(r, num(r.IntN(24)-8))
}

func fraction(r *rand.Rand, o object) any {
	if n := edge(r, o); n != "" && chance(r, 40) {
		return other(r, n)
	}
	switch r.IntN(12) {
	case 0:
		return pick(r, json.Number("1e-400"), json.Number("0.12345678901234567890123"), json.Number("1.7976931348623157e308"), json.Number("12345678901234567890.5"),
			json.Number("5e-324"), json.Number("-1e308"))
	case 1, 2, 3, 4:
		return whole(r, o)
	}
	return json.Number(string(num(r.IntN(60)-12)) + pick(r, ".5", ".25", ".1", ".01", ".999", ".5e0"))
}

func line(r *rand.Rand, o object) any {
	p, _ := o["pattern"].(string)
	switch {
	case p == "" && chance(r, 50):
		return pick(r, words...)
	case p != "" && chance(r, 70):
		return pick(r, "a", "ab", "red", "green", "bab", "aab", "xyz")
	}
	n := r.IntN(6)
	if length, ok := o["maxLength"].(json.Number); ok && chance(r, 40) {
		i, _ := length.Int64()
		n = int(i)
	}
	if length, ok := o["minLength"].(json.Number); ok && chance(r, 30) {
		i, _ := length.Int64()
		n = int(i)
	}
	return strings.Repeat(pick(r, "a", "b", "é", "😀", "-", ","), n)
}

func sequence(r *rand.Rand, o object, depth int) any {
	n := r.IntN(4)
	for _, keyword := range []string{"minItems", "maxItems"} {
		if bound, ok := o[keyword].(json.Number); ok && chance(r, 50) {
			i, _ := bound.Int64()
			n = int(i)
		}
	}
	prefix, _ := o["prefixItems"].([]any)
	out := make([]any, 0, n)
	for i := range n {
		s := o["items"]
		if i < len(prefix) {
			s = prefix[i]
		}
		out = append(out, instance(r, s, depth-1))
	}
	return out
}

func members(r *rand.Rand, o object, depth int) any {
	out := object{}
	properties, _ := o["properties"].(object)
	required, _ := o["required"].([]any)
	for _, name := range sorted(properties) {
		if chance(r, 55) {
			out[name] = instance(r, properties[name], depth-1)
		}
	}
	for _, name := range required {
		if _, ok := out[name.(string)]; !ok {
			out[name.(string)] = instance(r, properties[name.(string)], depth-1)
		}
	}
	if chance(r, 25) && depth > 0 {
		if name := pick(r, names...); properties[name] == nil {
			out[name] = instance(r, o["additionalProperties"], depth-1)
		}
	}
	return out
}
