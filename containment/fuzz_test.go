package containment_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/containment"
	"chimera.ai/engine/schemas"
)

// FuzzProve: whatever the texts, there is no panic and no wrong answer, and the
// answer is the same again.
func FuzzProve(f *testing.F) {
	for _, seed := range [][3]string{
		{`{"type":"integer","minimum":0}`, `{"type":"number","exclusiveMaximum":1e3,"multipleOf":0.5}`, `12.5`},
		{`{"enum":[1,"a",null,[],{}]}`, `{"type":["integer","string","null"],"not":{"const":1.0}}`, `"a"`},
		{`{"type":"string","pattern":"^(a|b)+$","minLength":2}`, `{"pattern":"[ab]{2}","maxLength":4}`, `"abab"`},
		{`{"properties":{"a":{"$ref":"#"}},"required":["a"],"additionalProperties":false}`, `{"minProperties":1}`, `{"a":{"a":1}}`},
		{`{"patternProperties":{"^x":{"type":"integer"}},"propertyNames":{"maxLength":3},"maxProperties":2}`, `{"additionalProperties":{"type":"number"}}`, `{"xy":1}`},
		{`{"prefixItems":[true,{"const":2}],"items":false,"minItems":1}`, `{"contains":{"const":2},"maxContains":1,"uniqueItems":true}`, `[1,2]`},
		{`{"oneOf":[{"required":["a"]},{"required":["b"]}],"type":"object"}`, `{"anyOf":[{"required":["a"]},{"required":["b"]}]}`, `{"a":1}`},
		{`{"if":{"type":"string"},"then":{"minLength":1},"else":{"type":"null"}}`, `{"type":["string","null"]}`, `""`},
		{`{"allOf":[{"properties":{"a":true}}],"unevaluatedProperties":false}`, `{"dependentRequired":{"b":["a"]}}`, `{"a":1,"b":2}`},
		{`{"$schema":"http://json-schema.org/draft-04/schema#","maximum":3,"exclusiveMaximum":true}`, `{"$schema":"http://json-schema.org/draft-07/schema#","dependencies":{"a":["b"],"c":{"minProperties":2}}}`, `3`},
		{`{"$dynamicAnchor":"n","properties":{"n":{"$dynamicRef":"#n"}}}`, `{"$anchor":"x","items":{"$ref":"#x"},"unevaluatedItems":false}`, `{"n":{}}`},
		{`{"$schema":"https://json-schema.org/draft/2019-09/schema","$recursiveAnchor":true,"items":{"$recursiveRef":"#"}}`, `false`, `[[[]]]`},
		{`{"not":{"not":{"multipleOf":9007199254740993}}}`, `{"multipleOf":1e-300}`, `9007199254740993`},
		{`{"type":"string","pattern":"^\\p{L}\\b.$"}`, `{"pattern":"(?i)k\\s|[^\\w]"}`, `"K "`},
	} {
		f.Add(seed[0], seed[1], seed[2])
	}
	f.Fuzz(func(t *testing.T, lhs, rhs, instance string) {
		var pair [2]grown
		for i, raw := range []string{lhs, rhs} {
			s, err := schemas.Compile([]byte(raw))
			if err != nil {
				return
			}
			doc, err := schemas.Decode([]byte(raw))
			require.NoError(t, err)
			pair[i] = grown{doc, s}
		}
		v, verr := schemas.Decode([]byte(instance))
		for range 2 {
			res := asked(t, pair[0], pair[1])
			require.Equal(t, res, asked(t, pair[0], pair[1]))
			if res.Verdict == containment.Proved {
				if verr == nil && pair[0].compiled.Validate(v) == nil {
					var invalid *schemas.Invalid
					require.NotErrorAs(t, pair[1].compiled.Validate(v), &invalid)
				}
				shuffle(uint64(len(instance))).hold(t, pair[0], pair[1], 8)
			}
			pair[0], pair[1] = pair[1], pair[0]
		}
	})
}
