package host_test

import (
	"encoding/json"
	"errors"
	"flag"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	sdkpb "go.temporal.io/api/sdk/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"

	"chimera.ai/engine/approval"
	"chimera.ai/engine/contract"
	"chimera.ai/engine/host"
	"chimera.ai/engine/internal/lengthy"
	"chimera.ai/engine/internal/stage"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/task"
	"chimera.ai/engine/trust"
)

// enrol enrols a person with a key of development.
func (a *acting) enrol(t *testing.T, person string, roles ...string) stage.Signer {
	t.Helper()
	return a.Enrol(t, a.h.Store().Ledger, trust.SigDev, person, roles...)
}

// asked waits until people are asked, by so many barriers, and the run knows that.
func (a *acting) asked(t *testing.T, run client.WorkflowRun, barriers int) []ledger.Barrier {
	t.Helper()
	all := stage.Asked(t, a.h.Store().Ledger, run, barriers)
	stage.Until(t, "the run knows", func() bool { return len(stage.State(t, a.h.Client(), run).Barriers) == barriers })
	return all
}

// update sends a signature by the update, and returns the answer.
func (a *acting) update(t *testing.T, run client.WorkflowRun, envelope json.RawMessage) (v contract.Verdict) {
	t.Helper()
	u, err := a.h.Client().UpdateWorkflow(t.Context(), client.UpdateWorkflowOptions{
		WorkflowID: run.GetID(), UpdateName: contract.UpdateSign, Args: []any{envelope}, WaitForStage: client.WorkflowUpdateStageCompleted,
	})
	require.NoError(t, err)
	require.NoError(t, u.Get(t.Context(), &v))
	return v
}

func (a *acting) signal(t *testing.T, run client.WorkflowRun, envelope any) {
	t.Helper()
	require.NoError(t, a.h.Client().SignalWorkflow(t.Context(), run.GetID(), "", contract.SignalSignature, envelope))
}

const approvedPlan = `{apiVersion: chimera/v1, kind: Plan, name: asks, version: "1", agent: tester, allow: [pure, committing],
  input_schema: {type: object, properties: {line: {type: string}}, required: [line]},
  output_schema: {type: object, properties: {ok: {type: boolean}}, required: [ok]},
  nodes: [{id: write, template: book/write, description: "Write a line", commit_policy: {approval: {groups: [{role: editor, min: 1}, {role: finance, min: 1}]}, rollback: {none: "what is written stays"}}}],
  edges: [$input.line -> write.line, write.ok -> $output.ok]}`

