package activities_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/internal/stage"
)

// sagaPlan writes two lines and then fails, or waits.
const sagaPlan = `{apiVersion: chimera/v1, kind: Plan, name: saga%s, version: "1", agent: tester, allow: [pure, committing],
  input_schema: {type: object, properties: {one: {type: string}, two: {type: string}}, required: [one, two]},
  output_schema: {type: object},
  nodes: [
    {id: first, template: book/write, commit_policy: {verify: {node: looked, with: {line: "${args.line}"}, executed: "output.there", output: {page: 7}}}},
    {id: looked, template: book/look}, {id: back, template: book/erase, commit_policy: {rollback: {none: "gone"}}},
    {id: second, template: book/write, commit_policy: {}},
    {id: back2, template: book/erase, commit_policy: {rollback: {none: "gone"}}},
    %s],
  edges: [$input.one -> first.line, first -> second, $input.two -> second.line, second -> last,
    {from_node: first, from_port: $compensate, to_node: back, to_port: line, edge_type: error, required: true, transform: "${args.line}"},
    {from_node: first, from_port: $compensate, to_node: back, to_port: page, edge_type: error, required: false, transform: "${output.page}"},
    {from_node: second, from_port: $compensate, to_node: back2, to_port: line, edge_type: error, required: true, transform: "${args.line}"}]}`

const failsLast = `{id: last, template: engine/fail, with: {message: "it ends here"}}`

// TestSagas: what a run has done is undone in reverse order, and what cannot be is named.
func TestSagas(t *testing.T) {
	t.Parallel()
	a := stage.ActBy(t, "book", stage.Pages, stage.SagaCatalog, stage.SagaPolicy)
	digest := a.Publish(t, fmt.Sprintf(sagaPlan, "", failsLast))
	for name, c := range map[string]struct {
		one, two  string
		kind      contract.Kind
		done, not []string
		lines     []string
	}{
		"both": {"a", "b", contract.ToolError, []string{"second", "first"}, []string{},
			[]string{"write a", "write b", `erase {"line":"b"}`, `erase {"line":"a","page":7}`}},
		"the first does not go away": {"ink", "c", contract.ToolError, []string{"second"}, []string{"first"},
			[]string{"write ink", "write c", `erase {"line":"c"}`}},
		"the first only seems to go away": {"wax", "h", contract.ToolError, []string{"second"}, []string{"first"},
			[]string{"write wax", "write h", `erase {"line":"h"}`}},
		"the first fails, and its page is not known": {"tears", "g", contract.ToolError, []string{"first"}, []string{},
			[]string{"write tears", `erase {"line":"tears"}`}},
		"the second fails": {"d", "tears", contract.ToolError, []string{"second", "first"}, []string{},
			[]string{"write d", "write tears", `erase {"line":"tears"}`, `erase {"line":"d","page":7}`}},
		"nobody knows of the second": {"e", "hangs", contract.OutcomeUnknown, []string{"second", "first"}, []string{},
			[]string{"write e", "write hangs", `erase {"line":"hangs"}`, `erase {"line":"e","page":7}`}},
		"the second is refused": {"f", strings.Repeat("x", 30), contract.Rejected, []string{"first"}, []string{},
			[]string{"write f", `erase {"line":"f","page":7}`}},
	} {
		run := a.Start(t, strings.ReplaceAll(name, " ", "-"), digest, fmt.Sprintf(`{"one":%q,"two":%q}`, c.one, c.two))
		f := stage.FailureOf(t, stage.Await(t, a.Client(), run, nil))
		require.Equal(t, c.kind, f.Kind, "%s: %s", name, f.Message)
		require.Equal(t, c.done, f.Compensated, name)
		require.Equal(t, c.not, f.NotCompensated, name)
		require.Equal(t, c.lines, a.Written(t)[len(a.Written(t))-len(c.lines):], name)
		if name != "both" {
			continue
		}
		before := len(a.Written(t))
		f = stage.FailureOf(t, stage.Await(t, a.Client(), stage.Reset(t, a.Client(), run), nil))
		require.Equal(t, contract.Conflict, f.Kind, "what was undone is not there: %s", f.Message)
		require.Contains(t, f.Message, "was undone since")
		require.Contains(t, f.Compensated, f.Node)
		require.Empty(t, f.NotCompensated)
		require.Len(t, a.Written(t), before, "a reset undoes nothing twice")
	}
}

