package host_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	sdk "go.temporal.io/sdk/client"

	"chimera.ai/engine/approval"
	"chimera.ai/engine/client"
	"chimera.ai/engine/contract"
	"chimera.ai/engine/internal/lengthy"
	"chimera.ai/engine/internal/stage"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/trust"
)

// runs is a client of the deployment's runs.
func (a *acting) runs() *client.Client { return client.New(a.h.Client(), client.Options{}) }

// order is a signed order to a run.
func (a *acting) order(t *testing.T, run sdk.WorkflowRun, key *trust.Key, o trust.Order) json.RawMessage {
	t.Helper()
	o.Deployment, o.Audience = "test", a.Root.Audience
	o, err := a.runs().Order(t.Context(), run.GetID(), o)
	require.NoError(t, err)
	e, err := o.Unsigned()
	require.NoError(t, err)
	require.NoError(t, e.Sign(key))
	raw, err := e.Encode()
	require.NoError(t, err)
	return raw
}

// told lists the orders to a run that the ledger has.
func (a *acting) told(t *testing.T, run sdk.WorkflowRun) (all []ledger.Order) {
	t.Helper()
	l := a.ledger()
	r, err := l.Run(t.Context(), run.GetID(), "")
	require.NoError(t, err)
	records, err := l.Chain(t.Context(), r.Chain(), 0, 1000)
	require.NoError(t, err)
	for _, x := range records {
		e, err := ledger.DecodeEntry(x.Bytes)
		require.NoError(t, err)
		if e.Kind != ledger.RunPaused && e.Kind != ledger.RunResumed {
			continue
		}
		raw, err := l.Body(t.Context(), e.Body)
		require.NoError(t, err)
		body, err := ledger.DecodeBody(raw)
		require.NoError(t, err)
		var o ledger.Order
		require.NoError(t, json.Unmarshal(body.Data, &o))
		all = append(all, o)
	}
	return all
}

func (a *acting) pause(t *testing.T, run sdk.WorkflowRun, argument string) contract.Steering {
	t.Helper()
	s, err := a.runs().Pause(t.Context(), run.GetID(), json.RawMessage(argument))
	require.NoError(t, err)
	return s
}

func (a *acting) resume(t *testing.T, run sdk.WorkflowRun, argument string) contract.Steering {
	t.Helper()
	s, err := a.runs().Resume(t.Context(), run.GetID(), json.RawMessage(argument))
	require.NoError(t, err)
	return s
}

