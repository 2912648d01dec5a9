package workflows_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/compiler"
	"chimera.ai/engine/compiler/plangen"
	"chimera.ai/engine/schemas"
)

const adaptersCatalog = `
apiVersion: chimera/v1
kind: Catalog
templates: []
adapters:
  - id: order/summary
    input_schema:
      type: object
      properties: {name: {type: string}, amount: {type: integer, minimum: 0, maximum: 1000}, note: {type: string}}
      required: [name, amount]
    output_schema: {type: object, properties: {text: {type: string}, cents: {type: integer, maximum: 100000}, note: {type: [string, "null"]}}, required: [text, cents, note]}
    transform: {text: "${value.name}: ${value.amount}", cents: "${value.amount * 100}", note: "${value.?note.orValue(null)}"}
  - {id: half, input_schema: {type: number, minimum: 0, maximum: 1000}, output_schema: {type: number}, transform: "${value / 2}"}
  - {id: reason, input_schema: {type: object, properties: {kind: {type: string}}, required: [kind]}, output_schema: {type: string}, transform: "because of ${value.kind}"}
`

const adaptersPlan = `
apiVersion: chimera/v1
kind: Plan
name: adapters
version: 1.0.0
input_schema: &order {type: object, properties: {name: {type: string}, amount: {type: integer, minimum: 0, maximum: 1000}, note: {type: string}}, required: [name, amount], additionalProperties: false}
output_schema: &out
  type: object
  properties: {summary: {type: object, properties: {cents: {type: integer, maximum: 100000}}, required: [cents]}, half: {type: number}, why: {type: string}}
  required: [half]
nodes:
  - {id: stop, template: engine/fail, with: {message: no}}
  - {id: keep, template: engine/pass, input_schema: {type: object, properties: {summary: {type: object}}, required: [summary]}, output_schema: true}
edges:
  - {from_node: $input, from_port: $, to_node: keep, to_port: summary, edge_type: data, required: true, transform: order/summary}
  - {from_node: $input, from_port: $, to_node: $output, to_port: summary, edge_type: conditional, required: false, when: value.amount > 10, transform: order/summary}
  - {from_node: $input, from_port: amount, to_node: $output, to_port: half, edge_type: data, required: true, transform: half}
  - {from_node: stop, from_port: $error, to_node: $output, to_port: why, edge_type: error, required: false, transform: reason}
  - keep -> stop
`

// TestAdapters runs a plan with adapters with the real activities, on random
// inputs and on some whose outputs are known. A half is the same half of a whole
// number, though only an integer can arrive.
func TestAdapters(t *testing.T) {
	raw := func(text string) json.RawMessage { return json.RawMessage(text) }
	c := &plangen.Case{
		Source: []byte(adaptersPlan),
		Input:  raw(`{"type":"object","properties":{"name":{"type":"string"},"amount":{"type":"integer","minimum":0,"maximum":1000},"note":{"type":"string"}},"required":["name","amount"],"additionalProperties":false}`),
		Output: raw(`{"type":"object","properties":{"half":{"type":"number"},"why":{"const":"because of tool_error"}},"required":["half","why"]}`),
	}
	w := newWorld(t, c, newPlans(t), 1)
	file, ds := compiler.ParseCatalog(compiler.Source{Name: "catalog.yaml", Text: []byte(adaptersCatalog)})
	require.Empty(t, ds)
	w.catalog, ds = w.catalog.Merge(file)
	require.Empty(t, ds)
	p, ds := w.compile(adaptersPlan)
	require.Empty(t, ds)
	for _, e := range p.Edges {
		require.Equal(t, e.Carries(), len(e.Transform) > 0, "the transform itself is in the plan: %s", e.Transform)
	}
	for input, want := range map[string]string{
		`{"amount":25,"name":"pen"}`:           `{"half":12.5,"summary":{"cents":2500,"note":null,"text":"pen: 25"},"why":"because of tool_error"}`,
		`{"amount":11,"name":"a","note":"b"}`:  `{"half":5.5,"summary":{"cents":1100,"note":"b","text":"a: 11"},"why":"because of tool_error"}`,
		`{"amount":4,"name":"no","note":"yo"}`: `{"half":2.0,"why":"because of tool_error"}`,
	} {
		in, err := schemas.Decode(raw(input))
		require.NoError(t, err)
		output, faults := w.run(t, in)
		require.Empty(t, faults)
		require.JSONEq(t, want, string(output), input)
	}
	for range 10 {
		input, ok := w.input()
		require.True(t, ok)
		output, faults := w.run(t, input)
		require.Empty(t, faults, fmt.Sprint(input))
		require.NotNil(t, output)
	}
}
