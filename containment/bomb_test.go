package containment_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/containment"
	"chimera.ai/engine/schemas"
)

func ref(format string, a ...any) object {
	return object{"$ref": "#/$defs/" + fmt.Sprintf(format, a...)}
}

// doubled is a schema of n definitions, each of which refers to the one before
// twice.
func doubled(n int, last any, twice func(s any) object) object {
	defs := object{"d0": last}
	for i := range n {
		defs[fmt.Sprintf("d%d", i+1)] = twice(ref("d%d", i))
	}
	return object{"$defs": defs, "$ref": fmt.Sprintf("#/$defs/d%d", n)}
}

func both(key string) func(s any) object {
	return func(s any) object { return object{key: []any{s, s}} }
}

func many[T any](n int, of func(i int) T) []any {
	out := make([]any, n)
	for i := range out {
		out[i] = of(i)
	}
	return out
}

func named(n int, of func(i int) any) object {
	out := object{}
	for i := range n {
		out[fmt.Sprintf("k%d", i)] = of(i)
	}
	return out
}

// nested puts a schema into another n times.
func nested(n int, s any, in func(s any) object) any {
	for range n {
		s = in(s)
	}
	return s
}

// pigeons cannot be in holes fewer than they are; each clause alone can be met.
func pigeons(n int) object {
	var all []any
	at := func(p, h int) string { return fmt.Sprintf("p%dh%d", p, h) }
	for p := range n {
		all = append(all, object{"anyOf": many(n-1, func(h int) any { return object{"required": []any{at(p, h)}} })})
		for q := range p {
			for h := range n - 1 {
				all = append(all, object{"not": object{"required": []any{at(p, h), at(q, h)}}})
			}
		}
	}
	return object{"type": "object", "allOf": all}
}

// primes are the first n from 3 on.
func primes(n int) []int {
	var out []int
	for p := 3; len(out) < n; p += 2 {
		prime := true
		for _, q := range out {
			prime = prime && p%q != 0
		}
		if prime {
			out = append(out, p)
		}
	}
	return out
}

