package schemas_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/schemas"
)

func mustCompile(t testing.TB, raw string) *schemas.Schema {
	t.Helper()
	s, err := schemas.Compile([]byte(raw))
	require.NoError(t, err)
	return s
}

func TestValidate(t *testing.T) {
	tests := []struct {
		name, schema, value string
		want                []schemas.Cause // nil: valid
	}{
		{"boolean schema", `true`, `[1]`, nil},
		{"false", `false`, `1`, []schemas.Cause{{"", "", "no value is allowed here"}}},
		{"empty", `{}`, `{"a":null}`, nil},
		{"type", `{"type":"string"}`, `1`, []schemas.Cause{{"", "/type", "expected string, but got number"}}},
		{"integer with fraction zero", `{"type":"integer"}`, `1.0`, nil},
		{"big integer", `{"type":"integer","maximum":9007199254740993}`, `9007199254740993`, nil},
		{"one more", `{"type":"integer","maximum":9007199254740993}`, `9007199254740994`,
			[]schemas.Cause{{"", "/maximum", "must be <= 9007199254740993, but is 9007199254740994"}}},
		{"decimal", `{"multipleOf":0.01}`, `0.015`, []schemas.Cause{{"", "/multipleOf", "must be a multiple of 0.01, but is 0.015"}}},
		{"enum", `{"enum":[1,"a",null]}`, `2`, []schemas.Cause{{"", "/enum", `must be one of 1, "a", null`}}},
		{"const", `{"const":{"b":1,"a":[]}}`, `2`, []schemas.Cause{{"", "/const", `must be {"a":[],"b":1}`}}},
		{"required", `{"required":["b","a"]}`, `{}`, []schemas.Cause{{"", "/required", "missing properties: 'b', 'a'"}}},
		{"additional, sorted", `{"properties":{"k":true},"additionalProperties":false}`, `{"z":1,"k":1,"a":1,"m":1}`,
			[]schemas.Cause{{"", "/additionalProperties", `the properties "a", "m", "z" are not allowed`}}},
		{"pointers are plain", `{"properties":{"a/b c%":{"type":"null"}}}`, `{"a/b c%":1}`,
			[]schemas.Cause{{"/a~1b c%", "/properties/a~1b c%/type", "expected null, but got number"}}},
		{"alternatives", `{"anyOf":[{"type":"string"},{"type":"null"}]}`, `1`, []schemas.Cause{
			{"", "/anyOf", "matches none of the alternatives"},
			{"", "/anyOf/0/type", "expected string, but got number"},
			{"", "/anyOf/1/type", "expected null, but got number"},
		}},
		{"two of one", `{"oneOf":[{},{}]}`, `1`, []schemas.Cause{{"", "/oneOf", "matches more than one alternative: numbers 0 and 1"}}},
		{"not", `{"not":{"type":"number"}}`, `1`, []schemas.Cause{{"", "/not", "matches what it must not match"}}},
		{"unevaluated", `{"unevaluatedProperties":false}`, `{"a":1}`, []schemas.Cause{{"/a", "/unevaluatedProperties", "no value is allowed here"}}},
		{"contains", `{"contains":{"const":1}}`, `[2,3]`, []schemas.Cause{{"", "/minContains", "the number of matching items must be >= 1, but got 0"}}},
		{"defs of a plan", `{"properties":{"p":{"$ref":"#/defs/Money"}},"defs":{"Money":{"type":"integer","maximum":9}}}`, `{"p":10}`,
			[]schemas.Cause{{"/p", "/defs/Money/maximum", "must be <= 9, but is 10"}}},
		{"defs by defs", `{"$ref":"#/defs/A","defs":{"A":{"items":{"$ref":"#/defs/B"}},"B":{"type":"null"}}}`, `[1]`,
			[]schemas.Cause{{"/0", "/defs/B/type", "expected null, but got number"}}},
		{"recursion", `{"$ref":"#/$defs/T","$defs":{"T":{"type":"object","properties":{"next":{"$ref":"#/$defs/T"}}}}}`, `{"next":{"next":1}}`,
			[]schemas.Cause{{"/next/next", "/$defs/T/type", "expected object, but got number"}}},
		{"draft 7 keeps its rules", `{"$schema":"http://json-schema.org/draft-07/schema#","items":[{"type":"null"}],"additionalItems":false}`, `[null,1]`,
			[]schemas.Cause{{"", "/additionalItems", "only 1 items are allowed, but found 2 items"}}},
		{"draft 4", `{"$schema":"http://json-schema.org/draft-04/schema#","minimum":1,"exclusiveMinimum":true}`, `1`,
			[]schemas.Cause{{"", "/exclusiveMinimum", "must be > 1, but is 1"}}},
		{"identifiers inside", `{"$id":"https://example.com/root","$defs":{"a":{"$id":"item","type":"null"}},"items":{"$ref":"item"}}`, `[1]`,
			[]schemas.Cause{{"/0", "/$defs/a/type", "expected null, but got number"}}},
		{"anchor", `{"$defs":{"a":{"$anchor":"n","type":"null"}},"items":{"$ref":"#n"}}`, `[1]`,
			[]schemas.Cause{{"/0", "/$defs/a/type", "expected null, but got number"}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := mustCompile(t, tt.schema)
			v, err := s.ValidateJSON([]byte(tt.value))
			if tt.want == nil {
				require.NoError(t, err)
				require.NoError(t, s.Validate(v))
				return
			}
			var inv *schemas.Invalid
			require.ErrorAs(t, err, &inv)
			require.Equal(t, tt.want, inv.Causes)
			require.Zero(t, inv.More)
			require.Nil(t, v)
		})
	}
}

