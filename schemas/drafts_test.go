package schemas_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/schemas"
)

func TestTrapEmptyEnum(t *testing.T) {
	require.NoError(t, bareValidate(t, `{"enum":[]}`, `1`), "the library takes it for no keyword")
	for _, schema := range []string{`{"enum":[]}`, `{"type":"integer","enum":[]}`, `{"$ref":"#/x","x":{"enum":[]}}`, `{"not":{"not":{"enum":[]}}}`} {
		require.Error(t, mustCompile(t, schema).Validate(json.Number("1")), schema)
	}
	_, err := mustCompile(t, `{"properties":{"a":{"enum":[]}}}`).ValidateJSON([]byte(`{"a":1}`))
	require.EqualError(t, err, "/a: no value is allowed here")
	mustCompile(t, `{"properties":{"enum":{}},"const":{"enum":[]}}`)
}

func TestTrapAnchorsTwice(t *testing.T) {
	schema := `{"$defs":{"a":{"$anchor":"n","type":"string"},"b":{"$anchor":"n","type":"null"}},"$ref":"#n"}`
	said := map[bool]bool{}
	for range 200 {
		said[bareValidate(t, schema, `null`) == nil] = true
	}
	require.Len(t, said, 2, "the library takes any of them")
	for _, schema := range []string{
		schema, `{"$defs":{"a":{"$anchor":"n"},"b":{"$dynamicAnchor":"n"}}}`, `{"$anchor":"n","$defs":{"a":{"$anchor":"n"}}}`,
		`{"$schema":"http://json-schema.org/draft-07/schema#","definitions":{"a":{"$id":"#n"},"b":{"$id":"#n","type":"null"}},"allOf":[{"$ref":"#n"}]}`,
		`{"$schema":"http://json-schema.org/draft-04/schema#","definitions":{"a":{"id":"#n"},"b":{"id":"#n"}}}`,
		`{"$defs":{"a":{"id":"x","$anchor":"n"},"b":{"$anchor":"n"}}}`,
		`{"x":{"y":{"$anchor":"n"}},"items":{"$ref":"#/x/y"},"$defs":{"b":{"$anchor":"n"}}}`,
		`{"$schema":"http://json-schema.org/draft-07/schema#","definitions":{"a":{"$id":"x","$ref":"#n","not":{"$id":"#n"}},"b":{"$id":"#n"}}}`,
	} {
		_, err := schemas.Compile([]byte(schema))
		require.ErrorContains(t, err, `the anchor "n" stands twice`, schema)
	}
	// Each resource has its own.
	for _, schema := range []string{
		`{"$anchor":"n","$dynamicAnchor":"n","$defs":{"a":{"$id":"https://example.com/a","$anchor":"n"}}}`,
		`{"allOf":[{"$ref":"#/$defs/a/$defs/b"}],"$defs":{"a":{"$id":"https://example.com/a","$defs":{"b":{"$anchor":"n"}}},"c":{"$anchor":"n"}}}`,
	} {
		mustCompile(t, schema)
	}
}

// The library compiles a part once for each way to write a pointer to it, and
// looks through all of them each time.
func TestTrapPointersInManyWritings(t *testing.T) {
	c, err := bare(`{"$defs":{"a,b":{"type":"null"}},"properties":{"x":{"$ref":"#/$defs/a,b"},"y":{"$ref":"#/$defs/%61,b"},"z":{"$ref":"#/$defs/a%2Cb"}}}`)
	require.NoError(t, err)
	require.NotSame(t, c.Properties["x"].Ref, c.Properties["y"].Ref)
	require.NotSame(t, c.Properties["x"].Ref, c.Properties["z"].Ref)

	part := `{"allOf":[` + list(3000, func(int) string { return `{"minLength":1}` }) + `]}`
	written := func(i int) (s string) {
		for bit, c := range []byte("abcdef") {
			if i>>bit&1 == 1 {
				s += fmt.Sprintf("%%%02x", c)
			} else {
				s += string(c)
			}
		}
		return s
	}
	for name, schema := range map[string]string{
		"plain": `{"$defs":{"abcdef":` + part + `},"anyOf":[` + list(60, func(i int) string { return `{"properties":{"p":{"$ref":"#/$defs/` + written(i) + `"}}}` }) + `]}`,
		"with an identifier": `{"$id":"https://example.com/s","$defs":{"abcdef":` + part + `},"anyOf":[` +
			list(60, func(i int) string {
				return `{"properties":{"p":{"$ref":"https://example.com/s#/$defs/` + written(i) + `"}}}`
			}) + `]}`,
		"relative to a part": `{"$defs":{"r":{"$id":"https://example.com/s","$defs":{"abcdef":` + part + `},"anyOf":[` +
			list(60, func(i int) string { return `{"properties":{"p":{"$ref":"#/$defs/` + written(i) + `"}}}` }) + `]}}}`,
	} {
		t.Run(name, func(t *testing.T) {
			_, err := schemas.Compile([]byte(schema))
			require.ErrorIs(t, err, schemas.ErrTooLarge)
		})
	}
	s := mustCompile(t, `{"$defs":{"a,b":{"type":"null"},"c d":{"type":"null"}},"properties":{"x":{"$ref":"#/$defs/a,b"},"y":{"$ref":"#/$defs/c d"},"z":{"$ref":"#/$defs/c%20d"}}}`)
	_, err = s.ValidateJSON([]byte(`{"x":1}`))
	require.Error(t, err)
}

