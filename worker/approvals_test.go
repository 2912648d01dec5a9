package main

import (
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"chimera.ai/engine/approval"
	"chimera.ai/engine/contract"
	"chimera.ai/engine/host"
	"chimera.ai/engine/internal/lengthy"
	"chimera.ai/engine/internal/pgtest"
	"chimera.ai/engine/internal/stage"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/ledger/audit"
	"chimera.ai/engine/trust"
)

// TestApprovalsInProduction: people approve an effect of four processes, by a client that has
// no key of theirs. Each of the processes is killed while the run waits, and between the two
// signatures.
func TestApprovalsInProduction(t *testing.T) {
	lengthy.Skip(t)
	p := produce(t, pgtest.URL(t), host.Roles()...)
	eve := p.Enrol(t, p.ledger, trust.SigToken, "eve", "editor")
	fay := p.Enrol(t, p.ledger, trust.SigToken, "fay", "finance")
	rae := p.Enrol(t, p.ledger, trust.SigToken, "rae", "editor")
	foreign, err := client.Dial(client.Options{HostPort: stage.Temporal(t).Address})
	require.NoError(t, err)
	defer foreign.Close()
	update := func(run client.WorkflowRun, envelope json.RawMessage) (v contract.Verdict) {
		u, err := foreign.UpdateWorkflow(t.Context(), client.UpdateWorkflowOptions{
			WorkflowID: run.GetID(), UpdateName: contract.UpdateSign, Args: []any{envelope}, WaitForStage: client.WorkflowUpdateStageCompleted,
		})
		require.NoError(t, err)
		require.NoError(t, u.Get(t.Context(), &v))
		return v
	}
	again := func() {
		for _, role := range host.Roles() {
			p.kill(role)
			p.spawn(t, role)
		}
	}
	run := p.startOf(t, "asks@1", "asks", "first")
	open := stage.Asked(t, p.ledger, run, 1)
	again()
	v := update(run, rae.Sign(t, open[0], approval.Approve, nil))
	require.Equal(t, string(approval.Excluded), v.Code, "she has asked for the run")
	require.NoError(t, foreign.SignalWorkflow(t.Context(), run.GetID(), "", contract.SignalSignature, eve.Sign(t, open[0], approval.Approve, nil)))
	stage.Until(t, "the first has signed", func() bool {
		list, err := p.ledger.Approvals(t.Context(), open[0].ID, ledger.Page{})
		require.NoError(t, err)
		for _, a := range list {
			if a.Accepted {
				return true
			}
		}
		return false
	})
	require.Empty(t, p.written(t))
	again()
	v = update(run, fay.Sign(t, open[0], approval.Approve, nil))
	require.True(t, v.Accepted, v.Detail)
	require.NoError(t, run.Get(t.Context(), nil))
	require.Equal(t, []string{`{"line":"first"}`}, p.written(t))

	// Where nobody knows who has asked for the run, nobody can be kept from approving it.
	start := []string{p.Starter.Public()}
	p.State(t, p.ledger, &trust.SetAgentKeys{AgentID: "tester", Keys: start, Vouching: start})
	unknown := p.startOf(t, "asks@1", "unknown", "second")
	require.ErrorContains(t, unknown.Get(t.Context(), nil), "may speak for")

	stage.Until(t, "all is in the log", func() bool {
		waiting, err := p.ledger.Pending(t.Context(), 1)
		return err == nil && len(waiting) == 0
	})
	dir := filepath.Join(t.TempDir(), "export")
	_, err = audit.Export(t.Context(), p.ledger, dir)
	require.NoError(t, err)
	report, err := audit.Verify(dir, audit.Trust{Format: audit.TrustFormat, Origin: p.Root.Log.Origin, Log: p.Root.Log.Key, Bootstrap: p.Root, Audience: string(p.Root.Audience)}, nil)
	require.NoError(t, err)
	require.True(t, report.OK, "%v", report.Problems)
	require.EqualValues(t, 3, report.Replayed)
}
