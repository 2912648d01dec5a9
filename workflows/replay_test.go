package workflows_test

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/temporalproto"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"chimera.ai/engine/blob"
	"chimera.ai/engine/contract"
	"chimera.ai/engine/host"
	"chimera.ai/engine/internal/stage"
	"chimera.ai/engine/payload"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/workflows"
)

func TestMain(m *testing.M) { stage.Main(m) }

var record = flag.Bool("record", false, "record new histories in testdata/histories on a real server")

const histories = "testdata/histories"

// recorded are the runs whose histories are kept: between them, every sort of
// event that the interpreter causes.
var recorded = []struct{ name, source, input string }{
	{"mixed", mixed, `{"x":"hello","flaky":true}`},
	{"failed", mixed, `{"x":"hello","flaky":false}`},
}

const mixed = `apiVersion: chimera/v1
kind: Plan
name: mixed
version: 1.0.0
agent: tester
input_schema: {type: object, required: [x, flaky], properties: {x: {type: string}, flaky: {type: boolean}}}
output_schema: {type: object, required: [x], properties: {x: {type: string}, saved: {type: boolean}}}
defs:
  X: {type: object, required: [x], properties: {x: {type: string}}}
nodes:
  - {id: local, template: engine/pass, timeout_ms: 500, input_schema: {$ref: "#/defs/X"}, output_schema: {$ref: "#/defs/X"}}
  - {id: ordinary, template: engine/pass, timeout_ms: 2000, input_schema: {$ref: "#/defs/X"}, output_schema: {$ref: "#/defs/X"}}
  - {id: naps, template: engine/sleep, timeout_ms: 3000, retry_policy: {max_retries: 1}, with: {ms: 20}}
  - {id: breaks, template: engine/fail, timeout_ms: 500, with: {message: broken}}
  - {id: broken_too, template: engine/fail, timeout_ms: 2000, with: {message: broken too}}
  - {id: rescue, template: engine/pass, timeout_ms: 500}
  - {id: saved, template: engine/pass, timeout_ms: 500}
edges:
  - $input.x -> local.x
  - local.x -> ordinary.x
  - ordinary -> naps
  - ordinary.x -> $output.x
  - naps -> $output
  - {from_node: breaks, from_port: $error, to_node: rescue, to_port: $start, edge_type: error, required: true, when: error.kind == "tool_error"}
  - {from_node: breaks, from_port: $error, to_node: saved, to_port: $start, edge_type: error, required: false, when: error.kind == "timeout"}
  - {from_node: $input, from_port: flaky, to_node: broken_too, to_port: $start, edge_type: conditional, required: true, when: "!value"}
`

// TestRecord writes histories anew when asked to: go test ./workflows -run Record -record.
func TestRecord(t *testing.T) {
	if !*record {
		files, err := filepath.Glob(filepath.Join(histories, "*.json"))
		require.NoError(t, err)
		require.NotEmpty(t, files, "histories are kept in the repository")
		return
	}
	for _, after := range []int{0, 10} {
		h := stage.Host(t, host.Options{ContinueAfter: after})
		for _, r := range recorded {
			run := stage.Start(t, h.Client(), r.source, r.input)
			_ = stage.Await(t, h.Client(), run, nil)
			name := r.name
			if after > 0 {
				name += "-continued"
			}
			keep(t, h.Client(), run, filepath.Join(histories, name+".json"))
		}
		require.NoError(t, h.Close())
	}
}

// keep writes the history of a run's last execution.
func keep(t *testing.T, c client.Client, run client.WorkflowRun, file string) {
	var history historypb.History
	events := c.GetWorkflowHistory(t.Context(), run.GetID(), "", false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for events.HasNext() {
		event, err := events.Next()
		require.NoError(t, err)
		history.Events = append(history.Events, event)
	}
	b, err := temporalproto.CustomJSONMarshalOptions{Indent: " "}.Marshal(&history)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, append(b, '\n'), 0o600))
}

func replay(t *testing.T, file string, interpreter any) error {
	t.Helper()
	store, err := blob.Open(t.TempDir())
	require.NoError(t, err)
	replayer, err := worker.NewWorkflowReplayerWithOptions(worker.WorkflowReplayerOptions{
		DataConverter:   payload.NewConverter(payload.NewPlans(store, 0), payload.Sealing{}),
		ExternalStorage: payload.NewStorage(store, payload.Sealing{}),
	})
	require.NoError(t, err)
	replayer.RegisterWorkflowWithOptions(interpreter, workflow.RegisterOptions{Name: contract.WorkflowType})
	return replayer.ReplayWorkflowHistoryFromJSONFile(nil, file)
}

func TestRecordedHistoriesReplay(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(histories, "*.json"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			require.NoError(t, replay(t, file, workflows.Plan))
		})
	}
}

// TestABrokenInterpreterDoesNotReplay shows that the test above can fail.
func TestABrokenInterpreterDoesNotReplay(t *testing.T) {
	file := filepath.Join(histories, "mixed.json")
	t.Run("an activity too many", func(t *testing.T) {
		require.ErrorContains(t, replay(t, file, func(ctx workflow.Context, start json.RawMessage, loaded *plan.Loaded, carried *contract.Carried) (contract.Result, error) {
			_ = workflow.Sleep(ctx, 1)
			return workflows.Plan(ctx, start, loaded, carried)
		}), "TMPRL1100")
	})
	t.Run("a history with other names", func(t *testing.T) {
		b, err := os.ReadFile(file)
		require.NoError(t, err)
		changed := strings.ReplaceAll(string(b), `"engine/sleep"`, `"engine/snooze"`)
		require.NotEqual(t, string(b), changed)
		path := filepath.Join(t.TempDir(), "changed.json")
		require.NoError(t, os.WriteFile(path, []byte(changed), 0o600))
		require.ErrorContains(t, replay(t, path, workflows.Plan), "TMPRL1100")
	})
}
