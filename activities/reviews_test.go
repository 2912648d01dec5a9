package activities_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/approval"
	"chimera.ai/engine/contract"
	"chimera.ai/engine/internal/stage"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/plan"
)

const reviewCatalog = stage.ActingCatalog + `
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
    {id: write, template: book/write, trust_requirement: manual_review, commit_policy: {approval: {expires_in_ms: EXPIRES}, rollback: {none: "what is written stays"}}}],
  edges: [$input.line -> read.line, read.line -> seen.line, seen.line -> write.line, write.ok -> $output.ok]}`

// reads notes what it reads, and answers the same. A line "twice" it reads at the second time.
const reads = `in=$(cat)
echo "$1 $in" >> "$LINES_FILE"
case "$1 $in" in "read "*twice*) if [ "$(grep -cxF "$1 $in" "$LINES_FILE")" = 1 ]; then exit 3; fi;; esac
if [ "$1" = read ]; then echo "$in"; else echo '{"ok":true}'; fi`

// TestReviews: each call of a node with manual_review waits for those who review, also one
// without effect, in this process or outside. It is made once it is approved, with the approval
// that it has if it is tried again, and never otherwise.
func TestReviews(t *testing.T) {
	t.Parallel()
	a := stage.ActBy(t, "book", reads, reviewCatalog, reviewPolicy)
	eve, rae := a.Enrol(t, "eve", "reviewer"), a.Enrol(t, "rae", "reviewer")
	digest := a.Publish(t, strings.Replace(reviewPlan, "EXPIRES", "600000", 1))
	run := a.Start(t, "reviewed", digest, `{"line":"twice"}`)
	for i, want := range []struct {
		operation string
		effect    plan.EffectClass
	}{{"book/read", plan.Pure}, {"engine/pass", plan.Pure}, {"book/write", plan.Committing}} {
		b := a.Asked(t, run, 1)[0]
		r, _, err := approval.ParseRequest(b.Request)
		require.NoError(t, err)
		require.Len(t, r.Actions, 1)
		require.Equal(t, want.operation, r.Actions[0].Operation)
		require.Equal(t, want.effect, r.Actions[0].Effect)
		require.Equal(t, []plan.Group{{Role: "reviewer", Min: 1}}, r.Rule.Groups)
		require.Len(t, a.Written(t), min(2*i, 2), "nothing is called before it is reviewed")
		require.Equal(t, string(approval.Excluded), a.Update(t, run, rae.Sign(t, b, approval.Approve, nil)).Code, "she has asked for the run")
		v := a.Update(t, run, eve.Sign(t, b, approval.Approve, nil))
		require.True(t, v.Accepted, v.Detail)
	}
	require.NoError(t, a.Await(t, run, nil))
	calls := []string{`read {"line":"twice"}`, `read {"line":"twice"}`, `write {"line":"twice"}`}
	require.Equal(t, calls, a.Written(t))

	// A reset past the reviews asks nobody again, and calls nothing again that is in the ledger.
	require.NoError(t, a.Await(t, stage.Reset(t, a.Client(), run), nil))
	require.Equal(t, calls, a.Written(t))

	rejected := a.Start(t, "rejected", digest, `{"line":"no"}`)
	a.Sign(t, rejected, a.Asked(t, rejected, 1)[0], approval.Reject, eve)
	f := a.Fails(t, rejected)
	require.Equal(t, contract.Rejected, f.Kind)
	require.Equal(t, "read", f.Node)
	require.Contains(t, f.Message, "eve: not today")

	ruled := a.Start(t, "ruled", digest, `{"line":"longer than any rule of the policy allows"}`)
	f = a.Fails(t, ruled)
	require.Equal(t, contract.Rejected, f.Kind, f.Message)
	require.Contains(t, f.Message, "a line is short")
	require.Equal(t, calls, a.Written(t))
}

// TestReviewsExpire: a call that is not reviewed in time is not made.
func TestReviewsExpire(t *testing.T) {
	t.Parallel()
	a := stage.ActBy(t, "book", reads, reviewCatalog, reviewPolicy)
	eve := a.Enrol(t, "eve", "reviewer")
	run := a.Start(t, "expires", a.Publish(t, strings.Replace(reviewPlan, "EXPIRES", "1000", 1)), `{"line":"one"}`)
	for range 2 {
		a.Sign(t, run, a.Asked(t, run, 1)[0], approval.Approve, eve)
	}
	f := a.Fails(t, run)
	require.Equal(t, contract.Expired, f.Kind, f.Message)
	require.Equal(t, "write", f.Node)
	require.Equal(t, []string{`read {"line":"one"}`}, a.Written(t))
}

// TestNobodyReviews: with a policy that names nobody who reviews, what must be reviewed is
// blocked, and the record says so.
func TestNobodyReviews(t *testing.T) {
	t.Parallel()
	a := stage.ActBy(t, "book", reads, reviewCatalog, strings.Replace(reviewPolicy, "approval: {review: [{role: reviewer, min: 1}]}\n", "", 1))
	source := strings.Replace(reviewPlan, ", commit_policy: {approval: {expires_in_ms: EXPIRES}, rollback", ", commit_policy: {rollback", 1)
	run := a.Start(t, "nobody", a.Publish(t, source), `{"line":"one"}`)
	f := a.Fails(t, run)
	require.Equal(t, contract.Blocked, f.Kind, f.Message)
	require.Contains(t, f.Message, "add approval: {review: [{role: ROLE, min: 1}]}")
	require.Empty(t, a.Written(t))
	open, err := a.Ledger().ListBarriers(t.Context(), ledger.BarrierOpen, ledger.Page{})
	require.NoError(t, err)
	require.Empty(t, open)
}