// TestApprovals: an effect waits until the right people have approved exactly it, whoever
// else signs, and happens once.
func TestApprovals(t *testing.T) {
	stage.Parallel(t)
	a := act(t, writes)
	eve, fay := a.enrol(t, "Eve", "editor"), a.enrol(t, "Fay", "finance")
	rae, ada := a.enrol(t, "RAE", "editor", "finance"), a.enrol(t, "ada", "editor")
	digest := a.publish(t, approvedPlan)
	run := a.start(t, "waits", digest, `{"line":"one"}`)
	other := a.start(t, "other", digest, `{"line":"two"}`)
	b, foreign := a.asked(t, run, 1)[0], a.asked(t, other, 1)[0]
	s := stage.State(t, a.h.Client(), run)
	require.Equal(t, []contract.Group{{Role: "editor", Min: 1}, {Role: "finance", Min: 1}}, s.Barriers[0].Missing)
	require.Equal(t, contract.WaitApproval, s.Waiting[0].Kind)
	value, err := a.h.Client().QueryWorkflow(t.Context(), run.GetID(), "", "__temporal_workflow_metadata")
	require.NoError(t, err)
	var shown sdkpb.WorkflowMetadata // what Temporal's web pages show
	require.NoError(t, value.Get(&shown))
	require.Contains(t, shown.GetCurrentDetails(), "**Waits for approval** by 1 of editor, 1 of finance: write, since "+s.Barriers[0].Since+", until "+s.Barriers[0].Until+" (barrier "+b.ID+")")
	drafts, err := a.h.Store().Ledger.ListTasks(t.Context(), task.StateDraft, ledger.Page{})
	require.NoError(t, err)
	require.Len(t, drafts, 2)

	refused := func(code approval.Code, envelope json.RawMessage) {
		t.Helper()
		v := a.update(t, run, envelope)
		require.False(t, v.Accepted)
		require.Equal(t, string(code), v.Code, v.Detail)
	}
	refused(approval.Foreign, eve.Sign(t, foreign, approval.Approve, nil))
	refused(approval.Foreign, eve.Sign(t, b, approval.Approve, func(p *approval.Payload) { p.Text = foreign.Actions[0].Action }))
	refused(approval.Foreign, eve.Sign(t, b, approval.Approve, func(p *approval.Payload) { p.Actions = []string{foreign.Actions[0].Action} }))
	refused(approval.Forged, stage.Signer{ID: fay.ID, Key: eve.Key, Role: "finance"}.Sign(t, b, approval.Approve, nil))
	refused(approval.Ineligible, stage.Signer{ID: eve.ID, Key: eve.Key, Role: "finance"}.Sign(t, b, approval.Approve, nil))
	refused(approval.Unknown, stage.Signer{ID: "zoe-key", Key: eve.Key, Role: "editor"}.Sign(t, b, approval.Approve, nil))
	refused(approval.Excluded, rae.Sign(t, b, approval.Approve, nil)) // she has asked for the run
	refused(approval.Excluded, ada.Sign(t, b, approval.Approve, nil)) // author and owner
	refused(approval.NotValid, eve.Sign(t, b, approval.Approve, func(p *approval.Payload) { p.Expires = p.Issued }))
	refused(approval.Malformed, json.RawMessage(`{}`))
	u, err := a.h.Client().UpdateWorkflow(t.Context(), client.UpdateWorkflowOptions{WorkflowID: run.GetID(), UpdateName: contract.UpdateSign, Args: []any{"x"}, WaitForStage: client.WorkflowUpdateStageCompleted})
	require.NoError(t, err)
	require.ErrorContains(t, u.Get(t.Context(), nil), "not an envelope")
	require.Empty(t, a.written(t))

	first := eve.Sign(t, b, approval.Approve, nil)
	v := a.update(t, run, first)
	require.True(t, v.Accepted, v.Detail)
	require.Equal(t, []contract.Group{{Role: "finance", Min: 1}}, v.Missing)
	require.True(t, a.update(t, run, first).Accepted, "the same one counts once")
	refused(approval.Twice, eve.Sign(t, b, approval.Approve, nil))
	a.signal(t, run, map[string]string{"what": "is this"})
	a.signal(t, run, 7)
	a.signal(t, run, fay.Sign(t, b, approval.Approve, nil))
	require.NoError(t, stage.Await(t, a.h.Client(), run, nil))
	require.Equal(t, []string{`{"line":"one"}`}, a.written(t))
	signed, err := a.h.Store().Ledger.Task(t.Context(), b.Actions[0].Decision)
	require.NoError(t, err)
	require.Equal(t, task.StateExecuted, signed.Base().State)
	require.Equal(t, "fay-key", signed.(task.Executed).Signature.SignerID)
	a.replays(t, run)

	// A reset past the barrier asks nobody again, and repeats nothing.
	for _, e := range events(t, a.h.Client(), run, enumspb.EVENT_TYPE_WORKFLOW_TASK_COMPLETED) {
		again := a.reset(t, run, e.GetEventId())
		require.NoError(t, stage.Await(t, a.h.Client(), again, nil))
		a.replays(t, again)
	}
	require.Len(t, a.written(t), 1)

	// One rejection ends it.
	v = a.update(t, other, fay.Sign(t, foreign, approval.Reject, nil))
	require.True(t, v.Accepted, v.Detail)
	require.Equal(t, contract.BarrierRejected, v.State)
	f := failureOf(t, stage.Await(t, a.h.Client(), other, nil))
	require.Equal(t, contract.Rejected, f.Kind)
	require.Contains(t, f.Message, "fay: not today")
	require.Len(t, a.written(t), 1)
	drafts, err = a.h.Store().Ledger.ListTasks(t.Context(), task.StateDraft, ledger.Page{})
	require.NoError(t, err)
	require.Empty(t, drafts)
}

