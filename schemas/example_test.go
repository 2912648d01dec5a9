package schemas_test

import (
	"fmt"

	"chimera.ai/engine/schemas"
)

func ExampleSchema_ValidateJSON() {
	s, err := schemas.Compile([]byte(`{
		"properties": {"amount": {"$ref": "#/defs/Money"}}, "required": ["amount"],
		"defs": {"Money": {"type": "object", "properties": {"cents": {"type": "integer", "minimum": 1}}, "additionalProperties": false}}
	}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = s.ValidateJSON([]byte(`{"amount": {"cents": 0, "currency": "EUR"}}`))
	fmt.Println(err)
	// Output: /amount: the property "currency" is not allowed; /amount/cents: must be >= 1, but is 0
}
