package ledgertest

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/ledger"
)

// foreseen is a hypothesis about the KPIs size, state and cost.
func foreseen(id string) ledger.Hypothesis {
	return ledger.Hypothesis{
		HypothesisID: id, AgentID: "agent-42", ToolID: "files/write", Description: "Writes about Erika.", Inputs: json.RawMessage(`{"to": "Erika"}`),
		Prediction: json.RawMessage(`{"kpis": [{"variable": "size", "max": 10}, {"variable": "state"}, {"variable": "cost"}], "model": "m"}`), RiskScore: "0.25",
	}
}

// foresees rules like [Rule], by a hypothesis.
func foresees(word string, h ledger.Hypothesis) func(ledger.Standing) (ledger.Ruling, error) {
	return func(st ledger.Standing) (ledger.Ruling, error) {
		r, err := Rule(word)(st)
		r.Hypothesis = &h
		return r, err
	}
}

// hypotheses: what decisions rest on is stated with them, what is measured is added to it and never
// changed, and both go with the person whom they are about.
func hypotheses(t *testing.T, open Open) {
	s := open(t)
	ctx := t.Context()
	key := Key(t)
	no := func(_ any, err error) error { return err }
	observe := func(id, what string) error { return s.ObserveHypothesis(ctx, id, json.RawMessage(what)) }
	observed := func(id string) string {
		t.Helper()
		h, err := s.Hypothesis(ctx, id)
		require.NoError(t, err)
		require.Equal(t, h.Observed != nil, h.State == ledger.HypothesisMeasured)
		return string(h.Observed)
	}
	require.NoError(t, s.OpenRun(ctx, run()))

	// A hypothesis is stated with the decision, once, whatever is decided.
	h := foreseen("h/1")
	require.NoError(t, no(s.Authorize(ctx, run(), Ask("i-1", "action"), foresees(ledger.Reject, h))))
	require.NoError(t, no(s.Authorize(ctx, run(), Ask("i-1", "action"), foresees(ledger.Approve, h))))
	have, err := s.Hypothesis(ctx, "h/1")
	require.NoError(t, err)
	require.Equal(t, ledger.HypothesisOpen, have.State)
	require.Equal(t, `{"to":"Erika"}`, string(have.Inputs))
	for _, change := range []func(*ledger.Hypothesis){
		func(h *ledger.Hypothesis) { h.Inputs = json.RawMessage(`{}`) }, func(h *ledger.Hypothesis) { h.Prediction = json.RawMessage(`{}`) },
		func(h *ledger.Hypothesis) { h.RiskScore = "0" }, func(h *ledger.Hypothesis) { h.ToolID = "other" }, func(h *ledger.Hypothesis) { h.Description = "other" },
	} {
		other := foreseen("h/1")
		change(&other)
		require.ErrorIs(t, s.StateHypothesis(ctx, other), ledger.ErrConflict)
		require.ErrorIs(t, no(s.Authorize(ctx, run(), Ask("i-2", "action"), foresees(ledger.Approve, other))), ledger.ErrConflict)
	}
	require.ErrorIs(t, no(s.Authorize(ctx, run(), Ask("i-2", "action"), foresees(ledger.Approve, ledger.Hypothesis{HypothesisID: "h/2"}))), ledger.ErrInvalid)
	require.ErrorIs(t, no(s.Decision(ctx, "i-2/1")), ledger.ErrNotFound, "nothing is decided without it")

	// KPIs are added, and none is changed.
	require.NoError(t, s.StateHypothesis(ctx, foreseen("h/2")))
	require.ErrorIs(t, observe("h/2", `{"size": 1, "weight": 2}`), ledger.ErrInvalid)
	require.NoError(t, observe("h/2", `{}`))
	require.Empty(t, observed("h/2"))
	require.NoError(t, observe("h/2", `{"size": 7.50}`))
	require.NoError(t, observe("h/2", `{"size": 75e-1}`), "it is the same number")
	require.ErrorIs(t, observe("h/2", `{"size": 8, "state": "late"}`), ledger.ErrConflict)
	require.ErrorIs(t, observe("h/2", `{"size": "7.5"}`), ledger.ErrConflict)
	require.Equal(t, `{"size":7.5}`, observed("h/2"))
	require.NoError(t, observe("h/2", `{"state": "late \u2028<\"\\é", "size": 7.5}`))
	require.NoError(t, observe("h/2", `{"cost": -1e-7}`))
	require.Equal(t, `{"cost":-1e-7,"size":7.5,"state":"late \u2028<\"\\é"}`, observed("h/2"))
	chain, err := s.Chain(ctx, ledger.HypothesesChain("agent-42"), 0, 100)
	require.NoError(t, err)
	require.Len(t, chain, 2+3, "each that adds something is an entry")

	require.NoError(t, s.StateHypothesis(ctx, foreseen("h/3")))
	many := make([]string, ledger.MaxObserved+1)
	for i := range many {
		many[i] = fmt.Sprintf(`"k%d":1`, i)
	}
	for _, bad := range []string{
		``, `null`, `[]`, `1`, `{"size":null}`, `{"size":true}`, `{"size":[1]}`, `{"size":{}}`, `{"size":NaN}`, `{"size":1e400}`, `{"size":1e301}`, `{"size":""}`, `{"size":1`,
		`{"size":` + strings.Repeat("1", 40) + `}`, `{"size":"` + strings.Repeat("x", ledger.MaxObservedText+1) + `"}`, `{"size":"\u0000"}`, "{\"size\":\"\xff\"}", `{"":1}`, `{` + strings.Join(many, ",") + `}`,
	} {
		require.ErrorIs(t, observe("h/3", bad), ledger.ErrInvalid, bad)
	}
	require.ErrorIs(t, observe("h/9", `{"size":1}`), ledger.ErrNotFound)
	require.Empty(t, observed("h/3"))

	// What a call has brought is recorded with its end, which it never hinders.
	settle := func(id string, o *ledger.Observation) {
		t.Helper()
		got, err := s.Authorize(ctx, run(), Ask(id, "action"), Rule(ledger.Approve))
		require.NoError(t, err)
		require.NoError(t, no(s.Claim(ctx, id, got.Decision.ID, "token", time.Minute)))
		e := settled(1, "done")
		e.Observation = o
		i, err := s.Settle(ctx, id, e)
		require.NoError(t, err)
		require.Equal(t, ledger.Settled, i.State)
	}
	settle("i-3", &ledger.Observation{Hypothesis: "h/3", Observed: json.RawMessage(`{"size":3}`)})
	require.Equal(t, `{"size":3}`, observed("h/3"))
	for i, o := range []ledger.Observation{
		{Hypothesis: "h/3", Observed: json.RawMessage(`{"size":4,"cost":1}`)}, {Hypothesis: "h/3", Observed: json.RawMessage(`{"other":4}`)},
		{Hypothesis: "none", Observed: json.RawMessage(`{"size":3}`)}, {Hypothesis: "\x00", Observed: json.RawMessage(`{"size":3}`)}, {},
	} {
		settle(fmt.Sprintf("i-3%d", i), &o)
	}
	require.Equal(t, `{"size":3}`, observed("h/3"))

	list := func(f ledger.HypothesisFilter, page ledger.Page) (ids []string) {
		t.Helper()
		found, err := s.Hypotheses(ctx, f, page)
		require.NoError(t, err)
		for _, h := range found {
			ids = append(ids, h.HypothesisID)
		}
		return ids
	}
	require.Equal(t, []string{"h/1", "h/2", "h/3"}, list(ledger.HypothesisFilter{}, ledger.Page{}))
	require.Equal(t, []string{"h/2", "h/3"}, list(ledger.HypothesisFilter{Agent: "agent-42", Tool: "files/write", State: ledger.HypothesisMeasured, Since: have.CreatedAt}, ledger.Page{}))
	require.Equal(t, []string{"h/2"}, list(ledger.HypothesisFilter{}, ledger.Page{Limit: 1, Offset: 1}))
	for _, f := range []ledger.HypothesisFilter{{Agent: "x"}, {Tool: "x"}, {State: "x"}, {Since: ledger.At(time.Now().Add(time.Hour))}, {Tool: "\x00"}} {
		require.Empty(t, list(f, ledger.Page{}))
	}

	// That of a run about a person is sealed, and goes with the person.
	about := run()
	about.Workflow, about.Subject = "p", "erika@example.com"
	require.NoError(t, s.OpenRun(ctx, about))
	for range 2 {
		require.NoError(t, no(s.Authorize(ctx, about, Ask("p-1", "action"), foresees(ledger.Reject, foreseen("h/4")))))
	}
	require.NoError(t, observe("h/4", `{"state":"for Erika"}`))
	require.NoError(t, observe("h/4", `{"size":1}`))
	require.Equal(t, `{"size":1,"state":"for Erika"}`, observed("h/4"))
	Drain(t, s, key)
	Same(t, s, Replay(t, s))
	chain, err = s.Chain(ctx, ledger.HypothesesChain("agent-42"), 0, 100)
	require.NoError(t, err)
	for _, r := range chain[len(chain)-3:] {
		e, err := ledger.DecodeEntry(r.Bytes)
		require.NoError(t, err)
		stored, err := s.Stored(ctx, e.Body)
		require.NoError(t, err)
		require.NotContains(t, string(stored), "Erika")
		require.NotContains(t, string(r.Bytes), "Erika")
	}
	require.NoError(t, s.EraseSubject(ctx, about.Subject, "asked"))
	require.ErrorIs(t, no(s.Hypothesis(ctx, "h/4")), ledger.ErrNotFound)
	require.ErrorIs(t, observe("h/4", `{"cost":1}`), ledger.ErrNotFound)
	require.Equal(t, []string{"h/1", "h/2", "h/3"}, list(ledger.HypothesisFilter{}, ledger.Page{}))
	Drain(t, s, key)
	Same(t, s, Replay(t, s))
}