const groupPlan = `{apiVersion: chimera/v1, kind: Plan, name: group, version: "1", agent: tester, allow: [pure, committing],
  input_schema: {type: object, properties: {line: {type: string}}, required: [line]},
  output_schema: {type: object, properties: {a: {type: boolean}, b: {type: boolean}}, required: [a]},
  nodes: [
    {id: a, template: book/write, commit_policy: {barrier: both, approval: {groups: [{role: editor, min: 1}]}, rollback: {none: "what is written stays"}}},
    {id: b, template: book/write, with: {line: second}, commit_policy: {barrier: both, rollback: {none: "what is written stays"}}},
    {id: late, template: book/write, with: {line: late}, commit_policy: {approval: {groups: [{role: editor, min: 1}], expires_in_ms: 2000}, rollback: {none: "what is written stays"}}},
    {id: done, template: engine/pass}],
  edges: [$input.line -> a.line, a.ok -> $output.a, a -> late,
    {from_node: $input, from_port: $done, to_node: b, to_port: $start, edge_type: conditional, required: true, when: "input.line != 'alone'"},
    {from_node: b, from_port: ok, to_node: $output, to_port: b, edge_type: data, required: false},
    {from_node: late, from_port: $error, to_node: done, to_port: $, edge_type: error, required: false}]}`

// TestBarriers: members of a barrier wait for each other, one signature approves all of
// them, and what nobody signs in time expires.
func TestBarriers(t *testing.T) {
	stage.Parallel(t)
	a := act(t, writes)
	eve := a.enrol(t, "Eve", "editor")
	digest := a.publish(t, groupPlan)
	run := a.start(t, "both", digest, `{"line":"first"}`)
	b := a.asked(t, run, 1)[0]
	require.Len(t, b.Actions, 2)
	require.ElementsMatch(t, []string{"a", "b"}, stage.State(t, a.h.Client(), run).Barriers[0].Nodes)
	require.True(t, a.update(t, run, eve.Sign(t, b, approval.Approve, nil)).Accepted)
	require.NoError(t, stage.Await(t, a.h.Client(), run, nil))
	require.ElementsMatch(t, []string{`{"line":"first"}`, `{"line":"second"}`}, a.written(t))
	for _, n := range stage.State(t, a.h.Client(), run).Nodes {
		if n.ID == "late" {
			require.Equal(t, contract.Expired, n.Error.Kind)
		}
	}
	a.replays(t, run)

	alone := a.start(t, "alone", digest, `{"line":"alone"}`)
	b = a.asked(t, alone, 1)[0]
	require.Len(t, b.Actions, 1, "a member that is skipped is not waited for")
	require.NoError(t, a.h.Client().CancelWorkflow(t.Context(), alone.GetID(), ""))
	require.Error(t, stage.Await(t, a.h.Client(), alone, nil))
	b, err := a.h.Store().Ledger.Barrier(t.Context(), b.ID)
	require.NoError(t, err)
	require.Equal(t, ledger.BarrierWithdrawn, b.State)
	require.Len(t, a.written(t), 2)
	a.replays(t, alone)
}

var flood = flag.Int("flood", 1200, "how many forged signatures TestFlood sends")

