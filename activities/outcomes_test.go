package activities_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/approval"
	"chimera.ai/engine/compiler"
	"chimera.ai/engine/contract"
	"chimera.ai/engine/host"
	"chimera.ai/engine/internal/stage"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/policy"
)

// outcomeCatalog has a tool that writes lines, one that notes them and answers anything, one
// that erases them, and one that looks.
const outcomeCatalog = stage.SagaCatalog + `
  - {provider_type: skill, provider_name: book, operation: note, mode: deter, effect_class: committing, timeout_ms: 60000, retry_policy: {max_retries: 1, on: [unsent]},
     input_schema: {type: object, properties: {line: {type: string}}, required: [line]}, output_schema: {type: object},
     trust_requirement: allow_auto, status: allow_auto}
`

const outcomePolicy = `
apiVersion: chimera/v1
kind: PolicyBundle
version: "1"
unmodelled: [book/write, book/erase, book/note]
approval: {outcome: [{role: operator, min: 2}]}
rules:
  - {id: any, type: hard, operations: [book/write, book/erase, book/note], require: 'action.inputs.line.size() < 20'}
`

// notes is the tool: it dies in its first call with a line, once it has noted that, and answers later ones.
const notes = `in=$(cat)
line=$(printf '%s' "$in" | sed -n 's/.*"line":"\([^"]*\)".*/\1/p')
case $1 in
erase) echo "erase $in" >> "$LINES_FILE"; echo '{}' ;;
look) echo '{"kind":"tool_error","message":"the light is out"}'; exit 1 ;;
*) before=$(grep -c "^$1 $line\$" "$LINES_FILE" 2>/dev/null || true)
	echo "$1 $line" >> "$LINES_FILE"
	if [ "${before:-0}" = 0 ]; then kill -9 $$; fi
	echo '{"page":7}' ;;
esac`

const notePlan = `{apiVersion: chimera/v1, kind: Plan, name: notes, version: "1", agent: tester, allow: [pure, committing],
  input_schema: {type: object, properties: {line: {type: string}}, required: [line]}, output_schema: {type: object},
  nodes: [{id: note, template: book/note, commit_policy: {rollback: {none: "what is noted stays"}}}],
  edges: [$input.line -> note.line]}`

// writePlan cannot verify its effect, and undoes it.
const writePlan = `{apiVersion: chimera/v1, kind: Plan, name: writes, version: "1", agent: tester, allow: [pure, committing],
  input_schema: {type: object, properties: {line: {type: string}}, required: [line]}, output_schema: {type: object},
  nodes: [
    {id: write, template: book/write, commit_policy: {verify: {node: looked, with: {line: "${args.line}"}, executed: "output.there"}}},
    {id: looked, template: book/look}, {id: back, template: book/erase, commit_policy: {rollback: {none: "gone"}}}],
  edges: [$input.line -> write.line,
    {from_node: write, from_port: $compensate, to_node: back, to_port: line, edge_type: error, required: true, transform: "${args.line}"}]}`

