package containment_test

import (
	"encoding/json"
	"maps"
	"math/big"
	"regexp/syntax"
	"slices"
	"strings"
)

// sampler makes values that are close to what a schema accepts. It reads the text
// of the schema and knows nothing of the prover. Most of its values fit; the rest
// nearly do.
type sampler struct {
	dice
	root    any
	numbers []json.Number
	texts   []string
}

// sampler prepares for values of root that are also near the others.
func (d dice) sampler(root any, others ...any) *sampler {
	s := &sampler{dice: d, root: root, numbers: slices.Clone(growNumbers[:6]), texts: slices.Clone(growTexts[:4])}
	for _, o := range append(others, root) {
		s.gather(o)
	}
	return s
}

func (s *sampler) gather(v any) {
	switch v := v.(type) {
	case json.Number:
		s.numbers = append(s.numbers, v)
	case string:
		if !strings.HasPrefix(v, "#") && !strings.Contains(v, "json-schema.org") && !slices.Contains(growTypes, v) {
			s.texts = append(s.texts, v)
		}
	case []any:
		for _, e := range v {
			s.gather(e)
		}
	case object:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			s.gather(v[k])
		}
	}
}

// next makes a value.
func (s *sampler) next() any {
	v := s.fit(s.root, 5)
	if s.one(4) {
		v = s.spoil(v)
	}
	return v
}

// spoil changes one place.
func (s *sampler) spoil(v any) any {
	switch v := v.(type) {
	case []any:
		if len(v) > 0 && !s.one(3) {
			out := slices.Clone(v)
			i := s.dice(len(v))
			out[i] = s.spoil(out[i])
			return out
		}
		return append(slices.Clone(v), s.free(1))
	case object:
		out := maps.Clone(v)
		if keys := slices.Sorted(maps.Keys(v)); len(keys) > 0 && !s.one(3) {
			k := pick(s.dice, keys)
			if s.one(3) {
				delete(out, k)
			} else {
				out[k] = s.spoil(out[k])
			}
			return out
		}
		out[pick(s.dice, growNames)] = s.free(1)
		return out
	}
	return s.free(1)
}

// free makes any value, with a liking for the constants of the schemas.
func (s *sampler) free(depth int) any {
	switch s.dice(4) {
	case 0:
		return s.number(nil)
	case 1:
		return pick(s.dice, s.texts)
	}
	return s.value(depth)
}

func (s *sampler) resolve(ref string) any {
	if ref == "#" {
		return s.root
	}
	at := s.root
	for _, name := range strings.Split(strings.TrimPrefix(ref, "#/"), "/") {
		m, ok := at.(object)
		if !ok {
			return true
		}
		at = m[name]
	}
	return at
}

// fit makes a value for a schema.
func (s *sampler) fit(schema any, depth int) any {
	m, ok := schema.(object)
	if !ok || depth <= 0 || s.one(16) {
		return s.free(1)
	}
	if ref, ok := m["$ref"].(string); ok && !s.one(4) {
		return s.fit(s.resolve(ref), depth-1)
	}
	if v, ok := m["const"]; ok && !s.one(8) {
		return v
	}
	if list, ok := m["enum"].([]any); ok && len(list) > 0 && !s.one(8) {
		return pick(s.dice, list)
	}
	var inner []any
	for _, k := range []string{"allOf", "anyOf", "oneOf"} {
		if list, ok := m[k].([]any); ok {
			inner = append(inner, list...)
		}
	}
	for _, k := range []string{"then", "else", "if"} {
		if e, ok := m[k]; ok {
			inner = append(inner, e)
		}
	}
	if len(inner) > 0 && !s.one(3) {
		with, ok := pick(s.dice, inner).(object)
		if ok {
			rest := maps.Clone(m)
			for _, k := range []string{"allOf", "anyOf", "oneOf", "then", "else", "if"} {
				delete(rest, k)
			}
			return s.fit(joined(rest, with), depth-1)
		}
	}
	return s.typed(s.kind(m), m, depth)
}

