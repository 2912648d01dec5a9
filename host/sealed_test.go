package host_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	failurepb "go.temporal.io/api/failure/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"google.golang.org/protobuf/proto"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/host"
	"chimera.ai/engine/internal/lengthy"
	"chimera.ai/engine/internal/stage"
	"chimera.ai/engine/payload"
	"chimera.ai/engine/skills"
	"chimera.ai/engine/store"
)

// canary is a text that no client without keys may ever see.
const canary = "canary-8265-canary"

// keys gives fresh payload keys as a configuration holds them.
func keys(t *testing.T, ids ...string) []string {
	t.Helper()
	var all []string
	for _, id := range ids {
		key, err := payload.NewKey(id)
		require.NoError(t, err)
		all = append(all, key)
	}
	return all
}

func sealing(t *testing.T, keys ...string) payload.Sealing {
	t.Helper()
	ring, err := payload.ParseKeys(keys)
	require.NoError(t, err)
	return payload.Sealing{Keys: ring, Compress: true}
}

// secretive are skills that pass the canary on: small, large and in an error.
func secretive() []skills.Skill {
	return []skills.Skill{
		skill("tell", func(context.Context, json.RawMessage) (json.RawMessage, error) {
			// Letters that do not compress, so that a large value stays large.
			noise := make([]byte, 0, 300_000)
			for i := uint64(1); len(noise) < cap(noise); i += i>>3*7 + 0x9e3779b97f4a7c15 {
				noise = append(noise, 'a'+byte(i>>32%26))
			}
			return json.Marshal(map[string]string{"x": canary, "y": canary + string(noise)})
		}),
		skill("hide", func(_ context.Context, input json.RawMessage) (json.RawMessage, error) {
			if !strings.Contains(string(input), canary) {
				return nil, contract.Errorf(contract.ToolError, "the canary is gone")
			}
			return json.RawMessage(`{"x":"hidden"}`), nil
		}),
		skill("scream", func(context.Context, json.RawMessage) (json.RawMessage, error) {
			return nil, contract.Errorf(contract.ToolError, "%s", canary)
		}),
	}
}

// whispering is a plan whose values are secret between its input and its output,
// with local and ordinary activities, an error edge, and a continue-as-new.
func whispering() string {
	const both = "output_schema: {type: object, required: [x, y], properties: {x: {}, y: {}}}"
	return source("", []string{
		"tell test/tell 500 " + both, "told test/tell 5000 " + both,
		"hide test/hide 500", "hidden test/hide 5000",
		"scream test/scream 5000", "quiet test/hide 5000",
	}, []string{
		"$input.x -> tell.x", "$input.x -> told.x",
		"tell.x -> hide.x", "tell.y -> hide.y", "told.x -> hidden.x", "told.y -> hidden.y",
		"hide.x -> scream.x",
		"{from_node: scream, from_port: $error, to_node: quiet, to_port: error, edge_type: error, required: true, when: 'error.message.size() > 3'}",
		"{from_node: quiet, from_port: x, to_node: $output, to_port: x, edge_type: data, required: false}", "hidden.x -> $output.y",
	})
}

// history is the raw bytes of a run's history, one for each of its executions, as
// a client without anything of the engine gets them.
func history(t *testing.T, c client.Client, id string) [][]byte {
	t.Helper()
	listed, err := c.ListWorkflow(t.Context(), &workflowservice.ListWorkflowExecutionsRequest{Query: "WorkflowId = '" + id + "'"})
	require.NoError(t, err)
	var all [][]byte
	for _, execution := range listed.GetExecutions() {
		var raw, page []byte
		for {
			answer, err := c.WorkflowService().GetWorkflowExecutionHistory(t.Context(), &workflowservice.GetWorkflowExecutionHistoryRequest{
				Namespace: client.DefaultNamespace, Execution: execution.GetExecution(), NextPageToken: page,
			})
			require.NoError(t, err)
			b, err := proto.Marshal(answer)
			require.NoError(t, err)
			raw = append(raw, b...)
			if page = answer.GetNextPageToken(); len(page) == 0 {
				break
			}
		}
		all = append(all, raw)
	}
	return all
}

// lies lists the files of a folder that hold a text.
func lies(t *testing.T, dir, text string) []string {
	t.Helper()
	var found []string
	require.NoError(t, filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		if err == nil && strings.Contains(string(b), text) {
			found = append(found, path)
		}
		return err
	}))
	return found
}

