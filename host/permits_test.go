package host_test

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/internal/stage"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/trust"
)

// rogueCall asks an effect's worker for a call, as any client of the namespace can.
func rogueCall(ctx workflow.Context, call contract.Call) (contract.Outcome, error) {
	var out contract.Outcome
	err := workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue: contract.QueueEffects, StartToCloseTimeout: time.Minute, RetryPolicy: &temporal.RetryPolicy{MaximumAttempts: 1},
	}), "book/write", call).Get(ctx, &out)
	return out, err
}

// restingPlan has an effect for which its run is not ready for a long time.
var restingPlan = strings.NewReplacer("name: acts", "name: rests", "nodes: [", `nodes: [
    {id: rest, template: engine/sleep, with: {ms: 600000}, timeout_ms: 700000},
    `, "edges: [", "edges: [rest -> write, ", "commit_policy", "timeout_ms: 30000, commit_policy").Replace(actingPlan)

// TestNoPermitNoCall: without a permit of exactly this call, fresh and signed by a guardian
// of the admins, and a run that somebody has granted, the tool is not called, whoever asks.
func TestNoPermitNoCall(t *testing.T) {
	stage.Parallel(t)
	a := act(t, `cat >> "$LINES_FILE"; echo >> "$LINES_FILE"; until [ -e "$LINES_FILE.go" ]; do sleep 0.02; done; echo '{"ok":true}'`)
	digest := a.publish(t, restingPlan)
	run, other := a.start(t, "open", digest, `{"line":"hello"}`), a.start(t, "other", digest, `{"line":"hello"}`)
	rogue := worker.New(a.h.Client(), "rogue", worker.Options{})
	rogue.RegisterWorkflow(rogueCall)
	rogue.RegisterWorkflow(rogueDecide)
	require.NoError(t, rogue.Start())
	defer rogue.Stop()
	n := 0
	begin := func(what any, call contract.Call) client.WorkflowRun {
		t.Helper()
		n++
		asked, err := a.h.Client().ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: fmt.Sprint("rogue ", n), TaskQueue: "rogue"}, what, call)
		require.NoError(t, err)
		return asked
	}
	refused := func(name string, what any, call contract.Call, want contract.Kind, says string) {
		t.Helper()
		var application *temporal.ApplicationError
		require.ErrorAs(t, stage.Await(t, a.h.Client(), begin(what, call), nil), &application, name)
		require.Equal(t, want, kindOf(application), "%s: %s", name, application.Message())
		require.Contains(t, application.Message(), says, name)
	}
	// decided asks the guardian, which does not know what the run is ready for.
	decided := func(run client.WorkflowRun) contract.Call {
		t.Helper()
		stage.Until(t, "it rests", func() bool { return stage.State(t, a.h.Client(), run).Counts.Running == 1 })
		call := contract.Call{
			Run: contract.Identity{Workflow: run.GetID(), Root: run.GetRunID(), Origin: run.GetRunID()}, Plan: digest, Node: 2, Visit: 1, Request: "rogue",
			Deliveries: []contract.Delivery{{Edge: 1, Value: contract.Value(`"hello"`)}},
		}
		var out contract.Decided
		require.NoError(t, stage.Await(t, a.h.Client(), begin(rogueDecide, call), &out))
		require.NotNil(t, out.Permit)
		call.Permit = out.Permit
		return call
	}
	good, foreign := decided(run), decided(other)
	// signed is the permit with a change, signed by a key.
	signed := func(c *contract.Call, by *trust.Key, change func(*trust.Permit)) {
		p, err := trust.ReadPermit(c.Permit.Envelope)
		require.NoError(t, err)
		change(&p)
		c.Permit.Envelope, err = trust.SignPermit(by, p)
		require.NoError(t, err)
	}
	stranger := newKey(t)
	for name, c := range map[string]struct {
		change func(*contract.Call)
		want   contract.Kind
		says   string
	}{
		"none":             {func(c *contract.Call) { c.Permit = nil }, contract.WorkerLost, "permitted by another call"},
		"another salt":     {func(c *contract.Call) { c.Permit.Salt = []byte("x") }, contract.Blocked, "the permit is for the call"},
		"another argument": {func(c *contract.Call) { c.Deliveries[0].Value = json.RawMessage(`"other"`) }, contract.Blocked, "the permit is for the call"},
		"another run":      {func(c *contract.Call) { c.Run.Workflow = "nowhere" }, contract.WorkerLost, "does not have the run as open"},
		"another origin":   {func(c *contract.Call) { c.Run.Origin = "elsewhere" }, contract.Blocked, "another plan or origin"},
		"another visit":    {func(c *contract.Call) { c.Visit = 7 }, contract.Blocked, "the permit is for the invocation"},
		"another node":     {func(c *contract.Call) { c.Node = 0 }, contract.Contract, "has no effect"},
		"another's":        {func(c *contract.Call) { *c.Permit = *foreign.Permit }, contract.Blocked, "the permit is for the invocation"},
		"forged": {func(c *contract.Call) {
			signed(c, stranger, func(*trust.Permit) {})
		}, contract.Blocked, "has not signed the permit"},
		"expired": {func(c *contract.Call) {
			signed(c, a.guardianKey(t), func(p *trust.Permit) {
				p.Issued, p.Expires = ledger.At(time.Now().Add(-4*time.Minute)), ledger.At(time.Now().Add(-3*time.Minute))
			})
		}, contract.WorkerLost, "the permit was not used in time"},
		"of the future": {func(c *contract.Call) {
			signed(c, a.guardianKey(t), func(p *trust.Permit) {
				p.Issued, p.Expires = ledger.At(time.Now().Add(3*time.Minute)), ledger.At(time.Now().Add(4*time.Minute))
			})
		}, contract.Blocked, "the permit is not valid before"},
		"no envelope": {func(c *contract.Call) { c.Permit.Envelope = json.RawMessage(`{}`) }, contract.Blocked, ""},
	} {
		call := good
		permit := *good.Permit
		call.Permit, call.Deliveries = &permit, slices.Clone(good.Deliveries)
		c.change(&call)
		refused(name, rogueCall, call, c.want, c.says)
	}

	// Nobody has granted the run, and an engine says that it runs; or it has the grant of
	// another run.
	of, err := a.ledger().Run(t.Context(), run.GetID(), run.GetRunID())
	require.NoError(t, err)
	for name, c := range map[string]struct {
		change func(*ledger.Run)
		says   string
	}{
		"ungranted":         {func(r *ledger.Run) { r.Grant, r.GrantDigest, r.Requester = nil, "", "" }, "the run was started without a start grant"},
		"granted to others": {func(*ledger.Run) {}, "the grant is for"},
	} {
		lie, call := of, good
		lie.Workflow, lie.Root, lie.Origin = name, "root of "+name, "root of "+name
		c.change(&lie)
		require.NoError(t, a.ledger().OpenRun(t.Context(), lie))
		call.Run = contract.Identity{Workflow: lie.Workflow, Root: lie.Root, Origin: lie.Origin}
		refused(name, rogueDecide, call, contract.Blocked, c.says)
		refused(name, rogueCall, call, contract.Blocked, c.says)
	}
	for name, start := range map[string]contract.Start{"by digest": {Plan: digest}, "by source": {Source: restingPlan}} {
		start.Input = json.RawMessage(`{"line":"hello"}`)
		ungranted, err := a.h.Client().ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: runID(t, name), TaskQueue: contract.QueueEngine}, contract.WorkflowType, start)
		require.NoError(t, err)
		f := failureOf(t, stage.Await(t, a.h.Client(), ungranted, nil))
		require.Equal(t, contract.Blocked, f.Kind, name)
		require.Contains(t, f.Message, "a run without a start grant may hold pure nodes only", name)
	}
	require.Empty(t, a.written(t), "nothing was called")

	// The permit is for one call.
	called := begin(rogueCall, good)
	require.Eventually(t, func() bool { return len(a.written(t)) == 1 }, time.Minute, 10*time.Millisecond)
	refused("the same again", rogueCall, good, contract.WorkerLost, "calling by another call")
	none := good
	none.Permit = nil
	refused("none, again", rogueCall, none, contract.WorkerLost, "calling by another call")
	require.NoError(t, os.WriteFile(a.lines+".go", nil, 0o600))
	require.NoError(t, stage.Await(t, a.h.Client(), called, nil))
	require.NoError(t, stage.Await(t, a.h.Client(), begin(rogueCall, good), nil), "it is told what the call did")
	require.Len(t, a.written(t), 1)

	// And for none after the run's end.
	require.NoError(t, a.h.Client().CancelWorkflow(t.Context(), other.GetID(), ""))
	require.Error(t, stage.Await(t, a.h.Client(), other, nil))
	refused("late", rogueCall, foreign, contract.WorkerLost, "does not have the run as open")
	require.NoError(t, a.h.Client().TerminateWorkflow(t.Context(), run.GetID(), "", "seen enough"))
	require.Len(t, a.written(t), 1)
}
