package host_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	sdkpb "go.temporal.io/api/sdk/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/host"
	"chimera.ai/engine/internal/lengthy"
	"chimera.ai/engine/internal/stage"
	"chimera.ai/engine/payload"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/skills"
)

// any value, for schemas of test skills.
const anything = `{"type":"object"}`

// skill makes a Go skill of provider test.
func skill(operation string, run skills.Func) skills.Skill {
	return skills.Skill{
		Provider: "test", Operation: operation, Mode: plan.Deter, Description: "A skill of a test.",
		InputSchema: json.RawMessage(anything), OutputSchema: json.RawMessage(anything), Run: run,
	}
}

// source writes a plan: nodes are "id operation timeout_ms extra…", edges the
// short form or a YAML flow mapping.
func source(head string, nodes, edges []string) string {
	var b strings.Builder
	b.WriteString("apiVersion: chimera/v1\nkind: Plan\nname: test\nversion: 1.0.0\nagent: tester\n")
	required := ""
	if strings.Contains(strings.Join(edges, ""), "$input.x") || strings.Contains(strings.Join(edges, ""), "from_node: $input, from_port: x") {
		required = "required: [x], "
	}
	b.WriteString("input_schema: {type: object, " + required + "properties: {x: {}, n: {type: integer}}}\n")
	b.WriteString("output_schema: {type: object, properties: {x: {}, y: {}, a: {}, b: {}, big: {}, both: {}, error: {}}}\n")
	b.WriteString(head)
	b.WriteString("nodes:\n")
	for _, n := range nodes {
		f := strings.SplitN(n, " ", 4)
		for len(f) < 4 {
			f = append(f, "")
		}
		provider, operation, _ := strings.Cut(f[1], "/")
		extra := f[3]
		if !strings.Contains(extra, "retry_policy") {
			extra = "retry_policy: {max_retries: 0}" + comma(extra) + extra
		}
		if !strings.Contains(extra, "input_schema") {
			extra += ", input_schema: {type: object, properties: {x: {}, y: {}, error: {}}}"
		}
		if !strings.Contains(extra, "output_schema") {
			extra += ", output_schema: {type: object, required: [x], properties: {x: {}, y: {}}}"
		}
		fmt.Fprintf(&b, "  - {id: %s, provider_type: skill, provider_name: %s, operation: %s, mode: deter, effect_class: pure, timeout_ms: %s, trust_requirement: allow_auto, %s}\n",
			f[0], provider, operation, f[2], extra)
	}
	b.WriteString("edges:\n")
	for _, e := range edges {
		b.WriteString("  - " + e + "\n")
	}
	return b.String()
}

// The schemas of nodes that call engine/fail and engine/sleep.
const (
	failing  = "input_schema: {type: object, required: [message], properties: {message: {type: string, minLength: 1, maxLength: 100}}, additionalProperties: false}, output_schema: {not: {}}"
	sleeping = "input_schema: {type: object, required: [ms], properties: {ms: {type: integer, minimum: 0, maximum: 1000}}, additionalProperties: false}, output_schema: {type: object, required: [slept_ms], properties: {slept_ms: {type: integer}}}"
)

// given says what x of the plan's input is.
func given(source, schema string) string {
	return strings.Replace(source, "properties: {x: {}, n:", "properties: {x: "+schema+", n:", 1)
}

func comma(s string) string {
	if s == "" {
		return ""
	}
	return ", "
}

// failureOf returns the failure of a run.
func failureOf(t *testing.T, err error) contract.Failure {
	t.Helper()
	var application *temporal.ApplicationError
	require.ErrorAs(t, err, &application)
	var f contract.Failure
	require.NoError(t, application.Details(&f))
	require.Equal(t, application.Type(), string(f.Kind))
	return f
}

