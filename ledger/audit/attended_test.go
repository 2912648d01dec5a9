package audit_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/catalog"
	"chimera.ai/engine/guardian"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/ledger/audit"
	"chimera.ai/engine/ledger/ledgertest"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/policy"
	"chimera.ai/engine/trust"
)

// burns has the action permitted as an irreversible one, by a bundle, and by what the guardian
// says that people have approved.
func (d *deployment) burns(t testing.TB, b *policy.Bundle, a asked, approvals ...string) {
	t.Helper()
	gate, ds := guardian.New(b, &catalog.Catalog{Templates: []catalog.Template{{ProviderType: plan.Skill, Provider: "book", Operation: "burn", Mode: plan.Deter, Effect: plan.Irreversible}}})
	require.NotNil(t, gate, "%v", ds)
	rules, err := gate.Rules("book/burn")
	require.NoError(t, err)
	d.state(t, &trust.ActivateBundle{Digest: b.Digest()})
	e := guardian.Evidence{
		Action: burning(a.run), Budget: guardian.Budget{State: guardian.NoBudget}, Approved: true, Policy: d.keep(t, rules.Policy), Operation: d.keep(t, rules.Operation),
	}
	if len(approvals) > 0 {
		_, err := d.store.CloseBarrier(t.Context(), a.barrier.ID, ledger.BarrierApproved, "")
		require.NoError(t, err)
		a.ask.Barrier, a.ask.Approvals = a.barrier.ID, approvals
	}
	_, err = d.store.Authorize(t.Context(), a.run, a.ask, func(st ledger.Standing) (ledger.Ruling, error) {
		e.At, e.Calls = st.At, st.Calls
		record, err := gate.Again(&e)
		require.NoError(t, err)
		raw, err := record.Encode()
		require.NoError(t, err)
		evidence, err := json.Marshal(e)
		require.NoError(t, err)
		out, err := ledgertest.Rule(ledger.Approve)(st)
		out.Decision = ledger.Decision{Decision: string(record.Decision), Reason: record.Reason, PolicyDigest: record.PolicyDigest, Record: raw}
		out.Evidence = ledger.Packet{Parts: []ledger.Part{{Name: "action", Data: evidence}}}
		return out, err
	})
	require.NoError(t, err)
}

// burning is an irreversible action of a run.
func burning(r ledger.Run) *guardian.Action {
	return &guardian.Action{
		Agent: "bot", Plan: r.PlanDigest, Node: "n", Operation: "book/burn", Effect: plan.Irreversible, Inputs: json.RawMessage(`{}`),
		Taint: guardian.Taint{Ports: []string{}}, Run: guardian.Run{Workflow: r.Workflow, Origin: r.Origin, Path: "n/0"},
	}
}

// TestIrreversibleIsAttended: a guardian that says that people have approved an irreversible
// effect must have used their approvals, unless its bundle lets the effect go unattended.
func TestIrreversibleIsAttended(t *testing.T) {
	bundle := func(a policy.Allow) *policy.Bundle {
		return &policy.Bundle{Version: "1", Unmodelled: []string{"book/burn"}, Allow: []policy.Allow{a}, Rules: []policy.Rule{{ID: "any", Require: "true"}}}
	}
	plain, unattended := bundle(policy.Allow{}), bundle(policy.Allow{Unattended: true})
	for name, c := range map[string]struct {
		bundle *policy.Bundle
		by     []string
		says   string
	}{
		"by nobody":             {plain, nil, "which people must approve, and nobody's approval was used"},
		"by both":               {plain, []string{"cat", "dan"}, ""},
		"by one of two":         {plain, []string{"cat"}, "not enough people have approved it"},
		"by nobody, unattended": {unattended, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDeployment(t)
			keys := map[string]*trust.Key{"cat": secret(t), "dan": secret(t)}
			d.state(t, signerOf("cat", "cat", keys["cat"]), signerOf("dan", "dan", keys["dan"]))
			a := d.asksAbout(t, "x", func(r ledger.Run) (string, error) { return burning(r).Digest(nil) }, plan.FollowUp{})
			var used []string
			for _, signer := range c.by {
				used = append(used, d.accept(t, a, signer, keys[signer]))
			}
			d.burns(t, c.bundle, a, used...)
			d.drain(t)
			r := d.verify(t, nil)
			require.EqualValues(t, 1, r.Replayed, "%v", r.Problems)
			saysOfApprovals(t, r.Problems, c.says)
		})
	}
}

// saysOfApprovals checks that the first problem with authority is the one that is wanted, or, where
// want is "", that there are only those of permits, which in these tests are no guardian's.
func saysOfApprovals(t *testing.T, problems []audit.Problem, want string) {
	t.Helper()
	var found []string
	for _, p := range problems {
		if p.Kind == audit.BadAuthority {
			found = append(found, p.Message)
		}
	}
	require.NotEmpty(t, found, "the permits of these tests are no guardian's")
	if want != "" {
		require.Contains(t, found[0], want)
		return
	}
	for _, f := range found {
		require.Contains(t, f, "the permit of")
	}
}