// joined puts the words of two schemas together; the second wins.
func joined(a, b object) object {
	out := maps.Clone(a)
	for k, v := range b {
		x, ok := out[k].(object)
		y, too := v.(object)
		if k == "properties" && ok && too {
			both := maps.Clone(x)
			maps.Copy(both, y)
			v = both
		}
		if l, ok := out[k].([]any); k == "required" && ok {
			v = slices.Concat(l, v.([]any))
		}
		out[k] = v
	}
	return out
}

// kind chooses a type: one that is asked for, or one that the keywords are about.
func (s *sampler) kind(m object) string {
	switch t := m["type"].(type) {
	case string:
		return t
	case []any:
		if len(t) > 0 {
			return pick(s.dice, t).(string)
		}
	}
	likely := slices.Clone(growTypes)
	for k := range m {
		switch k {
		case "minimum", "maximum", "multipleOf", "exclusiveMinimum", "exclusiveMaximum":
			likely = append(likely, "number", "number", "number")
		case "minLength", "maxLength", "pattern":
			likely = append(likely, "string", "string", "string")
		case "items", "prefixItems", "minItems", "maxItems", "uniqueItems", "contains", "unevaluatedItems":
			likely = append(likely, "array", "array", "array")
		case "properties", "required", "additionalProperties", "patternProperties", "minProperties", "maxProperties",
			"propertyNames", "dependencies", "dependentSchemas", "dependentRequired", "unevaluatedProperties":
			likely = append(likely, "object", "object", "object")
		}
	}
	slices.Sort(likely)
	return pick(s.dice, likely)
}

func (s *sampler) typed(t string, m object, depth int) any {
	switch t {
	case "null":
		return nil
	case "boolean":
		return s.one(2)
	case "integer":
		n := s.number(m)
		if r, ok := new(big.Rat).SetString(n.String()); ok && !r.IsInt() {
			return json.Number(new(big.Int).Div(r.Num(), r.Denom()).String())
		}
		return n
	case "number":
		return s.number(m)
	case "string":
		return s.word(m)
	case "array":
		return s.list(m, depth)
	}
	return s.members(m, depth)
}

// number is a bound or constant, a little beside it, or a multiple of a step.
func (s *sampler) number(m object) json.Number {
	list := s.numbers
	var near []json.Number
	for _, k := range []string{"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"} {
		if n, ok := m[k].(json.Number); ok {
			near = append(near, n)
		}
	}
	if len(near) > 0 && !s.one(3) {
		list = near
	}
	r, ok := new(big.Rat).SetString(pick(s.dice, list).String())
	if !ok {
		return "0"
	}
	if step, ok := m["multipleOf"].(json.Number); ok && !s.one(4) {
		if by, ok := new(big.Rat).SetString(step.String()); ok && by.Sign() > 0 {
			q := new(big.Rat).Quo(r, by)
			k := new(big.Int).Add(new(big.Int).Div(q.Num(), q.Denom()), big.NewInt(int64(s.dice(3)-1)))
			r = new(big.Rat).Mul(by, new(big.Rat).SetInt(k))
		}
	} else {
		r = new(big.Rat).Add(r, pick(s.dice, []*big.Rat{new(big.Rat), new(big.Rat), big.NewRat(1, 1), big.NewRat(-1, 1), big.NewRat(1, 2), big.NewRat(-1, 10)}))
	}
	if n, exact := r.FloatPrec(); exact {
		return json.Number(r.FloatString(n))
	}
	return "0"
}

