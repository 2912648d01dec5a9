package containment_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// dice gives a number from 0 up to, not with, n. Property tests roll them with
// rapid, fuzz targets with the bytes of their input.
type dice func(n int) int

func pick[T any](d dice, list []T) T { return list[d(len(list))] }

// one is true once in n.
func (d dice) one(n int) bool { return d(n) == n-1 }

// drafts of the grown schemas, the oldest first.
var drafts = []struct {
	year int
	uri  string
	defs string
}{
	{4, "http://json-schema.org/draft-04/schema#", "definitions"},
	{6, "http://json-schema.org/draft-06/schema#", "definitions"},
	{7, "http://json-schema.org/draft-07/schema#", "definitions"},
	{2019, "https://json-schema.org/draft/2019-09/schema", "$defs"},
	{2020, "https://json-schema.org/draft/2020-12/schema", "$defs"},
}

type object = map[string]any

// All values are small, so that two schemas have values in common; a few are ones
// that provers get wrong.
var (
	growNames   = []string{"a", "b", "c", "ab", "x"}
	growNumbers = []json.Number{"0", "1", "2", "3", "4", "-1", "0.5", "1.5", "1.0", "2e0", "-0", "10", "0.1", "9007199254740993", "1e20"}
	growSteps   = []json.Number{"1", "2", "3", "0.5", "1.0", "4", "6", "0.1", "1.5"}
	growTexts   = []string{"", "a", "b", "ab", "ba", "aa", "abc", "x", "1", "é", "A", "a\n", "\u2028", "😀", "a b"}
	growTypes   = []string{"null", "boolean", "integer", "number", "string", "array", "object"}
)

// grower grows schemas of one draft.
type grower struct {
	dice
	year int
	// at are the pointers of what references may lead to.
	at []string
}

// document grows a whole schema, with definitions now and then.
func (d dice) document(draft int) any {
	g := &grower{dice: d, year: drafts[draft].year}
	named := d.one(3)
	if named {
		g.at = []string{"#", "#/" + drafts[draft].defs + "/T", "#/" + drafts[draft].defs + "/U"}
	}
	s, ok := g.schema(3).(object)
	if !ok {
		return !d.one(2)
	}
	s = maps.Clone(s)
	if named {
		s[drafts[draft].defs] = object{"T": g.schema(2), "U": g.schema(1)}
	}
	s["$schema"] = drafts[draft].uri
	return s
}

// schema grows one that nests at most depth deep.
func (g *grower) schema(depth int) any {
	if g.one(8) {
		if g.year == 4 {
			return object{}
		}
		return !g.one(3)
	}
	s := object{}
	focus := pick(g.dice, growTypes)
	if !g.one(3) {
		s["type"] = focus
		if g.one(4) {
			s["type"] = g.types()
		}
	}
	for range g.dice(4) {
		if g.one(5) {
			g.keyword(s, pick(g.dice, growTypes), depth)
		} else {
			g.keyword(s, focus, depth)
		}
	}
	if depth > 0 && g.one(3) {
		g.combine(s, depth)
	}
	return s
}

func (g *grower) types() []any {
	var out []any
	for _, t := range growTypes {
		if g.one(2) {
			out = append(out, t)
		}
	}
	if len(out) == 0 {
		out = append(out, pick(g.dice, growTypes))
	}
	return out
}

func (g *grower) few(depth int) []any {
	list := []any{g.schema(depth - 1)}
	for range g.dice(3) {
		list = append(list, g.schema(depth-1))
	}
	return list
}

func (g *grower) someNames() []any {
	var out []any
	for _, n := range growNames {
		if g.one(3) {
			out = append(out, n)
		}
	}
	if len(out) == 0 {
		out = append(out, pick(g.dice, growNames))
	}
	return out
}

// combine adds a keyword that is about the same value.
func (g *grower) combine(s object, depth int) {
	switch g.dice(9) {
	case 0:
		s["allOf"] = g.few(depth)
	case 1, 2:
		s["anyOf"] = g.few(depth)
	case 3:
		s["oneOf"] = g.few(depth)
	case 4:
		s["not"] = g.schema(depth - 1)
	case 5:
		s["enum"] = g.values()
	case 6:
		if g.year > 4 {
			s["const"] = g.value(2)
		}
	case 7:
		if len(g.at) > 0 {
			s["$ref"] = pick(g.dice, g.at)
		}
	case 8:
		if g.year >= 7 {
			s["if"], s["then"] = g.schema(depth-1), g.schema(depth-1)
			if g.one(2) {
				s["else"] = g.schema(depth - 1)
			}
		}
	}
}

func (g *grower) values() []any {
	var list []any
	seen := map[string]bool{}
	for range 1 + g.dice(4) {
		v := g.value(1)
		if raw, err := json.Marshal(v); err == nil && !seen[string(raw)] {
			seen[string(raw)] = true
			list = append(list, v)
		}
	}
	return list
}

// value grows any value.
func (d dice) value(depth int) any {
	n := 6
	if depth == 0 {
		n = 4
	}
	switch d(n) {
	case 0:
		return pick(d, []any{nil, true, false})
	case 1, 2:
		return pick(d, growNumbers)
	case 3:
		return pick(d, growTexts)
	case 4:
		list := []any{}
		for range d(4) {
			list = append(list, d.value(depth-1))
		}
		return list
	}
	m := object{}
	for range d(4) {
		m[pick(d, growNames)] = d.value(depth - 1)
	}
	return m
}

