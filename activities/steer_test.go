package activities_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	sdk "go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"chimera.ai/engine/approval"
	"chimera.ai/engine/client"
	"chimera.ai/engine/contract"
	"chimera.ai/engine/internal/lengthy"
	"chimera.ai/engine/internal/stage"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/trust"
)

// paused and resumed send a run an order until it is looked at, and return the answer.
func paused(t *testing.T, a *stage.Acting, run sdk.WorkflowRun, argument string) contract.Steering {
	t.Helper()
	return steered(t, a, run, contract.UpdatePause, argument)
}

func resumed(t *testing.T, a *stage.Acting, run sdk.WorkflowRun, argument string) contract.Steering {
	t.Helper()
	return steered(t, a, run, contract.UpdateResume, argument)
}

func steered(t *testing.T, a *stage.Acting, run sdk.WorkflowRun, order, argument string) (s contract.Steering) {
	t.Helper()
	stage.Until(t, "the order is looked at", func() bool {
		u, err := a.Client().UpdateWorkflow(t.Context(), sdk.UpdateWorkflowOptions{
			WorkflowID: run.GetID(), UpdateName: order, Args: []any{json.RawMessage(argument)}, WaitForStage: sdk.WorkflowUpdateStageCompleted,
		})
		require.NoError(t, err)
		var refused *temporal.ApplicationError
		if err := u.Get(t.Context(), &s); errors.As(err, &refused) {
			s = contract.Steering{Code: refused.Type(), Detail: refused.Message()}
		} else {
			require.NoError(t, err)
		}
		return s.Code != contract.CodeAgain
	})
	return s
}

// ordered is a signed order to a run.
func ordered(t *testing.T, a *stage.Acting, run sdk.WorkflowRun, key *trust.Key, o trust.Order) string {
	t.Helper()
	o.Deployment, o.Audience = "test", a.Root.Audience
	o, err := client.New(a.Client(), client.Options{}).Order(t.Context(), run.GetID(), o)
	require.NoError(t, err)
	e, err := o.Unsigned()
	require.NoError(t, err)
	require.NoError(t, e.Sign(key))
	raw, err := e.Encode()
	require.NoError(t, err)
	return string(raw)
}

// told lists the orders to a run that the ledger has.
func told(t *testing.T, a *stage.Acting, run sdk.WorkflowRun) (all []ledger.Order) {
	t.Helper()
	r, err := a.Ledger().Run(t.Context(), run.GetID(), "")
	require.NoError(t, err)
	records, err := a.Ledger().Chain(t.Context(), r.Chain(), 0, 1000)
	require.NoError(t, err)
	for _, x := range records {
		e, err := ledger.DecodeEntry(x.Bytes)
		require.NoError(t, err)
		if e.Kind != ledger.RunPaused && e.Kind != ledger.RunResumed {
			continue
		}
		raw, err := a.Ledger().Body(t.Context(), e.Body)
		require.NoError(t, err)
		body, err := ledger.DecodeBody(raw)
		require.NoError(t, err)
		var o ledger.Order
		require.NoError(t, json.Unmarshal(body.Data, &o))
		all = append(all, o)
	}
	return all
}

