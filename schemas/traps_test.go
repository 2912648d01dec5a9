package schemas_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v5"
	"github.com/stretchr/testify/require"

	"chimera.ai/engine/schemas"
)

// Each test here shows the bare library going wrong first, so that a guard that
// a later version makes needless is noticed.

// bare compiles with the library as it comes.
func bare(schema string) (s *jsonschema.Schema, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v", r)
		}
	}()
	return jsonschema.CompileString("https://example.com/schema.json", schema)
}

// bareValidate validates with the library as it comes.
func bareValidate(t *testing.T, schema, value string) (err error) {
	t.Helper()
	s, err := bare(schema)
	require.NoError(t, err)
	dec := json.NewDecoder(strings.NewReader(value))
	dec.UseNumber()
	var v any
	require.NoError(t, dec.Decode(&v))
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v", r)
		}
	}()
	return s.Validate(v)
}

func TestTrapFormatAsserts(t *testing.T) {
	for name, schema := range map[string]string{
		"no draft":              `{"format":"email"}`,
		"draft 7":               `{"$schema":"http://json-schema.org/draft-07/schema#","format":"email"}`,
		"draft 4":               `{"$schema":"http://json-schema.org/draft-04/schema#","format":"email"}`,
		"under a dynamicAnchor": `{"$schema":"https://json-schema.org/draft/2020-12/schema","allOf":[{"$dynamicAnchor":"x","format":"email"}]}`,
		"content, draft 7":      `{"$schema":"http://json-schema.org/draft-07/schema#","contentEncoding":"base64"}`,
		"media type, draft 7":   `{"$schema":"http://json-schema.org/draft-07/schema#","contentMediaType":"application/json"}`,
	} {
		t.Run(name, func(t *testing.T) {
			require.Error(t, bareValidate(t, schema, `"no such thing {"`), "the library asserts it")
			_, err := mustCompile(t, schema).ValidateJSON([]byte(`"no such thing {"`))
			require.NoError(t, err)
		})
	}
}

func TestTrapFilesLoad(t *testing.T) {
	file := filepath.Join(t.TempDir(), "secret.json")
	require.NoError(t, os.WriteFile(file, []byte(`{"const":"secret"}`), 0o600))
	ref := `"file://` + file + `"`

	err := bareValidate(t, `{"$ref":`+ref+`}`, `1`)
	require.ErrorContains(t, err, "secret", "the library reads files")

	_, err = schemas.Compile([]byte(`{"$ref":` + ref + `}`))
	require.ErrorContains(t, err, "leaves the document")
	for _, schema := range []string{
		`{"$ref":` + ref + `}`, `{"properties":{"a":{"$ref":` + ref + `}}}`, `{"$dynamicRef":` + ref + `}`,
		`{"$schema":"https://json-schema.org/draft/2019-09/schema","$recursiveRef":` + ref + `}`,
		`{"$id":"file:///","$ref":` + ref + `}`, `{"$schema":` + ref + `}`, `{"$ref":"https://example.com/other.json"}`,
		`{"$ref":"other.json#/a"}`, `{"$ref":"//example.com/x"}`, `{"$id":"https://example.com/a/b","$ref":"c"}`,
		`{"$ref":"https://json-schema.org/draft/2020-12/meta/core"}`, `{"$dynamicRef":"https://json-schema.org/draft/2020-12/schema#meta"}`,
		`{"$ref":"http://json-schema.org/draft-07/schema#/definitions/nonNegativeInteger"}`, `{"$dynamicRef":"https://json-schema.org/draft/2020-12/schema"}`,
		`{"$schema":"https://json-schema.org/draft/2020-12/meta/core"}`,
		`{"$vocabulary":{"https://example.com/v":true}}`,
	} {
		_, err := schemas.Compile([]byte(schema))
		require.Error(t, err, schema)
		require.NotContains(t, err.Error(), "secret\"")
	}
}

