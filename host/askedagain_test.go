package host_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"

	"chimera.ai/engine/approval"
	"chimera.ai/engine/contract"
	"chimera.ai/engine/internal/lengthy"
	"chimera.ai/engine/internal/stage"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/trust"
)

// next waits until people are asked about a run at another barrier.
func (a *acting) next(t *testing.T, run client.WorkflowRun, than ledger.Barrier) (b ledger.Barrier) {
	t.Helper()
	stage.Until(t, "people are asked again", func() bool {
		b = a.asked(t, run, 1)[0]
		return b.ID != than.ID
	})
	return b
}

// sign signs a barrier as each of some people.
func (a *acting) sign(t *testing.T, run client.WorkflowRun, b ledger.Barrier, d approval.Decision, people ...stage.Signer) {
	t.Helper()
	for _, s := range people {
		v := a.update(t, run, s.Sign(t, b, d, nil))
		require.True(t, v.Accepted, v.Detail)
	}
}

// TestStatementsThatCountNoLonger: where what people have stated of a call is no longer enough before
// it is used, others are asked.
func TestStatementsThatCountNoLonger(t *testing.T) {
	stage.Parallel(t)
	a := actBy(t, "book", notes, outcomeCatalog, outcomePolicy)
	eve, leo, zed := a.enrol(t, "eve", "operator"), a.enrol(t, "leo", "operator"), a.enrol(t, "zed", "operator")
	run := a.start(t, "revoked", a.publish(t, notePlan), `{"line":"one"}`)
	b := a.asked(t, run, 1)[0]
	require.True(t, a.pause(t, run, `{}`).Accepted)
	a.sign(t, run, b, approval.Executed, eve, leo)
	stage.Until(t, "they have stated it", func() bool { return len(stage.State(t, a.h.Client(), run).Barriers) == 0 })
	a.state(t, &trust.RevokeSigner{ID: leo.ID})
	require.True(t, a.resume(t, run, `{}`).Accepted)
	b = a.next(t, run, b)
	a.options.Policy = parsed(t, strings.Replace(outcomePolicy, "min: 2", "min: 3", 1))
	a.again(t)
	a.sign(t, run, b, approval.Executed, eve, zed)
	b = a.next(t, run, b)
	ida := a.enrol(t, "ida", "operator")
	a.sign(t, run, b, approval.Executed, eve, zed, ida)
	require.NoError(t, stage.Await(t, a.h.Client(), a.h.Client().GetWorkflow(t.Context(), run.GetID(), run.GetRunID()), nil))
	require.Len(t, a.written(t), 1)
}

// TestFewerMaySign: where the policy excludes more people than when people were asked, they are asked
// again.
func TestFewerMaySign(t *testing.T) {
	stage.Parallel(t)
	a := actBy(t, "book", writes, actingCatalog, strings.Replace(actingPolicy, "unmodelled", "approval: {may_sign: [requester, author, owner]}\nunmodelled", 1))
	eve, fay := a.enrol(t, "eve", "editor"), a.enrol(t, "fay", "finance")
	run := a.start(t, "fewer", a.publish(t, approvedPlan), `{"line":"one"}`)
	b := a.asked(t, run, 1)[0]
	a.options.Policy = parsed(t, actingPolicy)
	a.again(t)
	a.sign(t, run, b, approval.Approve, eve, fay)
	a.sign(t, run, a.next(t, run, b), approval.Approve, eve, fay)
	require.NoError(t, stage.Await(t, a.h.Client(), a.h.Client().GetWorkflow(t.Context(), run.GetID(), run.GetRunID()), nil))
	require.Len(t, a.written(t), 1)
	a.verifies(t)
}

// TestAnOverrunIsLiftedByThePolicyOfNow: what exceeds the budget is reserved only if the active policy,
// too, lets those who have signed lift that.
func TestAnOverrunIsLiftedByThePolicyOfNow(t *testing.T) {
	stage.Parallel(t)
	with := func(approval string) string {
		return strings.Replace(actingPolicy, "unmodelled", "approval: {lift: {"+approval+"}}\nunmodelled", 1)
	}
	const letter = `  - {id: letter, type: soft, operations: [book/write], require: 'action.inputs.line.startsWith("Dear")', message: "a line is no letter"}` + "\n"
	a := actBy(t, "book", writes, actingCatalog, with("budget_exceeded: [editor]"))
	a.budget(t, "1.00")
	source := strings.Replace(actingPlan, "template: book/write", "template: book/write, cost_estimate: 5.00", 1)
	digest := a.publish(t, strings.Replace(source, "agent: tester,", "agent: tester, currency: USD,", 1))
	eve := a.enrol(t, "eve", "editor")
	var first, second ledger.Barrier
	asks := func(name, then string) client.WorkflowRun {
		a.options.Policy = parsed(t, with("budget_exceeded: [editor]"))
		a.again(t)
		run := a.start(t, name, digest, `{"line":"one"}`)
		first = a.asked(t, run, 1)[0]
		a.options.Policy = parsed(t, then)
		a.again(t)
		a.sign(t, run, first, approval.Approve, eve)
		return a.h.Client().GetWorkflow(t.Context(), run.GetID(), run.GetRunID())
	}
	f := failureOf(t, stage.Await(t, a.h.Client(), asks("nobody", actingPolicy), nil))
	require.Equal(t, contract.Budget, f.Kind, f.Message)
	require.Equal(t, "0.00 0.00", a.spent(t))
	require.Empty(t, a.written(t))

	run := asks("more", with(`budget_exceeded: [editor], "policy:letter": [editor]`)+letter)
	second = a.next(t, run, first)
	require.Equal(t, "0.00 0.00", a.spent(t), "nothing is reserved that nobody has approved")
	r, _, err := approval.ParseRequest(second.Request)
	require.NoError(t, err)
	require.ElementsMatch(t, []string{"budget_exceeded", "policy:letter"}, r.Actions[0].Lifts)
	a.sign(t, run, second, approval.Approve, eve)
	require.NoError(t, stage.Await(t, a.h.Client(), run, nil))
	require.Equal(t, "0.00 5.00", a.spent(t))
	require.Len(t, a.written(t), 1)
	a.verifies(t)
}

