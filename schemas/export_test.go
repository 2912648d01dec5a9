package schemas_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/schemas"
)

// The $schema of the older drafts.
const (
	in4    = `"$schema":"http://json-schema.org/draft-04/schema#",`
	in6    = `"$schema":"http://json-schema.org/draft-06/schema#",`
	in7    = `"$schema":"http://json-schema.org/draft-07/schema#",`
	in2019 = `"$schema":"https://json-schema.org/draft/2019-09/schema",`
)

// exported are schemas of all drafts that can be written out.
var exported = []string{
	`true`, `false`, `{}`, `{"not":{}}`, `{"not":false}`,
	`{"type":"integer"}`, `{"type":["number","null"]}`, `{"type":["integer"]}`, `{` + in4 + `"type":"integer"}`,
	`{"const":null}`, `{"const":false}`, `{"const":1.0}`, `{"const":{"a":[null]}}`, `{"const":[]}`, `{"enum":[null]}`, `{"enum":[1,null,"a",{"a":1e0},[2.50]]}`,
	`{"enum":[]}`, `{"properties":{"a":{"enum":[]}}}`, `{"type":"string","enum":["a","ab",3]}`, `{"const":1,"enum":[1,2]}`,
	`{"minimum":1}`, `{"maximum":2.5}`, `{"exclusiveMinimum":1,"exclusiveMaximum":3}`, `{"multipleOf":0.5}`, `{"multipleOf":2,"minimum":-0.0}`, `{"minimum":1e3}`, `{"maximum":-12345678901234567890.5}`,
	`{` + in4 + `"minimum":1,"exclusiveMinimum":true}`, `{` + in4 + `"minimum":1,"exclusiveMinimum":false}`, `{` + in4 + `"maximum":2,"exclusiveMaximum":true,"minimum":1}`, `{` + in6 + `"exclusiveMinimum":1}`,
	`{"minLength":2}`, `{"maxLength":0}`, `{"minLength":0}`, `{"pattern":"^a"}`, `{"pattern":"^\\d$"}`, `{"pattern":"\\cA|b$"}`, `{"pattern":"^[\\s\\w]*$"}`, `{"pattern":""}`,
	`{"format":"email"}`, `{` + in7 + `"format":"date"}`, `{"contentEncoding":"base64"}`, `{` + in7 + `"contentMediaType":"application/json"}`, `{"format":"x","minLength":1}`,
	`{"required":["a"]}`, `{"required":[]}`, `{"properties":{"a":{"type":"integer"},"b/~ %":false}}`, `{"properties":{}}`, `{"minProperties":1,"maxProperties":1}`, `{"maxProperties":0}`,
	`{"additionalProperties":false}`, `{"properties":{"a":true},"additionalProperties":{"type":"string"}}`, `{"additionalProperties":true}`, `{"properties":{"a":true},"additionalProperties":{"not":{}}}`,
	`{"patternProperties":{"^a":{"type":"integer"},"b":true},"additionalProperties":false}`, `{"patternProperties":{"\\d":{"type":"null"}}}`, `{"patternProperties":{"^a/~%":false,"^\\S$":{"minimum":2}},"additionalProperties":{"type":"string"}}`,
	`{"propertyNames":{"maxLength":1}}`, `{"propertyNames":false}`, `{` + in6 + `"propertyNames":{"pattern":"^a"}}`,
	`{"dependentRequired":{"a":["b"],"b":[]}}`, `{"dependentSchemas":{"a":{"required":["b"]},"b":false}}`, `{` + in2019 + `"dependentRequired":{"a":["b"]}}`,
	`{"items":{"type":"integer"}}`, `{"items":false}`, `{"items":true}`, `{"prefixItems":[{"type":"integer"},true]}`, `{"prefixItems":[true],"items":false}`, `{"prefixItems":[{"const":1}],"items":{"type":"null"}}`,
	`{` + in7 + `"items":[{"type":"integer"},{"type":"string"}]}`, `{` + in4 + `"items":[{"type":"integer"}]}`, `{` + in2019 + `"items":[{"type":"integer"},false]}`, `{` + in2019 + `"items":{"type":"integer"}}`, `{` + in4 + `"items":{"type":"integer"}}`,
	`{` + in6 + `"items":false}`, `{` + in6 + `"items":true}`,
	`{"minItems":1,"maxItems":2}`, `{"maxItems":0}`, `{"uniqueItems":true}`, `{"uniqueItems":false}`,
	`{"contains":{"const":1}}`, `{"contains":{"const":1},"minContains":0}`, `{"contains":{"const":1},"minContains":2}`, `{"contains":true,"maxContains":1}`, `{"contains":{"const":1},"minContains":0,"maxContains":1}`, `{"minContains":2}`,
	`{` + in6 + `"contains":{"const":1}}`, `{` + in7 + `"contains":{"const":1},"minContains":0}`, `{` + in2019 + `"contains":{"type":"integer"},"minContains":2,"maxContains":3}`, `{"contains":false}`,
	`{"allOf":[{"minimum":1},{"maximum":2}]}`, `{"allOf":[{"type":"integer"}]}`, `{"anyOf":[{"type":"integer"},{"minLength":2}]}`, `{"oneOf":[{"type":"integer"},{"minimum":2}]}`, `{"not":{"type":["string","object"]}}`,
	`{"oneOf":[true]}`, `{"anyOf":[false,{"const":null}]}`, `{"allOf":[true,{}]}`, `{"anyOf":[{"type":"null"}],"minimum":3}`,
	`{"if":{"type":"integer"},"then":{"minimum":1},"else":{"type":"string"}}`, `{"if":{"type":"integer"},"then":false}`, `{"if":{"type":"integer"},"else":false}`, `{"if":true}`, `{"then":false}`, `{"else":false,"then":false}`, `{"if":false,"else":{"type":"null"}}`, `{` + in7 + `"if":{"required":["a"]},"then":{"required":["b"]}}`, `{` + in6 + `"if":true,"then":false}`, `{` + in2019 + `"if":{"const":1},"then":false,"else":true}`,
	`{"$ref":"#/$defs/a","$defs":{"a":{"type":"integer"}}}`, `{"$ref":"#/$defs/a","maximum":2,"$defs":{"a":{"type":"integer"}}}`, `{"$ref":"#/$defs/a","allOf":[{"minimum":1}],"$defs":{"a":{"type":"integer"}}}`, `{"$ref":"#/$defs/t","minLength":1,"$defs":{"t":true}}`, `{"$ref":"#/$defs/f","$defs":{"f":false}}`, `{"$ref":"#/$defs/f","type":"null","$defs":{"f":{}}}`,
	`{"$ref":"#/$defs/a","$defs":{"a":{"$ref":"#/$defs/b","minimum":1},"b":{"$ref":"#/$defs/c","maximum":2},"c":{"type":"number"}}}`, `{"properties":{"a":{"$ref":"#/$defs/n"},"b":{"$ref":"#/$defs/n"}},"$defs":{"n":{"type":"integer"}}}`,
	`{` + in7 + `"properties":{"a":{"$ref":"#/definitions/n","maximum":1}},"definitions":{"n":{"type":"number"}}}`, `{` + in4 + `"items":{"$ref":"#/definitions/n","minimum":1},"definitions":{"n":{"type":"number","maximum":2,"exclusiveMaximum":true}}}`, `{` + in2019 + `"items":{"$ref":"#/$defs/n","maximum":1},"$defs":{"n":{"type":"number"}}}`,
	`{"definitions":{"a":{"type":"null"}},"items":{"$ref":"#/definitions/a"}}`, `{"defs":{"a":{"type":"null"}},"items":{"$ref":"#/defs/a"}}`, `{"items":{"$ref":"#/properties/a"},"properties":{"a":{"const":1}}}`, `{"$defs":{"a":{"$anchor":"n","type":"integer"}},"items":{"$ref":"#n"}}`,
	`{"$id":"https://example.com/s","$defs":{"a":{"$id":"a","type":"integer"}},"items":{"$ref":"a"}}`, `{"$defs":{"a":{"$schema":"http://json-schema.org/draft-07/schema#","type":"integer"}},"items":{"$ref":"#/$defs/a"}}`,
	`{"title":"t","description":"d","default":1,"examples":[1],"$comment":"c","deprecated":true,"readOnly":true}`, `{"x-own":{"$ref":"#/nowhere"},"type":"null"}`,
	`{"type":"object","properties":{"a":{"type":"array","prefixItems":[{"oneOf":[{"const":null},{"type":"integer","minimum":2}]}],"items":{"not":{"type":"string"}}}},"required":["a"],"additionalProperties":false}`,
}

