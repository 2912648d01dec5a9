package audit_test

import (
	"encoding/hex"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/catalog"
	"chimera.ai/engine/guardian"
	"chimera.ai/engine/guardian/causal"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/ledger/audit"
	"chimera.ai/engine/ledger/ledgertest"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/policy"
)

// keep keeps rules in the ledger, and returns their digest.
func (w *world) keep(t testing.TB, rules json.RawMessage) string {
	t.Helper()
	d := ledger.RulesData{Digest: plan.DigestOf(rules), Rules: rules}
	data, err := json.Marshal(d)
	require.NoError(t, err)
	_, err = w.store.Append(t.Context(), ledger.Draft{Chain: ledger.RulesChain, Key: "rules.kept/" + d.Digest, Kind: ledger.RulesKept, Data: data})
	require.NoError(t, err)
	return d.Digest
}

// decided has a guardian decide on an action, in a run that is about somebody unless the
// subject is "", and say what alter makes of that.
func (w *world) decided(t testing.TB, gate *guardian.Gate, id, line, subject string, keep bool, alter func(*ledger.Ruling, *guardian.Evidence)) {
	t.Helper()
	rules, err := gate.Rules("book/write")
	require.NoError(t, err)
	if keep {
		w.keep(t, rules.Policy)
		w.keep(t, rules.Operation)
	}
	r := ledger.Run{Workflow: "decided " + id, Root: "r", Origin: "r", PlanDigest: ledger.BodyDigest(nil), InputDigest: ledger.BodyDigest(nil), Subject: subject, Agent: "agent-42"}
	require.NoError(t, w.store.OpenRun(t.Context(), r))
	action := &guardian.Action{
		Agent: "agent-42", Plan: r.PlanDigest, Node: "n", Operation: "book/write", Effect: plan.Committing, Inputs: json.RawMessage(`{"line":"` + line + `"}`),
		Taint: guardian.Taint{Ports: []string{}}, Run: guardian.Run{Workflow: r.Workflow, Origin: "r", Path: "n/0"},
	}
	ask := ledgertest.Ask(id, line)
	ask.Digest = action.Digest
	ask.Cost = nil
	_, err = w.store.Authorize(t.Context(), r, ask, func(st ledger.Standing) (ledger.Ruling, error) {
		facts := guardian.Facts{At: st.At.Time(), Calls: st.Calls, Budget: guardian.Budget{State: guardian.NoBudget}}
		record := gate.Decide(action, st.Salt, facts)
		raw, err := record.Encode()
		if err != nil {
			return ledger.Ruling{}, err
		}
		e := guardian.Evidence{
			Action: action, Salt: hex.EncodeToString(st.Salt), At: st.At, Calls: st.Calls, Budget: facts.Budget, Policy: plan.DigestOf(rules.Policy), Operation: plan.DigestOf(rules.Operation),
		}
		h, err := record.Hypothesis(action)
		if err != nil {
			return ledger.Ruling{}, err
		}
		out := ledger.Ruling{Hypothesis: h, Decision: ledger.Decision{Decision: string(record.Decision), Reason: record.Reason, PolicyDigest: record.PolicyDigest, Record: raw}}
		alter(&out, &e)
		asked, err := json.Marshal(e)
		out.Evidence = ledger.Packet{Parts: []ledger.Part{{Name: "action", Data: asked}}}
		return out, err
	})
	require.NoError(t, err)
}

// shortLines is the gate of a bundle, with models, by which lines in a book are short.
func shortLines(t testing.TB, models ...*causal.Model) *guardian.Gate {
	t.Helper()
	schema := json.RawMessage(`{"type":"object","properties":{"line":{"type":"string"}},"required":["line"]}`)
	operations := &catalog.Catalog{Templates: []catalog.Template{
		{ProviderType: plan.Skill, Provider: "book", Operation: "write", Mode: plan.Deter, Effect: plan.Committing, InputSchema: schema},
		{ProviderType: plan.Skill, Provider: "book", Operation: "burn", Mode: plan.Deter, Effect: plan.Irreversible, InputSchema: schema},
	}}
	bundle := &policy.Bundle{Version: "1", Models: models, Rules: []policy.Rule{
		{ID: "short", Operations: []string{"book/write"}, Require: `action.inputs.line.size() < 6`, Message: "a line is short"},
		{ID: "never", Operations: []string{"book/burn"}, Require: "false"},
		{ID: "day", Require: `action.at.hour >= 0`},
	}}
	if len(models) == 0 {
		bundle.Unmodelled = []string{"book/write"}
	}
	gate, ds := guardian.New(bundle, operations)
	require.NotNil(t, gate, "%v", ds)
	return gate
}