func TestARunReturnsItsOutput(t *testing.T) {
	h := stage.Host(t, host.Options{})
	number := ` input_schema: {type: object, required: [x], properties: {x: {type: integer, maximum: 1000, minimum: 0}}}, output_schema: {type: object, required: [x], properties: {x: {type: integer, maximum: 1000, minimum: 0}}}`
	run := stage.Start(t, h.Client(), given(source("", []string{
		"a engine/pass 500" + number,
		"b engine/pass 5000" + number, // not local
	}, []string{
		"$input.x -> a.x",
		"a.x -> b.x",
		`{from_node: b, from_port: x, to_node: $output, to_port: y, edge_type: data, required: true, transform: {twice: "${value + value}"}}`,
	}), "{type: integer, maximum: 1000, minimum: 0}"), `{"x": 21}`)
	var result json.RawMessage
	require.NoError(t, stage.Await(t, h.Client(), run, &result))
	require.JSONEq(t, `{"y": {"twice": 42}}`, string(result))

	state := stage.State(t, h.Client(), run)
	require.Equal(t, contract.RunSucceeded, state.State)
	require.Equal(t, "test@1.0.0", state.Plan)
	require.Equal(t, 2, state.Counts.Succeeded)

	value, err := h.Client().QueryWorkflow(t.Context(), run.GetID(), "", "__temporal_workflow_metadata")
	require.NoError(t, err)
	var metadata sdkpb.WorkflowMetadata
	require.NoError(t, value.Get(&metadata))
	require.Contains(t, metadata.GetCurrentDetails(), "| b | engine/pass | succeeded |", "the node table, as the run has ended")

	described, err := h.Client().DescribeWorkflow(t.Context(), run.GetID(), "")
	require.NoError(t, err)
	known := described.TypedSearchAttributes
	for name, want := range map[string]string{"ChimeraPlan": "test@1.0.0", "ChimeraAgent": "tester", "ChimeraState": "succeeded"} {
		got, ok := known.GetKeyword(temporal.NewSearchAttributeKeyKeyword(name))
		require.True(t, ok, name)
		require.Equal(t, want, got)
	}
	// A local node is one event; an ordinary one is three, and three for the
	// workflow task after it.
	require.LessOrEqual(t, len(events(t, h.Client(), run, enumspb.EVENT_TYPE_UNSPECIFIED)), 15+1+6, "fixed events of a run")
	scheduled := events(t, h.Client(), run, enumspb.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED)
	require.Len(t, scheduled, 1, "loading, local nodes and the output need none")
	require.Equal(t, "engine/pass", scheduled[0].GetActivityTaskScheduledEventAttributes().GetActivityType().GetName())
	require.Contains(t, string(scheduled[0].GetUserMetadata().GetSummary().GetData()), "b")
}

// events lists a run's events of one type, or all.
func events(t *testing.T, c client.Client, run client.WorkflowRun, kind enumspb.EventType) []*historypb.HistoryEvent {
	t.Helper()
	var list []*historypb.HistoryEvent
	iterator := c.GetWorkflowHistory(t.Context(), run.GetID(), run.GetRunID(), false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for iterator.HasNext() {
		event, err := iterator.Next()
		require.NoError(t, err)
		if kind == enumspb.EVENT_TYPE_UNSPECIFIED || event.GetEventType() == kind {
			list = append(list, event)
		}
	}
	return list
}

func TestAPlanThatDoesNotCompileFailsTheRun(t *testing.T) {
	h := stage.Host(t, host.Options{})
	run := stage.Start(t, h.Client(), source("", []string{"a engine/pass 500"}, []string{"$input.x -> b.x"}), `{"x":1}`)
	f := failureOf(t, stage.Await(t, h.Client(), run, nil))
	require.Equal(t, contract.Contract, f.Kind)
	var findings []map[string]any
	require.NoError(t, json.Unmarshal(f.Diagnostics, &findings))
	require.Equal(t, "plan/unknown-node", findings[0]["code"])
	require.EqualValues(t, 11, findings[0]["line"])
	require.Equal(t, []string{}, f.Compensated)
	for name, want := range map[string]string{"ChimeraPlan": "test@1.0.0", "ChimeraAgent": "tester", "ChimeraState": "failed"} {
		require.Equal(t, want, attributeOf(t, h.Client(), run, name))
	}

	run, err := h.Client().ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{TaskQueue: contract.QueueEngine},
		contract.WorkflowType, contract.Start{Plan: "nobody@1.2.3"})
	require.NoError(t, err)
	failureOf(t, stage.Await(t, h.Client(), run, nil))
	require.Equal(t, "nobody@1.2.3", attributeOf(t, h.Client(), run, "ChimeraPlan"), "what the start says")
}

func attributeOf(t *testing.T, c client.Client, run client.WorkflowRun, name string) string {
	t.Helper()
	described, err := c.DescribeWorkflow(t.Context(), run.GetID(), run.GetRunID())
	require.NoError(t, err)
	value, _ := described.TypedSearchAttributes.GetKeyword(temporal.NewSearchAttributeKeyKeyword(name))
	return value
}