func TestTrapNumbers(t *testing.T) {
	require.ErrorContains(t, bareValidate(t, `{"minimum":1}`, `1e1000001`), "panic")
	s := mustCompile(t, `{"minimum":1,"multipleOf":0.5,"type":"integer","enum":[1],"uniqueItems":true}`)
	for _, n := range []string{"1e1000001", "1e-1000001", "1E+401", "-1e99999999999999999999", strings.Repeat("9", 513), "0." + strings.Repeat("0", 511)} {
		_, err := s.ValidateJSON([]byte(n))
		require.ErrorIs(t, err, schemas.ErrTooLarge, n)
		require.ErrorIs(t, s.Validate([]any{json.Number(n)}), schemas.ErrTooLarge, n)
		_, err = schemas.Compile([]byte(`{"maximum":` + n + `}`))
		require.ErrorIs(t, err, schemas.ErrTooLarge, n)
	}
	for _, n := range []string{"1e400", strings.Repeat("9", 512), "0e0000000000000000000000000"} {
		_, err := schemas.Decode([]byte(n))
		require.NoError(t, err, n)
	}
	// A number that is none.
	raw, err := bare(`{"minimum":1}`)
	require.NoError(t, err)
	require.Panics(t, func() { _ = raw.Validate(json.Number("abc")) })
	for _, n := range []string{"abc", "", "1_000", "0x10", "NaN", "1/2", "01", "+1", ".5", "1.", " 1"} {
		require.ErrorContains(t, s.Validate(json.Number(n)), "is not a JSON number", n)
	}
}

func TestTrapCountsOverflow(t *testing.T) {
	require.Error(t, bareValidate(t, `{"maxLength":1e300}`, `"a"`), "the library turns a huge count into a negative one")
	for _, schema := range []string{`{"maxLength":1e300}`, `{"items":{"minItems":9223372036854775808}}`, `{"maxProperties":18446744073709551615}`} {
		_, err := schemas.Compile([]byte(schema))
		require.ErrorIs(t, err, schemas.ErrTooLarge, schema)
	}
	_, err := mustCompile(t, `{"maxLength":9007199254740991}`).ValidateJSON([]byte(`"a"`))
	require.NoError(t, err)
}

func TestTrapDuplicateKeys(t *testing.T) {
	schema := `{"type":"string","type":"number"}`
	require.NoError(t, bareValidate(t, schema, `1`), "the library takes the last")
	_, err := schemas.Compile([]byte(schema))
	require.ErrorContains(t, err, `the key "type" stands twice`)
	_, err = mustCompile(t, `{}`).ValidateJSON([]byte(`{"a":1,"\u0061":2}`))
	require.ErrorContains(t, err, `the key "a" stands twice`)
}

func TestTrapErrorTextVaries(t *testing.T) {
	schema := `{"properties":{"a":{"type":"null"},"b":{"type":"null"},"c":{"type":"null"}},"additionalProperties":false}`
	value := `{"a":1,"b":2,"c":3,"x":1,"y":2,"z":3}`
	texts := map[string]bool{}
	for range 200 {
		texts[bareValidate(t, schema, value).Error()] = true
	}
	require.Greater(t, len(texts), 1, "the library's text varies")
	clear(texts)
	for range 200 {
		_, err := mustCompile(t, schema).ValidateJSON([]byte(value))
		texts[err.Error()] = true
	}
	require.Len(t, texts, 1)

	// So does what it says about schemas.
	for _, schema := range []string{
		`{"properties":{"a":{"type":1},"b":{"type":2},"c":{"minimum":""}}}`,
		`{"properties":{"a":{"$ref":"#/x"},"b":{"$ref":"#/y"},"c":{"$ref":"#z"}}}`,
		`{"properties":{"a":{"$ref":"p"},"b":{"$ref":"q"}}}`,
		`{"$id":"https://example.com/","properties":{"a":{"$ref":"p"},"b":{"$ref":"q"}}}`,
		`{"$defs":{"a":{"$id":"x"},"b":{"$id":"x"},"c":{"$anchor":"n"},"d":{"$ref":"#m"},"e":{"$ref":"#k"}}}`,
		`{"patternProperties":{"(":true,"[":true,")":true}}`,
	} {
		clear(texts)
		for range 100 {
			_, err := schemas.Compile([]byte(schema))
			require.Error(t, err, schema)
			texts[err.Error()] = true
		}
		require.Len(t, texts, 1, schema)
	}
}