// TestASealedRunTellsNothing searches what Temporal and the store hold for a
// value that only nodes see. Without keys it is found, so the search works.
func TestASealedRunTellsNothing(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]payload.Sealing{"sealed": sealing(t, keys(t, "k1")...), "plain": {}} {
		t.Run(name, func(t *testing.T) {
			stage.Parallel(t)
			dir := filepath.Join(t.TempDir(), "store")
			h := stage.Host(t, host.Options{Sealing: s, Skills: secretive(), Store: store.Options{Dir: dir, Path: filepath.Join(t.TempDir(), "ledger.db")}, ContinueAfter: 12})
			plain := stranger(t)

			// A client without keys starts it and reads it.
			run := stage.Start(t, plain, whispering(), `{"x":"go"}`)
			// To go from one execution to the next, Temporal's client for Go has to
			// read what is carried; to read the last one, it has not.
			require.NoError(t, stage.Await(t, h.Client(), h.Client().GetWorkflow(t.Context(), run.GetID(), run.GetRunID()), nil))
			var result map[string]string
			require.NoError(t, stage.Await(t, plain, plain.GetWorkflow(t.Context(), run.GetID(), ""), &result))
			require.Equal(t, map[string]string{"x": "hidden", "y": "hidden"}, result)
			value, err := plain.QueryWorkflow(t.Context(), run.GetID(), "", contract.QueryState)
			require.NoError(t, err)
			var state contract.State
			require.NoError(t, value.Get(&state))
			require.Equal(t, contract.RunSucceeded, state.State)

			executions := history(t, plain, run.GetID())
			require.Greater(t, len(executions), 1, "the state that is carried to the next execution is among it")
			found := slices.ContainsFunc(executions, func(raw []byte) bool { return bytes.Contains(raw, []byte(canary)) })
			require.Equal(t, s.Keys == nil, found, "in the history")
			require.Equal(t, s.Keys == nil, len(lies(t, dir, canary)) > 0, "in the store")

			// And a run that fails.
			broken := stage.Start(t, plain, given(source("", []string{"a engine/fail 5000 " + failing}, []string{"$input.x -> a.message"}),
				"{type: string, minLength: 1, maxLength: 100}"), `{"x":"why"}`)
			failure := stage.FailureOf(t, stage.Await(t, plain, broken, nil))
			require.Equal(t, contract.ToolError, failure.Kind)
			require.Equal(t, "why", failure.Message)
			require.Equal(t, "a", failure.Node)
		})
	}
}