// bombs are pairs that cost a careless prover much.
func bombs() map[string][2]any {
	str := func(pattern string) object { return object{"type": "string", "pattern": pattern} }
	list := func(s object) object { s["type"] = "array"; return s }
	obj := func(s object) object { s["type"] = "object"; return s }
	either := func(s any) object {
		return object{"properties": object{"l": s, "r": s}, "type": "object", "required": []any{"l", "r"}}
	}
	b := map[string][2]any{
		"anything in doubled allOf":   {object{}, doubled(20, object{"type": "string"}, both("allOf"))},
		"anything in doubled anyOf":   {object{}, doubled(20, object{"type": "string"}, both("anyOf"))},
		"anything in doubled oneOf":   {object{}, doubled(20, object{"type": "string"}, both("oneOf"))},
		"value in doubled allOf":      {object{"const": 1}, doubled(20, object{"type": "integer"}, both("allOf"))},
		"value in doubled oneOf":      {object{"const": 1}, doubled(20, object{"type": "integer"}, both("oneOf"))},
		"values in doubled allOf":     {object{"enum": many(500, func(i int) any { return i })}, doubled(14, object{"type": "integer"}, both("allOf"))},
		"values in doubled anyOf":     {object{"enum": many(500, func(i int) any { return i })}, doubled(14, object{"type": "string"}, both("anyOf"))},
		"doubled allOf in doubled":    {doubled(20, object{"type": "string"}, both("allOf")), doubled(20, object{"minLength": 1}, both("anyOf"))},
		"doubled not in doubled":      {doubled(20, object{"type": "string"}, func(s any) object { return object{"not": object{"anyOf": []any{s, s}}} }), object{"minLength": 3}},
		"doubled tree in doubled":     {doubled(24, object{"type": "integer"}, either), doubled(24, object{"type": "number"}, either)},
		"doubled tree against itself": {doubled(24, object{"type": "number"}, either), doubled(24, object{"type": "integer"}, either)},
		"doubled lists":               {doubled(20, object{"type": "integer"}, func(s any) object { return list(object{"prefixItems": []any{s, s}, "minItems": 2}) }), object{"uniqueItems": true}},
		"doubled if":                  {doubled(18, object{"type": "string"}, func(s any) object { return object{"if": s, "then": s, "else": s} }), object{"maxLength": 1}},
		"nested anyOf of pairs": {nested(40, object{"type": "string"}, func(s any) object {
			return object{"anyOf": []any{s, object{"minLength": 1}}}
		}), object{"maxLength": 1}},
		"nested oneOf of pairs": {nested(40, object{"type": "string"}, func(s any) object {
			return object{"oneOf": []any{s, object{"const": 1}}}
		}), nested(40, object{"type": "string"}, func(s any) object { return object{"oneOf": []any{object{"const": 2}, s}} })},
		"nested not": {nested(40, object{"type": "string"}, func(s any) object { return object{"not": s} }), object{"type": "string"}},
		"product of types": {object{"allOf": many(20, func(i int) any {
			return object{"anyOf": []any{object{"type": "object", "required": []any{fmt.Sprint("a", i)}}, object{"type": "object", "required": []any{fmt.Sprint("b", i)}}}}
		})}, object{"not": object{"type": "object"}}},
		"product of unions": {object{"properties": named(20, func(int) any { return object{"anyOf": []any{object{"type": "string"}, object{"type": "integer"}}} })}, object{"properties": named(20, func(int) any { return object{"anyOf": []any{object{"type": "integer"}, object{"type": "string"}}} })}},
		"wide oneOf":        {object{"oneOf": many(120, func(i int) any { return object{"minimum": i, "type": "number"} })}, object{"maximum": 7}},
		"wide oneOf in wide": {object{"oneOf": many(200, func(i int) any { return object{"properties": object{"k": object{"const": i}}, "required": []any{"k"}} })}, object{"oneOf": many(200, func(i int) any {
			return object{"properties": object{"k": object{"const": 199 - i}}, "required": []any{"k"}}
		})}},
		"pigeons":        {pigeons(7), false},
		"pigeons beside": {object{"properties": object{"a": pigeons(6)}, "required": []any{"a"}}, object{"properties": object{"a": object{"maxProperties": 3}}}},
		"recursion of two": {object{"$ref": "#/$defs/A", "$defs": object{
			"A": obj(object{"properties": object{"b": ref("B"), "c": ref("B")}, "required": []any{"b"}}),
			"B": object{"anyOf": []any{ref("A"), object{"type": "null"}, list(object{"items": ref("A")})}},
		}}, object{"$ref": "#/$defs/A", "$defs": object{
			"A": obj(object{"properties": object{"b": ref("B"), "c": ref("B")}}),
			"B": object{"anyOf": []any{object{"type": "null"}, list(object{"items": ref("A")}), ref("A")}},
		}}},
		"recursion of many":           {recursive(60, 3), recursive(60, 4)},
		"recursion out of step":       {object{"$ref": "#/$defs/d0", "$defs": cycle(29)}, object{"$ref": "#/$defs/d0", "$defs": cycle(31)}},
		"deep":                        {nested(60, object{"type": "string"}, func(s any) object { return list(object{"items": s}) }), nested(60, object{"type": "integer"}, func(s any) object { return list(object{"items": s}) })},
		"patterns that count back":    {str("^(a|b)*a(a|b){20}$"), str("^(a|b|c)*a(a|b|c){20}$")},
		"patterns against each other": {str("^(a|b)*a(a|b){20}$"), object{"not": str("^(a|b)*b(a|b){19}$")}},
		"patterns of primes":          {object{"type": "string", "allOf": []any{str("^(a{101})*$"), str("^(a{103})*$"), str("^(a{107})*$")}}, object{"maxLength": 0}},
		"patterns many": {object{"type": "string", "allOf": many(40, func(i int) any {
			return object{"pattern": fmt.Sprintf("[%c-%c].{%d}x", 'a'+rune(i%20), 'f'+rune(i%20), i)}
		})}, object{"maxLength": 10}},
		"patterns of letters":        {str(`^\p{L}+$`), str(`^[\p{Lu}\p{Ll}\p{N}]+$`)},
		"patterns long":              {str("^" + strings.Repeat("(a?b?c?)", 200) + "$"), str("^[abc]{0,600}$")},
		"patterns of keys":           {object{"patternProperties": object{"^a.*b": true, "c.*d$": true, "e+f": true, "^.{7}g": true, "h[ij]{3}": true, "k.l.m": true, "n$": true}, "minProperties": 5}, object{"patternProperties": object{"o": object{"type": "string"}, "p.*q": object{"type": "integer"}}}},
		"values huge":                {object{"enum": many(5000, func(i int) any { return i })}, object{"enum": many(5000, func(i int) any { return 4999 - i })}},
		"values huge, texts":         {object{"enum": many(3000, func(i int) any { return fmt.Sprintf("value %d", i) })}, object{"not": object{"enum": many(3000, func(i int) any { return fmt.Sprintf("other %d", i) })}}},
		"values to avoid":            {object{"type": "string", "pattern": "^[a-z]{2}$"}, object{"enum": many(26*26, func(i int) any { return string([]rune{'a' + rune(i/26), 'a' + rune(i%26)}) })}},
		"values to avoid, integers":  {object{"type": "integer", "minimum": 0, "maximum": 3000}, object{"enum": many(3001, func(i int) any { return i })}},
		"values of lists":            {object{"enum": many(300, func(i int) any { return many(300, func(j int) any { return i * j }) })}, object{"uniqueItems": true}},
		"items 1e9":                  {list(object{"minItems": 1_000_000_000}), list(object{"minItems": 5, "items": object{"type": "string"}})},
		"items 1e9, unique":          {list(object{"minItems": 1_000_000_000, "uniqueItems": true, "items": object{"type": "boolean"}}), false},
		"items 2^53":                 {list(object{"minItems": 1 << 53}), list(object{"minItems": 1<<53 - 1})},
		"length 1e9":                 {object{"type": "string", "minLength": 1_000_000_000}, object{"pattern": "^a"}},
		"length 2^53":                {object{"type": "string", "minLength": 1 << 53, "pattern": "b"}, object{"minLength": 1<<53 - 1}},
		"properties 1e9":             {obj(object{"minProperties": 1_000_000_000}), obj(object{"propertyNames": object{"pattern": "^a"}})},
		"contains 1e9":               {list(object{"contains": object{"type": "string"}, "minContains": 1_000_000_000}), list(object{"maxItems": 3})},
		"contains many":              {list(object{"allOf": many(14, func(i int) any { return object{"contains": object{"const": i}} })}), list(object{"maxItems": 12})},
		"contains many times":        {list(object{"contains": object{"type": "string"}, "minContains": 16, "maxItems": 20}), list(object{"contains": object{"type": "integer"}, "maxContains": 5})},
		"steps of primes":            {object{"type": "number", "minimum": 1, "allOf": many(60, func(i int) any { return object{"multipleOf": primes(60)[i]} })}, object{"maximum": 1000}},
		"steps to avoid":             {object{"type": "integer", "minimum": 1, "maximum": 1_000_000_000}, object{"anyOf": many(60, func(i int) any { return object{"multipleOf": primes(60)[i]} })}},
		"steps tiny":                 {object{"type": "number", "multipleOf": json.Number("1e-300"), "minimum": 0, "maximum": 1}, object{"multipleOf": json.Number("3e-300")}},
		"steps tiny and huge":        {object{"type": "number", "multipleOf": json.Number("1e-300")}, object{"multipleOf": json.Number("7e300"), "maximum": json.Number("1e308")}},
		"bounds narrow":              {object{"type": "number", "exclusiveMinimum": json.Number("1"), "exclusiveMaximum": json.Number("1." + strings.Repeat("0", 200) + "1")}, object{"type": "integer"}},
		"unique over a large domain": {list(object{"items": object{"type": "integer", "minimum": 0, "maximum": 100_000}, "minItems": 200, "uniqueItems": true}), list(object{"maxItems": 100})},
		"unique over a small domain": {list(object{"items": object{"enum": many(40, func(i int) any { return i })}, "minItems": 41, "uniqueItems": true}), false},
		"unique of objects":          {list(object{"items": obj(object{"properties": named(8, func(int) any { return object{"type": "boolean"} }), "required": many(8, func(i int) any { return fmt.Sprintf("k%d", i) }), "additionalProperties": false}), "minItems": 257, "uniqueItems": true}), false},
		"names of names": {obj(object{"propertyNames": object{"allOf": many(12, func(i int) any {
			return object{"anyOf": []any{object{"pattern": fmt.Sprintf("a{%d}", i)}, object{"maxLength": i}}}
		})}, "minProperties": 6}), obj(object{"propertyNames": object{"maxLength": 4}})},
		"names from a list":       {obj(object{"propertyNames": object{"enum": many(400, func(i int) any { return fmt.Sprintf("n%d", i) })}, "minProperties": 300}), obj(object{"maxProperties": 200})},
		"required many":           {obj(object{"required": many(1000, func(i int) any { return fmt.Sprintf("k%d", i) })}), obj(object{"properties": named(1000, func(i int) any { return object{"type": "integer"} }), "additionalProperties": false})},
		"properties many":         {obj(object{"properties": named(1000, func(i int) any { return object{"type": "integer", "maximum": i} })}), obj(object{"properties": named(1000, func(i int) any { return object{"type": "number", "maximum": i + 1} })})},
		"dependencies in a chain": {obj(object{"required": []any{"k0"}, "dependentRequired": named(300, func(i int) any { return []any{fmt.Sprintf("k%d", i+1)} })}), obj(object{"required": []any{"k300"}})},
		"dependencies both ways":  {obj(object{"dependentSchemas": named(20, func(i int) any { return object{"required": []any{fmt.Sprintf("k%d", (i*7+1)%20)}, "minProperties": i} })}), obj(object{"maxProperties": 3})},
		"unevaluated in doubled":  {doubled(14, object{"properties": object{"a": true}}, both("anyOf")), object{"allOf": []any{doubled(14, object{"properties": object{"a": true}}, both("anyOf"))["$defs"].(object)["d0"]}, "unevaluatedProperties": false}},
		"alternatives unevaluated": {obj(object{"anyOf": many(16, func(i int) any { return object{"properties": object{fmt.Sprintf("k%d", i): object{"type": "integer"}}} }), "unevaluatedProperties": false}), obj(object{"anyOf": many(16, func(i int) any {
			return object{"properties": object{fmt.Sprintf("k%d", 15-i): object{"type": "number"}}}
		}), "unevaluatedProperties": false})},
	}
	return b
}