func TestWrongStartsAreRefused(t *testing.T) {
	stage.Parallel(t)
	h := stage.Host(t, host.Options{})
	good := source("", []string{"a engine/pass 500"}, []string{"$input.x -> a.x"})
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
			f := failureOf(t, stage.Await(t, h.Client(), run, nil))
			require.Equal(t, contract.Contract, f.Kind)
			require.Contains(t, f.Message, c.want)
		})
	}
	t.Run("a compiled plan from outside", func(t *testing.T) {
		loaded := &plan.Loaded{Plan: &plan.Plan{Format: plan.Format, Expr: plan.ExprVersion, Limits: plan.Limits{MaxParallel: 1, DeadlineMS: 1000}, Nodes: []plan.Node{
			{ID: plan.InputNode, Kind: plan.KindInput, InputSchema: -1, OutputSchema: -1}, {ID: plan.OutputNode, Kind: plan.KindOutput, InputSchema: -1, OutputSchema: -1}}}}
		b, err := loaded.Plan.Encode()
		require.NoError(t, err)
		loaded.Head.Digest = plan.DigestOf(b)
		run, err := h.Client().ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{TaskQueue: contract.QueueEngine},
			contract.WorkflowType, contract.Start{Source: good}, loaded, contract.Carried{})
		require.NoError(t, err)
		f := failureOf(t, stage.Await(t, h.Client(), run, nil))
		require.Contains(t, f.Message, "never taken from outside")
	})
	t.Run("retry", func(t *testing.T) {
		run, err := h.Client().ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{
			TaskQueue: contract.QueueEngine, RetryPolicy: &temporal.RetryPolicy{MaximumAttempts: 2},
		}, contract.WorkflowType, contract.Start{Source: good})
		require.NoError(t, err)
		require.Contains(t, failureOf(t, stage.Await(t, h.Client(), run, nil)).Message, "retry policy")
	})
	t.Run("workflow task timeout", func(t *testing.T) {
		run, err := h.Client().ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{
			TaskQueue: contract.QueueEngine, WorkflowTaskTimeout: 10, // 10 ns, and 10 s were meant
		}, contract.WorkflowType, contract.Start{Source: good, Input: json.RawMessage(`{"x":1}`)})
		require.NoError(t, err)
		require.Contains(t, failureOf(t, stage.Await(t, h.Client(), run, nil)).Message, "workflow task timeout of 10ns")
	})
	// As a failure it would be started again by the schedule, for ever.
	t.Run("cron", func(t *testing.T) {
		run, err := h.Client().ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{
			TaskQueue: contract.QueueEngine, CronSchedule: "@every 1s",
		}, contract.WorkflowType, contract.Start{Source: good})
		require.NoError(t, err)
		var cancelled *temporal.CanceledError
		require.ErrorAs(t, stage.Await(t, h.Client(), run, nil), &cancelled)
		var f contract.Failure
		require.NoError(t, cancelled.Details(&f))
		require.Equal(t, contract.Contract, f.Kind)
		require.Contains(t, f.Message, "cron schedule")
	})
}