// TestPause: a paused run starts nothing, takes signatures, survives its workers, and goes on
// when it is told to; the ledger says who has told it, and whether that was signed.
func TestPause(t *testing.T) {
	stage.Parallel(t)
	a := act(t, writes)
	eve, fay := a.enrol(t, "eve", "editor"), a.enrol(t, "fay", "finance")
	digest := a.publish(t, approvedPlan)
	run := a.start(t, "paused", digest, `{"line":"one"}`)
	b := a.asked(t, run, 1)[0]

	require.Equal(t, contract.CodeUnchanged, a.resume(t, run, `{}`).Code)
	for _, bad := range []string{`7`, `[]`, `{"why":"x"}`, `{"reason":"` + strings.Repeat("x", contract.MaxOrderReason+1) + `"}`} {
		require.Equal(t, contract.CodeMalformed, a.pause(t, run, bad).Code, bad)
	}
	foreign := a.order(t, run, fay.Key, trust.Order{Order: trust.OrderPause, By: "eve", Signer: eve.ID})
	require.Equal(t, contract.CodeRefused, a.pause(t, run, string(foreign)).Code, "another key has signed it")
	other := a.order(t, run, eve.Key, trust.Order{Order: trust.OrderResume, By: "eve", Signer: eve.ID})
	require.Equal(t, contract.CodeRefused, a.pause(t, run, string(other)).Code, "it is another order")
	require.Empty(t, a.told(t, run))
	require.Equal(t, contract.RunRunning, stage.State(t, a.h.Client(), run).State)

	signed := a.order(t, run, eve.Key, trust.Order{Order: trust.OrderPause, By: "eve", Signer: eve.ID, Reason: "look `first`"})
	s := a.pause(t, run, string(signed))
	require.Equal(t, contract.Steering{Accepted: true, State: contract.RunPaused, Verified: true}, s)
	require.Equal(t, contract.CodeUnchanged, a.pause(t, run, `{}`).Code)
	state := stage.State(t, a.h.Client(), run)
	require.Equal(t, contract.RunPaused, state.State)
	require.Equal(t, contract.WaitResume, state.Waiting[0].Kind)
	require.Equal(t, "eve", state.Paused.By)
	require.Equal(t, eve.ID, state.Paused.Signer)
	require.Len(t, state.Barriers, 1)

	// People sign, and the effect waits, also while no worker is there.
	require.True(t, a.update(t, run, eve.Sign(t, b, approval.Approve, nil)).Accepted)
	require.True(t, a.update(t, run, fay.Sign(t, b, approval.Approve, nil)).Accepted)
	a.again(t)
	run = a.h.Client().GetWorkflow(t.Context(), run.GetID(), run.GetRunID())
	stage.Until(t, "the run knows that it is approved", func() bool { return len(stage.State(t, a.h.Client(), run).Barriers) == 0 })
	require.Equal(t, contract.RunPaused, stage.State(t, a.h.Client(), run).State)
	stuck, err := a.runs().Status(t.Context(), run.GetID())
	require.NoError(t, err)
	require.Nil(t, stuck.Stuck)
	require.Empty(t, a.written(t))

	require.Equal(t, contract.CodeRefused, a.resume(t, run, string(signed)).Code, "an order to pause")
	s = a.resume(t, run, `{"by":"bob","reason":"go"}`)
	require.Equal(t, contract.Steering{Accepted: true, State: contract.RunRunning}, s)
	require.NoError(t, stage.Await(t, a.h.Client(), run, nil))
	require.Equal(t, []string{`{"line":"one"}`}, a.written(t))
	_, err = a.runs().Pause(t.Context(), run.GetID(), json.RawMessage(`{}`))
	require.ErrorAs(t, err, new(*client.EndedError))
	told := a.told(t, run)
	require.Len(t, told, 2)
	require.Equal(t, ledger.Order{Kind: ledger.RunPaused, N: told[0].N, By: "eve", Reason: "look `first`", Signer: eve.ID, Signed: told[0].Signed}, told[0])
	require.JSONEq(t, string(signed), string(told[0].Signed))
	require.Equal(t, ledger.Order{Kind: ledger.RunResumed, N: told[1].N, By: "bob", Reason: "go"}, told[1])
	a.replays(t, run)

	// A reset applies what came after it again, and does nothing twice.
	tasks := events(t, a.h.Client(), run, enumspb.EVENT_TYPE_WORKFLOW_TASK_COMPLETED)
	for _, e := range tasks {
		again := a.reset(t, run, e.GetEventId())
		stage.Until(t, "the run goes on", func() bool {
			_, _ = a.runs().Resume(t.Context(), run.GetID(), json.RawMessage(`{}`))
			d, err := a.h.Client().DescribeWorkflowExecution(t.Context(), again.GetID(), again.GetRunID())
			require.NoError(t, err)
			return d.GetWorkflowExecutionInfo().GetStatus() != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING
		})
		require.NoError(t, stage.Await(t, a.h.Client(), again, nil))
		a.replays(t, again)
	}
	require.Len(t, a.written(t), 1)
}

const steps = `{apiVersion: chimera/v1, kind: Plan, name: steps-%d, version: "1", agent: tester, allow: [pure, committing], limits: {deadline_ms: %[1]d},
  input_schema: {type: object, properties: {line: {type: string}}, required: [line]},
  output_schema: {type: object, properties: {ok: {type: boolean}}, required: [ok]},
  nodes: [{id: first, template: engine/sleep, timeout_ms: 500, with: {ms: 1}}, {id: write, template: book/write, commit_policy: {rollback: {none: "what is written stays"}}}],
  edges: [first -> write, $input.line -> write.line, write.ok -> $output.ok]}`

