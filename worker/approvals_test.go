package main

import (
	"encoding/json"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"chimera.ai/engine/approval"
	"chimera.ai/engine/contract"
	"chimera.ai/engine/host"
	"chimera.ai/engine/internal/pgtest"
	"chimera.ai/engine/internal/stage"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/ledger/audit"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/trust"
)

// approve makes an approval of a barrier.
func approve(t *testing.T, b ledger.Barrier, id, role string, key *trust.Key) json.RawMessage {
	t.Helper()
	r, digest, err := approval.ParseRequest(b.Request)
	require.NoError(t, err)
	p := r.Payload(digest, approval.Approve)
	p.Signer, p.Role, p.Nonce = id, role, plan.DigestOf([]byte(id + b.ID))[7:39]
	p.Issued, p.NotBefore, p.Expires = ledger.At(time.Now()), ledger.At(time.Now().Add(-time.Second)), r.Expires
	e, err := p.Unsigned()
	require.NoError(t, err)
	require.NoError(t, e.Sign(key))
	raw, err := e.Encode()
	require.NoError(t, err)
	return raw
}

// TestApprovalsInProduction: people approve an effect of four processes, by a client that has
// no key of theirs. Each of the processes is killed while the run waits, and between the two
// signatures.
func TestApprovalsInProduction(t *testing.T) {
	p := produce(t, pgtest.URL(t), host.Roles()...)
	keys := map[string]*trust.Key{}
	for id, role := range map[string]string{"eve": "editor", "fay": "finance", "rae": "editor"} {
		key, _, err := trust.NewKey()
		require.NoError(t, err)
		keys[id] = key
		p.State(t, p.ledger, &trust.EnrollSigner{
			ID: id, Person: id, Roles: []string{role}, SigType: trust.SigToken, PublicKey: key.Public(),
			NotBefore: ledger.At(time.Now().Add(-time.Hour)), NotAfter: ledger.At(time.Now().Add(time.Hour)),
		})
	}
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
	var open []ledger.Barrier
	stage.Until(t, "people are asked", func() bool {
		open, err = p.ledger.ListBarriers(t.Context(), ledger.BarrierOpen, ledger.Page{})
		return err == nil && len(open) == 1
	})
	again()
	v := update(run, approve(t, open[0], "rae", "editor", keys["rae"]))
	require.Equal(t, string(approval.Excluded), v.Code, "she has asked for the run")
	require.NoError(t, foreign.SignalWorkflow(t.Context(), run.GetID(), "", contract.SignalSignature, approve(t, open[0], "eve", "editor", keys["eve"])))
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
	v = update(run, approve(t, open[0], "fay", "finance", keys["fay"]))
	require.True(t, v.Accepted, v.Detail)
	require.NoError(t, run.Get(t.Context(), nil))
	require.Equal(t, []string{`{"line":"first"}`}, p.written(t))

	// Where nobody knows who has asked for the run, nobody can be kept from approving it.
	start := []string{p.Admin.Public()}
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
