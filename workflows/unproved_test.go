package workflows_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/host"
	"chimera.ai/engine/internal/stage"
)

// unprovedSource has expressions that only a run can tell from failures: a
// transform, and the condition of an edge.
const unprovedSource = `
apiVersion: chimera/v1
kind: Plan
name: unproved
version: 1.0.0
input_schema: {type: object, required: [lines, size], properties: {lines: {type: array, items: {type: string}}, size: {type: string}}}
output_schema: {type: object, properties: {files: {type: array, items: {type: string}}, big: {type: boolean}, why: {type: string}}}
nodes:
  - {id: names, template: engine/pass, input_schema: &names {type: object, required: [files], properties: {files: {type: array, items: {type: string}}}}, output_schema: *names}
  - {id: size, template: engine/pass, input_schema: &size {type: object, required: [size], properties: {size: {type: string}}}, output_schema: *size}
edges:
  - {from_node: $input, from_port: lines, to_node: names, to_port: files, edge_type: data, required: true, check: runtime, transform: "${value.filter(l, l.startsWith('F')).map(l, l.substring(3))}"}
  - {from_node: names, from_port: files, to_node: $output, to_port: files, edge_type: data, required: false}
  - $input.size -> size.size
  - {from_node: size, from_port: size, to_node: $output, to_port: big, edge_type: conditional, required: false, check: runtime, when: "int(value) > 10", transform: "${true}"}
  - {from_node: size, from_port: $error, to_node: $output, to_port: why, edge_type: error, required: false, transform: "${error.kind}"}
`

func TestTheRunFindsOutWhatIsNotProvedOfAnExpression(t *testing.T) {
	t.Parallel()
	h := stage.Rehearse(t, host.Options{})
	for _, tt := range []struct{ name, input, output, node string }{
		{"nothing fails", `{"lines":["F: a","x"],"size":"11"}`, `{"files":["a"],"big":true}`, ""},
		{"the condition does not hold", `{"lines":[],"size":"7"}`, `{"files":[]}`, ""},
		{"the condition fails, and its source with it", `{"lines":["F: a"],"size":"large"}`, `{"files":["a"],"why":"expr"}`, ""},
		{"the transform fails, and its target with it", `{"lines":["F:"],"size":"11"}`, "", "names"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var result json.RawMessage
			err := stage.Await(t, h.Client(), stage.Start(t, h.Client(), unprovedSource, tt.input), &result)
			if tt.node == "" {
				require.NoError(t, err)
				require.JSONEq(t, tt.output, string(result))
				return
			}
			f := stage.FailureOf(t, err)
			require.Equal(t, contract.Expr, f.Kind)
			require.Equal(t, tt.node, f.Node)
		})
	}
}