// startPaused starts a run with an order to pause, which comes before the run is loaded.
func (a *acting) startPaused(t *testing.T, name, digest string) sdk.WorkflowRun {
	t.Helper()
	const input = `{"line":"one"}`
	id := runID(t, name)
	start := a.h.Client().NewWithStartWorkflowOperation(sdk.StartWorkflowOptions{
		ID: id, TaskQueue: contract.QueueEngine, WorkflowIDConflictPolicy: enumspb.WORKFLOW_ID_CONFLICT_POLICY_FAIL,
	}, contract.WorkflowType, contract.Start{Plan: digest, Input: json.RawMessage(input), Grant: a.Grant(t, id, digest, input)})
	u, err := a.h.Client().UpdateWithStartWorkflow(t.Context(), sdk.UpdateWithStartWorkflowOptions{
		StartWorkflowOperation: start, UpdateOptions: sdk.UpdateWorkflowOptions{
			WorkflowID: id, UpdateName: contract.UpdatePause, Args: []any{contract.Asked{By: "bob"}}, WaitForStage: sdk.WorkflowUpdateStageCompleted,
		},
	})
	require.NoError(t, err)
	var s contract.Steering
	require.NoError(t, u.Get(t.Context(), &s))
	require.Equal(t, contract.RunPaused, s.State, s.Detail)
	run, err := start.Get(t.Context())
	require.NoError(t, err)
	return run
}

// TestPausedFromTheStart: an order that comes with the start pauses the run before its first
// node. Paused, it continues as new, and its deadline and a cancellation end it.
func TestPausedFromTheStart(t *testing.T) {
	stage.Parallel(t)
	a := act(t, writes)
	a.options.ContinueAfter = 40
	a.again(t)
	long, short := a.publish(t, fmt.Sprintf(steps, 600_000)), a.publish(t, fmt.Sprintf(steps, 5000))
	late := a.startPaused(t, "late", short)
	run := a.startPaused(t, "early", long)
	cancelled := a.startPaused(t, "cancelled", long)
	state := stage.State(t, a.h.Client(), run)
	require.Equal(t, contract.Counts{Pending: 2}, state.Counts)
	require.Equal(t, contract.Pause{Since: state.Paused.Since, By: "bob"}, *state.Paused)

	executions := 0
	stage.Until(t, "it has continued as new twice", func() bool {
		for range 10 {
			a.signal(t, run, map[string]string{"no": "signature"})
		}
		s := stage.State(t, a.h.Client(), a.h.Client().GetWorkflow(t.Context(), run.GetID(), ""))
		executions = s.Executions
		require.Equal(t, contract.RunPaused, s.State)
		require.Equal(t, state.Paused, s.Paused)
		return executions > 2
	})
	require.Empty(t, a.written(t))
	require.True(t, a.resume(t, run, `{}`).Accepted)
	require.NoError(t, stage.Await(t, a.h.Client(), run, nil))
	require.Len(t, a.written(t), 1)
	require.Len(t, a.told(t, run), 2)

	require.NoError(t, a.h.Client().CancelWorkflow(t.Context(), cancelled.GetID(), ""))
	require.Error(t, stage.Await(t, a.h.Client(), cancelled, nil))
	require.Equal(t, contract.RunCancelled, stage.State(t, a.h.Client(), cancelled).State)
	a.replays(t, cancelled)
	require.Equal(t, contract.Deadline, failureOf(t, stage.Await(t, a.h.Client(), late, nil)).Kind)
	a.replays(t, late)
	require.Equal(t, contract.RunFailed, stage.State(t, a.h.Client(), late).State)
	require.Len(t, a.written(t), 1)
}

