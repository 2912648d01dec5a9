package host_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"

	"chimera.ai/engine/client"
	"chimera.ai/engine/contract"
	"chimera.ai/engine/internal/stage"
	"chimera.ai/engine/payload"
)

// TestSagasAreSteady: a run that is cancelled is undone, whatever cancels it once more, and over
// several executions, each of which replays.
func TestSagasAreSteady(t *testing.T) {
	stage.Parallel(t)
	a := actBy(t, "book", stage.Pages, stage.SagaCatalog, stage.SagaPolicy)
	a.options.ContinueAfter = 12
	a.again(t)
	run := a.start(t, "cancelled", a.publish(t, `{apiVersion: chimera/v1, kind: Plan, name: saga, version: "1", agent: tester, allow: [pure, committing],
  input_schema: {type: object, properties: {one: {type: string}, two: {type: string}}, required: [one, two]},
  output_schema: {type: object},
  nodes: [
    {id: first, template: book/write, commit_policy: {verify: {node: looked, with: {line: "${args.line}"}, executed: "output.there", output: {page: 7}}}},
    {id: looked, template: book/look}, {id: back, template: book/erase, commit_policy: {rollback: {none: "gone"}}},
    {id: second, template: book/write, commit_policy: {}},
    {id: back2, template: book/erase, commit_policy: {rollback: {none: "gone"}}},
    {id: last, template: engine/sleep, with: {ms: 600000}, timeout_ms: 700000}],
  edges: [$input.one -> first.line, first -> second, $input.two -> second.line, second -> last,
    {from_node: first, from_port: $compensate, to_node: back, to_port: line, edge_type: error, required: true, transform: "${args.line}"},
    {from_node: first, from_port: $compensate, to_node: back, to_port: page, edge_type: error, required: false, transform: "${output.page}"},
    {from_node: second, from_port: $compensate, to_node: back2, to_port: line, edge_type: error, required: true, transform: "${args.line}"}]}`), `{"one":"a","two":"b"}`)
	stage.Until(t, "both lines are written", func() bool { return len(a.written(t)) == 2 })
	require.NoError(t, a.h.Client().CancelWorkflow(t.Context(), run.GetID(), ""))
	_ = a.h.Client().CancelWorkflow(t.Context(), run.GetID(), "")
	require.Error(t, stage.Await(t, a.h.Client(), run, nil))
	s := stage.State(t, a.h.Client(), run)
	require.Equal(t, contract.RunCancelled, s.State)
	require.Equal(t, []string{"second", "first"}, s.Failure.Compensated)
	require.Equal(t, []string{"write a", "write b", `erase {"line":"b"}`, `erase {"line":"a","page":7}`}, a.written(t))
	require.Greater(t, s.Executions, 1)
	for id := run.GetRunID(); id != ""; {
		x := a.h.Client().GetWorkflow(t.Context(), run.GetID(), id)
		a.replays(t, x)
		id = ""
		for _, e := range events(t, a.h.Client(), x, enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW) {
			id = e.GetWorkflowExecutionContinuedAsNewEventAttributes().GetNewExecutionRunId()
		}
	}
	// What is asked of the effect before and after it is undone is no call of it.
	seen, err := client.New(a.h.Client(), client.Options{}).Values(t.Context(), run.GetID(), "first", struct {
		*payload.Reader
		*payload.Values
	}{payload.NewReader(a.h.Store().Blobs, a.engine(t).Sealing.Keys), payload.NewValues(a.h.Store().Blobs, a.engine(t).Sealing, "default")})
	require.NoError(t, err)
	made := slices.DeleteFunc(seen.Calls, func(c client.Exchange) bool { return c.Failure != nil })
	require.Len(t, made, 1)
}
