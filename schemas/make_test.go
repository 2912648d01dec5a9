package schemas_test

import (
	"encoding/json"
	"math/big"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/schemas"
)

func TestMake(t *testing.T) {
	part, err := schemas.Compile([]byte(`{"type":"object","properties":{"n":{"$ref":"#/$defs/N"}},"$defs":{"N":{"type":"integer"}}}`))
	require.NoError(t, err)
	n := schemas.Wrap(part.Compiled().Properties["n"])
	two := 2
	made := schemas.Make(schemas.Keywords{
		Types: []string{"object"}, Required: []string{"a"},
		Properties: map[string]*schemas.Schema{
			"a": n,
			"b": schemas.Make(schemas.Keywords{Prefix: []*schemas.Schema{n}, Items: schemas.False(), MaxItems: &two}),
			"c": schemas.Make(schemas.Keywords{Any: []*schemas.Schema{
				schemas.Make(schemas.Keywords{Const: []any{nil}}),
				schemas.Make(schemas.Keywords{Types: []string{"number"}, Maximum: big.NewRat(1, 2)}),
			}}),
			"d": schemas.Make(schemas.Keywords{All: []*schemas.Schema{n}, Not: schemas.Make(schemas.Keywords{Enum: []any{json.Number("3")}})}),
			"e": schemas.True(),
		},
		Rest: schemas.False(),
	})
	for text, want := range map[string]bool{
		`{"a":1}`: true, `{"a":"1"}`: false, `{}`: false, `[]`: false, `{"a":1,"z":1}`: false,
		`{"a":1,"b":[]}`: true, `{"a":1,"b":[2]}`: true, `{"a":1,"b":["x"]}`: false, `{"a":1,"b":[1,2]}`: false,
		`{"a":1,"c":null}`: true, `{"a":1,"c":0.5}`: true, `{"a":1,"c":0.6}`: false, `{"a":1,"c":false}`: false,
		`{"a":1,"d":2}`: true, `{"a":1,"d":3.0}`: false, `{"a":1,"e":[{}]}`: true,
	} {
		_, err := made.ValidateJSON([]byte(text))
		var invalid *schemas.Invalid
		if want {
			require.NoError(t, err, text)
		} else {
			require.ErrorAs(t, err, &invalid, text)
		}
	}
	require.NoError(t, schemas.True().Validate("x"))
	require.Error(t, schemas.False().Validate("x"))
	require.Same(t, schemas.True(), schemas.True())
}