// TestPausesAreBounded: a run is paused a hundred times by orders that nobody has signed, and
// then by signed ones alone. The log has each.
func TestPausesAreBounded(t *testing.T) {
	lengthy.Skip(t)
	stage.Parallel(t)
	a := act(t, writes)
	eve := a.enrol(t, "eve", "editor")
	a.enrol(t, "fay", "finance")
	run := a.start(t, "often", a.publish(t, approvedPlan), `{"line":"one"}`)
	a.asked(t, run, 1)
	const most = 100
	for i := range most {
		require.True(t, a.pause(t, run, `{}`).Accepted, i)
		require.True(t, a.resume(t, run, `{}`).Accepted, i)
	}
	require.Equal(t, contract.CodeUnsigned, a.pause(t, run, `{}`).Code)
	signed := func(order string) string {
		return string(a.order(t, run, eve.Key, trust.Order{Order: order, By: "eve", Signer: eve.ID}))
	}
	require.True(t, a.pause(t, run, signed(trust.OrderPause)).Verified)
	require.True(t, a.resume(t, run, `{}`).Accepted, "a run can always be resumed")
	require.Equal(t, contract.CodeUnsigned, a.pause(t, run, `{}`).Code)
	require.Len(t, a.told(t, run), 2*most+2)
	require.NoError(t, a.h.Client().CancelWorkflow(t.Context(), run.GetID(), ""))
	require.Error(t, stage.Await(t, a.h.Client(), run, nil))
}

// locked lets nobody write to the ledger until free is called.
func (a *acting) locked(t *testing.T) (free func()) {
	t.Helper()
	if a.of != nil {
		conn, err := pgx.Connect(t.Context(), a.of.Store.URL)
		require.NoError(t, err)
		_, err = conn.Exec(t.Context(), "BEGIN; LOCK TABLE entries IN EXCLUSIVE MODE")
		require.NoError(t, err)
		return func() { require.NoError(t, conn.Close(context.WithoutCancel(t.Context()))) }
	}
	db, err := sql.Open("sqlite", filepath.Join(a.options.Store.Dir, "ledger.db"))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	conn, err := db.Conn(t.Context())
	require.NoError(t, err)
	_, err = conn.ExecContext(t.Context(), "PRAGMA busy_timeout = 60000")
	require.NoError(t, err)
	_, err = conn.ExecContext(t.Context(), "BEGIN IMMEDIATE")
	require.NoError(t, err)
	return func() {
		_, err := conn.ExecContext(t.Context(), "ROLLBACK")
		require.NoError(t, err)
		require.NoError(t, conn.Close())
	}
}

// TestPausedWhileTheStoreIsAway: a run that is paused stays so while the store is away. What it
// is told meanwhile waits for the store, and then it goes on.
func TestPausedWhileTheStoreIsAway(t *testing.T) {
	lengthy.Skip(t)
	stage.Parallel(t)
	a := act(t, writes)
	run := a.startPaused(t, "away", a.publish(t, fmt.Sprintf(steps, 600_000)))
	free := a.locked(t)
	type answer struct {
		contract.Steering
		err error
	}
	resumed := make(chan answer, 1)
	go func() {
		s, err := a.runs().Resume(t.Context(), run.GetID(), json.RawMessage(`{"by":"bob"}`))
		resumed <- answer{s, err}
	}()
	stage.Until(t, "the ledger does not take the order", func() bool {
		d, err := a.h.Client().DescribeWorkflowExecution(t.Context(), run.GetID(), "")
		require.NoError(t, err)
		return slices.ContainsFunc(d.GetPendingActivities(), func(p *workflowpb.PendingActivityInfo) bool {
			return p.GetActivityType().GetName() == contract.ActivitySteer && p.GetAttempt() > 1
		})
	})
	require.Equal(t, contract.RunPaused, stage.State(t, a.h.Client(), run).State)
	require.Empty(t, a.written(t))
	free()
	require.NoError(t, stage.Await(t, a.h.Client(), run, nil))
	told := <-resumed
	require.True(t, told.Accepted || told.err != nil, "who is not answered in time does not know; the order counts")
	require.Len(t, a.written(t), 1)
	require.Len(t, a.told(t, run), 2)
	a.replays(t, run)
}