// pattern grows a regular expression in the grammar that RE2 and ECMA share.
func (d dice) pattern(depth int) string {
	var b strings.Builder
	if depth == 2 && d.one(2) {
		b.WriteByte('^')
	}
	for range 1 + d(3) {
		part := pick(d, []string{"a", "b", "x", ".", "[ab]", "[^a]", "[a-c]", `\d`, `\w`, `\s`, "é", `\b`, `\n`, "A", "1"})
		if depth > 0 && d.one(4) {
			part = "(" + d.pattern(depth-1) + "|" + d.pattern(depth-1) + ")"
		}
		b.WriteString(part)
		if part != `\b` {
			b.WriteString(pick(d, []string{"", "", "", "*", "+", "?", "{2}", "{1,2}"}))
		}
	}
	if depth == 2 && d.one(2) {
		b.WriteByte('$')
	}
	return b.String()
}

// keyword adds one that is about values of type t.
func (g *grower) keyword(s object, t string, depth int) {
	switch t {
	case "integer", "number":
		g.numeric(s)
	case "string":
		switch g.dice(4) {
		case 0:
			s["minLength"] = g.dice(4)
		case 1:
			s["maxLength"] = g.dice(4)
		case 2:
			s["pattern"] = g.pattern(2)
		case 3:
			s["format"] = "email"
		}
	case "array":
		g.listed(s, depth)
	case "object":
		g.named(s, depth)
	default:
		s["enum"] = g.values()
	}
}

func (g *grower) numeric(s object) {
	switch g.dice(5) {
	case 0, 1:
		s["minimum"] = pick(g.dice, growNumbers)
		if g.one(4) {
			if g.year == 4 {
				s["exclusiveMinimum"] = true
			} else {
				s["exclusiveMinimum"] = pick(g.dice, growNumbers)
			}
		}
	case 2, 3:
		s["maximum"] = pick(g.dice, growNumbers)
		if g.one(4) {
			if g.year == 4 {
				s["exclusiveMaximum"] = true
			} else {
				s["exclusiveMaximum"] = pick(g.dice, growNumbers)
			}
		}
	case 4:
		s["multipleOf"] = pick(g.dice, growSteps)
	}
}

func (g *grower) listed(s object, depth int) {
	n := 4
	if depth > 0 {
		n = 12
	}
	switch g.dice(n) {
	case 0:
		s["minItems"] = g.dice(4)
	case 1:
		s["maxItems"] = g.dice(4)
	case 2, 3:
		s["uniqueItems"] = !g.one(5)
	case 4, 5, 6:
		s["items"] = g.schema(depth - 1)
	case 7, 8:
		if g.year < 2020 {
			s["items"] = g.few(depth)
			if g.one(2) {
				s["additionalItems"] = g.schema(depth - 1)
			}
		} else {
			s["prefixItems"] = g.few(depth)
			if g.one(2) {
				s["items"] = g.schema(depth - 1)
			}
		}
	case 9, 10:
		if g.year > 4 {
			s["contains"] = g.schema(depth - 1)
		}
		if g.year >= 2019 {
			if g.one(3) {
				s["minContains"] = g.dice(4)
			}
			if g.one(3) {
				s["maxContains"] = g.dice(4)
			}
		}
	case 11:
		if g.year >= 2019 {
			s["unevaluatedItems"] = g.schema(depth - 1)
		}
	}
}

func (g *grower) named(s object, depth int) {
	n := 4
	if depth > 0 {
		n = 13
	}
	switch g.dice(n) {
	case 0:
		s["minProperties"] = g.dice(4)
	case 1:
		s["maxProperties"] = g.dice(4)
	case 2, 3:
		s["required"] = g.someNames()
	case 4, 5, 6:
		m := object{}
		for _, k := range g.someNames() {
			m[k.(string)] = g.schema(depth - 1)
		}
		s["properties"] = m
	case 7:
		m := object{}
		for range 1 + g.dice(2) {
			m[g.pattern(2)] = g.schema(depth - 1)
		}
		s["patternProperties"] = m
	case 8, 9:
		if s["additionalProperties"] = g.schema(depth - 1); g.one(2) {
			s["additionalProperties"] = false
		}
	case 10:
		if g.year > 4 {
			s["propertyNames"] = g.schema(1)
		}
	case 11:
		key := "dependencies"
		if g.year >= 2019 {
			key = "dependentSchemas"
		}
		s[key] = object{pick(g.dice, growNames): g.schema(depth - 1)}
		if g.one(2) {
			if g.year >= 2019 {
				key = "dependentRequired"
			}
			s[key] = object{pick(g.dice, growNames): g.someNames()}
		}
	case 12:
		if g.year >= 2019 {
			s["unevaluatedProperties"] = g.schema(depth - 1)
		}
	}
}

// write returns the text of a value with the keys of objects in the order of the dice.
func (d dice) write(v any) []byte {
	var b bytes.Buffer
	var put func(v any)
	put = func(v any) {
		switch v := v.(type) {
		case []any:
			b.WriteByte('[')
			for i, e := range v {
				if i > 0 {
					b.WriteByte(',')
				}
				put(e)
			}
			b.WriteByte(']')
		case object:
			keys := slices.Sorted(maps.Keys(v))
			for i := len(keys) - 1; i > 0; i-- {
				j := d(i + 1)
				keys[i], keys[j] = keys[j], keys[i]
			}
			b.WriteByte('{')
			for i, k := range keys {
				if i > 0 {
					b.WriteByte(',')
				}
				put(k)
				b.WriteByte(':')
				put(v[k])
			}
			b.WriteByte('}')
		default:
			e := json.NewEncoder(&b)
			e.SetEscapeHTML(false)
			if err := e.Encode(v); err != nil {
				panic(err)
			}
			b.Truncate(b.Len() - 1) // the line end of Encode
		}
	}
	put(v)
	return b.Bytes()
}

// text returns the text of a value with sorted keys.
func text(v any) []byte { return dice(func(n int) int { return n - 1 }).write(v) }