// honest leaves a decision as it is.
func honest(*ledger.Ruling, *guardian.Evidence) {}

// TestDecisionsAreReplayed: whoever has an export makes each decision again by the rules
// and the evidence in it, and finds one that says something else.
func TestDecisionsAreReplayed(t *testing.T) {
	gate := shortLines(t)
	for name, c := range map[string]struct {
		lost  bool
		alter func(*ledger.Ruling, *guardian.Evidence)
		want  string
	}{
		"honest":       {alter: honest},
		"another word": {alter: func(r *ledger.Ruling, _ *guardian.Evidence) { r.Decision.Reason = "budget_exceeded" }, want: "is not that of its own record"},
		"another line": {alter: func(_ *ledger.Ruling, e *guardian.Evidence) {
			a := *e.Action
			a.Inputs = json.RawMessage(`{"line":"ok"}`)
			e.Action = &a
		}, want: "by its rules and its evidence it is APPROVE, policy_clear"},
		"another time":  {alter: func(_ *ledger.Ruling, e *guardian.Evidence) { e.Calls = 99 }, want: "by its rules and its evidence it is REJECT, policy:short"},
		"another rule":  {alter: func(_ *ledger.Ruling, e *guardian.Evidence) { e.Policy = plan.DigestOf(nil) }, want: "does not have the rules of the decision"},
		"no rules kept": {lost: true, alter: honest, want: "does not have the rules of the decision"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			before := w.exported(t)
			w.decided(t, gate, "1", "too long", "", !c.lost, c.alter)
			r := w.exported(t)
			require.Equal(t, before.NotReplayable, r.NotReplayable, "those of the story have no rules")
			if c.want == "" {
				require.True(t, r.OK, "%v", r.Problems)
				require.EqualValues(t, 1, r.Replayed)
				return
			}
			require.False(t, r.OK)
			require.Zero(t, r.Replayed)
			require.Len(t, r.Problems, 1)
			require.Equal(t, audit.BadStory, r.Problems[0].Kind)
			require.Contains(t, r.Problems[0].Message, c.want)
		})
	}
}

// TestNotReplayable: decisions whose evidence is sealed, erased or pruned are counted, and are
// no problem.
func TestNotReplayable(t *testing.T) {
	w, gate := newWorld(t), shortLines(t)
	story := w.exported(t).NotReplayable
	expect := func(replayed, not int64) {
		t.Helper()
		r := w.exported(t)
		require.True(t, r.OK, "%v", r.Problems)
		require.Equal(t, replayed, r.Replayed)
		require.Equal(t, story+not, r.NotReplayable)
	}
	w.decided(t, gate, "1", "too long", "", true, honest)
	w.decided(t, gate, "2", "too long", "", true, honest)
	w.decided(t, gate, "3", "too long", "erika", true, honest)
	expect(2, 1)
	require.NoError(t, w.store.EraseSubject(t.Context(), "erika", "asked"))
	expect(2, 1)
	prune := func() {
		_, err := w.store.Prune(t.Context(), ledger.Evidence, time.Now().Add(time.Hour), "old")
		require.NoError(t, err)
	}
	require.NoError(t, w.store.PlaceLegalHold(t.Context(), ledger.RunChain("decided 2", "r"), "case"))
	prune()
	expect(1, 2)
	require.NoError(t, w.store.LiftLegalHold(t.Context(), ledger.RunChain("decided 2", "r"), "over"))
	prune()
	expect(0, 3)
}

// exported exports the log, and verifies that.
func (w *world) exported(t testing.TB) audit.Report {
	t.Helper()
	ledgertest.Drain(t, w.store, w.key)
	w.export(t)
	return w.verify(t, nil)
}
