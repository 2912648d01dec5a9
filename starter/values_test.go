package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	historypb "go.temporal.io/api/history/v1"
	sdk "go.temporal.io/sdk/client"

	"chimera.ai/engine/client"
	"chimera.ai/engine/contract"
	"chimera.ai/engine/host"
	"chimera.ai/engine/internal/lengthy"
	"chimera.ai/engine/internal/stage"
	"chimera.ai/engine/payload"
	"chimera.ai/engine/store"
)

// TestValues: what a node got and gave is shown to who asks for it, and has the
// store and the keys.
func TestValues(t *testing.T) {
	key := "a:" + strings.Repeat("0123456789abcdef", 4)
	ring, err := payload.ParseKeys([]string{key})
	require.NoError(t, err)
	t.Run("plain", func(t *testing.T) {
		lengthy.Skip(t)
		testValues(t, payload.Sealing{Compress: true}, "")
	})
	t.Run("sealed", func(t *testing.T) { testValues(t, payload.Sealing{Keys: ring, Compress: true}, key) })
}

func testValues(t *testing.T, sealing payload.Sealing, key string) {
	c := stand(t, sealing)
	dir, err := filepath.Abs("store")
	require.NoError(t, err)
	t.Setenv("CHIMERA_STORE_DIR", dir)
	stage.Host(t, host.Options{
		Client: sdk.Options{HostPort: os.Getenv("CHIMERA_TEMPORAL_ADDRESS")}, Store: store.Options{Dir: dir}, Sealing: sealing, ContinueAfter: 20,
	})
	schema := `"input_schema":{"type":"object","properties":{"x":{},"e":{}}},"output_schema":{"type":"object","required":["x"],"properties":{"x":{"type":"string"}}}`
	node := func(id string, timeout int) string {
		return fmt.Sprintf(`{"id":%q,"template":"engine/pass","timeout_ms":%d,%s}`, id, timeout, schema)
	}
	nodes, edges := []string{node("local", 500), `{"id":"broken","template":"engine/fail","timeout_ms":10000,"with":{"message":"on purpose"}}`, node("after", 10_000), node("long", 60000)},
		[]string{`"$input.x -> local.x"`, `"local.x -> n0.x"`, `{"from_node":"broken","from_port":"$error","to_node":"after","to_port":"e","edge_type":"error","required":true}`, `"$input.x -> after.x"`, `"$input.x -> long.x"`, `"long.x -> $output.y"`}
	const chain = 20
	for i := range chain {
		nodes = append(nodes, node(fmt.Sprintf("n%d", i), 10_000))
		if i > 0 {
			edges = append(edges, fmt.Sprintf(`"n%d.x -> n%d.x"`, i-1, i))
		}
	}
	edges = append(edges, fmt.Sprintf(`"n%d.x -> $output.x"`, chain-1))
	source := `{"apiVersion":"chimera/v1","kind":"Plan","name":"p","version":"1","agent":"a",
		"input_schema":{"type":"object","required":["x"],"properties":{"x":{"type":"string"}}},"output_schema":{"type":"object","properties":{"x":{},"y":{}}},
		"nodes":[` + strings.Join(nodes, ",") + `],"edges":[` + strings.Join(edges, ",") + `]}`
	large := strings.Repeat("large ", 5000)
	input, err := json.Marshal(map[string]string{"x": large})
	require.NoError(t, err)
	hc, err := host.Dial(t.Context(), sdk.Options{HostPort: os.Getenv("CHIMERA_TEMPORAL_ADDRESS")}, blobsAt(t, dir), sealing, nil)
	require.NoError(t, err)
	t.Cleanup(hc.Close)
	run, err := hc.ExecuteWorkflow(t.Context(), sdk.StartWorkflowOptions{ID: "r", TaskQueue: contract.QueueEngine}, contract.WorkflowType,
		contract.Start{Source: source, Input: input})
	require.NoError(t, err)
	require.NoError(t, stage.Await(t, hc, run, nil))
	d, err := c.DescribeWorkflowExecution(t.Context(), "r", "")
	require.NoError(t, err)
	require.NotEqual(t, d.GetWorkflowExecutionInfo().GetFirstRunId(), d.GetWorkflowExecutionInfo().GetExecution().GetRunId(), "it has continued as new")

	if key != "" {
		out, said, code := cli("status", "r", "--values", "n0")
		require.Equal(t, exitUnanswered, code)
		require.NotContains(t, out, "large")
		require.Contains(t, said, "cannot be read here")
		require.Contains(t, said, "payload.keys")
		require.NoError(t, os.WriteFile("key", []byte(key), 0o600))
		require.NoError(t, os.WriteFile("chimera.yaml", []byte("payload: {keys: [\"${file:key}\"]}\n"), 0o600))
	}
	values := func(node string) (all client.Exchanges) {
		out, said, code := cli("status", "r", "--values", node, "--format", "json")
		require.Equal(t, exitDone, code, said)
		require.NoError(t, json.Unmarshal([]byte(out), &all))
		require.Equal(t, node, all.Node)
		require.Equal(t, "p@1", all.Plan)
		require.Len(t, all.Calls, 1)
		return all
	}
	quoted, err := json.Marshal(large)
	require.NoError(t, err)
	for i := range chain {
		all := values(fmt.Sprintf("n%d", i))
		require.Equal(t, "engine/pass", all.Operation)
		call := all.Calls[0]
		require.Len(t, call.Got, 1)
		require.Contains(t, call.Got[0].Edge, fmt.Sprintf(" -> n%d.x", i))
		require.JSONEq(t, string(quoted), string(call.Got[0].Value))
		require.JSONEq(t, string(quoted), string(call.Gave["x"]))
		require.Regexp(t, "^sha256:", call.OutputDigest)
		require.Equal(t, 1, call.Attempts)
		require.NotNil(t, call.EndTime)
		require.Nil(t, call.Failure)
	}
	require.Equal(t, d.GetWorkflowExecutionInfo().GetFirstRunId(), values("n0").Calls[0].Execution)
	first, err := host.History(t.Context(), c, "r", d.GetWorkflowExecutionInfo().GetFirstRunId())
	require.NoError(t, err)
	require.True(t, slices.ContainsFunc(first.GetEvents(), func(e *historypb.HistoryEvent) bool {
		return e.GetChildWorkflowExecutionStartedEventAttributes() != nil
	}), "a child workflow made the call")
	long := values("long").Calls[0]
	require.Len(t, long.Got, 1)
	require.JSONEq(t, string(quoted), string(long.Gave["x"]))
	require.Equal(t, d.GetWorkflowExecutionInfo().GetFirstRunId(), long.Execution)
	local := values("local").Calls[0]
	require.True(t, local.Local)
	require.JSONEq(t, string(quoted), string(local.Gave["x"]))
	broken := values("broken").Calls[0]
	require.NotNil(t, broken.Failure)
	require.Equal(t, contract.ToolError, broken.Failure.Kind)
	require.Equal(t, "on purpose", broken.Failure.Message)
	given := values("$input").Calls[0]
	require.JSONEq(t, string(input), string(given.Gave["$"]))
	require.Equal(t, d.GetWorkflowExecutionInfo().GetFirstRunId(), given.Execution)
	require.JSONEq(t, `{"x":`+string(quoted)+`,"y":`+string(quoted)+`}`, string(values("$output").Calls[0].Gave["$"]))
	after := values("after").Calls[0]
	require.Len(t, after.Got, 2)

	out, _, code := cli("status", "r", "--values", "after")
	require.Equal(t, exitDone, code)
	require.Contains(t, out, "node  after  engine/pass")
	require.Contains(t, out, "broken.$error -> after.e: tool_error: on purpose")
	require.Contains(t, out, "$input.x -> after.x: "+string(quoted))
	out, _, _ = cli("status", "r", "--values", "broken")
	require.Contains(t, out, "failed (tool_error): on purpose")
	out, _, _ = cli("status", "r", "--values", "$output")
	require.Regexp(t, `^node  \$output *\n\ncall 1\n  gave\n    \$: \{`, out)
	_, said, code := cli("status", "r", "--values", "brokn")
	require.Equal(t, exitNegative, code)
	require.Contains(t, said, "has no node brokn")
	require.Contains(t, said, "Did you mean broken?")
	out, _, _ = cli("status", "r", "--format", "json")
	require.NotContains(t, strings.ReplaceAll(out, string(quoted), ""), "large", "values are shown to who asks for them")
}

func blobsAt(t *testing.T, dir string) *values {
	v := &values{at: &place{store: store.Options{Dir: dir}}, turn: make(chan struct{}, 1)}
	t.Cleanup(func() { require.NoError(t, v.close()) })
	return v
}

// A local node that has failed has no digests, and none is shown.
func TestValuesOfALocalFailure(t *testing.T) {
	var out bytes.Buffer
	(&Program{Stdout: &out}).exchanged(&client.Exchanges{Node: "n", Operation: "engine/fail", Calls: []client.Exchange{{
		Local: true, Failure: &contract.ErrorPayload{Kind: contract.ToolError, Message: "no"},
	}}})
	require.Equal(t, "node  n  engine/fail\n\ncall 1\n  got: not recorded of a local node\n  failed (tool_error): no\n", out.String())
}
