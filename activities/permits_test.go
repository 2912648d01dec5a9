package activities_test

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/internal/stage"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/trust"
)

// restingPlan has an effect for which its run is not ready for a long time.
var restingPlan = strings.NewReplacer("name: acts", "name: rests", "nodes: [", `nodes: [
    {id: rest, template: engine/sleep, with: {ms: 600000}, timeout_ms: 700000},
    `, "edges: [", "edges: [rest -> write, ").Replace(stage.ActingPlan)

// TestNoPermitNoCall: without a permit of exactly this call, fresh and signed by a guardian
// of the admins, and a run that somebody has granted, the tool is not called, whoever asks.
func TestNoPermitNoCall(t *testing.T) {
	t.Parallel()
	a := stage.Act(t, `cat >> "$LINES_FILE"; echo >> "$LINES_FILE"; while [ ! -e "$LINES_FILE-go" ]; do sleep 0.01; done; echo '{"ok":true}'`)
	digest := a.Publish(t, restingPlan)
	run, other := a.Start(t, "open", digest, `{"line":"hello"}`), a.Start(t, "other", digest, `{"line":"hello"}`)
	const effect = "book/write"
	asks := func(what string, call contract.Call, out any) error {
		return stage.Ask(t, contract.QueueEffects, what, call, out)
	}
	refused := func(name string, what string, call contract.Call, want contract.Kind, says string) {
		t.Helper()
		var application *temporal.ApplicationError
		require.ErrorAs(t, asks(what, call, nil), &application, name)
		require.Equal(t, want, contract.Kind(application.Type()), "%s: %s", name, application.Message())
		require.Contains(t, application.Message(), says, name)
	}
	// decided asks the guardian, which does not know what the run is ready for.
	decided := func(run client.WorkflowRun) contract.Call {
		t.Helper()
		stage.Until(t, "it rests", func() bool { return stage.State(t, a.Client(), run).Counts.Running == 1 })
		call := contract.Call{
			Run: contract.Identity{Workflow: run.GetID(), Root: run.GetRunID(), Origin: run.GetRunID()}, Plan: digest, Node: 2, Visit: 1, Request: "rogue",
			Deliveries: []contract.Delivery{{Edge: 1, Value: contract.Value(`"hello"`)}},
		}
		var out contract.Decided
		require.NoError(t, asks(contract.ActivityDecide, call, &out))
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
	stranger, _, err := trust.NewKey()
	require.NoError(t, err)
	guardian, err := trust.ParseKey([]byte(a.GuardianKey))
	require.NoError(t, err)
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
			signed(c, guardian, func(p *trust.Permit) {
				p.Issued, p.Expires = ledger.At(time.Now().Add(-4*time.Minute)), ledger.At(time.Now().Add(-3*time.Minute))
			})
		}, contract.WorkerLost, "the permit was not used in time"},
		"of the future": {func(c *contract.Call) {
			signed(c, guardian, func(p *trust.Permit) {
				p.Issued, p.Expires = ledger.At(time.Now().Add(3*time.Minute)), ledger.At(time.Now().Add(4*time.Minute))
			})
		}, contract.Blocked, "the permit is not valid before"},
		"no envelope": {func(c *contract.Call) { c.Permit.Envelope = json.RawMessage(`{}`) }, contract.Blocked, ""},
	} {
		call := good
		permit := *good.Permit
		call.Permit, call.Deliveries = &permit, slices.Clone(good.Deliveries)
		c.change(&call)
		refused(name, effect, call, c.want, c.says)
	}

	// Nobody has granted the run, and an engine says that it runs; or it has the grant of
	// another run.
	of, err := a.Ledger().Run(t.Context(), run.GetID(), run.GetRunID())
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
		require.NoError(t, a.Ledger().OpenRun(t.Context(), lie))
		call.Run = contract.Identity{Workflow: lie.Workflow, Root: lie.Root, Origin: lie.Origin}
		refused(name, contract.ActivityDecide, call, contract.Blocked, c.says)
		refused(name, effect, call, contract.Blocked, c.says)
	}
	for name, start := range map[string]contract.Start{"by digest": {Plan: digest}, "by source": {Source: restingPlan}} {
		start.Input = json.RawMessage(`{"line":"hello"}`)
		ungranted, err := a.Client().ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: stage.RunID(t, name), TaskQueue: contract.QueueEngine}, contract.WorkflowType, start)
		require.NoError(t, err)
		f := stage.FailureOf(t, stage.Await(t, a.Client(), ungranted, nil))
		require.Equal(t, contract.Blocked, f.Kind, name)
		require.Contains(t, f.Message, "a run without a start grant may hold pure nodes only", name)
	}
	require.Empty(t, a.Written(t), "nothing was called")

	// The permit is for one call.
	called := make(chan error, 1)
	go func() { called <- asks(effect, good, nil) }()
	stage.Until(t, "the call is made", func() bool { return len(a.Written(t)) == 1 })
	refused("the same again", effect, good, contract.WorkerLost, "calling by another call")
	none := good
	none.Permit = nil
	refused("none, again", effect, none, contract.WorkerLost, "calling by another call")
	require.NoError(t, os.WriteFile(a.Lines+"-go", nil, 0o600))
	require.NoError(t, <-called)
	require.NoError(t, asks(effect, good, nil), "it is told what the call did")
	require.Len(t, a.Written(t), 1)

	// And for none after the run's end.
	require.NoError(t, a.Client().CancelWorkflow(t.Context(), other.GetID(), ""))
	require.Error(t, stage.Await(t, a.Client(), other, nil))
	refused("late", effect, foreign, contract.WorkerLost, "does not have the run as open")
	require.Len(t, a.Written(t), 1)
}
