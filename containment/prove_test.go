package containment_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/containment"
	"chimera.ai/engine/schemas"
)

func prove(t *testing.T, l, r string) containment.Result {
	a, err := schemas.Compile([]byte(l))
	require.NoError(t, err, l)
	b, err := schemas.Compile([]byte(r))
	require.NoError(t, err, r)
	return containment.Prove(a, b, containment.Options{})
}

const (
	draft4 = `"$schema":"http://json-schema.org/draft-04/schema#"`
	draft7 = `"$schema":"http://json-schema.org/draft-07/schema#"`
	draft9 = `"$schema":"https://json-schema.org/draft/2019-09/schema"`
)

// Each case is a place where a prover can go wrong.
func TestProve(t *testing.T) {
	const proved, refuted = containment.Proved, containment.Refuted
	for about, cases := range map[string][]struct {
		left, right string
		want        containment.Verdict
	}{
		"type": {
			{`{"type":"integer"}`, `{"type":"number"}`, proved},
			{`{"type":"number"}`, `{"type":"integer"}`, refuted},
			{`{"not":{"type":"number"}}`, `{"not":{"type":"integer"}}`, proved},
			{`{"not":{"type":"integer"}}`, `{"not":{"type":"number"}}`, refuted},
			{`{` + draft4 + `,"enum":[1.0]}`, `{` + draft4 + `,"type":"integer"}`, proved},
			{`true`, `{"type":["null","boolean","number","string","array","object"]}`, proved},
			{`true`, `{"type":["null","boolean","integer","string","array","object"]}`, refuted},
			{`{"not":true}`, `false`, proved},
			{`{"not":{"not":{"type":"string"}}}`, `{"type":"string"}`, proved},
		},
		"numbers": {
			{`{"multipleOf":6,"type":"number"}`, `{"multipleOf":4}`, refuted},
			{`{"multipleOf":6,"type":"number"}`, `{"multipleOf":3}`, proved},
			{`{"multipleOf":0.3,"type":"number"}`, `{"multipleOf":0.1}`, proved},
			{`{"type":"number","multipleOf":1e-300,"minimum":0,"maximum":1}`, `{"multipleOf":3e-300}`, refuted},
			{`{"const":0.30000000000000004}`, `{"const":0.3}`, refuted},
			{`{"const":123456789012345678901234567890}`, `{"multipleOf":10,"minimum":123456789012345678901234567890}`, proved},
			{`{"type":"number","exclusiveMinimum":1,"exclusiveMaximum":1.0000000000000000000000000001}`, `{"type":"integer"}`, refuted},
			{`{"type":"integer","exclusiveMinimum":1,"exclusiveMaximum":2}`, `false`, proved},
			{`{"type":"number","minimum":1,"maximum":1}`, `{"const":1.0}`, proved},
			{`{"type":"number","minimum":1,"maximum":2,"not":{"multipleOf":0.25}}`, `{"not":{"enum":[1,1.25,1.5,1.75,2]}}`, proved},
			{`{"type":"integer","minimum":0,"maximum":5,"not":{"anyOf":[{"multipleOf":2},{"multipleOf":3}]}}`, `{"enum":[1,5]}`, proved},
			{`{` + draft4 + `,"type":"number","minimum":1,"exclusiveMinimum":true}`, `{` + draft4 + `,"not":{"enum":[1]}}`, proved},
			{`{` + draft4 + `,"type":"number","minimum":1,"exclusiveMinimum":false}`, `{` + draft4 + `,"not":{"enum":[1]}}`, refuted},
		},
		"strings": {
			{`{"type":"string","pattern":"^a+$"}`, `{"pattern":"^[ab]"}`, proved},
			{`{"type":"string","pattern":"^a"}`, `{"maxLength":3}`, refuted},
			{`{"type":"string","pattern":"^(ab)*$","minLength":3,"maxLength":3}`, `false`, proved},
			{`{"type":"string","pattern":"\\bcat\\b"}`, `{"pattern":"(^|[^a-zA-Z0-9_])cat"}`, proved},
			{`{"type":"string","pattern":"(?i)^k$"}`, `{"enum":["k","K","\u212a"]}`, proved},
			{`{"type":"string","pattern":"(?i)^k$"}`, `{"enum":["k","K"]}`, refuted},
			{`{"type":"string","pattern":"^\\p{L}{2}$"}`, `{"minLength":2,"maxLength":2}`, proved},
			{`{"type":"string","maxLength":1,"pattern":"^.$"}`, `{"pattern":"^[^\\n]$"}`, proved},
			{`{"type":"string","minLength":1,"maxLength":1}`, `{"pattern":"[\\s\\S]"}`, proved},
			{`{"const":"e\u0301"}`, `{"maxLength":1}`, refuted},
			{`{"const":"😀"}`, `{"maxLength":1}`, proved},
			{`{"type":"string","format":"date"}`, `{"pattern":"-"}`, refuted},
			{`true`, `{"format":"email"}`, proved},
			{`{` + draft7 + `,"type":"string"}`, `{` + draft7 + `,"format":"email","contentEncoding":"base64","contentMediaType":"application/json"}`, proved},
		},
		"values": {
			{`{"enum":["a","b"]}`, `{"maxLength":1}`, proved},
			{`{"enum":[1,"1"]}`, `{"enum":[1.0,"1",2]}`, proved},
			{`{"enum":["a","b"],"not":{"const":"b"}}`, `{"const":"a"}`, proved},
			{`{"const":{"a":[1,{"b":2.0}]}}`, `{"const":{"a":[1.0,{"b":2}]}}`, proved},
			{`{"type":"object"}`, `{"const":{}}`, refuted},
			{`{"type":"object","maxProperties":0}`, `{"const":{}}`, proved},
			{`{"type":"array"}`, `{"anyOf":[{"enum":[[]]}]}`, refuted},
			{`{"type":"object","properties":{"a":{"type":"boolean"}},"required":["a"],"additionalProperties":false}`, `{"enum":[{"a":true},{"a":false}]}`, proved},
			{`{"type":"array","items":{"type":"null"},"maxItems":2}`, `{"enum":[[],[null],[null,null]]}`, proved},
			{`{"type":"array","items":{"type":"null"},"maxItems":3}`, `{"enum":[[],[null],[null,null]]}`, refuted},
		},
		"lists": {
			{`{"type":"array","items":{"type":"integer"}}`, `{"items":{"type":"number"}}`, proved},
			{`{"items":false}`, `{"uniqueItems":true}`, proved},
			{`{"const":[1,1.0]}`, `{"uniqueItems":true}`, refuted},
			{`{"type":"array","uniqueItems":true,"items":{"enum":[1,2,3]},"minItems":4}`, `false`, proved},
			{`{"type":"array","uniqueItems":true,"items":{"type":["boolean","null"]}}`, `{"maxItems":3}`, proved},
			{`{"type":"array","uniqueItems":true,"items":{"type":["boolean","null"]}}`, `{"maxItems":2}`, refuted},
			{`{"type":"array","uniqueItems":true,"prefixItems":[{"enum":[1,2]},{"enum":[2,3]},{"enum":[1,3]}],"minItems":3}`, `{"items":{"enum":[1,2,3]}}`, refuted},
			{`{"type":"array","uniqueItems":true,"prefixItems":[{"enum":[1,2]},{"enum":[1,2]},{"enum":[1,2]}],"minItems":3}`, `false`, proved},
			{`{"type":"array","prefixItems":[{"type":"string"},{"type":"null"}],"items":false}`, `{"uniqueItems":true}`, proved},
			{`{"type":"array","prefixItems":[{"type":"string"},{"type":"null"}],"items":{"type":"integer"}}`, `{"uniqueItems":true}`, refuted},
			{`{"type":"array","items":{"type":"integer","minimum":0,"maximum":200},"uniqueItems":true}`, `{"maxItems":150}`, refuted},
			{`{` + draft7 + `,"items":[{"type":"string"}],"additionalItems":false}`, `{` + draft7 + `,"not":{"minItems":2,"type":"array"}}`, proved},
			{`{` + draft7 + `,"items":{"type":"string"},"additionalItems":false}`, `{` + draft7 + `,"maxItems":1}`, refuted},
		},
		"contains": {
			{`{"contains":true,"minContains":3,"type":"array"}`, `{"minItems":3}`, proved},
			{`{"contains":true,"maxContains":2,"minContains":3,"type":"array"}`, `false`, proved},
			{`{"type":"array","contains":{"type":"integer"},"minContains":2}`, `{"contains":{"type":"number"},"minContains":2}`, proved},
			{`{"type":"array","contains":{"type":"number"},"minContains":2}`, `{"contains":{"type":"integer"},"minContains":1}`, refuted},
			{`{"type":"array","contains":{"const":1},"allOf":[{"contains":{"const":2}}],"maxItems":2}`, `{"enum":[[1,2],[2,1]]}`, proved},
			{`{"type":"array","contains":{"const":1},"minContains":0,"maxContains":0}`, `{"items":{"not":{"const":1}}}`, proved},
			{`{"type":"array","minContains":2}`, `{"minItems":1}`, refuted},
			{`{` + draft7 + `,"type":"array","contains":{"const":1},"maxContains":0}`, `{` + draft7 + `,"minItems":1}`, proved},
			{`{` + draft9 + `,"type":"array","contains":{"const":1},"minContains":0}`, `{` + draft9 + `,"minItems":1}`, refuted},
			{`{"type":"array","items":{"enum":[1,2]},"contains":{"const":1},"maxContains":2,"minItems":4}`, `{"contains":{"const":2},"minContains":2}`, proved},
		},
		"objects": {
			{`{"properties":{"a":{"type":"integer"}},"required":["a"],"type":"object"}`, `{"properties":{"a":{"type":"number"}},"required":["a"]}`, proved},
			{`{"type":"object"}`, `{"required":["a"]}`, refuted},
			{`{}`, `{"propertyNames":{"anyOf":[true]}}`, proved},
			{`{"propertyNames":false,"type":"object"}`, `{"maxProperties":0}`, proved},
			{`{"type":"object","propertyNames":{"enum":["a",2]},"minProperties":1}`, `{"required":["a"]}`, proved},
			{`{"type":"object","propertyNames":{"pattern":"^x"},"required":["a"]}`, `false`, proved},
			{`{"type":"object","propertyNames":{"not":{"enum":["a"]}}}`, `{"properties":{"a":false}}`, proved},
			{`{"type":"object","patternProperties":{"^a":{"type":"string"},"b$":{"type":"integer"}},"required":["ab"]}`, `false`, proved},
			{`{"type":"object","patternProperties":{"^a":{"type":"string"}},"additionalProperties":{"type":"integer"}}`, `{"patternProperties":{"^[^a]":{"type":"integer"},"^$":{"type":"integer"}}}`, proved},
			{`{"type":"object","patternProperties":{"^[ab]$":true},"additionalProperties":false}`, `{"maxProperties":2}`, proved},
			{`{"type":"object","patternProperties":{"^[ab]$":true},"additionalProperties":false}`, `{"maxProperties":1}`, refuted},
			{`{"type":"object","properties":{"a":false,"b":true},"additionalProperties":false,"minProperties":1}`, `{"required":["b"]}`, proved},
			{`{"type":"object","dependentRequired":{"a":["b"]},"required":["a"]}`, `{"required":["b"]}`, proved},
			{`{"type":"object","dependentSchemas":{"a":{"properties":{"b":{"type":"null"}}}},"required":["a","b"]}`, `{"properties":{"b":{"const":null}}}`, proved},
			{`{` + draft7 + `,"type":"object","dependencies":{"a":["b"],"b":{"maxProperties":1}}}`, `{` + draft7 + `,"not":{"required":["a"]}}`, proved},
			{`{"additionalProperties":{"type":"string"}}`, `{"properties":{"a":{"type":"string"}}}`, proved},
			{`{"type":"object","properties":{"a":true},"additionalProperties":{"type":"string"}}`, `{"additionalProperties":{"type":"string"}}`, refuted},
		},
		"unevaluated": {
			{`{}`, `{"unevaluatedItems":false}`, refuted},
			{`{}`, `{"unevaluatedProperties":false,"anyOf":[true]}`, refuted},
			{`{"type":"object","anyOf":[{"properties":{"a":{"const":1}},"required":["a"]},{"properties":{"b":true}}],"unevaluatedProperties":false}`, `{"propertyNames":{"enum":["a","b"]}}`, proved},
			// A branch that fails evaluates nothing, and neither does what stands under not.
			{`{"const":{"a":2}}`, `{"anyOf":[{"properties":{"a":{"const":1}}},true],"unevaluatedProperties":false}`, refuted},
			{`{"type":"object","not":{"properties":{"a":false}},"unevaluatedProperties":false}`, `false`, proved},
			{`{"type":"object","not":{"not":{"properties":{"a":true}}},"unevaluatedProperties":false}`, `{"maxProperties":0}`, proved},
			{`{"type":"object","if":{"properties":{"a":true},"required":["a"]},"unevaluatedProperties":false}`, `{"propertyNames":{"const":"a"}}`, proved},
			{`{"type":"object","dependentSchemas":{"a":{"properties":{"a":true,"b":true}}},"unevaluatedProperties":false}`, `{"anyOf":[{"required":["a"]},{"maxProperties":0}]}`, proved},
			{`{"type":"object","allOf":[{"additionalProperties":true}],"unevaluatedProperties":false}`, `{"maxProperties":3}`, refuted},
			{`{"type":"object","allOf":[{"unevaluatedProperties":true}],"unevaluatedProperties":false}`, `{"maxProperties":3}`, refuted},
			{`{"type":"array","contains":{"type":"string"},"unevaluatedItems":{"type":"null"}}`, `{"items":{"type":["string","null"]}}`, proved},
			{`{` + draft9 + `,"type":"array","contains":{"type":"string"},"unevaluatedItems":{"type":"null"}}`, `false`, proved},
			{`{"type":"array","oneOf":[{"prefixItems":[{"const":1}]},{"prefixItems":[{"const":2},true]}],"unevaluatedItems":false,"minItems":2}`, `{"prefixItems":[{"const":2}],"maxItems":2}`, proved},
		},
		"combinators": {
			{`{"oneOf":[{"type":"integer"},{"type":"number"}]}`, `{"not":{"type":"integer"}}`, proved},
			{`{"type":"integer"}`, `{"oneOf":[{"type":"integer"},{"type":"number"}]}`, refuted},
			{`{"oneOf":[{"required":["a"]},{"required":["b"]}]}`, `{"not":{"required":["a","b"],"type":"object"}}`, proved},
			{`{"oneOf":[{"properties":{"k":{"const":1}},"required":["k"]},{"properties":{"k":{"const":2}},"required":["k"]}]}`, `{"type":"object"}`, proved},
			{`{"if":{"type":"string"},"then":{"minLength":1},"else":false}`, `{"type":"string","minLength":1}`, proved},
			{`{"if":{"type":"string"}}`, `{"type":"string"}`, refuted},
			{`{` + draft7 + `,"then":false}`, `false`, refuted},
			{`{` + draft7 + `,"allOf":[{"$ref":"#/definitions/a","type":"string"}],"definitions":{"a":{"maxLength":1}}}`, `{"type":"string"}`, refuted},
			{`{"$ref":"#/$defs/a","type":"string","$defs":{"a":{"maxLength":1}}}`, `{"type":"string","maxLength":1}`, proved},
		},
		"recursion": {
			{`{"$ref":"#/$defs/T","$defs":{"T":{"type":"object","properties":{"n":{"$ref":"#/$defs/T"}},"required":["n"]}}}`, `false`, proved},
			{`{"$ref":"#/$defs/T","$defs":{"T":{"type":"object","properties":{"n":{"$ref":"#/$defs/T"}}}}}`, `false`, refuted},
			// The first way in which the inner goal is met again is empty only while the outer is open.
			{`{"$ref":"#/$defs/A","$defs":{
				"A":{"type":"object","properties":{"b":{"$ref":"#/$defs/B"}},"required":["b"]},
				"B":{"anyOf":[{"type":"object","properties":{"a":{"$ref":"#/$defs/A"}},"required":["a"]},{"type":"null"}]}}}`, `false`, refuted},
			{`{"$ref":"#/$defs/l","$defs":{"l":{"anyOf":[{"type":"null"},{"type":"object","properties":{"v":{"type":"integer"},"n":{"$ref":"#/$defs/l"}},"required":["v","n"]}]}}}`,
				`{"$ref":"#/$defs/l","$defs":{"l":{"anyOf":[{"type":"null"},{"type":"object","properties":{"v":{"type":"number"},"n":{"$ref":"#/$defs/l"}},"required":["n"]}]}}}`, proved},
			{`{` + draft9 + `,"$recursiveAnchor":true,"type":"object","additionalProperties":{"$recursiveRef":"#"}}`, `{"additionalProperties":{"type":"object"}}`, proved},
			{`{"type":"array","items":{"$dynamicRef":"#s"},"$defs":{"s":{"$anchor":"s","type":"string"}}}`, `{"items":{"type":"string"}}`, proved},
			{`{"$dynamicAnchor":"n","type":"object","properties":{"n":{"$dynamicRef":"#n"}}}`, `{"type":"object"}`, proved},
			{`{"enum":[[],[[]]]}`, `{"$dynamicAnchor":"n","type":"array","items":{"$dynamicRef":"#n"}}`, proved},
			{`{"enum":[[],[1]]}`, `{"$dynamicAnchor":"n","type":"array","items":{"$dynamicRef":"#n"}}`, refuted},
		},
	} {
		t.Run(about, func(t *testing.T) {
			for _, c := range cases {
				r := prove(t, c.left, c.right)
				require.Equal(t, c.want, r.Verdict, "%s in %s: %s %s", c.left, c.right, r.JSON, r.Reason)
			}
		})
	}
}