func TestTrapLoopsThatCompile(t *testing.T) {
	// A is met as part of a value first, which hides that it comes back to itself.
	schema := `{"properties":{"x":{"$ref":"#/$defs/B"}},"if":{"$ref":"#/$defs/B"},"then":true,"$defs":{"B":{"$ref":"#"}}}`
	s, err := bare(schema)
	require.NoError(t, err, "the library does not see the loop")
	var loop jsonschema.InfiniteLoopError
	require.True(t, errors.As(s.Validate(map[string]any{"x": true}), &loop), "until it runs into it")
	_, err = schemas.Compile([]byte(schema))
	require.ErrorContains(t, err, "refers to itself without going into the value")

	for _, schema := range []string{
		`{"$ref":"#"}`, `{"allOf":[{"$ref":"#"}]}`, `{"not":{"$ref":"#"}}`, `{"$ref":"#/$defs/a","$defs":{"a":{"anyOf":[{"$ref":"#/$defs/b"}]},"b":{"$ref":"#/$defs/a"}}}`,
		`{"dependentSchemas":{"x":{"$ref":"#"}}}`, `{"$dynamicRef":"#n","$dynamicAnchor":"n"}`,
	} {
		_, err := schemas.Compile([]byte(schema))
		require.ErrorContains(t, err, "refers to itself without going into the value", schema)
	}
}

func TestTrapOtherDraftInside(t *testing.T) {
	// By its own draft the inner schema ignores what stands beside $ref.
	schema := `{"$schema":"https://json-schema.org/draft/2020-12/schema","$ref":"#/$defs/old",
		"$defs":{"any":true,"old":{"$id":"old","$schema":"http://json-schema.org/draft-07/schema#","$ref":"#/definitions/any","type":"null","definitions":{"any":true}}}}`
	require.Error(t, bareValidate(t, schema, `1`), "the library overlooks the inner $schema")
	_, err := schemas.Compile([]byte(schema))
	require.ErrorContains(t, err, "$schema names another draft")
	// If the two drafts mean the same, nothing can be missed.
	for part, same := range map[string]bool{
		`"type":"object","properties":{"a":{"type":"array","items":{"minimum":1}}},"required":["a"],"additionalProperties":false`: true,
		`"items":[{"type":"number"},{"type":"null"}]`: false, // in 2020-12 that is prefixItems
		`"const":1`: true, `"exclusiveMinimum":1`: true, `"$ref":"#/$defs/any"`: false, `"definitions":{}`: false, `"dependencies":{"a":["b"]}`: false,
		`"contains":true`: false, `"unevaluatedProperties":false`: false, `"unknown":1`: false, `"if":true,"then":false`: true, `"$id":"x"`: false,
	} {
		text := `{"$schema":"https://json-schema.org/draft/2020-12/schema","properties":{"p":{"$schema":"http://json-schema.org/draft-07/schema#",` + part + `}},"$defs":{"any":true}}`
		_, err := schemas.Compile([]byte(text))
		require.Equal(t, same, err == nil, "%s: %v", part, err)
	}
	for text, same := range map[string]bool{
		`{"$schema":"http://json-schema.org/draft-07/schema#","items":{"$schema":"http://json-schema.org/draft-04/schema#","items":[{"type":"number"}],"additionalItems":false}}`: true,
		`{"$schema":"http://json-schema.org/draft-07/schema#","items":{"$schema":"http://json-schema.org/draft-04/schema#","items":true}}`:                                        false,
		`{"$schema":"http://json-schema.org/draft-04/schema#","items":{"$schema":"http://json-schema.org/draft-06/schema#","const":1}}`:                                           false,
		`{"$schema":"http://json-schema.org/draft-07/schema#","items":{"$schema":"http://json-schema.org/draft-04/schema#","minimum":1,"exclusiveMinimum":true}}`:                 false,
		`{"$schema":"http://json-schema.org/draft-06/schema#","items":{"$schema":"http://json-schema.org/draft-07/schema#","if":{},"then":false}}`:                                false,
		`{"$schema":"http://json-schema.org/draft-07/schema#","$vocabulary":{"https://example.com/v":true},"items":{"type":"null"}}`:                                              true,
	} {
		_, err := schemas.Compile([]byte(text))
		require.Equal(t, same, err == nil, "%s: %v", text, err)
	}
	// A property of that name is no such thing.
	_, err = mustCompile(t, `{"properties":{"$schema":{"type":"string"}},"enum":[{"$schema":"x"}]}`).ValidateJSON([]byte(`{"$schema":"x"}`))
	require.NoError(t, err)
}