// TestOutcomes: where nobody knows what a call did, the right people say so, by statements
// about exactly this call; and what they say is what follows.
func TestOutcomes(t *testing.T) {
	t.Parallel()
	a := stage.ActBy(t, "book", notes, outcomeCatalog, outcomePolicy)
	eve, leo, rae := a.Enrol(t, "eve", "operator"), a.Enrol(t, "leo", "operator"), a.Enrol(t, "rae", "operator")
	zoe := a.Enrol(t, "zoe", "editor")
	digest, writing := a.Publish(t, notePlan), a.Publish(t, writePlan)
	executed := a.Start(t, "executed", digest, `{"line":"one"}`)
	not := a.Start(t, "not", digest, `{"line":"two"}`)
	differ := a.Start(t, "differ", digest, `{"line":"three"}`)
	silent := a.Start(t, "silent", writing, `{"line":"four"}`)

	b, foreign := a.Asked(t, executed, 1)[0], a.Asked(t, not, 1)[0]
	require.True(t, b.Outcome)
	s := stage.State(t, a.Client(), executed)
	require.True(t, s.Barriers[0].Outcome)
	require.Equal(t, []string{"note"}, s.Barriers[0].Nodes)
	require.Equal(t, contract.WaitApproval, s.Waiting[0].Kind)
	require.Contains(t, s.Waiting[0].Detail, "what a call did")
	refused := func(code approval.Code, envelope json.RawMessage) {
		t.Helper()
		v := a.Update(t, executed, envelope)
		require.False(t, v.Accepted)
		require.Equal(t, string(code), v.Code, v.Detail)
	}
	refused(approval.Malformed, eve.Sign(t, b, approval.Approve, nil))
	refused(approval.Malformed, eve.Sign(t, b, approval.Reject, nil))
	refused(approval.Malformed, eve.Sign(t, b, approval.Executed, func(p *approval.Payload) { p.Reason = "" }))
	refused(approval.Foreign, eve.Sign(t, foreign, approval.Executed, nil))
	refused(approval.Foreign, eve.Sign(t, b, approval.Executed, func(p *approval.Payload) { p.Actions = []string{foreign.Actions[0].Action} }))
	refused(approval.Excluded, rae.Sign(t, b, approval.Executed, nil)) // she has asked for the run
	refused(approval.Ineligible, zoe.Sign(t, b, approval.Executed, nil))
	refused(approval.Forged, stage.Signer{ID: leo.ID, Key: eve.Key, Role: "operator"}.Sign(t, b, approval.Executed, nil))

	// It had its effect: nothing is called again.
	v := a.Update(t, executed, eve.Sign(t, b, approval.Executed, nil))
	require.True(t, v.Accepted, v.Detail)
	require.Equal(t, []contract.Group{{Role: "operator", Min: 1}}, v.Missing)
	refused(approval.Twice, eve.Sign(t, b, approval.Executed, nil))
	refused(approval.Twice, eve.Sign(t, b, approval.NotExecuted, nil))
	require.True(t, a.Update(t, executed, leo.Sign(t, b, approval.Executed, nil)).Accepted)
	require.NoError(t, stage.Await(t, a.Client(), executed, nil))
	require.NoError(t, a.Await(t, stage.Reset(t, a.Client(), executed), nil))
	i, err := a.Ledger().Invocation(t.Context(), b.Actions[0].Invocation)
	require.NoError(t, err)
	require.Equal(t, ledger.Settled, i.State)

	// It had none: it is called again, as its contract allows.
	for _, s := range []stage.Signer{leo, eve} {
		v = a.Update(t, not, s.Sign(t, foreign, approval.NotExecuted, nil))
		require.True(t, v.Accepted, v.Detail)
	}
	require.Equal(t, contract.BarrierApproved, v.State)
	require.NoError(t, stage.Await(t, a.Client(), not, nil))

	// They contradict each other: nobody knows.
	b = a.Asked(t, differ, 1)[0]
	require.True(t, a.Update(t, differ, eve.Sign(t, b, approval.Executed, nil)).Accepted)
	v = a.Update(t, differ, leo.Sign(t, b, approval.NotExecuted, nil))
	require.True(t, v.Accepted, v.Detail)
	require.Equal(t, contract.BarrierRejected, v.State)
	f := stage.FailureOf(t, stage.Await(t, a.Client(), differ, nil))
	require.Equal(t, contract.OutcomeUnknown, f.Kind)
	require.Contains(t, f.Message, "leo says not_executed: I have looked")
	i, err = a.Ledger().Invocation(t.Context(), b.Actions[0].Invocation)
	require.NoError(t, err)
	require.Equal(t, ledger.Unknown, i.State)

	// It had its effect, and its answer is needed: the run fails, and undoes it.
	b = a.Asked(t, silent, 1)[0]
	require.True(t, a.Update(t, silent, eve.Sign(t, b, approval.Executed, nil)).Accepted)
	require.True(t, a.Update(t, silent, leo.Sign(t, b, approval.Executed, nil)).Accepted)
	f = stage.FailureOf(t, stage.Await(t, a.Client(), silent, nil))
	require.Equal(t, contract.InvalidOutput, f.Kind, f.Message)
	require.Contains(t, f.Message, "as people have stated")
	require.Equal(t, []string{"write"}, f.NotCompensated, "its verify cannot say that it no longer stands")
	count := map[string]int{}
	for _, line := range a.Written(t) {
		count[line]++
	}
	require.Equal(t, map[string]int{"note one": 1, "note two": 2, "note three": 1, "write four": 1, `erase {"line":"four"}`: 1}, count)
}

// TestOutcomesWait: people are asked until the run ends, over executions and restarts.
func TestOutcomesWait(t *testing.T) {
	t.Parallel()
	a := stage.ActBy(t, "book", notes, outcomeCatalog, outcomePolicy)
	a.Options.ContinueAfter = 12
	a.Again(t)
	eve, leo := a.Enrol(t, "eve", "operator"), a.Enrol(t, "leo", "operator")
	digest := a.Publish(t, notePlan)
	run, cancelled := a.Start(t, "waits", digest, `{"line":"one"}`), a.Start(t, "cancelled", digest, `{"line":"three"}`)
	b := a.Asked(t, run, 1)[0]
	stage.Until(t, "the run has continued as new", func() bool { return stage.State(t, a.Client(), run).Executions > 1 })
	// A run that is about to continue as new asks for a signature again.
	signs := func(who stage.Signer) {
		t.Helper()
		envelope := who.Sign(t, b, approval.Executed, nil)
		stage.Until(t, "the statement counts", func() bool { return a.Update(t, run, envelope).Accepted })
	}
	signs(eve)
	a.Again(t)
	signs(leo)
	require.NoError(t, stage.Await(t, a.Client(), run, nil))

	c := a.Asked(t, cancelled, 1)[0]
	require.NoError(t, a.Client().CancelWorkflow(t.Context(), cancelled.GetID(), ""))
	require.Error(t, stage.Await(t, a.Client(), cancelled, nil))
	c, err := a.Ledger().Barrier(t.Context(), c.ID)
	require.NoError(t, err)
	require.Equal(t, ledger.BarrierWithdrawn, c.State)
	require.Len(t, a.Written(t), 2)
}

