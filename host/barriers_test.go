package host_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	sdkpb "go.temporal.io/api/sdk/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"golang.org/x/sync/errgroup"

	"chimera.ai/engine/approval"
	"chimera.ai/engine/contract"
	"chimera.ai/engine/host"
	"chimera.ai/engine/internal/lengthy"
	"chimera.ai/engine/internal/stage"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/task"
	"chimera.ai/engine/trust"
)

// enrol enrols a person with a key of development, or in production with one that is stated to
// be on a token.
func (a *acting) enrol(t *testing.T, person string, roles ...string) stage.Signer {
	t.Helper()
	return a.Enrol(t, a.ledger(), a.signs(), person, roles...)
}

// signs is the type of the keys of those who sign.
func (a *acting) signs() string {
	if a.of != nil {
		return trust.SigToken
	}
	return trust.SigDev
}

// asked waits until people are asked, by so many barriers, and the run knows that.
func (a *acting) asked(t *testing.T, run client.WorkflowRun, barriers int) []ledger.Barrier {
	t.Helper()
	all := stage.Asked(t, a.ledger(), run, barriers)
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
	eve, fay := a.enrol(t, "eve", "editor"), a.enrol(t, "fay", "finance")
	rae, ada := a.enrol(t, "rae", "editor", "finance"), a.enrol(t, "ada", "editor")
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
	drafts, err := a.ledger().ListTasks(t.Context(), task.StateDraft, ledger.Page{})
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
	signed, err := a.ledger().Task(t.Context(), b.Actions[0].Decision)
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
	drafts, err = a.ledger().ListTasks(t.Context(), task.StateDraft, ledger.Page{})
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
	eve := a.enrol(t, "eve", "editor")
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
	b, err := a.ledger().Barrier(t.Context(), b.ID)
	require.NoError(t, err)
	require.Equal(t, ledger.BarrierWithdrawn, b.State)
	require.Len(t, a.written(t), 2)
	a.replays(t, alone)
}

var flood = flag.Int("flood", 1200, "how many forged signatures TestFlood sends at full speed")

// forgers are clients that flood a run with forged signatures, each of them another.
type forgers struct {
	*acting
	run     client.WorkflowRun
	barrier ledger.Barrier
	clients []client.Client
	forged  []json.RawMessage
	sent    atomic.Int64
}

// floods starts a run that is to be flooded with so many signatures, by signers whose key is
// another's.
func (a *acting) floods(t *testing.T, name, digest string, size int, key *trust.Key, as ...stage.Signer) *forgers {
	t.Helper()
	f := &forgers{acting: a, run: a.start(t, name, digest, `{"line":"`+name+`"}`)}
	f.barrier = a.asked(t, f.run, 1)[0]
	for range 4 {
		c, err := client.Dial(client.Options{HostPort: stage.Temporal(t).Address, Logger: slog.New(slog.DiscardHandler)})
		require.NoError(t, err)
		t.Cleanup(c.Close)
		f.clients = append(f.clients, c)
	}
	for n := range size {
		s := as[n%len(as)]
		s.Key = key
		f.forged = append(f.forged, s.Sign(t, f.barrier, approval.Approve, nil))
	}
	return f
}

// send sends what one of the clients has to send, one at each tick, or at full speed if each
// is nil.
func (f *forgers) send(ctx context.Context, from int, each <-chan time.Time) error {
	for n := from; n < len(f.forged); {
		if each != nil {
			<-each
		}
		err := f.clients[from].SignalWorkflow(ctx, f.run.GetID(), "", contract.SignalSignature, f.forged[n])
		switch {
		case err == nil:
			f.sent.Add(1)
			n += len(f.clients)
		case errors.As(err, new(*serviceerror.DeadlineExceeded)), errors.As(err, new(*serviceerror.InvalidArgument)):
			// The server is busy, or takes no more in this execution.
		default:
			return err
		}
	}
	return nil
}

// signed is how an honest signature fared, and when that was known.
type signed struct {
	verdict contract.Verdict
	err     error
	at      time.Time
}

// sign sends an honest signature as the command line does, until it is looked at.
func (f *forgers) sign(t *testing.T, s stage.Signer) func() time.Time {
	t.Helper()
	envelope, end := s.Sign(t, f.barrier, approval.Approve, nil), make(chan signed, 1)
	go func() {
		v, err := f.runs().Sign(t.Context(), f.run.GetID(), envelope)
		end <- signed{v, err, time.Now()}
	}()
	return func() time.Time {
		t.Helper()
		x := <-end
		require.NoError(t, x.err)
		require.True(t, x.verdict.Accepted, x.verdict.Detail)
		return x.at
	}
}