// refusals are schemas that mean something else elsewhere, or refer to themselves.
var refusals = map[string]string{
	"recursion":              `{"properties":{"a":{"$ref":"#"}}}`,
	"recursive definition":   `{"$ref":"#/$defs/t","$defs":{"t":{"items":{"$ref":"#/$defs/t"}}}}`,
	"mutual recursion":       `{"items":{"$ref":"#/$defs/a"},"$defs":{"a":{"not":{"items":{"$ref":"#/$defs/b"}}},"b":{"properties":{"x":{"$ref":"#/$defs/a"}}}}}`,
	"unevaluatedProperties":  `{"properties":{"a":true},"unevaluatedProperties":false}`,
	"unevaluatedItems":       `{"prefixItems":[true],"unevaluatedItems":{"type":"null"}}`,
	"unevaluated in a part":  `{"properties":{"a":{"unevaluatedItems":false}}}`,
	"dependencies, names":    `{` + in7 + `"dependencies":{"a":["b"]}}`,
	"dependencies, schema":   `{` + in4 + `"dependencies":{"a":{"required":["b"]}}}`,
	"additionalItems":        `{` + in7 + `"items":[true],"additionalItems":false}`,
	"additionalItems schema": `{` + in2019 + `"items":[true],"additionalItems":{"type":"null"}}`,
	"$dynamicRef":            `{"$dynamicAnchor":"n","properties":{"a":{"$dynamicRef":"#n"}}}`,
	"$recursiveRef":          `{` + in2019 + `"$recursiveAnchor":true,"properties":{"a":{"$recursiveRef":"#"}}}`,
	"digits":                 `{"minimum":1e100}`,
	"many digits":            `{"multipleOf":1e-300}`,
}

