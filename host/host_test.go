package host_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

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
	"chimera.ai/engine/skills"
)

// Plans and skills of tests, which rehearsals have, too.
var (
	skill  = stage.Skill
	source = stage.Source
	given  = stage.Given
)

const (
	anything = stage.Anything
	failing  = stage.Failing
	sleeping = stage.Sleeping
)

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

	// A run that cannot be loaded says what it knows of its plan.
	refused := stage.Start(t, h.Client(), source("", []string{"a engine/pass 500"}, []string{"$input.x -> b.x"}), `{"x":1}`)
	require.Equal(t, contract.Contract, stage.FailureOf(t, stage.Await(t, h.Client(), refused, nil)).Kind)
	for name, want := range map[string]string{"ChimeraPlan": "test@1.0.0", "ChimeraAgent": "tester", "ChimeraState": "failed"} {
		require.Equal(t, want, attributeOf(t, h.Client(), refused, name))
	}
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

func attributeOf(t *testing.T, c client.Client, run client.WorkflowRun, name string) string {
	t.Helper()
	described, err := c.DescribeWorkflow(t.Context(), run.GetID(), run.GetRunID())
	require.NoError(t, err)
	value, _ := described.TypedSearchAttributes.GetKeyword(temporal.NewSearchAttributeKeyKeyword(name))
	return value
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