// TestOrders: a paused run starts nothing, takes signatures, and goes on when it is told to;
// the ledger says who has told it, and whether that was signed.
func TestOrders(t *testing.T) {
	t.Parallel()
	a := stage.Act(t, stage.Writes)
	eve, fay := a.Enrol(t, "eve", "editor"), a.Enrol(t, "fay", "finance")
	run := a.Start(t, "paused", a.Publish(t, stage.ApprovedPlan), `{"line":"one"}`)
	b := a.Asked(t, run, 1)[0]

	require.Equal(t, contract.CodeUnchanged, resumed(t, a, run, `{}`).Code)
	for _, bad := range []string{`7`, `[]`, `{"why":"x"}`, `{"reason":"` + strings.Repeat("x", contract.MaxOrderReason+1) + `"}`} {
		require.Equal(t, contract.CodeMalformed, paused(t, a, run, bad).Code, bad)
	}
	foreign := ordered(t, a, run, fay.Key, trust.Order{Order: trust.OrderPause, By: "eve", Signer: eve.ID})
	require.Equal(t, contract.CodeRefused, paused(t, a, run, foreign).Code, "another key has signed it")
	other := ordered(t, a, run, eve.Key, trust.Order{Order: trust.OrderResume, By: "eve", Signer: eve.ID})
	require.Equal(t, contract.CodeRefused, paused(t, a, run, other).Code, "it is another order")
	require.Empty(t, told(t, a, run))
	require.Equal(t, contract.RunRunning, stage.State(t, a.Client(), run).State)

	signed := ordered(t, a, run, eve.Key, trust.Order{Order: trust.OrderPause, By: "eve", Signer: eve.ID, Reason: "look `first`"})
	require.Equal(t, contract.Steering{Accepted: true, State: contract.RunPaused, Verified: true}, paused(t, a, run, signed))
	require.Equal(t, contract.CodeUnchanged, paused(t, a, run, `{}`).Code)
	state := stage.State(t, a.Client(), run)
	require.Equal(t, contract.RunPaused, state.State)
	require.Equal(t, contract.WaitResume, state.Waiting[0].Kind)
	require.Equal(t, "eve", state.Paused.By)
	require.Equal(t, eve.ID, state.Paused.Signer)
	require.Len(t, state.Barriers, 1)

	// People sign, and the effect waits.
	a.Sign(t, run, b, approval.Approve, eve, fay)
	stage.Until(t, "the run knows that it is approved", func() bool { return len(stage.State(t, a.Client(), run).Barriers) == 0 })
	require.Equal(t, contract.RunPaused, stage.State(t, a.Client(), run).State)
	require.Equal(t, contract.CodeRefused, resumed(t, a, run, signed).Code, "an order to pause")
	require.Empty(t, a.Written(t))
	require.Equal(t, contract.Steering{Accepted: true, State: contract.RunRunning}, resumed(t, a, run, `{"by":"bob","reason":"go"}`))
	require.NoError(t, a.Await(t, run, nil))
	require.Equal(t, []string{`{"line":"one"}`}, a.Written(t))
	_, err := client.New(a.Client(), client.Options{}).Pause(t.Context(), run.GetID(), json.RawMessage(`{}`))
	require.ErrorAs(t, err, new(*client.EndedError))
	all := told(t, a, run)
	require.Len(t, all, 2)
	require.Equal(t, ledger.Order{Kind: ledger.RunPaused, N: all[0].N, By: "eve", Reason: "look `first`", Signer: eve.ID, Signed: all[0].Signed}, all[0])
	require.JSONEq(t, signed, string(all[0].Signed))
	require.Equal(t, ledger.Order{Kind: ledger.RunResumed, N: all[1].N, By: "bob", Reason: "go"}, all[1])
	require.NoError(t, a.Await(t, stage.Reset(t, a.Client(), run), nil))
	require.Len(t, a.Written(t), 1)
}

const steps = `{apiVersion: chimera/v1, kind: Plan, name: steps, version: "1", agent: tester, allow: [pure, committing], limits: {deadline_ms: 3600000},
  input_schema: {type: object, properties: {line: {type: string}}, required: [line]},
  output_schema: {type: object, properties: {ok: {type: boolean}}, required: [ok]},
  nodes: [{id: first, template: engine/pass}, {id: write, template: book/write, commit_policy: {rollback: {none: "what is written stays"}}}],
  edges: [first -> write, $input.line -> write.line, write.ok -> $output.ok]}`

// startPaused starts a run that is paused before it is loaded.
func startPaused(t *testing.T, a *stage.Acting, name, digest string) sdk.WorkflowRun {
	t.Helper()
	load := stage.Gate(t, contract.ActivityLoad)
	run := a.Start(t, name, digest, `{"line":"one"}`)
	u, err := a.Client().UpdateWorkflow(t.Context(), sdk.UpdateWorkflowOptions{
		WorkflowID: run.GetID(), UpdateName: contract.UpdatePause, Args: []any{contract.Asked{By: "bob"}}, WaitForStage: sdk.WorkflowUpdateStageAccepted,
	})
	require.NoError(t, err)
	load()
	var s contract.Steering
	require.NoError(t, u.Get(t.Context(), &s))
	require.Equal(t, contract.RunPaused, s.State, s.Detail)
	return run
}