// TestAGuardianAloneStatesNothing: a guardian with a policy of its own asks other people, and
// effects, which asks those of its own, does not believe what they say.
func TestAGuardianAloneStatesNothing(t *testing.T) {
	t.Parallel()
	a := stage.ActBy(t, "book", notes, outcomeCatalog, outcomePolicy)
	lax, ds := policy.Parse(compiler.Source{Name: "policy.yaml", Text: []byte(strings.Replace(outcomePolicy, "operator, min: 2", "editor, min: 1", 1))})
	require.False(t, ds.HasErrors())
	all := a.Options
	all.Roles = []host.Role{host.RoleEngine, host.RoleTools, host.RoleEffects}
	other := a.Options
	other.Roles, other.Policy = []host.Role{host.RoleGuardian}, lax
	digest := a.Publish(t, notePlan)
	zoe := a.Enrol(t, "zoe", "editor")
	a.Options = all
	a.Again(t)
	stage.Rehearse(t, other)
	run := a.Start(t, "alone", digest, `{"line":"one"}`)
	b := a.Asked(t, run, 1)[0]
	require.True(t, a.Update(t, run, zoe.Sign(t, b, approval.NotExecuted, nil)).Accepted)
	f := stage.FailureOf(t, stage.Await(t, a.Client(), run, nil))
	require.Equal(t, contract.OutcomeUnknown, f.Kind)
	require.Contains(t, f.Message, "what people have stated does not count")
	require.Equal(t, []string{"note one"}, a.Written(t))
	i, err := a.Ledger().Invocation(t.Context(), b.Actions[0].Invocation)
	require.NoError(t, err)
	require.Equal(t, ledger.Unknown, i.State, fmt.Sprint(i.Attempt))
}

// TestNobodyStatesTooEarly: a guardian that asks before whatever the call has sent has arrived
// gets statements that do not count: what people did not find then may have happened since.
func TestNobodyStatesTooEarly(t *testing.T) {
	t.Parallel()
	a := stage.ActBy(t, "book", notes, outcomeCatalog, outcomePolicy)
	eve, leo := a.Enrol(t, "eve", "operator"), a.Enrol(t, "leo", "operator")
	calls := make(chan contract.Call, 9)
	stage.Instead(t, contract.QueueEffects, func(_ context.Context, asked any) (any, error) {
		calls <- asked.(contract.Call)
		return nil, nil
	})
	run := a.Start(t, "early", a.Publish(t, notePlan), `{"line":"one"}`)
	b := a.Asked(t, run, 1)[0]
	i, err := a.Ledger().Invocation(t.Context(), b.Actions[0].Invocation)
	require.NoError(t, err)
	r, _, err := approval.ParseRequest(b.Request)
	require.NoError(t, err)
	r.Opened = *i.CallNotAfter
	b.Request, err = r.Encode()
	require.NoError(t, err)
	call := <-calls
	call.Permit, call.Stated = nil, &contract.Approved{Request: b.Request}
	for _, s := range []stage.Signer{eve, leo} {
		call.Stated.Envelopes = append(call.Stated.Envelopes, s.Sign(t, b, approval.NotExecuted, nil))
	}
	require.ErrorContains(t, stage.Ask(t, contract.QueueEffects, "book/note", call, nil), "before whatever the call has sent had arrived")
	i, err = a.Ledger().Invocation(t.Context(), i.ID)
	require.NoError(t, err)
	require.Equal(t, ledger.Unknown, i.State)
	require.Equal(t, []string{"note one"}, a.Written(t))
}

// TestUnknownIsNotHandled: no error edge handles a call of unknown outcome. The run ends, and
// undoes it.
func TestUnknownIsNotHandled(t *testing.T) {
	t.Parallel()
	a := stage.ActBy(t, "book", notes, outcomeCatalog, strings.Replace(outcomePolicy, "approval: {outcome: [{role: operator, min: 2}]}", "", 1))
	handled := strings.Replace(writePlan, "edges: [", `edges: [{from_node: write, from_port: $error, to_node: went, to_port: $, edge_type: error, required: false},`, 1)
	run := a.Start(t, "handled", a.Publish(t, strings.Replace(handled, "{id: looked,", "{id: went, template: engine/pass}, {id: looked,", 1)), `{"line":"one"}`)
	f := stage.FailureOf(t, stage.Await(t, a.Client(), run, nil))
	require.Equal(t, contract.OutcomeUnknown, f.Kind, f.Message)
	require.Equal(t, []string{"write one", `erase {"line":"one"}`}, a.Written(t))
}