// Rules of the drafts that are easy to get wrong, and that the library gets
// right: a later version must too.
func TestRulesOfDrafts(t *testing.T) {
	const d4, d7, d2019 = `"$schema":"http://json-schema.org/draft-04/schema#"`, `"$schema":"http://json-schema.org/draft-07/schema#"`, `"$schema":"https://json-schema.org/draft/2019-09/schema"`
	tests := []struct {
		schema, value string
		want          bool
	}{
		{`{"minLength":2}`, `"😀"`, false}, {`{"maxLength":1}`, `"😀"`, true}, {`{"maxLength":1}`, `"e\u0301"`, false},
		{`{"const":1}`, `1.0`, true}, {`{"enum":[{"a":[1e2]}]}`, `{"a":[100.0]}`, true}, {`{"const":0}`, `-0.0`, true}, {`{"const":false}`, `0`, false},
		{`{"const":9007199254740993}`, `9007199254740992`, false}, {`{"uniqueItems":true}`, `[1,1.0]`, false}, {`{"uniqueItems":true}`, `[1,true,"1",[1]]`, true},
		{`{"multipleOf":1e-400}`, `1e400`, true}, {`{"multipleOf":1e400}`, `1e-400`, false}, {`{"multipleOf":0.1}`, `0.3`, true},
		{`{` + d7 + `,"properties":{"a":{"$ref":"#/definitions/n","maximum":1}},"definitions":{"n":{"type":"number"}}}`, `{"a":2}`, true},
		{`{` + d2019 + `,"properties":{"a":{"$ref":"#/$defs/n","maximum":1}},"$defs":{"n":{"type":"number"}}}`, `{"a":2}`, false},
		{`{` + d2019 + `,"contains":{"const":1},"minContains":0}`, `[]`, true}, {`{"contains":{"const":1},"minContains":0,"maxContains":1}`, `[1,1]`, false},
		{`{` + d7 + `,"contains":{"const":1},"minContains":0}`, `[]`, false},
		{`{` + d2019 + `,"contains":{"const":1},"unevaluatedItems":false}`, `[1]`, false}, {`{"contains":{"const":1},"unevaluatedItems":false}`, `[1]`, true},
		{`{"$ref":"tree","$defs":{"t":{"$id":"tree","$dynamicAnchor":"n","properties":{"a":{"$dynamicRef":"#n"}}}},"unevaluatedProperties":false}`, `{"a":{"b":1}}`, true},
		{`{"$dynamicAnchor":"n","$ref":"tree","$defs":{"t":{"$id":"tree","$dynamicAnchor":"n","properties":{"a":{"$dynamicRef":"#n"}}}},"unevaluatedProperties":false}`, `{"a":{"b":1}}`, false},
		{`{"not":{"properties":{"a":true}},"unevaluatedProperties":false}`, `1`, false}, {`{"anyOf":[{"properties":{"a":{"const":1}}},true],"unevaluatedProperties":false}`, `{"a":2}`, false},
		{`{"contentMediaType":"application/json","contentSchema":{"type":"null"}}`, `"1"`, true},
		{`{` + d7 + `,"properties":{"$ref":{"type":"string"}}}`, `{"$ref":1}`, false}, {`{"properties":{"$id":{"type":"string"}}}`, `{"$id":1}`, false},
		{`{` + d4 + `,"type":"integer"}`, `1.0`, true}, {`{` + d4 + `,"maximum":1,"exclusiveMaximum":false}`, `1`, true},
		{`{"then":false}`, `1`, true}, {`{"items":false,"additionalItems":false}`, `[]`, true}, {`{"propertyNames":{"maxLength":1}}`, `{"ab":1}`, false},
		{`{"minProperties":2.0}`, `{"a":1}`, false},
	}
	for _, tt := range tests {
		_, err := mustCompile(t, tt.schema).ValidateJSON([]byte(tt.value))
		require.Equal(t, tt.want, err == nil, "%s of %s: %v", tt.schema, tt.value, err)
	}
}
