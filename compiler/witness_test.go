package compiler

import (
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/diag"
)

// TestNoWitnessWithoutProof: where a proof gives up, no value is shown as if it had
// been found.
func TestNoWitnessWithoutProof(t *testing.T) {
	_, ds := Compile(Source{Name: "p.yaml", Text: []byte(`
apiVersion: chimera/v1
kind: Plan
name: p
version: "1"
input_schema: {type: object, properties: {v: {type: array, uniqueItems: true, minItems: 2000, items: {type: array, uniqueItems: true, minItems: 30}}}, required: [v]}
output_schema: {type: object}
nodes:
  - {id: a, template: engine/pass, input_schema: {type: object, properties: {v: {type: integer}}, required: [v]}, output_schema: {type: object}}
edges:
  - {from_node: $input, from_port: v, to_node: a, to_port: v, edge_type: data, required: true, check: runtime}
`)}, testCatalog(t), nil)
	require.Len(t, ds, 1)
	require.Equal(t, diag.TypeNotContained, ds[0].Code)
	require.Empty(t, ds[0].Witness)
}
