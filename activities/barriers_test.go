package activities_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	"golang.org/x/sync/errgroup"

	"chimera.ai/engine/approval"
	"chimera.ai/engine/contract"
	"chimera.ai/engine/host"
	"chimera.ai/engine/internal/stage"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/task"
)

// TestWhoApproves: an effect waits until the right people have approved exactly it, whoever
// else signs, and happens once.
func TestWhoApproves(t *testing.T) {
	t.Parallel()
	a := stage.Act(t, stage.Writes)
	eve, fay := a.Enrol(t, "eve", "editor"), a.Enrol(t, "fay", "finance")
	rae, ada := a.Enrol(t, "rae", "editor", "finance"), a.Enrol(t, "ada", "editor")
	digest := a.Publish(t, stage.ApprovedPlan)
	run := a.Start(t, "waits", digest, `{"line":"one"}`)
	other := a.Start(t, "other", digest, `{"line":"two"}`)
	b, foreign := a.Asked(t, run, 1)[0], a.Asked(t, other, 1)[0]
	s := stage.State(t, a.Client(), run)
	require.Equal(t, []contract.Group{{Role: "editor", Min: 1}, {Role: "finance", Min: 1}}, s.Barriers[0].Missing)
	require.Equal(t, contract.WaitApproval, s.Waiting[0].Kind)
	drafts, err := a.Ledger().ListTasks(t.Context(), task.StateDraft, ledger.Page{})
	require.NoError(t, err)
	require.Len(t, drafts, 2)

	refused := func(code approval.Code, envelope json.RawMessage) {
		t.Helper()
		v := a.Update(t, run, envelope)
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
	u, err := a.Client().UpdateWorkflow(t.Context(), client.UpdateWorkflowOptions{WorkflowID: run.GetID(), UpdateName: contract.UpdateSign, Args: []any{"x"}, WaitForStage: client.WorkflowUpdateStageCompleted})
	require.NoError(t, err)
	require.ErrorContains(t, u.Get(t.Context(), nil), "not an envelope")
	require.Empty(t, a.Written(t))

	first := eve.Sign(t, b, approval.Approve, nil)
	v := a.Update(t, run, first)
	require.True(t, v.Accepted, v.Detail)
	require.Equal(t, []contract.Group{{Role: "finance", Min: 1}}, v.Missing)
	require.True(t, a.Update(t, run, first).Accepted, "the same one counts once")
	refused(approval.Twice, eve.Sign(t, b, approval.Approve, nil))
	a.Signal(t, run, map[string]string{"what": "is this"})
	a.Signal(t, run, 7)
	a.Signal(t, run, fay.Sign(t, b, approval.Approve, nil))
	require.NoError(t, a.Await(t, run, nil))
	require.Equal(t, []string{`{"line":"one"}`}, a.Written(t))
	signed, err := a.Ledger().Task(t.Context(), b.Actions[0].Decision)
	require.NoError(t, err)
	require.Equal(t, task.StateExecuted, signed.Base().State)
	require.Equal(t, "fay-key", signed.(task.Executed).Signature.SignerID)
	require.NoError(t, a.Await(t, stage.Reset(t, a.Client(), run), nil))
	require.Len(t, a.Written(t), 1)

	// One rejection ends it.
	v = a.Update(t, other, fay.Sign(t, foreign, approval.Reject, nil))
	require.True(t, v.Accepted, v.Detail)
	require.Equal(t, contract.BarrierRejected, v.State)
	f := a.Fails(t, other)
	require.Equal(t, contract.Rejected, f.Kind)
	require.Contains(t, f.Message, "fay: not today")
	require.Len(t, a.Written(t), 1)
	drafts, err = a.Ledger().ListTasks(t.Context(), task.StateDraft, ledger.Page{})
	require.NoError(t, err)
	require.Empty(t, drafts)
}

// TestApprovedTogether: two people who sign at the same moment, each by update or by signal,
// both count, and once.
func TestApprovedTogether(t *testing.T) {
	t.Parallel()
	a := stage.Act(t, stage.Writes)
	people := []stage.Signer{a.Enrol(t, "eve", "editor"), a.Enrol(t, "fay", "finance")}
	digest := a.Publish(t, stage.ApprovedPlan)
	const rounds = 8 // each way of sending twice
	for n := range rounds {
		round := fmt.Sprint(n)
		run := a.Start(t, round, digest, `{"line":"`+round+`"}`)
		b := a.Asked(t, run, 1)[0]
		begin := make(chan struct{})
		var both errgroup.Group
		for i, who := range people {
			envelope, update := who.Sign(t, b, approval.Approve, nil), n>>i&1 == 0
			both.Go(func() error {
				<-begin
				if !update {
					return a.Client().SignalWorkflow(t.Context(), run.GetID(), "", contract.SignalSignature, envelope)
				}
				u, err := a.Client().UpdateWorkflow(t.Context(), client.UpdateWorkflowOptions{
					WorkflowID: run.GetID(), UpdateName: contract.UpdateSign, Args: []any{envelope}, WaitForStage: client.WorkflowUpdateStageCompleted,
				})
				var v contract.Verdict
				if err == nil {
					err = u.Get(t.Context(), &v)
				}
				if err == nil && !v.Accepted {
					err = fmt.Errorf("the signature does not count: %s: %s", v.Code, v.Detail)
				}
				return err
			})
		}
		close(begin)
		require.NoError(t, both.Wait(), round)
		require.NoError(t, a.Await(t, run, nil), round)
		all, err := a.Ledger().Approvals(t.Context(), b.ID, ledger.Page{})
		require.NoError(t, err)
		var counted []string
		for _, one := range all {
			require.True(t, one.Accepted, "%s: %s", round, one.Reason)
			counted = append(counted, one.Signer)
		}
		require.ElementsMatch(t, []string{people[0].ID, people[1].ID}, counted, round)
		require.Len(t, a.Written(t), n+1)
	}
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
// them, and a barrier that is not signed in time expires. A run that ends withdraws what it asks.
func TestBarriers(t *testing.T) {
	t.Parallel()
	a := stage.Act(t, stage.Writes)
	eve := a.Enrol(t, "eve", "editor")
	digest := a.Publish(t, groupPlan)
	run := a.Start(t, "both", digest, `{"line":"first"}`)
	b := a.Asked(t, run, 1)[0]
	require.Len(t, b.Actions, 2)
	require.ElementsMatch(t, []string{"a", "b"}, stage.State(t, a.Client(), run).Barriers[0].Nodes)
	a.Sign(t, run, b, approval.Approve, eve)
	require.NoError(t, a.Await(t, run, nil))
	require.ElementsMatch(t, []string{`{"line":"first"}`, `{"line":"second"}`}, a.Written(t))
	for _, n := range stage.State(t, a.Client(), run).Nodes {
		if n.ID == "late" {
			require.Equal(t, contract.Expired, n.Error.Kind)
		}
	}

	alone := a.Start(t, "alone", digest, `{"line":"alone"}`)
	b = a.Asked(t, alone, 1)[0]
	require.Len(t, b.Actions, 1, "a member that is skipped is not waited for")
	require.NoError(t, a.Client().CancelWorkflow(t.Context(), alone.GetID(), ""))
	require.Error(t, a.Await(t, alone, nil))
	withdrawn, err := a.Ledger().Barrier(t.Context(), b.ID)
	require.NoError(t, err)
	require.Equal(t, ledger.BarrierWithdrawn, withdrawn.State)
	require.Len(t, a.Written(t), 2)

	// A reset asks again what the end has withdrawn.
	again := stage.Reset(t, a.Client(), alone)
	require.NotEqual(t, b.ID, a.Next(t, again, b).ID)
	require.NoError(t, a.Client().CancelWorkflow(t.Context(), again.GetID(), ""))
	require.Error(t, a.Await(t, again, nil))
}

// TestABarrierOfMany: people sign for as many nodes as may share a barrier, or 50 with -short, by
// one envelope, and what that costs grows with their number.
func TestABarrierOfMany(t *testing.T) {
	t.Parallel()
	a := stage.Act(t, stage.Writes)
	eve := a.Enrol(t, "eve", "editor")
	members := 200
	if testing.Short() {
		members = 50
	}
	var nodes, edges []string
	for i := range members {
		asks := ""
		if i == 0 {
			asks = "approval: {groups: [{role: editor, min: 1}]}, "
		}
		nodes = append(nodes, fmt.Sprintf(`{id: w%d, template: book/write, with: {line: "%d"}, commit_policy: {barrier: all, %srollback: {none: "it stays"}}}`, i, i, asks))
		edges = append(edges, fmt.Sprintf("$input -> w%d", i))
	}
	run := a.Start(t, "many", a.Publish(t, fmt.Sprintf(`{apiVersion: chimera/v1, kind: Plan, name: many, version: "1", agent: tester, allow: [pure, committing],
  input_schema: {type: object}, output_schema: {type: object}, nodes: [%s], edges: [%s]}`, strings.Join(nodes, ", "), strings.Join(edges, ", "))), `{}`)
	a.Sign(t, run, a.Asked(t, run, 1)[0], approval.Approve, eve)
	require.NoError(t, a.Await(t, run, nil))
	require.Len(t, a.Written(t), members)
	t.Logf("%d events", stage.Length(run))
	require.Less(t, stage.Length(run), 20*members)
}

// TestABarrierCostsFewEvents: a run that waits at a barrier has few events, whether somebody
// signs or not, since it has one timer, until the barrier expires.
func TestABarrierCostsFewEvents(t *testing.T) {
	t.Parallel()
	a := stage.Act(t, stage.Writes)
	eve := a.Enrol(t, "eve", "editor")
	short := strings.Replace(stage.ApprovedPlan, ", {role: finance, min: 1}]", "], expires_in_ms: 3000", 1)
	run := a.Start(t, "expires", a.Publish(t, strings.Replace(short, "asks", "soon", 1)), `{"line":"one"}`)
	signed := a.Start(t, "signed", a.Publish(t, strings.Replace(short, "3000", "600000", 1)), `{"line":"two"}`)
	a.Signal(t, signed, eve.Sign(t, a.Asked(t, signed, 1)[0], approval.Approve, nil))
	require.NoError(t, a.Await(t, signed, nil))
	require.Equal(t, contract.Expired, a.Fails(t, run).Kind)
	require.Equal(t, []string{`{"line":"two"}`}, a.Written(t))
	for _, r := range []client.WorkflowRun{run, signed} {
		require.LessOrEqual(t, stage.Length(r), 50, r.GetID())
		require.LessOrEqual(t, stage.Timers(r), 3, "the deadline, the barrier, and that again")
	}
}

// TestABarrierHoldsUpNobody: while people are asked, 5,000 other nodes of a run, or 1,000 with
// -short, end in the one slot that it has, an effect follows them, and the run continues as
// new; then the effect that is asked about happens once.
func TestABarrierHoldsUpNobody(t *testing.T) {
	t.Parallel()
	a := stage.Act(t, stage.Writes)
	a.Options.ContinueAfter = 500
	a.Again(t)
	eve := a.Enrol(t, "eve", "editor")
	const long = 100
	chains := 50
	if testing.Short() {
		chains = 10
	}
	nodes := []string{
		`{id: write, template: book/write, commit_policy: {approval: {groups: [{role: editor, min: 1}]}, rollback: {none: "it stays"}}}`,
		`{id: all, template: book/write, with: {line: "all"}, commit_policy: {rollback: {none: "it stays"}}}`,
	}
	edges := []string{"$input.line -> write.line", "write.ok -> $output.ok"}
	for c := range chains {
		for i := range long {
			nodes = append(nodes, fmt.Sprintf("{id: c%dn%d, template: engine/pass, timeout_ms: 900}", c, i))
			if i > 0 {
				edges = append(edges, fmt.Sprintf("c%dn%d -> c%dn%d", c, i-1, c, i))
			}
		}
		edges = append(edges, fmt.Sprintf("c%dn%d -> all", c, long-1))
	}
	run := a.Start(t, "beside", a.Publish(t, fmt.Sprintf(`{apiVersion: chimera/v1, kind: Plan, name: beside, version: "1", agent: tester, allow: [pure, committing], limits: {max_parallel: 1},
  input_schema: {type: object, properties: {line: {type: string}}, required: [line]},
  output_schema: {type: object, properties: {ok: {type: boolean}}, required: [ok]},
  nodes: [%s], edges: [%s]}`, strings.Join(nodes, ",\n"), strings.Join(edges, ", "))), `{"line":"one"}`)
	b := stage.Asked(t, a.Ledger(), run, 1)[0]
	stage.Until(t, "all else has ended", func() bool { return len(a.Written(t)) == 1 })
	require.Equal(t, []string{`{"line":"all"}`}, a.Written(t))
	var s contract.State
	stage.Until(t, "the run knows", func() bool {
		s = stage.State(t, a.Client(), run)
		return s.Counts.Succeeded == chains*long+1
	})
	require.Equal(t, 1, s.Counts.Running)
	require.Len(t, s.Barriers, 1)
	require.Greater(t, s.Executions, 1, "it has continued as new")
	t.Logf("%d executions, %d events", s.Executions, stage.Length(run))
	require.Less(t, stage.Length(run), 3*chains*long, "a node does not pay for those who are asked")
	// A run that is about to continue as new asks for a signature again.
	envelope := eve.Sign(t, b, approval.Approve, nil)
	stage.Until(t, "the signature is looked at", func() bool { return a.Update(t, run, envelope).Code != contract.CodeAgain })
	require.NoError(t, a.Await(t, run, nil))
	require.Equal(t, []string{`{"line":"all"}`, `{"line":"one"}`}, a.Written(t))
}

// TestAGuardianAloneSkipsNobody: a guardian with a policy of its own permits what others must
// approve by that of effects, which does not call.
func TestAGuardianAloneSkipsNobody(t *testing.T) {
	t.Parallel()
	const floor, chief = "floor: [{groups: [{role: editor, min: 1}]}]", `lift: {"policy:letter": [chief]}`
	with := func(approval string) string {
		return strings.Replace(stage.ActingPolicy, "unmodelled", "approval: {"+approval+"}\nunmodelled", 1) +
			`  - {id: letter, type: soft, operations: [book/write], require: '!action.inputs.line.startsWith("Dear")', message: "a line is no letter"}` + "\n"
	}
	a := stage.ActBy(t, "book", stage.Writes, stage.ActingCatalog, with(floor+", "+chief))
	eve, rae := a.Enrol(t, "eve", "editor"), a.Enrol(t, "rae", "finance")
	plain, asks := a.Publish(t, stage.ActingPlan), a.Publish(t, stage.ApprovedPlan)
	thief := a.Options
	thief.Roles = []host.Role{host.RoleGuardian}
	a.Options.Roles = []host.Role{host.RoleEngine, host.RoleTools, host.RoleEffects}
	a.Again(t)
	for _, c := range []struct {
		name, approval, digest, line string
		signers                      []stage.Signer
		says                         string
	}{
		{"asks nobody", chief, plain, "one", nil, "people must approve, and nobody has"},
		{"asks the requester", floor + ", " + chief + ", may_sign: [requester, author, owner]", asks, "two", []stage.Signer{eve, rae}, "what people have signed: it does not exclude"},
		{"lets others lift", floor + `, lift: {"policy:letter": [editor]}`, plain, "Dear three", []stage.Signer{eve}, `it does not ask for 1 of the role "chief"`},
	} {
		thief.Policy = stage.Bundle(t, with(c.approval))
		h := stage.Rehearse(t, thief)
		run := a.Start(t, strings.ReplaceAll(c.name, " ", "-"), c.digest, `{"line":"`+c.line+`"}`)
		if c.signers != nil {
			a.Sign(t, run, a.Asked(t, run, 1)[0], approval.Approve, c.signers...)
		}
		f := a.Fails(t, run)
		require.Equal(t, contract.Blocked, f.Kind, "%s: %s", c.name, f.Message)
		require.Contains(t, f.Message, c.says, c.name)
		require.NoError(t, h.Close())
	}
	require.Empty(t, a.Written(t))
}
