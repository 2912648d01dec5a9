package activities_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"

	"chimera.ai/engine/blob"
	"chimera.ai/engine/contract"
	"chimera.ai/engine/host"
	"chimera.ai/engine/internal/stage"
)

// TestAnInputThatLooksLikeAReference: what begins as the engine's own references do,
// with the white space of its writer, is an input like others to the node and the
// predicate that read the whole of it.
func TestAnInputThatLooksLikeAReference(t *testing.T) {
	t.Parallel()
	h := stage.Rehearse(t, host.Options{})
	text, err := json.Marshal(stage.Source("", []string{
		"a engine/pass 900 with: {x: '${input}'}",
		"b engine/fail 900 with: {message: of the error edge}, " + stage.Failing,
		"c engine/pass 900 with: {x: 1}",
	}, []string{
		"a.x -> $output.x",
		`{from_node: b, from_port: $error, to_node: c, to_port: $start, edge_type: error, required: false, when: "size(input) == 1"}`,
		"{from_node: c, from_port: x, to_node: $output, to_port: y, edge_type: data, required: false}",
	}))
	require.NoError(t, err)
	for name, in := range map[string]string{
		"to nothing": `{ "$stored": "` + blob.Digest([]byte("never stored")) + `" }`,
		"none":       "{\n\t\"$stored\": 7\n}",
	} {
		t.Run(name, func(t *testing.T) {
			start := converter.NewRawValue(&commonpb.Payload{
				Metadata: map[string][]byte{"encoding": []byte("json/plain")}, Data: []byte(`{"source":` + string(text) + `,"input":` + in + `}`),
			})
			run, err := h.Client().ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: stage.RunID(t, "run"), TaskQueue: contract.QueueEngine}, contract.WorkflowType, start)
			require.NoError(t, err)
			var result map[string]json.RawMessage
			require.NoError(t, stage.Await(t, h.Client(), run, &result))
			require.JSONEq(t, in, string(result["x"]))
			require.Equal(t, "1", string(result["y"]))
		})
	}
}
