package guardian_test

import (
	"encoding/hex"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/guardian"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/plan"
)

// packet is the evidence of a decision on an action.
func packet(t *testing.T, a *guardian.Action, r *guardian.Record) ledger.Packet {
	t.Helper()
	action, err := json.Marshal(guardian.Evidence{Action: a, Salt: hex.EncodeToString([]byte("salt")), At: ledger.At(facts().At), Calls: 1, Budget: r.Budget, Policy: "sha256:p", Operation: "sha256:o"})
	require.NoError(t, err)
	record, err := r.Encode()
	require.NoError(t, err)
	return ledger.Packet{Parts: []ledger.Part{{Name: "action", Data: action}, {Name: "decision", Data: record}}}
}

// TestWaiting: people are asked about the action that was decided on, and about no other: with
// its inputs and costs, what is objected to it, and who must approve it.
func TestWaiting(t *testing.T) {
	g := gate(t, bundleText)
	large := action(inputs(`{"amount_minor":200000,"to":"x"}`))
	r := g.Decide(large, []byte("salt"), facts())
	require.Equal(t, guardian.Escalate, r.Decision)
	w, err := guardian.ReadWaiting(packet(t, large, r))
	require.NoError(t, err)
	require.Equal(t, r.InputDigest, w.Asked.Action)
	require.Equal(t, "bank/transfer", w.Asked.Operation)
	require.Equal(t, []string{"policy:large"}, w.Asked.Lifts)
	require.Equal(t, []plan.Group{{Role: "cfo", Min: 1}}, w.Rule.Groups)
	require.JSONEq(t, `{"amount_minor":200000,"to":"x"}`, string(w.Shown.Inputs))
	require.Equal(t, []string{"policy:large: over 1,000.00"}, w.Shown.Objections)
	require.Equal(t, []byte("salt"), w.Salt)
	require.Equal(t, "sha256:p", w.Policy)

	_, err = guardian.ReadPermitted(packet(t, large, r))
	require.ErrorContains(t, err, "the decision is ESCALATE")
	small := action()
	approved := g.Decide(small, []byte("salt"), facts())
	require.Equal(t, guardian.Approve, approved.Decision)
	_, err = guardian.ReadWaiting(packet(t, small, approved))
	require.ErrorContains(t, err, "nobody is asked")
	permitted, err := guardian.ReadPermitted(packet(t, small, approved))
	require.NoError(t, err)
	require.Empty(t, permitted.Rule.Groups)

	for name, other := range map[string]*guardian.Action{
		"other inputs":  action(inputs(`{"amount_minor":200001,"to":"x"}`)),
		"another agent": action(inputs(`{"amount_minor":200000,"to":"x"}`), agent("agent-7")),
		"another run": action(inputs(`{"amount_minor":200000,"to":"x"}`), func(a *guardian.Action) {
			a.Run.Workflow = "other"
		}),
	} {
		_, err := guardian.ReadWaiting(packet(t, other, r))
		require.ErrorContains(t, err, "the decision is about another action", name)
		_, err = guardian.ReadPermitted(packet(t, other, approved))
		require.ErrorContains(t, err, "the decision is about another action", name)
	}
	_, err = guardian.ReadWaiting(ledger.Packet{Parts: packet(t, large, r).Parts[:1]})
	require.ErrorContains(t, err, "no decision")
}

// TestTheLowestThresholdCounts: wherever the bundle lists it.
func TestTheLowestThresholdCounts(t *testing.T) {
	for _, text := range []string{
		"{agents: [agent-42], max_auto_launch_risk: 0.1}, {effects: [irreversible], max_auto_launch_risk: 0.3}",
		"{effects: [irreversible], max_auto_launch_risk: 0.3}, {agents: [agent-42], max_auto_launch_risk: 0.1}",
		"{agents: [agent-7], max_auto_launch_risk: 0.01}, {agents: [agent-42], max_auto_launch_risk: 0.1}",
		"{effects: [staged], max_auto_launch_risk: 0.01}, {agents: [agent-42], max_auto_launch_risk: 0.1}, {effects: [irreversible], max_auto_launch_risk: 0.2}",
	} {
		g := gate(t, `{apiVersion: chimera/v1, kind: PolicyBundle, version: "1", thresholds: {max_auto_launch_risk: 0.05, per: [`+text+`]},
  allow: [{effects: [irreversible], unattended: true}], rules: [{id: any, type: hard, match: "true", require: "true"}]}`)
		for risk, want := range map[string]guardian.Word{"0.1": guardian.Approve, "0.11": guardian.Escalate} {
			r := g.Decide(action(), nil, facts(func(f *guardian.Facts) { f.Simulation.Risk = risk }))
			require.Equal(t, want, r.Decision, "%s: %s", risk, text)
			require.Equal(t, "0.1", r.Threshold, text)
		}
	}
}