// history: past calls of an operation are listed with how they ended, when, and what they have cost.
func history(t *testing.T, open Open) {
	s := open(t)
	ctx := t.Context()
	require.NoError(t, s.OpenRun(ctx, run()))
	require.NoError(t, s.SetBudget(ctx, ledger.Budget{Agent: "agent-42", Currency: "USD", Every: ledger.Forever, Limit: usd(t, 1000)}))
	cost, spent := usd(t, 100), usd(t, 70)
	begun := func(id, operation string) ledger.Authorized {
		t.Helper()
		a := Ask(id, "action")
		a.Operation, a.Cost = operation, &cost
		got, err := s.Authorize(ctx, run(), a, Rule(ledger.Approve))
		require.NoError(t, err)
		_, err = s.Claim(ctx, id, got.Decision.ID, "token", time.Minute)
		require.NoError(t, err)
		return got
	}
	end := func(id string, e ledger.Effect) {
		t.Helper()
		_, err := s.Settle(ctx, id, e)
		require.NoError(t, err)
	}
	done := settled(1, "out")
	done.Spent = &spent
	failed := settled(1, "")
	failed.OutputDigest, failed.Result = "", json.RawMessage(`{"error":{"kind":"tool_error"}}`)
	refused := Ask("c-1", "action")
	refused.Operation = "files/write"
	_, err := s.Authorize(ctx, run(), refused, Rule(ledger.Reject))
	require.NoError(t, err)
	begun("c-1", "files/write")
	end("c-1", done)
	begun("c-2", "files/write")
	end("c-2", failed)
	begun("c-3", "files/write")
	begun("c-4", "files/write")
	end("c-4", ended(1, ledger.Unknown))
	begun("c-5", "other/one")

	calls, err := s.Calls(ctx, "files/write", ledger.Time{}, ledger.Page{})
	require.NoError(t, err)
	require.Len(t, calls, 4)
	for i, want := range []ledger.PastCall{
		{Invocation: "c-1", State: ledger.Settled, Succeeded: true, Posted: &spent}, {Invocation: "c-2", State: ledger.Settled, Failure: "tool_error", Posted: &cost},
		{Invocation: "c-3", State: ledger.Calling}, {Invocation: "c-4", State: ledger.Unknown},
	} {
		have := calls[i]
		require.NotNil(t, have.ClaimedAt)
		require.Equal(t, have.State != ledger.Calling, have.EndedAt != nil)
		require.False(t, have.ClaimedAt.Time().Before(have.DecidedAt.Time()))
		want.Attempt, want.DecidedAt, want.ClaimedAt, want.EndedAt = 1, have.DecidedAt, have.ClaimedAt, have.EndedAt
		require.Equal(t, want, have)
	}
	some, err := s.Calls(ctx, "files/write", calls[1].DecidedAt, ledger.Page{Limit: 1})
	require.NoError(t, err)
	require.Len(t, some, 1)
	for _, operation := range []string{"nothing", "", "\x00"} {
		none, err := s.Calls(ctx, operation, ledger.Time{}, ledger.Page{})
		require.NoError(t, err)
		require.Empty(t, none)
	}
	none, err := s.Calls(ctx, "files/write", ledger.At(time.Now().Add(time.Hour)), ledger.Page{})
	require.NoError(t, err)
	require.Empty(t, none)
}