func TestRetriesFollowTheContract(t *testing.T) {
	stage.Parallel(t)
	var calls atomic.Int64
	flaky := func(kind contract.Kind, fails int64) skills.Func {
		return func(context.Context, json.RawMessage) (json.RawMessage, error) {
			if calls.Add(1) <= fails {
				return nil, contract.Errorf(kind, "not now")
			}
			return json.RawMessage(`{"x":1}`), nil
		}
	}
	h := stage.Host(t, host.Options{Skills: []skills.Skill{
		skill("throttled", flaky(contract.Throttled, 2)),
		skill("tool", flaky(contract.ToolError, 2)),
		skill("auth", flaky(contract.Auth, 2)),
		skill("panics", func(context.Context, json.RawMessage) (json.RawMessage, error) { panic("ouch") }),
		skill("plain", func(context.Context, json.RawMessage) (json.RawMessage, error) { return nil, errors.New("plain") }),
		skill("wrong", func(context.Context, json.RawMessage) (json.RawMessage, error) {
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
				run := stage.Start(t, h.Client(), source("", []string{"a test/" + c.operation + " " + timeout + " retry_policy: " + c.retry},
					[]string{"a -> $output"}), `{}`)
				err := stage.Await(t, h.Client(), run, nil)
				require.Equal(t, c.calls, calls.Load())
				if c.kind == "" {
					require.NoError(t, err)
					return
				}
				f := failureOf(t, err)
				require.Equal(t, c.kind, f.Kind)
				require.Equal(t, "a", f.Node)
				require.Equal(t, c.attempts, stage.State(t, h.Client(), run).Nodes[0].Error.Attempts)
			})
		}
	}
}

func TestTimeouts(t *testing.T) {
	stage.Parallel(t)
	stop := make(chan struct{})
	defer close(stop)
	h := stage.Host(t, host.Options{Skills: []skills.Skill{
		skill("obeys", func(ctx context.Context, _ json.RawMessage) (json.RawMessage, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}),
		skill("hangs", func(context.Context, json.RawMessage) (json.RawMessage, error) {
			<-stop
			return nil, errors.New("too late")
		}),
	}})
	for _, node := range []string{"a test/obeys 100", "a test/obeys 1100", "a test/hangs 100"} {
		t.Run(node, func(t *testing.T) {
			run := stage.Start(t, h.Client(), source("", []string{node}, []string{"a -> $output"}), `{}`)
			f := failureOf(t, stage.Await(t, h.Client(), run, nil))
			require.Equal(t, contract.Timeout, f.Kind)
		})
	}
}

func TestParallelismIsBounded(t *testing.T) {
	stage.Parallel(t)
	var now, most atomic.Int64
	h := stage.Host(t, host.Options{Skills: []skills.Skill{
		skill("busy", func(ctx context.Context, _ json.RawMessage) (json.RawMessage, error) {
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
	run := stage.Start(t, h.Client(), source("limits: {max_parallel: 3}\n", nodes, edges), `{}`)
	require.NoError(t, stage.Await(t, h.Client(), run, nil))
	require.LessOrEqual(t, most.Load(), int64(3))
	require.Greater(t, most.Load(), int64(1), "nodes did run side by side")
}

func TestDeadlineAndCancellationEndARun(t *testing.T) {
	stage.Parallel(t)
	started := make(chan struct{}, 10)
	ended := make(chan error, 10)
	h := stage.Host(t, host.Options{Skills: []skills.Skill{
		skill("waits", func(ctx context.Context, _ json.RawMessage) (json.RawMessage, error) {
			started <- struct{}{}
			<-ctx.Done()
			ended <- ctx.Err()
			return nil, ctx.Err()
		}),
	}})
	nodes := []string{"a test/waits 60000", "b engine/pass 500"}
	edges := []string{"a.x -> b.x", "b -> $output"}
	t.Run("deadline", func(t *testing.T) {
		run := stage.Start(t, h.Client(), source("limits: {deadline_ms: 500}\n", nodes, edges), `{}`)
		f := failureOf(t, stage.Await(t, h.Client(), run, nil))
		require.Equal(t, contract.Deadline, f.Kind)
		state := stage.State(t, h.Client(), run)
		require.Equal(t, contract.Counts{Dropped: 2}, state.Counts)
		<-started
		require.ErrorIs(t, <-ended, context.Canceled, "the call in flight hears of it")
	})
	t.Run("cancelled", func(t *testing.T) {
		run := stage.Start(t, h.Client(), source("", nodes, edges), `{}`)
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

// Local nodes of 60 KB each, of more than Temporal takes in one message: were what
// their results leave in the history all in one workflow task, it could never complete.
func TestLargeLocalResultsDoNotWedgeTheRun(t *testing.T) {
	lengthy.Skip(t)
	t.Parallel()
	// Sealing compresses it to about a seventh, below the size from which values
	// go by reference.
	noise := make([]byte, 60_000)
	random := rand.New(rand.NewPCG(1, 2))
	for i := range noise {
		noise[i] = '0' + byte(random.UintN(2))
	}
	for name, c := range map[string]struct {
		sealing payload.Sealing
		nodes   int
	}{
		"plain":  {payload.Sealing{}, 450},
		"sealed": {sealing(t, keys(t, "k1")...), 500},
	} {
		t.Run(name, func(t *testing.T) {
			stage.Parallel(t)
			largeLocalResults(t, string(noise), c.nodes, c.sealing)
		})
	}
}

func largeLocalResults(t *testing.T, big string, n int, s payload.Sealing) {
	h := stage.Host(t, host.Options{Sealing: s, Skills: []skills.Skill{
		skill("big", func(context.Context, json.RawMessage) (json.RawMessage, error) {
			return json.RawMessage(`{"x":"` + big + `"}`), nil
		}),
	}})
	nodes := []string{"n0 test/big 900"}
	var edges []string
	for i := 1; i < n; i++ {
		nodes = append(nodes, fmt.Sprintf("n%d test/big 900", i))
		edges = append(edges, fmt.Sprintf("n%d.x -> n%d.x", i-1, i))
	}
	edges = append(edges, fmt.Sprintf("n%d.x -> $output.x", n-1))
	run := stage.Start(t, h.Client(), source("", nodes, edges), `{}`)
	var result struct{ X string }
	require.NoError(t, stage.Await(t, h.Client(), run, &result))
	require.Len(t, result.X, 60_000)
	require.GreaterOrEqual(t, len(events(t, h.Client(), run, enumspb.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED)), 2, "the chain is cut")
}

// The same without the help of references: each result is just below the size
// from which values leave the history.
func TestManySmallLocalResultsDoNotWedgeTheRun(t *testing.T) {
	lengthy.Skip(t)
	stage.Parallel(t)
	medium := strings.Repeat("x", 16_000)
	h := stage.Host(t, host.Options{Skills: []skills.Skill{
		skill("medium", func(context.Context, json.RawMessage) (json.RawMessage, error) {
			return json.RawMessage(`{"x":"` + medium + `"}`), nil
		}),
	}})
	var nodes, edges []string
	for i := range 400 {
		nodes = append(nodes, fmt.Sprintf("n%d test/medium 900", i))
		edges = append(edges, strings.Replace(`{from_node: nN, from_port: x, to_node: $output, to_port: x, edge_type: data, required: false}`, "nN", fmt.Sprintf("n%d", i), 1))
	}
	run := stage.Start(t, h.Client(), source("", nodes, edges), `{}`)
	require.NoError(t, stage.Await(t, h.Client(), run, nil))
	for _, e := range events(t, h.Client(), run, enumspb.EVENT_TYPE_WORKFLOW_TASK_FAILED) {
		t.Errorf("a workflow task failed: %v", e)
	}
}

func TestContinueAsNewKeepsTheRun(t *testing.T) {
	stage.Parallel(t)
	h := stage.Host(t, host.Options{ContinueAfter: 40})
	var nodes, edges []string
	for i := range 60 {
		nodes = append(nodes, fmt.Sprintf("n%d engine/pass %d", i, []int{900, 2000}[i%2]))
		if i > 0 {
			edges = append(edges, fmt.Sprintf("n%d.x -> n%d.x", i-1, i))
		}
	}
	nodes = append(nodes,
		"bad engine/fail 2000 with: {message: broken}, "+failing,
		"late engine/pass 900 output_schema: {type: object, required: [y], properties: {x: {}, y: {}}}")
	edges = append(edges, "$input.x -> n0.x", "n59.x -> late.y",
		"{from_node: bad, from_port: $error, to_node: late, to_port: x, edge_type: error, required: false}",
		"{from_node: late, from_port: x, to_node: $output, to_port: error, edge_type: data, required: false}", "late.y -> $output.x",
		`{from_node: n59, from_port: x, to_node: $output, to_port: both, edge_type: data, required: true, transform: ["${value}", "${input.x}"]}`)
	run := stage.Start(t, h.Client(), source("", nodes, edges), `{"x":"kept"}`)
	first := run.GetRunID()
	var result struct {
		X     string
		Both  []string
		Error contract.ErrorPayload
	}
	require.NoError(t, stage.Await(t, h.Client(), run, &result))
	require.Equal(t, "kept", result.X)
	require.Equal(t, []string{"kept", "kept"}, result.Both)
	require.Equal(t, contract.ToolError, result.Error.Kind)
	require.Equal(t, "bad", result.Error.Node)
	described, err := h.Client().DescribeWorkflowExecution(t.Context(), run.GetID(), "")
	require.NoError(t, err)
	require.NotEqual(t, first, described.GetWorkflowExecutionInfo().GetExecution().GetRunId(), "the run did continue as new")
	state := stage.State(t, h.Client(), run)
	require.Equal(t, 61, state.Counts.Succeeded)
	require.Equal(t, 1, state.Counts.Failed)
}