// An unknown verdict names the keyword, by its place in the user's schema, or the
// budget that ran out.
func TestReason(t *testing.T) {
	for _, c := range []struct{ left, right, want string }{
		{`{"$dynamicAnchor":"n","type":"object","properties":{"a/b":{"$dynamicRef":"#n"}},"required":["a/b"],"if":true,"then":true}`,
			`{"properties":{"a/b":{"type":"object"}}}`, "lhs: #/properties/a~1b/$dynamicRef"},
		// No keyword of this draft any more, though the validator checks it.
		{`{"type":"object"}`, `{"dependencies":{"a":["b"]}}`, "rhs: #/dependencies"},
		{`{"type":"string"}`, `{"maxLength":30000}`, "a string is too long"},
		{`{"type":"array","minItems":5000}`, `{"maxItems":5001}`, "a list is too long"},
		{`{"type":"string","pattern":"` + strings.Repeat(`(ab|c)?`, 600) + `x"}`, `{"minLength":1}`, "a pattern is too large"},
	} {
		r := prove(t, c.left, c.right)
		require.Equal(t, containment.Unknown, r.Verdict, "%s in %s: %s", c.left, c.right, r.JSON)
		require.Equal(t, c.want, r.Reason)
	}
	var all []string
	for i := range 60 {
		all = append(all, fmt.Sprintf(`{"anyOf":[{"required":["a%d"]},{"required":["b%d"]}]}`, i, i))
	}
	l, r := compile(t, `{"type":"object","maxProperties":59,"allOf":[`+strings.Join(all, ",")+`]}`), compile(t, `false`)
	res := containment.Prove(l, r, containment.Options{})
	require.Equal(t, containment.Unknown, res.Verdict)
	require.Equal(t, "more than 20000 steps", res.Reason)
	require.Equal(t, 20_000, res.Steps)
	require.Equal(t, "a schema is missing", containment.Prove(nil, r, containment.Options{}).Reason)
}
