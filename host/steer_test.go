package host_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	sdk "go.temporal.io/sdk/client"

	"chimera.ai/engine/approval"
	"chimera.ai/engine/client"
	"chimera.ai/engine/contract"
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
	run := a.start(t, "paused", a.publish(t, approvedPlan), `{"line":"one"}`)
	b := a.asked(t, run, 1)[0]
	signed := a.order(t, run, eve.Key, trust.Order{Order: trust.OrderPause, By: "eve", Signer: eve.ID, Reason: "look `first`"})
	s := a.pause(t, run, string(signed))
	require.Equal(t, contract.Steering{Accepted: true, State: contract.RunPaused, Verified: true}, s)

	// People sign, and the effect waits, also while no worker is there.
	a.sign(t, run, b, approval.Approve, eve, fay)
	a.again(t)
	run = a.h.Client().GetWorkflow(t.Context(), run.GetID(), run.GetRunID())
	stage.Until(t, "the run knows that it is approved", func() bool { return len(stage.State(t, a.h.Client(), run).Barriers) == 0 })
	require.Equal(t, contract.RunPaused, stage.State(t, a.h.Client(), run).State)
	stuck, err := a.runs().Status(t.Context(), run.GetID())
	require.NoError(t, err)
	require.Nil(t, stuck.Stuck)
	require.Empty(t, a.written(t))

	s = a.resume(t, run, `{"by":"bob","reason":"go"}`)
	require.Equal(t, contract.Steering{Accepted: true, State: contract.RunRunning}, s)
	require.NoError(t, stage.Await(t, a.h.Client(), run, nil))
	require.Equal(t, []string{`{"line":"one"}`}, a.written(t))
	told := a.told(t, run)
	require.Len(t, told, 2)
	require.Equal(t, ledger.Order{Kind: ledger.RunPaused, N: told[0].N, By: "eve", Reason: "look `first`", Signer: eve.ID, Signed: told[0].Signed}, told[0])
	require.JSONEq(t, string(signed), string(told[0].Signed))
	require.Equal(t, ledger.Order{Kind: ledger.RunResumed, N: told[1].N, By: "bob", Reason: "go"}, told[1])
	a.replays(t, run)

	// A reset applies what came after it again, and does nothing twice.
	tasks := events(t, a.h.Client(), run, enumspb.EVENT_TYPE_WORKFLOW_TASK_COMPLETED)
	again := a.reset(t, run, tasks[len(tasks)/2].GetEventId())
	stage.Until(t, "the run goes on", func() bool {
		_, _ = a.runs().Resume(t.Context(), run.GetID(), json.RawMessage(`{}`))
		d, err := a.h.Client().DescribeWorkflowExecution(t.Context(), again.GetID(), again.GetRunID())
		require.NoError(t, err)
		return d.GetWorkflowExecutionInfo().GetStatus() != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING
	})
	require.NoError(t, stage.Await(t, a.h.Client(), again, nil))
	a.replays(t, again)
	require.Len(t, a.written(t), 1)
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