// ended holds that the run, from its first execution on, had both honest signatures and no
// other, and cost little. It returns the number of executions.
func (f *forgers) ended(t *testing.T, first string) int {
	t.Helper()
	require.NoError(t, stage.Await(t, f.h.Client(), f.run, nil))
	most, all := 0, executions(t, f.h.Client(), f.run.GetID(), first)
	for _, run := range all {
		history := events(t, f.h.Client(), run, enumspb.EVENT_TYPE_UNSPECIFIED)
		require.NotEqual(t, enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_TERMINATED, history[len(history)-1].GetEventType())
		most = max(most, len(history))
	}
	require.Less(t, most, 12_000)
	l := f.ledger()
	list, err := l.Approvals(t.Context(), f.barrier.ID, ledger.Page{})
	require.NoError(t, err)
	var accepted []string
	for _, a := range list {
		if a.Accepted {
			accepted = append(accepted, a.Signer)
		}
	}
	require.ElementsMatch(t, []string{"eve-key", "fay-key"}, accepted)
	require.Len(t, list, ledger.MaxRefused+2, "the ledger does not grow with the flood")
	r, err := l.Run(t.Context(), f.run.GetID(), "")
	require.NoError(t, err)
	chain, err := l.Chain(t.Context(), r.Chain(), 0, 1000)
	require.NoError(t, err)
	require.Less(t, len(chain), ledger.MaxRefused+30)
	b, err := l.Barrier(t.Context(), f.barrier.ID)
	require.NoError(t, err)
	t.Logf("%s: %d forged, looked at %d times; %d executions, of %d events at most; %d entries in the ledger",
		f.run.GetID(), f.sent.Load(), b.Refused, len(all), most, len(chain))
	return len(all)
}

// TestFlood: many forged signatures cost executions, and not the approval: it counts within
// 30 s of the end of a flood at full speed, and within 5 s while 50 are forged a second.
func TestFlood(t *testing.T) {
	lengthy.Skip(t)
	stage.Parallel(t)
	a := act(t, writes)
	eve, fay, zoe := a.enrol(t, "eve", "editor"), a.enrol(t, "fay", "finance"), a.enrol(t, "zoe", "nothing")
	digest := a.publish(t, approvedPlan)

	f := a.floods(t, "flooded", digest, *flood, zoe.Key, eve, fay, zoe)
	first := f.run.GetRunID()
	var senders errgroup.Group
	begun := time.Now()
	for from := range f.clients {
		senders.Go(func() error { return f.send(t.Context(), from, nil) })
	}
	stage.Until(t, "half is sent", func() bool { return f.sent.Load() >= int64(*flood)/2 })
	amid := f.sign(t, eve)
	require.NoError(t, senders.Wait())
	over := time.Now()
	afterwards := f.sign(t, fay)
	one, other := amid().Sub(over), afterwards().Sub(over)
	t.Logf("%d forged in %s: what was signed amid them counted %s after the last, and what was signed then, %s", *flood, over.Sub(begun), one, other)
	require.Less(t, max(one, other), 30*time.Second)
	require.Greater(t, f.ended(t, first), 1, "the run has continued as new")

	f = a.floods(t, "steady", digest, 3000, zoe.Key, eve, fay, zoe)
	first = f.run.GetRunID()
	each := time.NewTicker(time.Second / 50)
	defer each.Stop()
	for from := range f.clients {
		senders.Go(func() error { return f.send(t.Context(), from, each.C) })
	}
	for i, s := range []stage.Signer{eve, fay} {
		stage.Until(t, "many are sent", func() bool { return f.sent.Load() >= int64(200*(i+1)) })
		begun := time.Now()
		took := f.sign(t, s)().Sub(begun)
		t.Logf("at 50 forged a second, a signature counted after %s", took)
		require.Less(t, took, 5*time.Second)
	}
	f.ended(t, first)
	require.ErrorAs(t, senders.Wait(), new(*serviceerror.NotFound), "they forge until the run has ended")
	require.Equal(t, []string{`{"line":"flooded"}`, `{"line":"steady"}`}, a.written(t))
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
	eve, rae := a.enrol(t, "eve", "editor"), a.enrol(t, "rae", "finance")
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
		h := a.thieve(t, thief)
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
