package audit_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/diag"
	"chimera.ai/engine/guardian"
	"chimera.ai/engine/guardian/causal"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/ledger/audit"
	"chimera.ai/engine/ledger/ledgertest"
)

// pages is a model of how far a line runs over the end of its page.
func pages(t testing.TB) *causal.Model {
	t.Helper()
	m, ds := causal.Parse(diag.Source{Name: "pages.yaml", Text: []byte(`
apiVersion: chimera/v1
kind: CausalModel
name: pages
operations: [book/write]
variables:
  length: {value: 0, range: [0, 100]}
  width: {noise: {uniform: {min: 0.5, max: 1.5}}}
  used: {parents: [length, width], expression: "length * width + noise", noise: {normal: {sd: 1}}}
bind: {length: "size(args.line)"}
kpis: {used: {max: 8}}
`)})
	require.NotNil(t, m, "%v", ds)
	return m
}

// emptyWorld is a world in a store in which nothing has happened.
func emptyWorld(t testing.TB, s ledger.Store) *world {
	t.Helper()
	w := &world{store: s, key: ledgertest.Key(t)}
	w.trust = audit.Trust{Format: audit.TrustFormat, Origin: ledgertest.Origin, Log: w.key.Public()}
	return w
}

// TestHypotheses: an auditor holds each hypothesis against the decision that it is of, whole.
func TestHypotheses(t *testing.T) {
	gate := shortLines(t, pages(t))
	hypothesis := func(change func(*ledger.Hypothesis)) func(*ledger.Ruling, *guardian.Evidence) {
		return func(r *ledger.Ruling, _ *guardian.Evidence) { change(r.Hypothesis) }
	}
	for name, c := range map[string]struct {
		alter func(*ledger.Ruling, *guardian.Evidence)
		want  string
	}{
		"honest":      {alter: honest},
		"none":        {alter: func(r *ledger.Ruling, _ *guardian.Evidence) { r.Hypothesis = nil }, want: "does not have the hypothesis"},
		"tool":        {alter: hypothesis(func(h *ledger.Hypothesis) { h.ToolID = "book/burn" }), want: "differ in their tool"},
		"description": {alter: hypothesis(func(h *ledger.Hypothesis) { h.Description = "nothing happens" }), want: "differ in their description"},
		"inputs": {alter: hypothesis(func(h *ledger.Hypothesis) {
			h.Inputs = bytes.Replace(h.Inputs, []byte(`"value":3`), []byte(`"value":4`), 1)
		}), want: "differ in their inputs"},
		"prediction": {alter: hypothesis(func(h *ledger.Hypothesis) {
			h.Prediction = bytes.Replace(h.Prediction, []byte(`"model":"pages"`), []byte(`"model":"page"`), 1)
		}), want: "differ in their prediction"},
		"risk": {alter: hypothesis(func(h *ledger.Hypothesis) { h.RiskScore = "0.123" }), want: "differ in their risk"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.decided(t, gate, "1", "one", "", true, c.alter)
			r := w.exported(t)
			require.EqualValues(t, 1, r.Replayed)
			if c.want == "" {
				require.True(t, r.OK, "%v", r.Problems)
				return
			}
			require.Len(t, r.Problems, 1)
			require.Equal(t, audit.BadStory, r.Problems[0].Kind)
			require.Contains(t, r.Problems[0].Message, c.want)
		})
	}
}

// TestHypothesesOfNothing: what nobody has predicted is no hypothesis, whoever states it.
func TestHypothesesOfNothing(t *testing.T) {
	w := newWorld(t)
	w.decided(t, shortLines(t, pages(t)), "1", "one", "", true, honest)
	require.NoError(t, w.store.StateHypothesis(t.Context(), ledger.Hypothesis{
		HypothesisID: "sim_1", AgentID: "agent-7", Inputs: json.RawMessage(`{}`), Prediction: json.RawMessage(`{}`), RiskScore: "0",
	}))
	r := w.exported(t)
	require.Len(t, r.Problems, 1)
	require.Contains(t, r.Problems[0].Message, "the hypothesis sim_1 is of no decision of the log")
}

// TestHypothesesThatAreGone: a hypothesis that is sealed, erased or pruned, or whose decision is, is no
// problem.
func TestHypothesesThatAreGone(t *testing.T) {
	w, gate := emptyWorld(t, stores["sqlite"](t)), shortLines(t, pages(t))
	w.decided(t, gate, "1", "one", "", true, honest)
	w.decided(t, gate, "2", "two", "erika", true, honest)
	verified := func() {
		t.Helper()
		r := w.exported(t)
		require.True(t, r.OK, "%v", r.Problems)
	}
	verified()
	require.NoError(t, w.store.EraseSubject(t.Context(), "erika", "asked"))
	verified()
	_, err := w.store.Prune(t.Context(), ledger.Evidence, time.Now().Add(time.Hour), "old")
	require.NoError(t, err)
	verified()
}

// TestSimulatedDecisions: decisions with predictions are made again with the same bytes, whatever store
// they are kept in.
func TestSimulatedDecisions(t *testing.T) {
	for name, open := range stores {
		t.Run(name, func(t *testing.T) {
			w := emptyWorld(t, open(t))
			for i, line := range []string{"one", "five5", "nine nine"} {
				w.decided(t, shortLines(t, pages(t)), fmt.Sprint(i), line, "", true, honest)
			}
			r := w.exported(t)
			require.True(t, r.OK, "%v", r.Problems)
			require.EqualValues(t, 3, r.Replayed)
		})
	}
}