// word is a text that matches the pattern, often, of a length that is asked for, often.
func (s *sampler) word(m object) string {
	w := pick(s.dice, s.texts)
	if p, ok := m["pattern"].(string); ok && !s.one(5) {
		if re, err := syntax.Parse(p, syntax.Perl); err == nil {
			w = s.match(re)
			if s.one(4) {
				w = pick(s.dice, []string{"a", "\n", "b", "z"}) + w
			}
			if s.one(4) {
				w += pick(s.dice, []string{"a", "\n", "b", "z"})
			}
		}
	}
	if n, ok := m["minLength"].(int); ok && !s.one(5) {
		for len([]rune(w)) < n {
			w += pick(s.dice, []string{"a", "b", "😀"})
		}
	}
	if n, ok := m["maxLength"].(int); ok && len([]rune(w)) > n && !s.one(5) {
		w = string([]rune(w)[:n])
	}
	return w
}

func (s *sampler) match(re *syntax.Regexp) string {
	times := func(least, most int) string {
		var b strings.Builder
		for range least + s.dice(max(most-least, 0)+1) {
			b.WriteString(s.match(re.Sub[0]))
		}
		return b.String()
	}
	switch re.Op {
	case syntax.OpLiteral:
		return string(re.Rune)
	case syntax.OpCharClass:
		if len(re.Rune) < 2 {
			return ""
		}
		i := 2 * s.dice(len(re.Rune)/2)
		lo, hi := re.Rune[i], re.Rune[i+1]
		return string(lo + rune(s.dice(int(min(hi-lo, 3))+1)))
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		return pick(s.dice, []string{"a", "b", "z", "\r", "é"})
	case syntax.OpCapture:
		return s.match(re.Sub[0])
	case syntax.OpStar:
		return times(0, 2)
	case syntax.OpPlus:
		return times(1, 2)
	case syntax.OpQuest:
		return times(0, 1)
	case syntax.OpRepeat:
		return times(re.Min, max(re.Max, re.Min))
	case syntax.OpConcat:
		var b strings.Builder
		for _, sub := range re.Sub {
			b.WriteString(s.match(sub))
		}
		return b.String()
	case syntax.OpAlternate:
		return s.match(pick(s.dice, re.Sub))
	default:
		return ""
	}
}

func (s *sampler) list(m object, depth int) []any {
	n := s.dice(4)
	if least, ok := m["minItems"].(int); ok && !s.one(4) {
		n = max(n, least)
	}
	if most, ok := m["maxItems"].(int); ok && !s.one(4) {
		n = min(n, most)
	}
	var first []any
	rest := any(true)
	switch items := m["items"].(type) {
	case []any:
		first = items
		if more, ok := m["additionalItems"]; ok {
			rest = more
		}
	case nil:
	default:
		rest = items
	}
	if prefix, ok := m["prefixItems"].([]any); ok {
		first = prefix
	}
	out := []any{}
	for i := range n {
		from := rest
		if i < len(first) {
			from = first[i]
		} else if rest == false && !s.one(4) {
			break
		}
		if e, ok := m["contains"]; ok && s.one(2) {
			from = e
		}
		out = append(out, s.fit(from, depth-1))
	}
	return out
}

func (s *sampler) members(m object, depth int) object {
	out := object{}
	props, _ := m["properties"].(object)
	pats, _ := m["patternProperties"].(object)
	rest, bounded := m["additionalProperties"]
	add := func(k string) {
		switch sub, named := props[k]; {
		case named:
			out[k] = s.fit(sub, depth-1)
		case bounded && rest != false:
			out[k] = s.fit(rest, depth-1)
		default:
			out[k] = s.free(1)
		}
	}
	required, _ := m["required"].([]any)
	for _, k := range required {
		if !s.one(12) {
			add(k.(string))
		}
	}
	for _, k := range slices.Sorted(maps.Keys(props)) {
		if s.one(2) {
			add(k)
		}
	}
	for _, p := range slices.Sorted(maps.Keys(pats)) {
		if re, err := syntax.Parse(p, syntax.Perl); err == nil && !s.one(3) {
			out[s.match(re)] = s.fit(pats[p], depth-1)
		}
	}
	if rest != false || s.one(4) {
		least, _ := m["minProperties"].(int)
		for range max(s.dice(3), least-len(out)) {
			add(pick(s.dice, growNames))
		}
	}
	return out
}