// TestFlood: many forged signatures cost executions, and not the approval.
func TestFlood(t *testing.T) {
	lengthy.Skip(t)
	stage.Parallel(t)
	a := act(t, writes)
	eve, fay, zoe := a.enrol(t, "Eve", "editor"), a.enrol(t, "Fay", "finance"), a.enrol(t, "Zoe", "nothing")
	digest := a.publish(t, approvedPlan)
	run := a.start(t, "flooded", digest, `{"line":"one"}`)
	first := run.GetRunID()
	b := a.asked(t, run, 1)[0]
	forged := stage.Signer{ID: eve.ID, Key: zoe.Key, Role: "editor"}.Sign(t, b, approval.Approve, nil)
	begun := time.Now()
	for sent := 0; sent < *flood; sent++ {
		err := a.h.Client().SignalWorkflow(t.Context(), run.GetID(), "", contract.SignalSignature, forged)
		var busy *serviceerror.DeadlineExceeded
		var full *serviceerror.InvalidArgument
		if err != nil { // the server takes no more in this execution, or is busy
			require.True(t, errors.As(err, &busy) || errors.As(err, &full), err)
			sent--
		}
	}
	over := time.Now()
	a.signal(t, run, fay.Sign(t, b, approval.Approve, nil))
	stage.Until(t, "the run has continued as new", func() bool { return stage.State(t, a.h.Client(), run).Executions > 1 })
	// One may have to be sent again.
	var v contract.Verdict
	for _, s := range []stage.Signer{fay, eve} {
		stage.Until(t, "the signature counts", func() bool {
			v = a.update(t, run, s.Sign(t, b, approval.Approve, nil))
			return v.Accepted || v.Code == string(approval.Twice)
		})
	}
	accepted := time.Since(over)
	require.NoError(t, stage.Await(t, a.h.Client(), run, nil))
	require.Len(t, a.written(t), 1)
	most, executions := 0, 0
	for id := first; id != ""; executions++ {
		all := events(t, a.h.Client(), a.h.Client().GetWorkflow(t.Context(), run.GetID(), id), enumspb.EVENT_TYPE_UNSPECIFIED)
		most = max(most, len(all))
		id = all[len(all)-1].GetWorkflowExecutionContinuedAsNewEventAttributes().GetNewExecutionRunId()
	}
	require.Less(t, most, 12_000)
	t.Logf("%d forged signatures in %s; both counted %s after the last; %d executions, of %d events at most",
		*flood, over.Sub(begun).Round(time.Millisecond), accepted.Round(time.Millisecond), executions, most)
	list, err := a.h.Store().Ledger.Approvals(t.Context(), b.ID, ledger.Page{})
	require.NoError(t, err)
	require.LessOrEqual(t, len(list), ledger.MaxRefused+3, "the ledger does not grow with the flood")
}

// TestAGuardianAloneSkipsNobody: a guardian with a policy of its own permits what others must
// approve by that of effects, which does not call.
func TestAGuardianAloneSkipsNobody(t *testing.T) {
	stage.Parallel(t)
	const floor, chief = "floor: [{groups: [{role: editor, min: 1}]}]", `lift: {"policy:letter": [chief]}`
	with := func(approval string) string {
		return strings.Replace(actingPolicy, "unmodelled", "approval: {"+approval+"}\nunmodelled", 1) +
			`  - {id: letter, type: soft, operations: [book/write], require: '!action.inputs.line.startsWith("Dear")', message: "a line is no letter"}` + "\n"
	}
	a := actBy(t, "book", writes, actingCatalog, with(floor+", "+chief))
	eve, rae := a.enrol(t, "Eve", "editor"), a.enrol(t, "Rae", "finance")
	plain, asks := a.publish(t, actingPlan), a.publish(t, approvedPlan)
	thief := a.options
	thief.Roles = []host.Role{host.RoleGuardian}
	a.options.Roles = []host.Role{host.RoleEngine, host.RoleTools, host.RoleEffects}
	a.again(t)
	for _, c := range []struct {
		name, approval, digest, line string
		signers                      []stage.Signer
		says                         string
	}{
		{"asks nobody", chief, plain, "one", nil, "people must approve, and nobody has"},
		{"asks the requester", floor + ", " + chief + ", may_sign: [requester, author, owner]", asks, "two", []stage.Signer{eve, rae}, "what people have signed: it does not exclude"},
		{"lets others lift", floor + `, lift: {"policy:letter": [editor]}`, plain, "Dear three", []stage.Signer{eve}, `it does not ask for 1 of the role "chief"`},
	} {
		thief.Policy = parsed(t, with(c.approval))
		h, err := host.New(t.Context(), thief)
		require.NoError(t, err)
		require.NoError(t, h.Start())
		run := a.start(t, strings.ReplaceAll(c.name, " ", "-"), c.digest, `{"line":"`+c.line+`"}`)
		if c.signers != nil {
			b := a.asked(t, run, 1)[0]
			for _, s := range c.signers {
				v := a.update(t, run, s.Sign(t, b, approval.Approve, nil))
				require.True(t, v.Accepted, v.Detail)
			}
		}
		f := failureOf(t, stage.Await(t, a.h.Client(), run, nil))
		require.Equal(t, contract.Blocked, f.Kind, "%s: %s", c.name, f.Message)
		require.Contains(t, f.Message, c.says, c.name)
		require.NoError(t, h.Close())
	}
	require.Empty(t, a.written(t))
}
