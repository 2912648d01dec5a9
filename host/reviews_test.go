package host_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"

	"chimera.ai/engine/approval"
	"chimera.ai/engine/internal/stage"
)

const reviewCatalog = actingCatalog + `
  - {provider_type: skill, provider_name: book, operation: read, mode: prob, effect_class: pure, timeout_ms: 10000, retry_policy: {max_retries: 2, on: [tool_error]},
     input_schema: {type: object, properties: {line: {type: string}}, required: [line]}, output_schema: {type: object, properties: {line: {type: string}}, required: [line]},
     trust_requirement: manual_review, status: manual_review, cost: {expr: "1.5", currency: USD}}
`

const reviewPolicy = `
apiVersion: chimera/v1
kind: PolicyBundle
version: "1"
approval: {review: [{role: reviewer, min: 1}]}
unmodelled: [book/write]
rules:
  - {id: short, type: hard, operations: [book/write, book/read], require: 'action.inputs.line.size() < 20', message: "a line is short"}
`

const reviewPlan = `{apiVersion: chimera/v1, kind: Plan, name: reviews, version: "1", agent: tester, allow: [pure, committing],
  input_schema: {type: object, properties: {line: {type: string}}, required: [line]},
  output_schema: {type: object, properties: {ok: {type: boolean}}, required: [ok]},
  nodes: [
    {id: read, template: book/read, description: "Read a line"},
    {id: seen, template: engine/pass, trust_requirement: manual_review, input_schema: {type: object, properties: {line: {type: string}}, required: [line]}, output_schema: {type: object, properties: {line: {type: string}}, required: [line]}},
    {id: write, template: book/write, trust_requirement: manual_review, commit_policy: {approval: {expires_in_ms: 600000}, rollback: {none: "what is written stays"}}}],
  edges: [$input.line -> read.line, read.line -> seen.line, seen.line -> write.line, write.ok -> $output.ok]}`

// reads notes what it reads, and answers the same. A line "twice" it reads at the second time.
const reads = `in=$(cat)
echo "$1 $in" >> "$LINES_FILE"
case "$1 $in" in "read "*twice*) if [ "$(grep -cxF "$1 $in" "$LINES_FILE")" = 1 ]; then exit 3; fi;; esac
if [ "$1" = read ]; then echo "$in"; else echo '{"ok":true}'; fi`

// TestReviews: each call of a node with manual_review waits for those who review, also one
// without effect, in this process or outside. It is made once it is approved, with the approval
// that it has if it is tried again, and never otherwise. A reset past the reviews asks nobody.
func TestReviews(t *testing.T) {
	stage.Parallel(t)
	a := actBy(t, "book", reads, reviewCatalog, reviewPolicy)
	eve := a.enrol(t, "eve", "reviewer")
	run := a.start(t, "reviewed", a.publish(t, reviewPlan), `{"line":"twice"}`)
	for i := range 3 {
		b := a.asked(t, run, 1)[0]
		require.Len(t, a.written(t), min(2*i, 2), "nothing is called before it is reviewed")
		a.sign(t, run, b, approval.Approve, eve)
	}
	require.NoError(t, stage.Await(t, a.h.Client(), run, nil))
	calls := []string{`read {"line":"twice"}`, `read {"line":"twice"}`, `write {"line":"twice"}`}
	require.Equal(t, calls, a.written(t))
	a.replays(t, run)

	tasks := events(t, a.h.Client(), run, enumspb.EVENT_TYPE_WORKFLOW_TASK_COMPLETED)
	again := a.reset(t, run, tasks[len(tasks)/2].GetEventId())
	require.NoError(t, stage.Await(t, a.h.Client(), again, nil))
	a.replays(t, again)
	require.Equal(t, calls, a.written(t))
}