func TestTrapPatterns(t *testing.T) {
	_, err := schemas.Compile([]byte(`{"properties":{"a":{"pattern":"(?=x)"}}}`))
	require.EqualError(t, err, `compile schema: at "/properties/a": the pattern is not RE2: invalid or unsupported Perl syntax: "(?="`)
	require.NotErrorIs(t, err, schemas.ErrTooLarge)
	bomb := strings.Repeat(`[a-z]{1000}`, 50)
	for _, schema := range []string{
		`{"pattern":"` + bomb + `"}`, `{"patternProperties":{"` + bomb + `":true}}`, `{"defs":[{"pattern":"` + bomb + `"}],"$ref":"#/defs/0"}`,
		`{"pattern":"` + strings.Repeat("a", 9000) + `"}`,
		`{"allOf":[` + strings.Repeat(`{"pattern":"[a-z]{1000}[0-9]{500}"},`, 100) + `true]}`,
	} {
		_, err := schemas.Compile([]byte(schema))
		require.ErrorIs(t, err, schemas.ErrTooLarge, schema[:40])
	}
}

func TestTrapPanics(t *testing.T) {
	for _, schema := range []string{
		`1`, `"x"`, `null`, `[]`, `{"$ref":1}`, `{"$id":1}`, `{"$schema":1}`, `{"type":1}`, `{"properties":1}`, `{"items":1}`, `{"enum":1}`,
		`{"$ref":"#/a","a":1}`, `{"$ref":"#/enum/0","enum":[{"type":5}]}`, `{"$ref":"#/properties","properties":{"type":{}}}`, `{"$anchor":1}`,
		`{"$dynamicRef":""}`, `{"$dynamicRef":"#"}`, `{"$dynamicAnchor":"a","$dynamicRef":"#a","$ref":"#a"}`, `{"$ref":"%zz"}`, `{"$ref":"#%zz"}`, `{"$ref":"#/%zz"}`,
		`{"$id":"%zz"}`, `{"$id":"#x"}`, `{"$ref":"#/a~2b"}`, `{"dependentRequired":{"a":1}}`, `{"$defs":{"a":1}}`, `{"multipleOf":0}`, `{"minLength":-1}`, `{"minLength":1.5}`,
		`{"$schema":"http://json-schema.org/draft-04/schema#","id":5}`, `{"$schema":"http://json-schema.org/draft-04/schema#","items":true}`,
	} {
		_, err := schemas.Compile([]byte(schema))
		if err != nil {
			require.NotContains(t, err.Error(), "goroutine")
			require.Less(t, len(err.Error()), 1600)
		}
	}
}
