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

// sagaCatalog has a tool that writes lines, one that erases them, and one that looks.
const sagaCatalog = `
apiVersion: chimera/v1
kind: Catalog
templates:
  - {provider_type: skill, provider_name: book, operation: write, mode: deter, effect_class: committing, timeout_ms: 60000, retry_policy: {max_retries: 0},
     input_schema: {type: object, properties: {line: {type: string}}, required: [line]}, output_schema: {type: object, properties: {page: {type: integer}}, required: [page]},
     trust_requirement: allow_auto, status: allow_auto, trusted_output: true}
  - {provider_type: skill, provider_name: book, operation: erase, mode: deter, effect_class: committing, timeout_ms: 60000, retry_policy: {max_retries: 0},
     input_schema: {type: object, properties: {line: {type: string}, page: {type: integer}}, required: [line]}, output_schema: {type: object},
     trust_requirement: allow_auto, status: allow_auto}
  - {provider_type: skill, provider_name: book, operation: look, mode: deter, effect_class: pure, timeout_ms: 60000, retry_policy: {max_retries: 0},
     input_schema: {type: object, properties: {line: {type: string}}, required: [line]}, output_schema: {type: object, properties: {there: {type: boolean}}, required: [there]},
     trust_requirement: allow_auto, status: allow_auto, trusted_output: true}
`

const sagaPolicy = `
apiVersion: chimera/v1
kind: PolicyBundle
version: "1"
unmodelled: [book/write, book/erase]
rules:
  - {id: any, type: hard, operations: [book/write, book/erase], require: 'action.inputs.line.size() < 20'}
`

// pages is the tool: what it writes is a line with its operation first.
const pages = `in=$(cat)
line=$(printf '%s' "$in" | sed -n 's/.*"line":"\([^"]*\)".*/\1/p')
case $1 in
write) echo "write $line" >> "$LINES_FILE"
	case $line in
	*tears*) echo '{"kind":"tool_error","message":"the page is torn"}'; exit 1 ;;
	*hangs*) sleep 60 ;;
	esac
	echo '{"page":7}' ;;
erase) case $line in
	*ink*) echo '{"kind":"tool_error","message":"it does not go away"}'; exit 1 ;;
	*wax*) echo '{}'; exit ;;
	esac
	echo "erase $in" >> "$LINES_FILE"; echo '{}' ;;
look) if [ "$(grep -c "write $line\$" "$LINES_FILE")" -gt "$(grep -c "erase .*\"$line\"" "$LINES_FILE")" ]; then echo '{"there":true}'; else echo '{"there":false}'; fi ;;
esac`

// TestSagasAreSteady: a run that is cancelled is undone, whatever cancels it once more, and over
// several executions, each of which replays.
func TestSagasAreSteady(t *testing.T) {
	stage.Parallel(t)
	a := actBy(t, "book", pages, sagaCatalog, sagaPolicy)
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