// stranger is a client that may write to the namespace and has no keys.
func stranger(t *testing.T) client.Client {
	t.Helper()
	server := stage.Temporal(t)
	c, err := client.Dial(client.Options{HostPort: server.Address, Namespace: server.Namespace})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

// TestAForgedAnswerIsRefused: whoever may write to the namespace answers an
// activity that a worker has in hand. The answer counts as none, and the node
// runs again.
func TestAForgedAnswerIsRefused(t *testing.T) {
	stage.Parallel(t)
	s := sealing(t, keys(t, "k1")...)
	var mu sync.Mutex
	calls := map[string]int{}
	begun := make(chan string, 10)
	release := make(chan struct{})
	slow := skill("slow", func(ctx context.Context, input json.RawMessage) (json.RawMessage, error) {
		var in struct{ X string }
		if err := json.Unmarshal(input, &in); err != nil {
			return nil, err
		}
		mu.Lock()
		calls[in.X]++
		first := calls[in.X] == 1
		mu.Unlock()
		if first {
			begun <- in.X
			select {
			case <-release:
			case <-ctx.Done():
			}
		}
		return json.RawMessage(`{"x":"true"}`), nil
	})
	stage.Host(t, host.Options{Sealing: s, Skills: []skills.Skill{slow}})
	plain := stranger(t)

	answer := contract.Outcome{Values: []contract.Value{contract.Value(`"forged"`)}, Held: []bool{true}}
	at := func(s payload.Sealing, workflow, activity string) *commonpb.Payload {
		c := converter.WithDataConverterSerializationContext(payload.NewConverter(nil, s), converter.ActivitySerializationContext{
			Namespace: client.DefaultNamespace, WorkflowID: workflow, ActivityType: activity,
		})
		p, err := c.ToPayload(answer)
		require.NoError(t, err)
		return p
	}
	complete := func(run client.WorkflowRun, answers ...*commonpb.Payload) error {
		_, err := plain.WorkflowService().RespondActivityTaskCompletedById(t.Context(), &workflowservice.RespondActivityTaskCompletedByIdRequest{
			Namespace: client.DefaultNamespace, WorkflowId: run.GetID(), RunId: run.GetRunID(), ActivityId: "node/a",
			Result: &commonpb.Payloads{Payloads: answers},
		})
		return err
	}
	forgeries := map[string]func(client.WorkflowRun) error{
		"plain": func(run client.WorkflowRun) error {
			return complete(run, at(payload.Sealing{}, run.GetID(), "test/slow"))
		},
		"empty": func(run client.WorkflowRun) error { return complete(run) },
		"of another run": func(run client.WorkflowRun) error {
			return complete(run, at(s, "another", "test/slow"))
		},
		"of another activity": func(run client.WorkflowRun) error {
			return complete(run, at(s, run.GetID(), "test/other"))
		},
		"changed": func(run client.WorkflowRun) error {
			p := at(s, run.GetID(), "test/slow")
			p.Data[len(p.Data)-1] ^= 1
			return complete(run, p)
		},
		"of another deployment": func(run client.WorkflowRun) error {
			return complete(run, at(sealing(t, keys(t, "k1")...), run.GetID(), "test/slow"))
		},
		"a failure": func(run client.WorkflowRun) error {
			_, err := plain.WorkflowService().RespondActivityTaskFailedById(t.Context(), &workflowservice.RespondActivityTaskFailedByIdRequest{
				Namespace: client.DefaultNamespace, WorkflowId: run.GetID(), RunId: run.GetRunID(), ActivityId: "node/a",
				Failure: &failurepb.Failure{Message: "forged", FailureInfo: &failurepb.Failure_ApplicationFailureInfo{
					ApplicationFailureInfo: &failurepb.ApplicationFailureInfo{Type: string(contract.ToolError), NonRetryable: true},
				}},
			})
			return err
		},
		"a failure that says nothing": func(run client.WorkflowRun) error {
			_, err := plain.WorkflowService().RespondActivityTaskFailedById(t.Context(), &workflowservice.RespondActivityTaskFailedByIdRequest{
				Namespace: client.DefaultNamespace, WorkflowId: run.GetID(), RunId: run.GetRunID(), ActivityId: "node/a",
			})
			return err
		},
	}
	started := map[string]client.WorkflowRun{}
	text := source("", []string{"a test/slow 60000"}, []string{"$input.x -> a.x", "a.x -> $output.x"})
	for name := range forgeries {
		input, err := json.Marshal(map[string]string{"x": name})
		require.NoError(t, err)
		started[name] = stage.Start(t, plain, text, string(input))
	}
	for range forgeries {
		name := <-begun
		require.NoError(t, forgeries[name](started[name]), name)
	}
	close(release)
	for name, run := range started {
		t.Run(name, func(t *testing.T) {
			var result map[string]string
			require.NoError(t, stage.Await(t, plain, run, &result))
			require.Equal(t, map[string]string{"x": "true"}, result)
			mu.Lock()
			defer mu.Unlock()
			require.Equal(t, 2, calls[name], "it ran again")
		})
	}
}

// TestKeysAreRotated while a run is in flight: a worker that lacks the old key
// leaves the run as it is, and one that has both goes on with it.
func TestKeysAreRotated(t *testing.T) {
	lengthy.Skip(t)
	stage.Parallel(t)
	old, fresh := keys(t, "old")[0], keys(t, "new")[0]
	begun, again := make(chan struct{}, 1), make(chan struct{})
	close(again)
	work := func(wait <-chan struct{}) []skills.Skill {
		return []skills.Skill{
			skill("first", func(context.Context, json.RawMessage) (json.RawMessage, error) {
				return json.RawMessage(`{"x":"` + canary + `"}`), nil
			}),
			skill("second", func(ctx context.Context, input json.RawMessage) (json.RawMessage, error) {
				select {
				case begun <- struct{}{}:
				default:
				}
				select {
				case <-wait:
				case <-ctx.Done():
					return nil, ctx.Err()
				}
				if !strings.Contains(string(input), canary) {
					return nil, contract.Errorf(contract.ToolError, "what was sealed is gone")
				}
				return json.RawMessage(`{"x":"done"}`), nil
			}),
		}
	}
	dir := filepath.Join(t.TempDir(), "store")
	log := new(lines)
	open := func(wait <-chan struct{}, keys ...string) *host.Host {
		o := host.Options{Sealing: sealing(t, keys...), Skills: work(wait), Store: store.Options{Dir: dir}, Logger: slog.New(slog.NewTextHandler(log, nil))}
		return stage.Host(t, o)
	}
	plain := stranger(t)
	one := open(nil, old)
	run := stage.Start(t, plain, source("", []string{"a test/first 5000", "b test/second 60000"}, []string{
		"$input.x -> a.x", "a.x -> b.x", "b.x -> $output.x",
	}), `{"x":1}`)
	<-begun
	require.NoError(t, one.Close())

	two := open(again, fresh)
	// The history tells only of a task's first attempt, which the first worker may
	// have taken with it.
	stage.Until(t, "the worker without the key cannot go on", func() bool {
		return strings.Contains(log.String(), "this process has no key")
	})
	description, err := plain.DescribeWorkflowExecution(t.Context(), run.GetID(), "")
	require.NoError(t, err)
	require.Equal(t, enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING, description.GetWorkflowExecutionInfo().GetStatus(), "and ends nothing")
	require.NoError(t, two.Close())

	open(again, fresh, old)
	var result map[string]string
	require.NoError(t, stage.Await(t, plain, run, &result))
	require.Equal(t, map[string]string{"x": "done"}, result)
	raw := bytes.Join(history(t, plain, run.GetID()), nil)
	for _, id := range []string{"old", "new"} {
		require.True(t, bytes.Contains(raw, []byte("chimera-key\x12\x03"+id)), id)
	}
	require.False(t, bytes.Contains(raw, []byte(canary)))
}
