package workflows_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/host"
	"chimera.ai/engine/internal/stage"
	"chimera.ai/engine/skills"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
)

func TestAPlanThatDoesNotCompileFailsTheRun(t *testing.T) {
	h := stage.Rehearse(t, host.Options{})
	run := stage.Start(t, h.Client(), stage.Source("", []string{"a engine/pass 500"}, []string{"$input.x -> b.x"}), `{"x":1}`)
	f := stage.FailureOf(t, stage.Await(t, h.Client(), run, nil))
	require.Equal(t, contract.Contract, f.Kind)
	var findings []map[string]any
	require.NoError(t, json.Unmarshal(f.Diagnostics, &findings))
	require.Equal(t, "plan/unknown-node", findings[0]["code"])
	require.EqualValues(t, 11, findings[0]["line"])
	require.Equal(t, []string{}, f.Compensated)
}

func TestWrongStartsAreRefused(t *testing.T) {
	t.Parallel()
	h := stage.Rehearse(t, host.Options{})
	good := stage.Source("", []string{"a engine/pass 500"}, []string{"$input.x -> a.x"})
	for name, c := range map[string]struct {
		start any
		want  string
	}{
		"neither":       {contract.Start{}, "exactly one of plan and source"},
		"both":          {contract.Start{Plan: "a@1", Source: good}, "exactly one of plan and source"},
		"no such field": {map[string]any{"source": good, "inputs": 1}, "inputs"},
		"a list":        {[]int{1}, "start's argument"},
		"published":     {contract.Start{Plan: "a@1.0.0"}, "no plan is published as a@1.0.0"},
		"subject":       {contract.Start{Source: good, Subject: "a\nb"}, "subject is not a name"},
		"input":         {contract.Start{Source: good, Input: json.RawMessage(`{"x":1,"n":"no"}`)}, "plan's input"},
		"input form":    {contract.Start{Source: good, Input: json.RawMessage(`[]`)}, "plan's input"},
	} {
		t.Run(name, func(t *testing.T) {
			run, err := h.Client().ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{TaskQueue: contract.QueueEngine},
				contract.WorkflowType, c.start)
			require.NoError(t, err)
			f := stage.FailureOf(t, stage.Await(t, h.Client(), run, nil))
			require.Equal(t, contract.Contract, f.Kind)
			require.Contains(t, f.Message, c.want)
		})
	}
}

func TestRetriesFollowTheContract(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	flaky := func(kind contract.Kind, fails int64) skills.Func {
		return func(context.Context, json.RawMessage) (json.RawMessage, error) {
			if calls.Add(1) <= fails {
				return nil, contract.Errorf(kind, "not now")
			}
			return json.RawMessage(`{"x":1}`), nil
		}
	}
	h := stage.Rehearse(t, host.Options{Skills: []skills.Skill{
		stage.Skill("throttled", flaky(contract.Throttled, 2)),
		stage.Skill("tool", flaky(contract.ToolError, 2)),
		stage.Skill("auth", flaky(contract.Auth, 2)),
		stage.Skill("panics", func(context.Context, json.RawMessage) (json.RawMessage, error) { panic("ouch") }),
		stage.Skill("plain", func(context.Context, json.RawMessage) (json.RawMessage, error) { return nil, errors.New("plain") }),
		stage.Skill("wrong", func(context.Context, json.RawMessage) (json.RawMessage, error) {
			return json.RawMessage(`{"y":1}`), nil
		}),
	}})
	for _, timeout := range []string{"900", "2000"} { // local and ordinary
		for _, c := range []struct {
			operation, retry string
			calls            int64
			kind             contract.Kind
			attempts         int
		}{
			{"throttled", "{max_retries: 2, initial_ms: 1}", 3, "", 0},
			{"throttled", "{max_retries: 1, initial_ms: 1}", 2, contract.Throttled, 2},
			{"throttled", "{max_retries: 5, initial_ms: 1, on: [timeout]}", 1, contract.Throttled, 1},
			{"tool", "{max_retries: 5, initial_ms: 1}", 1, contract.ToolError, 1},
			{"tool", "{max_retries: 5, initial_ms: 1, on: [tool_error]}", 3, "", 0},
			{"auth", "{max_retries: 5, initial_ms: 1}", 2, contract.Auth, 2},
			{"panics", "{max_retries: 0}", 0, contract.ToolError, 1},
			{"plain", "{max_retries: 0}", 0, contract.ToolError, 1},
			{"wrong", "{max_retries: 3, initial_ms: 1}", 0, contract.InvalidOutput, 1},
		} {
			t.Run(timeout+" "+c.operation+" "+c.retry, func(t *testing.T) {
				calls.Store(0)
				run := stage.Start(t, h.Client(), stage.Source("", []string{"a test/" + c.operation + " " + timeout + " retry_policy: " + c.retry},
					[]string{"a -> $output"}), `{}`)
				err := stage.Await(t, h.Client(), run, nil)
				require.Equal(t, c.calls, calls.Load())
				if c.kind == "" {
					require.NoError(t, err)
					return
				}
				f := stage.FailureOf(t, err)
				require.Equal(t, c.kind, f.Kind)
				require.Equal(t, "a", f.Node)
				require.Equal(t, c.attempts, stage.State(t, h.Client(), run).Nodes[0].Error.Attempts)
			})
		}
	}
}