// TestPausedFromTheStart: an order that comes with the start pauses the run before its first
// node. Paused, it continues as new, and its deadline and a cancellation end it.
func TestPausedFromTheStart(t *testing.T) {
	t.Parallel()
	a := stage.Act(t, stage.Writes)
	a.Options.ContinueAfter = 40
	a.Again(t)
	digest := a.Publish(t, steps)
	late := startPaused(t, a, "late", digest)
	run := startPaused(t, a, "early", digest)
	cancelled := startPaused(t, a, "cancelled", digest)
	state := stage.State(t, a.Client(), run)
	require.Equal(t, contract.Counts{Pending: 2}, state.Counts)
	require.Equal(t, contract.Pause{Since: state.Paused.Since, By: "bob"}, *state.Paused)

	stage.Until(t, "it has continued as new twice", func() bool {
		for range 10 {
			a.Signal(t, run, map[string]string{"no": "signature"})
		}
		s := stage.State(t, a.Client(), run)
		require.Equal(t, contract.RunPaused, s.State)
		require.Equal(t, state.Paused, s.Paused)
		return s.Executions > 2
	})
	require.Empty(t, a.Written(t))
	s := resumed(t, a, run, `{}`)
	// An execution that is about to end may tell the ledger, and ask for the order again.
	require.True(t, s.Accepted || s.Code == contract.CodeUnchanged, "%+v", s)
	require.NoError(t, a.Await(t, run, nil))
	require.Len(t, a.Written(t), 1)
	require.Len(t, told(t, a, run), 2)

	require.NoError(t, a.Client().CancelWorkflow(t.Context(), cancelled.GetID(), ""))
	require.Error(t, a.Await(t, cancelled, nil))
	require.Equal(t, contract.RunCancelled, stage.State(t, a.Client(), cancelled).State)
	stage.Pass(late, time.Hour)
	require.Equal(t, contract.Deadline, a.Fails(t, late).Kind)
	require.Equal(t, contract.RunFailed, stage.State(t, a.Client(), late).State)
	require.Len(t, a.Written(t), 1)
}

// TestPausesAreBounded: a run is paused a hundred times by orders that nobody has signed, and
// then by signed ones alone. The log has each.
func TestPausesAreBounded(t *testing.T) {
	lengthy.Skip(t)
	t.Parallel()
	a := stage.Act(t, stage.Writes)
	eve := a.Enrol(t, "eve", "editor")
	a.Enrol(t, "fay", "finance")
	run := a.Start(t, "often", a.Publish(t, stage.ApprovedPlan), `{"line":"one"}`)
	a.Asked(t, run, 1)
	const most = 100
	for i := range most {
		require.True(t, paused(t, a, run, `{}`).Accepted, i)
		require.True(t, resumed(t, a, run, `{}`).Accepted, i)
	}
	require.Equal(t, contract.CodeUnsigned, paused(t, a, run, `{}`).Code)
	require.True(t, paused(t, a, run, ordered(t, a, run, eve.Key, trust.Order{Order: trust.OrderPause, By: "eve", Signer: eve.ID})).Verified)
	require.True(t, resumed(t, a, run, `{}`).Accepted, "a run can always be resumed")
	require.Equal(t, contract.CodeUnsigned, paused(t, a, run, `{}`).Code)
	require.Len(t, told(t, a, run), 2*most+2)
	require.NoError(t, a.Client().CancelWorkflow(t.Context(), run.GetID(), ""))
	require.Error(t, a.Await(t, run, nil))
}

// TestPausedWhileTheStoreIsAway: a run that is paused stays so while the ledger does not take
// what it is told. That waits, and then the run goes on.
func TestPausedWhileTheStoreIsAway(t *testing.T) {
	t.Parallel()
	a := stage.Act(t, stage.Writes)
	run := startPaused(t, a, "away", a.Publish(t, steps))
	away := make(chan int, 100)
	stage.Instead(t, contract.ActivitySteer, func(context.Context, any) (any, error) {
		away <- 1
		return nil, errors.New("the store is away")
	})
	answered := make(chan error, 1)
	go func() {
		s, err := client.New(a.Client(), client.Options{}).Resume(t.Context(), run.GetID(), json.RawMessage(`{"by":"bob"}`))
		if err == nil && !s.Accepted {
			err = fmt.Errorf("%+v", s)
		}
		answered <- err
	}()
	for range 2 {
		<-away
	}
	require.Equal(t, contract.RunPaused, stage.State(t, a.Client(), run).State)
	require.Empty(t, a.Written(t))
	stage.Instead(t, contract.ActivitySteer, nil)
	require.NoError(t, a.Await(t, run, nil))
	<-answered // who is not answered in time does not know; the order counts
	require.Len(t, a.Written(t), 1)
	require.Len(t, told(t, a, run), 2)
}