// TestResetToWhereItAsked: a run that was cancelled while it asked people, and is reset to that, asks
// them again.
func TestResetToWhereItAsked(t *testing.T) {
	stage.Parallel(t)
	a := act(t, writes)
	eve, fay := a.enrol(t, "eve", "editor"), a.enrol(t, "fay", "finance")
	run := a.start(t, "cancelled", a.publish(t, approvedPlan), `{"line":"one"}`)
	b := a.asked(t, run, 1)[0]
	tasks := events(t, a.h.Client(), run, enumspb.EVENT_TYPE_WORKFLOW_TASK_COMPLETED)
	require.NoError(t, a.h.Client().CancelWorkflow(t.Context(), run.GetID(), ""))
	require.Error(t, stage.Await(t, a.h.Client(), run, nil))
	again := a.reset(t, run, tasks[len(tasks)-1].GetEventId())
	a.sign(t, again, a.next(t, again, b), approval.Approve, eve, fay)
	require.NoError(t, stage.Await(t, a.h.Client(), again, nil))
	require.Len(t, a.written(t), 1)
	a.replays(t, again)
}

// TestNobodyIsRejectedUnasked: a member of a shared barrier of whose call people are asked what it did
// is waited for, and shares no end of a barrier that was not about it.
func TestNobodyIsRejectedUnasked(t *testing.T) {
	lengthy.Skip(t)
	stage.Parallel(t)
	// Only what is to write bb hangs, the first time, and the weather changes.
	a := actBy(t, "book", `in=$(cat)
case "$1$in" in
sky*) if [ -e "$LINES_FILE.sky" ]; then echo '{"weather":"rain"}'; else touch "$LINES_FILE.sky"; echo '{"weather":"sun"}'; fi; exit;;
note*bb*) echo "note bb" >> "$LINES_FILE"; if [ "$(grep -c 'note bb' "$LINES_FILE")" = 1 ]; then exec sleep 60; fi;;
note*) echo "note aa" >> "$LINES_FILE";;
esac
echo '{"ok":true}'`, outcomeCatalog+`
  - {provider_type: skill, provider_name: book, operation: sky, mode: deter, effect_class: pure, timeout_ms: 30000, retry_policy: {max_retries: 1},
     input_schema: {type: object, properties: {line: {type: string}}, required: [line]}, output_schema: {type: object, properties: {weather: {type: string}}, required: [weather]},
     trust_requirement: allow_auto, status: allow_auto}
`, outcomePolicy)
	eve, leo, zoe := a.enrol(t, "eve", "operator"), a.enrol(t, "leo", "operator"), a.enrol(t, "zoe", "editor")
	run := a.start(t, "shared", a.publish(t, `{apiVersion: chimera/v1, kind: Plan, name: shared, version: "1", agent: tester, allow: [pure, committing],
  input_schema: {type: object, properties: {line: {type: string}}, required: [line]}, output_schema: {type: object},
  nodes: [
    {id: a, template: book/note, with: {line: aa}, commit_policy: {barrier: both, prechecks: [sky], approval: {groups: [{role: editor, min: 1}]}, rollback: {none: "x"}}},
    {id: b, template: book/note, with: {line: bb}, commit_policy: {barrier: both, rollback: {none: "x"}}},
    {id: sky, template: book/sky}],
  edges: [$input.line -> sky.line, $input -> a, $input -> b]}`), `{"line":"x"}`)
	first := a.asked(t, run, 1)[0]
	require.Len(t, first.Actions, 2)
	a.sign(t, run, first, approval.Approve, zoe)
	outcome := a.next(t, run, first)
	require.True(t, outcome.Outcome)
	a.sign(t, run, outcome, approval.NotExecuted, eve, leo)
	again := a.next(t, run, outcome)
	require.Len(t, again.Actions, 1)
	a.sign(t, run, again, approval.Approve, zoe)
	require.NoError(t, stage.Await(t, a.h.Client(), run, nil))
	require.Equal(t, []string{"note bb", "note bb", "note aa"}, a.written(t))
}