// values are what every schema is asked about, besides drawn ones.
var values = []string{
	`null`, `true`, `false`, `0`, `1`, `1.0`, `2`, `2.5`, `3`, `-1`, `999`, `1000`, `-12345678901234567890`, `-12345678901234567891`, `""`, `"a"`, `"ab"`, `"b1"`, `"5"`, `"\u0001"`, `"\u2028"`, `"٣"`, `"x@example.com"`,
	`[]`, `[1]`, `[1,1.0]`, `[null]`, `[1,"a"]`, `["a",1]`, `[2.50]`, `[1,2,3]`, `[[1],{}]`,
	`{}`, `{"a":1}`, `{"a":1.5}`, `{"a":"x"}`, `{"b":1}`, `{"a":1,"b":2}`, `{"b/~ %":1}`, `{"a/~%":1}`, `{"z":null}`, `{"5":1}`, `{"5":null}`, `{"a":[null]}`, `{"a":[3,1]}`, `{"a":{"a":{"a":1}}}`, `{"ab":true,"c":"x"}`,
}

// drawn makes a value of few words, so that it often meets a schema.
func drawn(r *rand.Rand, depth int) any {
	switch k := r.IntN(7); {
	case k < 4 || depth == 0:
		return []any{nil, true, false, "", "a", "ab", "b1", json.Number("0"), json.Number("1"), json.Number("1.0"), json.Number("2.5"), json.Number("3e0")}[r.IntN(12)]
	case k == 4:
		list := make([]any, r.IntN(4))
		for i := range list {
			list[i] = drawn(r, depth-1)
		}
		return list
	}
	m := map[string]any{}
	for range r.IntN(4) {
		m[[]string{"a", "b", "ab", "c", "b/~ %", "5"}[r.IntN(6)]] = drawn(r, depth-1)
	}
	return m
}

