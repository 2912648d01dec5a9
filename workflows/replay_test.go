package workflows_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/temporalproto"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/workflow"
	"google.golang.org/protobuf/proto"

	"chimera.ai/engine/blob"
	"chimera.ai/engine/contract"
	"chimera.ai/engine/host"
	"chimera.ai/engine/internal/stage"
	"chimera.ai/engine/payload"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/workflows"
)

func TestMain(m *testing.M) { stage.Main(m) }

var update = flag.Bool("update", false, "record the histories in testdata/histories anew, on a real server")

// The recorded histories, one file for each execution of a run (NAME.json, and
// NAME.2.json and so on where it continued as new), and the values that they have
// by reference, in a store for each NAME.
const (
	histories = "testdata/histories"
	blobs     = "testdata/blobs"
)

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

// TestRecord records histories anew when asked to: go test ./workflows -run Record -update.
// With -run Record/NAME it records one.
func TestRecord(t *testing.T) {
	all := recordings(t)
	if !*update {
		var want []string
		for _, r := range all {
			want = append(want, r.name)
			r.policy(t) // it can be made anew
		}
		var have []string
		for _, file := range recorded(t) {
			name, _, _ := strings.Cut(filepath.Base(file), ".")
			have = append(have, name)
		}
		slices.Sort(want)
		slices.Sort(have)
		require.Equal(t, want, slices.Compact(have), "each recording is kept, and nothing else: go test ./workflows -run Record -update")
		return
	}
	for _, r := range all {
		t.Run(r.name, func(t *testing.T) {
			s := newStudio(t, r)
			c := s.host.Client()
			run := s.start(t, r)
			id := run.GetRunID()
			if r.during != nil {
				run = r.during(t, s, run)
				id = run.GetRunID()
			}
			_ = stage.Await(t, c, run, nil)
			old, err := filepath.Glob(filepath.Join(histories, r.name+".*json"))
			require.NoError(t, err)
			for _, file := range old {
				require.NoError(t, os.Remove(file))
			}
			require.NoError(t, os.RemoveAll(filepath.Join(blobs, r.name)))
			var whole historypb.History
			for n := 1; id != ""; n++ {
				h := history(t, c, run.GetID(), id)
				name := r.name + ".json"
				if n > 1 {
					name = fmt.Sprintf("%s.%d.json", r.name, n)
				}
				keep(t, h, filepath.Join(histories, name))
				carry(t, h, filepath.Join(s.options.Store.Dir, "blobs"), filepath.Join(blobs, r.name))
				whole.Events = append(whole.Events, h.GetEvents()...)
				id = h.Events[len(h.Events)-1].GetWorkflowExecutionContinuedAsNewEventAttributes().GetNewExecutionRunId()
			}
			for _, kind := range r.has {
				require.NotZero(t, count(&whole, kind), "%s has a %s", r.name, kind)
			}
		})
	}
}

// history reads the history of one execution.
func history(t *testing.T, c client.Client, workflowID, runID string) *historypb.History {
	t.Helper()
	h, err := host.History(t.Context(), c, workflowID, runID)
	require.NoError(t, err)
	return h
}

// count counts the events of a type.
func count(h *historypb.History, kind enumspb.EventType) (n int) {
	for _, event := range h.GetEvents() {
		if event.GetEventType() == kind {
			n++
		}
	}
	return n
}

// keep writes a history, an event a line.
func keep(t *testing.T, h *historypb.History, file string) {
	var b bytes.Buffer
	b.WriteString("{\"events\":[\n")
	for i, event := range h.GetEvents() {
		if i > 0 {
			b.WriteString(",\n")
		}
		raw, err := temporalproto.CustomJSONMarshalOptions{}.Marshal(event)
		require.NoError(t, err)
		require.NoError(t, json.Compact(&b, raw))
	}
	b.WriteString("\n]}\n")
	require.NoError(t, os.WriteFile(file, b.Bytes(), 0o600))
}

// carry copies the values that a replay of a history reads.
func carry(t *testing.T, h *historypb.History, from, to string) {
	source, err := blob.Open(from)
	require.NoError(t, err)
	require.NoError(t, replay(t, h, copying{source, to}, workflows.Plan))
}

