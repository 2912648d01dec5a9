package schemas_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/schemas"
)

// Any schema and any value: no panic, no hang, the same answer twice, and what
// is said is short.
func FuzzSchema(f *testing.F) {
	for _, seed := range [][2]string{
		{`{"type":"object","properties":{"a":{"type":"integer","minimum":1}},"required":["a"],"additionalProperties":false}`, `{"a":0,"b":1}`},
		{`{"$ref":"#/defs/T","defs":{"T":{"anyOf":[{"type":"null"},{"items":{"$ref":"#/defs/T"}}]}}}`, `[[null],1]`},
		{`{"$schema":"http://json-schema.org/draft-07/schema#","items":[{"const":1}],"additionalItems":{"not":{}},"dependencies":{"a":["b"]}}`, `[1,2]`},
		{`{"$schema":"http://json-schema.org/draft-04/schema#","id":"x","minimum":1,"exclusiveMinimum":true}`, `1`},
		{`{"$schema":"https://json-schema.org/draft/2019-09/schema","$recursiveAnchor":true,"properties":{"a":{"$recursiveRef":"#"}},"unevaluatedProperties":false}`, `{"a":{"b":1}}`},
		{`{"$dynamicAnchor":"n","prefixItems":[{"$dynamicRef":"#n"}],"contains":{"enum":[1,"a",{"b":[]}]},"uniqueItems":true}`, `[[1],1,1.0]`},
		{`{"patternProperties":{"^a+$":{"pattern":"x{1,3}$"}},"propertyNames":{"maxLength":3},"minProperties":2}`, `{"aa":"xx","bbbb":1}`},
		{`{"if":{"required":["a"]},"then":{"multipleOf":0.1},"else":false,"oneOf":[true,{"$id":"https://e.com/x","$anchor":"y"}]}`, `{"a":1}`},
		{`{"$ref":"file:///etc/passwd"}`, `1`},
	} {
		f.Add([]byte(seed[0]), []byte(seed[1]))
	}
	f.Fuzz(func(t *testing.T, schema, value []byte) {
		s, err := schemas.Compile(schema)
		if err != nil {
			_, again := schemas.Compile(schema)
			if again == nil || again.Error() != err.Error() || len(err.Error()) > 2000 || strings.Contains(err.Error(), "cannot be compiled") {
				t.Fatalf("refused as %v, then as %v", err, again)
			}
			return
		}
		v, err := s.ValidateJSON(value)
		if v == nil && err == nil {
			v, err = schemas.Decode(value)
			require.NoError(t, err)
			require.Nil(t, v)
		}
		if err == nil {
			require.NoError(t, s.Validate(v))
			return
		}
		_, again := s.ValidateJSON(value)
		if again == nil || again.Error() != err.Error() || len(err.Error()) > 2000 || strings.Contains(err.Error(), "the validator failed") {
			t.Fatalf("refused as %v, then as %v", err, again)
		}
		var inv *schemas.Invalid
		if errors.As(err, &inv) && len(inv.Causes) == 0 {
			t.Fatal("invalid without a cause")
		}
	})
}