// written exports a schema, and compiles what comes out.
func written(t *testing.T, s *schemas.Schema, about string) *schemas.Schema {
	t.Helper()
	out, ok := s.Export(nil)
	require.True(t, ok, about)
	raw, err := json.Marshal(out)
	require.NoError(t, err)
	back, err := schemas.Compile(raw)
	require.NoError(t, err, "%s\n%s", about, raw)
	// It is written in one way, and no longer changes.
	twice, ok := back.Export(nil)
	require.True(t, ok, about)
	again, err := json.Marshal(twice)
	require.NoError(t, err)
	require.JSONEq(t, string(raw), string(again), about)
	return back
}

// agrees checks that two schemas accept the same values.
func agrees(t *testing.T, a, b *schemas.Schema, about string) {
	t.Helper()
	check := func(v any) {
		require.Equal(t, a.Validate(v) == nil, b.Validate(v) == nil, "%s of %v: %v, %v", about, v, a.Validate(v), b.Validate(v))
	}
	for _, text := range values {
		v, err := schemas.Decode([]byte(text))
		require.NoError(t, err)
		check(v)
	}
	r := rand.New(rand.NewPCG(7, uint64(len(about))))
	for range 200 {
		check(drawn(r, 3))
	}
}

func TestExport(t *testing.T) {
	for _, schema := range exported {
		s := mustCompile(t, schema)
		agrees(t, s, written(t, s, schema), schema)
	}
}

// TestExportParts: so it is wherever a schema stands.
func TestExportParts(t *testing.T) {
	for i, schema := range exported {
		if strings.Contains(schema, "$schema") || strings.Contains(schema, `"#`) || strings.Contains(schema, "$id") {
			continue
		}
		for j, around := range []string{`{"not":%s}`, `{"items":%s}`, `{"properties":{"a":%s}}`, `{"additionalProperties":%s}`, `{"anyOf":[%s,{"const":"ab"}]}`, `{"$ref":"#/$defs/x","$defs":{"x":%s},"not":{"const":1}}`} {
			if testing.Short() && (i+j)%3 > 0 {
				continue
			}
			whole := fmt.Sprintf(around, schema)
			s := mustCompile(t, whole)
			agrees(t, s, written(t, s, whole), whole)
		}
	}
}

// TestExportPairs writes out the schemas of published pairs.
func TestExportPairs(t *testing.T) {
	file, err := os.Open("../containment/testdata/pairs.jsonl")
	require.NoError(t, err)
	defer func() { require.NoError(t, file.Close()) }()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	seen := 0
	for lines.Scan() {
		var pair struct{ LHS, RHS json.RawMessage }
		require.NoError(t, json.Unmarshal(lines.Bytes(), &pair))
		for _, raw := range []json.RawMessage{pair.LHS, pair.RHS} {
			s, err := schemas.Compile(raw)
			if err != nil {
				continue
			}
			if _, ok := s.Export(nil); !ok {
				require.Regexp(t, `"(unevaluated\w+|dependencies|additionalItems|\$(dynamic|recursive)?Ref|\$ref)"`, string(raw), "nothing else is refused")
				continue
			}
			seen++
			agrees(t, s, written(t, s, string(raw)), string(raw))
		}
	}
	require.NoError(t, lines.Err())
	require.Greater(t, seen, 100)
}