// TestKeyedSagas: an operation that takes an idempotency key may be called again, but not once
// its effect was undone; and whether it was, verify says, however many nodes undo it.
func TestKeyedSagas(t *testing.T) {
	t.Parallel()
	const write = "operation: write, mode: deter, effect_class: committing, timeout_ms: 60000, retry_policy: {max_retries: 0},\n     input_schema: {type: object, properties: {line: {type: string}"
	require.Contains(t, stage.SagaCatalog, write)
	keyed := strings.Replace(stage.SagaCatalog, write, strings.Replace(write, "mode: deter,", "mode: deter, idempotency_port: key,", 1)+", key: {type: string}", 1)
	a := stage.ActBy(t, "book", stage.Pages, keyed, stage.SagaPolicy)
	digest := a.Publish(t, `{apiVersion: chimera/v1, kind: Plan, name: keyed, version: "1", agent: tester, allow: [pure, committing],
  input_schema: {type: object, properties: {line: {type: string}}, required: [line]}, output_schema: {type: object},
  nodes: [
    {id: first, template: book/write, commit_policy: {verify: {node: looked, with: {line: "${args.line}"}, executed: "output.there", output: {page: 7}}}},
    {id: looked, template: book/look}, {id: between, template: engine/pass, input_schema: &line {type: object, properties: {line: {type: string}}, required: [line]}, output_schema: *line},
    {id: back, template: book/erase, commit_policy: {rollback: {none: "gone"}}}, `+failsLast+`],
  edges: [$input.line -> first.line, first -> last, between.line -> back.line,
    {from_node: first, from_port: $compensate, to_node: between, to_port: line, edge_type: error, required: true, transform: "${args.line}"}]}`)
	f := stage.FailureOf(t, stage.Await(t, a.Client(), a.Start(t, "wax", digest, `{"line":"wax"}`), nil))
	require.Equal(t, contract.ToolError, f.Kind, f.Message)
	require.Equal(t, []string{"first"}, f.NotCompensated)
	run := a.Start(t, "hangs", digest, `{"line":"hangs"}`)
	f = stage.FailureOf(t, stage.Await(t, a.Client(), run, nil))
	require.Equal(t, contract.Transport, f.Kind, f.Message)
	require.Equal(t, []string{"first"}, f.Compensated)
	lines := a.Written(t)
	require.Equal(t, []string{"write wax", "write hangs", `erase {"line":"hangs"}`}, lines)
	f = stage.FailureOf(t, stage.Await(t, a.Client(), stage.Reset(t, a.Client(), run), nil))
	require.Equal(t, contract.OutcomeUnknown, f.Kind, f.Message)
	require.Equal(t, []string{"first"}, f.Compensated)
	require.Equal(t, lines, a.Written(t), "it is not called again")
}

// TestSagasAreSteady: a run that is cancelled, or whose deadline passes, is undone, too,
// whatever cancels it once more, and over several executions.
func TestSagasAreSteady(t *testing.T) {
	t.Parallel()
	a := stage.ActBy(t, "book", stage.Pages, stage.SagaCatalog, stage.SagaPolicy)
	a.Options.ContinueAfter = 12
	a.Again(t)
	waits := `{id: last, template: engine/sleep, with: {ms: 600000}, timeout_ms: 700000}`
	digest := a.Publish(t, fmt.Sprintf(sagaPlan, "-waits", waits))
	late := a.Publish(t, strings.Replace(fmt.Sprintf(sagaPlan, "-late", waits), "allow:", "limits: {deadline_ms: 4000}, allow:", 1))
	run := a.Start(t, "cancelled", digest, `{"one":"a","two":"b"}`)
	stage.Until(t, "both lines are written", func() bool { return len(a.Written(t)) == 2 })
	require.NoError(t, a.Client().CancelWorkflow(t.Context(), run.GetID(), ""))
	_ = a.Client().CancelWorkflow(t.Context(), run.GetID(), "")
	err := stage.Await(t, a.Client(), run, nil)
	require.Error(t, err)
	s := stage.State(t, a.Client(), run)
	require.Equal(t, contract.RunCancelled, s.State)
	require.Equal(t, []string{"second", "first"}, s.Failure.Compensated)
	require.Greater(t, s.Executions, 1)
	require.Equal(t, []string{"write a", "write b", `erase {"line":"b"}`, `erase {"line":"a","page":7}`}, a.Written(t))

	run = a.Start(t, "late", late, `{"one":"c","two":"d"}`)
	f := stage.FailureOf(t, stage.Await(t, a.Client(), run, nil))
	require.Equal(t, contract.Deadline, f.Kind)
	require.Equal(t, []string{"second", "first"}, f.Compensated)
	require.Len(t, a.Written(t), 8)
}
