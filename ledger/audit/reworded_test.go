package audit_test

import (
	"encoding/hex"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/catalog"
	"chimera.ai/engine/fingerprint"
	"chimera.ai/engine/guardian"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/ledger/audit"
	"chimera.ai/engine/ledger/ledgertest"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/policy"
	"chimera.ai/engine/trust"
)

// TestReworded: a guardian that permits a call of a tool other than the pinned one must have had people
// approve it, and the tool may differ in its words alone. A permit is for the call of its decision.
func TestReworded(t *testing.T) {
	const pinned = `{"name":"pay","description":"Pays.","inputSchema":{"type":"object"}}`
	other, wider := strings.Replace(pinned, "Pays.", "Pays twice.", 1), strings.Replace(pinned, `{"type":"object"}`, `{}`, 1)
	print := func(raw string) string {
		p, err := fingerprint.Tool([]byte(raw))
		require.NoError(t, err)
		return p.Digest
	}
	bundle := &policy.Bundle{Version: "1", Unmodelled: []string{"bank/pay"}, Review: []policy.Group{{Role: "cfo", Min: 1}}, Rules: []policy.Rule{{ID: "any", Require: "true"}}}
	for name, c := range map[string]struct {
		listed string
		by     []string
		// called is the tool of the permit, and recorded makes the record of the decision another one.
		called   string
		recorded func(r *guardian.Record)
		kind     audit.ProblemKind
		says     string
	}{
		"approved":              {listed: other, by: []string{"cat", "dan"}, called: other},
		"by nobody":             {listed: other, called: other, kind: audit.BadAuthority, says: "which people must approve, and nobody's approval was used"},
		"by too few":            {listed: other, by: []string{"cat"}, called: other, kind: audit.BadAuthority, says: "not enough people have approved it"},
		"a permit for another":  {listed: other, by: []string{"cat", "dan"}, called: wider, kind: audit.BadAuthority, says: "is for another call than its decision"},
		"a permit for the old":  {listed: other, by: []string{"cat", "dan"}, called: pinned, kind: audit.BadAuthority, says: "is for another call than its decision"},
		"more than words":       {listed: wider, by: []string{"cat", "dan"}, called: wider, recorded: approves, kind: audit.BadStory, says: "by its rules and its evidence it is REJECT, malformed_action"},
		"more than words, by 0": {listed: wider, called: wider, recorded: approves, kind: audit.BadStory, says: "by its rules and its evidence it is REJECT, malformed_action"},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDeployment(t)
			keys, key := map[string]*trust.Key{"cat": secret(t), "dan": secret(t)}, secret(t)
			d.state(t, signerOf("cat", "cat", keys["cat"]), signerOf("dan", "dan", keys["dan"]), &trust.AddGuardian{ID: "g", Key: key.Public()})
			action := func(r ledger.Run) *guardian.Action {
				return &guardian.Action{
					Agent: "bot", Plan: r.PlanDigest, Node: "n", Operation: "bank/pay", Fingerprint: print(c.listed), Pinned: json.RawMessage(pinned), Listed: json.RawMessage(c.listed),
					Effect: plan.Committing, Inputs: json.RawMessage(`{"b":"<","a":1}`), Taint: guardian.Taint{Ports: []string{}}, Run: guardian.Run{Workflow: r.Workflow, Origin: r.Origin, Path: "n/0"},
				}
			}
			digest := func(r ledger.Run) (string, error) {
				if c.listed == wider {
					return ledger.BodyDigest([]byte("wider")), nil
				}
				return action(r).Digest(nil)
			}
			a := d.asksAbout(t, "x", digest, plan.FollowUp{})
			for _, signer := range c.by {
				a.ask.Approvals = append(a.ask.Approvals, d.accept(t, a, signer, keys[signer]))
			}
			gate, ds := guardian.New(bundle, &catalog.Catalog{Templates: []catalog.Template{{
				ProviderType: plan.MCP, Provider: "bank", Operation: "pay", Mode: plan.Deter, Effect: plan.Committing, Fingerprint: print(pinned),
			}}})
			require.NotNil(t, gate, "%v", ds)
			rules, err := gate.Rules("bank/pay")
			require.NoError(t, err)
			d.state(t, &trust.ActivateBundle{Digest: bundle.Digest()})
			e := guardian.Evidence{
				Action: action(a.run), Budget: guardian.Budget{State: guardian.NoBudget}, Approved: true, Policy: d.keep(t, rules.Policy), Operation: d.keep(t, rules.Operation),
			}
			if len(c.by) > 0 {
				_, err := d.store.CloseBarrier(t.Context(), a.barrier.ID, ledger.BarrierApproved, "")
				require.NoError(t, err)
				a.ask.Barrier = a.barrier.ID
			}
			a.ask.Life = trust.MaxPermit
			_, err = d.store.Authorize(t.Context(), a.run, a.ask, func(st ledger.Standing) (ledger.Ruling, error) {
				e.At, e.Calls, e.Salt = st.At, st.Calls, hex.EncodeToString(nil)
				record, err := gate.Again(&e)
				require.NoError(t, err)
				if c.recorded != nil {
					c.recorded(record)
				}
				raw, err := record.Encode()
				require.NoError(t, err)
				evidence, err := json.Marshal(e)
				require.NoError(t, err)
				out, err := ledgertest.Rule(ledger.Approve)(st)
				require.NoError(t, err)
				out.Decision = ledger.Decision{Decision: string(record.Decision), Reason: record.Reason, PolicyDigest: record.PolicyDigest, Record: raw}
				out.Evidence = ledger.Packet{Parts: []ledger.Part{{Name: "action", Data: evidence}}}
				out.Permit, err = trust.SignPermit(key, trust.Permit{
					Deployment: "example", Audience: trust.Prod, Guardian: "g", Invocation: a.ask.ID, Decision: st.Decision, Issued: st.At, Expires: st.Until,
					Call: trust.Call{Operation: "bank/pay", Fingerprint: print(c.called), Input: []byte(`{"a":1,"b":"<"}`)}.Digest(nil),
				})
				return out, err
			})
			require.NoError(t, err)
			d.drain(t)
			r := d.verify(t, nil)
			if c.says == "" {
				require.Empty(t, r.Problems)
				require.EqualValues(t, 1, r.Replayed)
				return
			}
			var said []string
			for _, p := range r.Problems {
				if p.Kind == c.kind {
					said = append(said, p.Message)
				}
			}
			require.Contains(t, strings.Join(said, "\n"), c.says, "%v", r.Problems)
		})
	}
}

// approves makes a record one of an action that people have approved.
func approves(r *guardian.Record) {
	r.Decision, r.Reason, r.Objections = guardian.Approve, guardian.HumanApproved, []guardian.Objection{}
}