func TestExportRefuses(t *testing.T) {
	for name, schema := range refusals {
		_, ok := mustCompile(t, schema).Export(nil)
		require.False(t, ok, name)
	}
	// The bound is on what is written, which may be more than there is.
	wide := func(n, m int) string {
		return `{"$defs":{"x":{"prefixItems":[` + list(n, func(int) string { return `{"minimum":1}` }) + `]}},"prefixItems":[` + list(m, func(int) string { return `{"$ref":"#/$defs/x"}` }) + `]}`
	}
	_, ok := mustCompile(t, wide(48, 98)).Export(nil)
	require.True(t, ok)
	_, ok = mustCompile(t, wide(60, 90)).Export(nil)
	require.False(t, ok)
	var doubling strings.Builder
	for i := range 20 {
		fmt.Fprintf(&doubling, `"d%d":{"properties":{"a":{"$ref":"#/$defs/d%d"},"b":{"$ref":"#/$defs/d%d"}}},`, i, i+1, i+1)
	}
	_, ok = mustCompile(t, `{"$ref":"#/$defs/d0","$defs":{`+doubling.String()+`"d20":{}}}`).Export(nil)
	require.False(t, ok)
}

// TestExportNamed: named definitions are written as references, which may lead back.
func TestExportNamed(t *testing.T) {
	const defs = `"defs":{"Tree":{"type":"object","properties":{"v":{"type":"integer"},"left":{"$ref":"#/defs/Tree"},"leaf":{"$ref":"#/defs/a~1b"}},"additionalProperties":false},"a/b":{"type":"null"}}`
	for _, c := range []struct{ schema, want string }{
		{`{"$ref":"#/defs/Tree",` + defs + `}`, `{"$ref":"#/defs/Tree"}`},
		{`{"items":{"$ref":"#/defs/Tree","minProperties":1},` + defs + `}`, `{"items":{"allOf":[{"$ref":"#/defs/Tree"}],"minProperties":1}}`},
		{`{"items":{"$ref":"#/defs/Tree","allOf":[{"required":["v"]}]},` + defs + `}`, `{"items":{"allOf":[{"$ref":"#/defs/Tree"},{"required":["v"]}]}}`},
		{`{"properties":{"x":{"$ref":"#/defs/a~1b"},"y":{"not":{"$ref":"#/defs/Tree"}}},` + defs + `}`, `{"properties":{"x":{"$ref":"#/defs/a~1b"},"y":{"not":{"$ref":"#/defs/Tree"}}}}`},
		{`{"anyOf":[{"$ref":"#/defs/Tree"},{"type":"array","items":{"$ref":"#/defs/Tree"}}],` + defs + `}`, `{"anyOf":[{"$ref":"#/defs/Tree"},{"type":"array","items":{"$ref":"#/defs/Tree"}}]}`},
	} {
		s := mustCompile(t, c.schema)
		asked := map[string]bool{}
		out, ok := s.Export(func(pointer string) string {
			asked[pointer] = true
			if strings.HasPrefix(pointer, "/defs/") && strings.Count(pointer, "/") == 2 {
				return "#" + pointer
			}
			return ""
		})
		require.True(t, ok, c.schema)
		raw, err := json.Marshal(out)
		require.NoError(t, err)
		require.JSONEq(t, c.want, string(raw))
		require.True(t, asked[""], "the whole has the empty pointer")
		back := mustCompile(t, string(bytes.Replace(raw, []byte("{"), []byte("{"+defs+","), 1)))
		agrees(t, s, back, c.schema)
	}
	// What is not named is written out, and recursion through it is refused.
	_, ok := mustCompile(t, `{"$ref":"#/defs/Tree",`+defs+`}`).Export(func(string) string { return "" })
	require.False(t, ok)
}