// recursive is a schema of n definitions that refer to the ones ahead.
func recursive(n, every int) object {
	defs := object{}
	for i := range n {
		props := object{"v": object{"type": "integer", "minimum": i}}
		for j := range 3 {
			props[fmt.Sprintf("r%d", j)] = ref("d%d", (i*every+j*7+1)%n)
		}
		defs[fmt.Sprintf("d%d", i)] = object{"type": "object", "properties": props, "required": []any{"v"}}
	}
	return object{"$defs": defs, "$ref": "#/$defs/d0"}
}

// cycle is a list inside a list, and so on around n definitions.
func cycle(n int) object {
	defs := object{}
	for i := range n {
		defs[fmt.Sprintf("d%d", i)] = object{"type": "array", "items": ref("d%d", (i+1)%n), "maxItems": 2}
	}
	return defs
}

// TestBombs: whatever the schemas, the work is bounded, and so is the answer. A
// smaller budget never gives another answer, at most none. Each bomb is contained
// in itself, compiled again.
func TestBombs(t *testing.T) {
	all := bombs()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		t.Run(name, func(t *testing.T) {
			var s [3]grown
			for i, doc := range []any{all[name][0], all[name][1], all[name][0]} {
				c, err := schemas.Compile(text(doc))
				require.NoError(t, err)
				s[i] = grown{doc, c}
			}
			require.Equal(t, containment.Proved, asked(t, s[0], s[2]).Verdict)
			for _, p := range [][2]grown{{s[0], s[1]}, {s[1], s[0]}} {
				res := asked(t, p[0], p[1])
				require.NotContains(t, res.Reason, "failed")
				again := containment.Prove(p[0].compiled, p[1].compiled, containment.Options{Steps: 100})
				require.LessOrEqual(t, again.Steps, 101)
				if again.Verdict != containment.Unknown {
					require.Equal(t, res, again)
				}
			}
		})
	}
}
