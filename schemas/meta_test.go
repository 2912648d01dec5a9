package schemas_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/schemas"
)

// The meta-schemas of the drafts are at hand: to refer to one loads nothing.
func TestMetaSchemas(t *testing.T) {
	for draft, number := range map[string]string{
		"http://json-schema.org/draft-04/schema#": "", "http://json-schema.org/draft-06/schema#": "6", "http://json-schema.org/draft-07/schema#": "7",
		"https://json-schema.org/draft/2019-09/schema": "2019", "https://json-schema.org/draft/2020-12/schema": "2020",
	} {
		for _, schema := range []string{
			`{"$schema":"` + draft + `","properties":{"s":{"$ref":"` + draft + `"}}}`,
			`{"properties":{"s":{"$ref":"` + draft + `"}}}`,
			`{"properties":{"s":{"allOf":[{"$ref":"` + strings.Replace(strings.TrimSuffix(draft, "#"), "http:", "https:", 1) + `"}]}}}`,
			`{"$id":"https://json-schema.org/draft-07/schema","properties":{"s":{"$ref":"` + draft + `"}}}`,
		} {
			if number == "7" && strings.Contains(schema, `"$id"`) {
				continue
			}
			s := mustCompile(t, schema)
			for value, want := range map[string]bool{
				`{}`: true, `{"type":"string"}`: true, `{"type":1}`: false, `{"properties":{"a":{"items":{"minLength":1}}}}`: true,
				`{"properties":{"a":{"items":{"minLength":-1}}}}`: false, `{"properties":{"a":{"type":"text"}}}`: false, `{"not":{"required":[1]}}`: false,
				`{"pattern":"("}`: true, `{"id":"not a uri %","$ref":"% %"}`: true, `{"definitions":{"a":{"not":{"enum":1}}}}`: false,
				`{"patternProperties":{"(":{}}}`: true,
			} {
				_, err := s.ValidateJSON([]byte(`{"s":` + value + `}`))
				var invalid *schemas.Invalid
				if want {
					require.NoError(t, err, "%s %s", schema, value)
				} else {
					require.ErrorAs(t, err, &invalid, "%s %s", schema, value)
				}
			}
		}
	}
	s := mustCompile(t, `{"$ref":"https://json-schema.org/draft/2020-12/schema"}`)
	_, err := s.ValidateJSON([]byte(`{"properties":{"a":{"type":"text"}}}`))
	require.ErrorContains(t, err, `/properties/a/type: must be one of "array"`)
	require.NoError(t, schemas.Make(schemas.Keywords{Items: schemas.Wrap(s.Compiled())}).Validate([]any{true}))

	// This package promises nothing about what the library reaches through a
	// dynamic scope.
	for _, schema := range []string{
		`{"$dynamicAnchor":"meta","$ref":"https://json-schema.org/draft/2020-12/schema"}`,
		`{"$schema":"https://json-schema.org/draft/2019-09/schema","$recursiveAnchor":true,"properties":{"a":{"$ref":"https://json-schema.org/draft/2019-09/schema"}}}`,
	} {
		_, err := schemas.Compile([]byte(schema))
		require.ErrorContains(t, err, "extends a meta-schema")
	}
	// Its work is bounded, too.
	_, err = s.ValidateJSON([]byte(strings.Repeat(`{"not":`, 120) + `{}` + strings.Repeat(`}`, 120)))
	if err != nil {
		require.ErrorIs(t, err, schemas.ErrTooLarge)
	}
	twice := mustCompile(t, `{"allOf":[{"$ref":"https://json-schema.org/draft/2020-12/schema"},{"$ref":"http://json-schema.org/draft-07/schema"}]}`)
	_, err = twice.ValidateJSON([]byte(`{"allOf":[{"type":"null"}],"items":{"not":true}}`))
	require.NoError(t, err)
	_, err = twice.ValidateJSON([]byte(`{"dependentRequired":1}`))
	require.Error(t, err)
}