func TestValidateRefusesWhatIsNotJSON(t *testing.T) {
	s := mustCompile(t, `{}`)
	for _, v := range []any{1, 1.5, []string{"a"}, map[string]any{"a": struct{}{}}, []any{func() {}}} {
		err := s.Validate(v)
		require.ErrorContains(t, err, "is not decoded JSON")
		var inv *schemas.Invalid
		require.NotErrorAs(t, err, &inv)
	}
	loop := []any{nil}
	loop[0] = loop
	require.ErrorIs(t, s.Validate(loop), schemas.ErrTooLarge)
}

func TestInvalidIsBounded(t *testing.T) {
	s := mustCompile(t, `{"items":{"type":"null"}}`)
	_, err := s.ValidateJSON([]byte(`[` + strings.Repeat(`1,`, 4999) + `1]`))
	var inv *schemas.Invalid
	require.ErrorAs(t, err, &inv)
	require.Len(t, inv.Causes, 32)
	require.Equal(t, 5000-32, inv.More)
	require.Less(t, len(inv.Error()), 1500)
	require.Contains(t, inv.Error(), "and 4995 more")

	long := strings.Repeat("é", 5000)
	_, err = s.ValidateJSON([]byte(`["` + long + `"]`))
	require.Less(t, len(err.Error()), 1500)
	s = mustCompile(t, `{"enum":["`+long+`"],"required":["`+long+`"],"additionalProperties":false}`)
	_, err = s.ValidateJSON([]byte(`{"a` + long + `":1}`))
	require.Error(t, err)
	require.Less(t, len(err.Error()), 1500)
}

func TestNamed(t *testing.T) {
	require.Contains(t, schemas.Names(), "error")
	for _, name := range schemas.Names() {
		_, ok := schemas.Named(name)
		require.True(t, ok, name)
		_, err := schemas.CompileNamed(name)
		require.NoError(t, err, name)
	}
	for _, name := range []string{"", "nothing", "../go", "error.json", "a/b"} {
		_, ok := schemas.Named(name)
		require.False(t, ok, name)
		_, err := schemas.CompileNamed(name)
		require.Error(t, err, name)
	}
	raw, _ := schemas.Named("error")
	s := mustCompile(t, string(raw))
	_, err := s.ValidateJSON([]byte(`{"kind":"timeout","message":"m","node":"n","attempts":2,"details":null}`))
	require.NoError(t, err)
	_, err = s.ValidateJSON([]byte(`{"kind":"other","message":"m","node":"n","attempts":2,"details":null}`))
	require.Error(t, err)
}
