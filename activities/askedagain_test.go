package activities_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"chimera.ai/engine/approval"
	"chimera.ai/engine/contract"
	"chimera.ai/engine/internal/lengthy"
	"chimera.ai/engine/internal/stage"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/trust"
)

// TestStatementsThatCountNoLonger: where what people have stated of a call is no longer enough before
// it is used, others are asked.
func TestStatementsThatCountNoLonger(t *testing.T) {
	t.Parallel()
	a := stage.ActBy(t, "book", notes, outcomeCatalog, outcomePolicy)
	eve, leo, zed := a.Enrol(t, "eve", "operator"), a.Enrol(t, "leo", "operator"), a.Enrol(t, "zed", "operator")
	run := a.Start(t, "revoked", a.Publish(t, notePlan), `{"line":"one"}`)
	b := a.Asked(t, run, 1)[0]
	a.Pause(t, run)
	a.Sign(t, run, b, approval.Executed, eve, leo)
	stage.Until(t, "they have stated it", func() bool { return len(stage.State(t, a.Client(), run).Barriers) == 0 })
	a.State(t, &trust.RevokeSigner{ID: leo.ID})
	a.Resume(t, run)
	b = a.Next(t, run, b)
	a.Options.Policy = stage.Bundle(t, strings.Replace(outcomePolicy, "min: 2", "min: 3", 1))
	a.Again(t)
	a.Sign(t, run, b, approval.Executed, eve, zed)
	b = a.Next(t, run, b)
	ida := a.Enrol(t, "ida", "operator")
	a.Sign(t, run, b, approval.Executed, eve, zed, ida)
	require.NoError(t, stage.Await(t, a.Client(), run, nil))
	require.Len(t, a.Written(t), 1)
}

// TestFewerMaySign: where the policy excludes more people than when people were asked, they are asked
// again.
func TestFewerMaySign(t *testing.T) {
	t.Parallel()
	a := stage.ActBy(t, "book", stage.Writes, stage.ActingCatalog, strings.Replace(stage.ActingPolicy, "unmodelled", "approval: {may_sign: [requester, author, owner]}\nunmodelled", 1))
	eve, fay := a.Enrol(t, "eve", "editor"), a.Enrol(t, "fay", "finance")
	run := a.Start(t, "fewer", a.Publish(t, stage.ApprovedPlan), `{"line":"one"}`)
	b := a.Asked(t, run, 1)[0]
	a.Options.Policy = stage.Bundle(t, stage.ActingPolicy)
	a.Again(t)
	a.Sign(t, run, b, approval.Approve, eve, fay)
	a.Sign(t, run, a.Next(t, run, b), approval.Approve, eve, fay)
	require.NoError(t, stage.Await(t, a.Client(), run, nil))
	require.Len(t, a.Written(t), 1)
	a.Verifies(t)
}

// TestAnOverrunIsLiftedByThePolicyOfNow: what exceeds the budget is reserved only if the active policy,
// too, lets those who have signed lift that.
func TestAnOverrunIsLiftedByThePolicyOfNow(t *testing.T) {
	t.Parallel()
	with := func(approval string) string {
		return strings.Replace(stage.ActingPolicy, "unmodelled", "approval: {lift: {"+approval+"}}\nunmodelled", 1)
	}
	const letter = `  - {id: letter, type: soft, operations: [book/write], require: 'action.inputs.line.startsWith("Dear")', message: "a line is no letter"}` + "\n"
	a := stage.ActBy(t, "book", stage.Writes, stage.ActingCatalog, with("budget_exceeded: [editor]"))
	a.Budget(t, "1.00")
	source := strings.Replace(stage.ActingPlan, "template: book/write", "template: book/write, cost_estimate: 5.00", 1)
	digest := a.Publish(t, strings.Replace(source, "agent: tester,", "agent: tester, currency: USD,", 1))
	eve := a.Enrol(t, "eve", "editor")
	var first, second ledger.Barrier
	asks := func(name, then string) client.WorkflowRun {
		a.Options.Policy = stage.Bundle(t, with("budget_exceeded: [editor]"))
		a.Again(t)
		run := a.Start(t, name, digest, `{"line":"one"}`)
		first = a.Asked(t, run, 1)[0]
		a.Options.Policy = stage.Bundle(t, then)
		a.Again(t)
		a.Sign(t, run, first, approval.Approve, eve)
		return run
	}
	f := stage.FailureOf(t, stage.Await(t, a.Client(), asks("nobody", stage.ActingPolicy), nil))
	require.Equal(t, contract.Budget, f.Kind, f.Message)
	require.Equal(t, "0.00 0.00", a.Spent(t))
	require.Empty(t, a.Written(t))

	run := asks("more", with(`budget_exceeded: [editor], "policy:letter": [editor]`)+letter)
	second = a.Next(t, run, first)
	require.Equal(t, "0.00 0.00", a.Spent(t), "nothing is reserved that nobody has approved")
	r, _, err := approval.ParseRequest(second.Request)
	require.NoError(t, err)
	require.ElementsMatch(t, []string{"budget_exceeded", "policy:letter"}, r.Actions[0].Lifts)
	a.Sign(t, run, second, approval.Approve, eve)
	require.NoError(t, stage.Await(t, a.Client(), run, nil))
	require.Equal(t, "0.00 5.00", a.Spent(t))
	require.Len(t, a.Written(t), 1)
	a.Verifies(t)
}

// TestNobodyIsRejectedUnasked: a member of a shared barrier of whose call people are asked what it did
// is waited for, and shares no end of a barrier that was not about it.
func TestNobodyIsRejectedUnasked(t *testing.T) {
	lengthy.Skip(t)
	t.Parallel()
	// Only what is to write bb hangs, the first time, and the weather changes.
	a := stage.ActBy(t, "book", `in=$(cat)
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
	eve, leo, zoe := a.Enrol(t, "eve", "operator"), a.Enrol(t, "leo", "operator"), a.Enrol(t, "zoe", "editor")
	run := a.Start(t, "shared", a.Publish(t, `{apiVersion: chimera/v1, kind: Plan, name: shared, version: "1", agent: tester, allow: [pure, committing],
  input_schema: {type: object, properties: {line: {type: string}}, required: [line]}, output_schema: {type: object},
  nodes: [
    {id: a, template: book/note, with: {line: aa}, commit_policy: {barrier: both, prechecks: [sky], approval: {groups: [{role: editor, min: 1}]}, rollback: {none: "x"}}},
    {id: b, template: book/note, with: {line: bb}, commit_policy: {barrier: both, rollback: {none: "x"}}},
    {id: sky, template: book/sky}],
  edges: [$input.line -> sky.line, $input -> a, $input -> b]}`), `{"line":"x"}`)
	first := a.Asked(t, run, 1)[0]
	require.Len(t, first.Actions, 2)
	a.Sign(t, run, first, approval.Approve, zoe)
	outcome := a.Next(t, run, first)
	require.True(t, outcome.Outcome)
	a.Sign(t, run, outcome, approval.NotExecuted, eve, leo)
	again := a.Next(t, run, outcome)
	require.Len(t, again.Actions, 1)
	a.Sign(t, run, again, approval.Approve, zoe)
	require.NoError(t, stage.Await(t, a.Client(), run, nil))
	require.Equal(t, []string{"note bb", "note bb", "note aa"}, a.Written(t))
}