// copying copies each blob that is read.
type copying struct {
	blob.Store
	to string
}

func (c copying) Get(ctx context.Context, digest string) ([]byte, error) {
	b, err := c.Store.Get(ctx, digest)
	if err != nil {
		return nil, err
	}
	target, err := blob.Open(c.to)
	if err == nil {
		_, err = target.Put(ctx, b)
	}
	return b, err
}

// recorded lists the files of the recorded histories.
func recorded(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(histories, "*.json"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	return files
}

// read reads a recorded history.
func read(t *testing.T, file string) *historypb.History {
	t.Helper()
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	h, err := client.HistoryFromJSON(bytes.NewReader(b), client.HistoryJSONOptions{})
	require.NoError(t, err)
	return h
}

// replay replays a history with the values that a store has.
func replay(t *testing.T, h *historypb.History, values blob.Store, interpreter any) error {
	t.Helper()
	return host.NewReplayerOf(interpreter, values, payload.Sealing{}).Replay("default", h.Events[0].GetWorkflowExecutionStartedEventAttributes().GetWorkflowId(), proto.CloneOf(h))
}

// valuesOf returns the values of a recorded history, none if it has no folder.
func valuesOf(t *testing.T, file string) blob.Store {
	t.Helper()
	name, _, _ := strings.Cut(filepath.Base(file), ".")
	dir := filepath.Join(blobs, name)
	if _, err := os.Stat(dir); err != nil {
		dir = t.TempDir()
	}
	store, err := blob.Open(dir)
	require.NoError(t, err)
	return store
}

// TestRecordedHistoriesReplay replays each history whole, as of a run that has
// ended, and up to each of its workflow tasks, as of one that goes on.
func TestRecordedHistoriesReplay(t *testing.T) {
	for _, file := range recorded(t) {
		t.Run(filepath.Base(file), func(t *testing.T) {
			whole := read(t, file)
			require.NoError(t, replay(t, whole, valuesOf(t, file), workflows.Plan))
			for i, event := range whole.GetEvents() {
				if event.GetEventType() == enumspb.EVENT_TYPE_WORKFLOW_TASK_STARTED {
					part := &historypb.History{Events: whole.GetEvents()[:i+1]}
					require.NoErrorf(t, replay(t, part, valuesOf(t, file), workflows.Plan), "up to event %d", event.GetEventId())
				}
			}
		})
	}
}

// reordered is a build whose interpreter makes one more request at the beginning.
func reordered(ctx workflow.Context, start json.RawMessage, loaded *plan.Loaded, carried *contract.Carried) (contract.Result, error) {
	if err := workflow.Sleep(ctx, 1); err != nil {
		return nil, err
	}
	return workflows.Plan(ctx, start, loaded, carried)
}

// TestABrokenInterpreterDoesNotReplay shows that the test above can fail.
func TestABrokenInterpreterDoesNotReplay(t *testing.T) {
	for _, file := range recorded(t) {
		t.Run(filepath.Base(file), func(t *testing.T) {
			require.ErrorContains(t, replay(t, read(t, file), valuesOf(t, file), reordered), "TMPRL1100")
		})
	}
	t.Run("a history with other names", func(t *testing.T) {
		file := filepath.Join(histories, "mixed.json")
		whole := read(t, file)
		changed := 0
		for _, event := range whole.GetEvents() {
			if a := event.GetActivityTaskScheduledEventAttributes(); a.GetActivityType().GetName() == "engine/sleep" {
				a.ActivityType.Name = "engine/snooze"
				changed++
			}
		}
		require.NotZero(t, changed)
		require.ErrorContains(t, replay(t, whole, valuesOf(t, file), workflows.Plan), "TMPRL1100")
	})
	t.Run("a value that is gone", func(t *testing.T) {
		empty, err := blob.Open(t.TempDir())
		require.NoError(t, err)
		err = replay(t, read(t, filepath.Join(histories, "large.json")), empty, workflows.Plan)
		require.True(t, errors.Is(err, blob.ErrNotFound), "%v", err)
	})
}