func TestTimeouts(t *testing.T) {
	t.Parallel()
	stop := make(chan struct{})
	defer close(stop)
	h := stage.Rehearse(t, host.Options{Skills: []skills.Skill{
		stage.Skill("obeys", func(ctx context.Context, _ json.RawMessage) (json.RawMessage, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}),
		stage.Skill("hangs", func(context.Context, json.RawMessage) (json.RawMessage, error) {
			<-stop
			return nil, errors.New("too late")
		}),
	}})
	for _, node := range []string{"a test/obeys 100", "a test/obeys 1100", "a test/hangs 100"} {
		t.Run(node, func(t *testing.T) {
			run := stage.Start(t, h.Client(), stage.Source("", []string{node}, []string{"a -> $output"}), `{}`)
			f := stage.FailureOf(t, stage.Await(t, h.Client(), run, nil))
			require.Equal(t, contract.Timeout, f.Kind)
		})
	}
}

func TestParallelismIsBounded(t *testing.T) {
	t.Parallel()
	var now, most atomic.Int64
	h := stage.Rehearse(t, host.Options{Skills: []skills.Skill{
		stage.Skill("busy", func(ctx context.Context, _ json.RawMessage) (json.RawMessage, error) {
			defer now.Add(-1)
			n := now.Add(1)
			for {
				m := most.Load()
				if n <= m || most.CompareAndSwap(m, n) {
					break
				}
			}
			// Long enough for others to start, were they allowed to.
			timer := time.NewTimer(20 * time.Millisecond)
			defer timer.Stop()
			select {
			case <-timer.C:
			case <-ctx.Done():
			}
			return json.RawMessage(`{"x":1}`), nil
		}),
	}})
	var nodes, edges []string
	for i := range 40 {
		nodes = append(nodes, fmt.Sprintf("n%d test/busy %d", i, []int{900, 2000}[i%2]))
		edges = append(edges, fmt.Sprintf("n%d -> $output", i))
	}
	run := stage.Start(t, h.Client(), stage.Source("limits: {max_parallel: 3}\n", nodes, edges), `{}`)
	require.NoError(t, stage.Await(t, h.Client(), run, nil))
	require.LessOrEqual(t, most.Load(), int64(3))
	require.Greater(t, most.Load(), int64(1), "nodes did run side by side")
}

func TestDeadlineAndCancellationEndARun(t *testing.T) {
	t.Parallel()
	started := make(chan struct{}, 10)
	ended := make(chan error, 10)
	h := stage.Rehearse(t, host.Options{Skills: []skills.Skill{
		stage.Skill("waits", func(ctx context.Context, _ json.RawMessage) (json.RawMessage, error) {
			started <- struct{}{}
			<-ctx.Done()
			ended <- ctx.Err()
			return nil, ctx.Err()
		}),
	}})
	nodes := []string{"a test/waits 60000", "b engine/pass 500"}
	edges := []string{"a.x -> b.x", "b -> $output"}
	t.Run("deadline", func(t *testing.T) {
		run := stage.Start(t, h.Client(), stage.Source("limits: {deadline_ms: 500}\n", nodes, edges), `{}`)
		f := stage.FailureOf(t, stage.Await(t, h.Client(), run, nil))
		require.Equal(t, contract.Deadline, f.Kind)
		state := stage.State(t, h.Client(), run)
		require.Equal(t, contract.Counts{Dropped: 2}, state.Counts)
		<-started
		require.ErrorIs(t, <-ended, context.Canceled, "the call in flight hears of it")
	})
	t.Run("cancelled", func(t *testing.T) {
		run := stage.Start(t, h.Client(), stage.Source("", nodes, edges), `{}`)
		<-started
		require.NoError(t, h.Client().CancelWorkflow(t.Context(), run.GetID(), ""))
		err := stage.Await(t, h.Client(), run, nil)
		var cancelled *temporal.CanceledError
		require.ErrorAs(t, err, &cancelled)
		var f contract.Failure
		require.NoError(t, cancelled.Details(&f))
		require.Equal(t, contract.Cancelled, f.Kind)
		require.Equal(t, contract.RunCancelled, stage.State(t, h.Client(), run).State)
		require.ErrorIs(t, <-ended, context.Canceled, "the call in flight hears of it")
	})
}
