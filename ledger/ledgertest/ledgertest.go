// Package ledgertest is the suite that every store of the ledger passes.
//
// What a store answers is held against package model, which replays the
// store's own log.
package ledgertest

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/ledger"
	"chimera.ai/engine/ledger/keyring"
	"chimera.ai/engine/ledger/model"
	"chimera.ai/engine/task"
)

// Origin is the name of the log that stores under test are opened with.
const Origin = "test.example.com/log"

// Open opens a store. In one test, it opens the same one each time.
type Open func(t testing.TB) ledger.Store

// Run runs the suite; fresh gives a new, empty store each time.
func Run(t *testing.T, fresh func(t testing.TB) Open) {
	for name, test := range map[string]func(*testing.T, Open){
		"life": life, "again": again, "refusals": refusals, "sequencer": sequencer,
		"hostile": hostile, "ambiguous": ambiguous, "order": order, "ahead": ahead, "places": places, "pruning": pruning, "erasure": erasure,
		"linear": linear, "exact": exact, "grants": grants, "witnesses": witnesses, "subjects": subjects, "hypotheses": hypotheses, "history": history,
		"permits": permits, "salts": salts, "barriers": barriers, "outcomes": outcomes, "followups": followUps, "undo": undo, "checks": checks, "holds": holds, "calls": calls, "origins": origins, "outputs": outputs, "pages": pages, "tiles": tiles, "packets": packets, "ends": ends, "values": values, "orders": orders, "rules": rules, "tools": toolsAtOnce,
	} {
		t.Run(name, func(t *testing.T) { test(t, fresh(t)) })
	}
	t.Run("interleavings", func(t *testing.T) { interleavings(t, func() Open { return fresh(t) }) })
}

// Waiting in tests is on conditions, looked at every tick.
const (
	waitFor = 5 * time.Minute
	tick    = 10 * time.Millisecond
)

func useKey(agent string) model.UseKey {
	return model.UseKey{BudgetKey: model.BudgetKey{Agent: agent, Currency: "USD"}, Period: string(ledger.Forever)}
}

// inTime opens something that ends after a time, which is longer and longer, until the store has
// opened it before its end, however slow that is.
func inTime(t testing.TB, open func(wait time.Duration) error) {
	t.Helper()
	for wait := 20 * time.Millisecond; ; wait *= 2 {
		err := open(wait)
		if err == nil {
			return
		}
		require.ErrorIs(t, err, ledger.ErrInvalid)
	}
}

// Ring returns a new keyring for the keys of subjects, which the store makes.
func Ring(t testing.TB) *keyring.Ring { return keyring.At(filepath.Join(t.TempDir(), "subjects")) }

// Key makes a log's key.
func Key(t testing.TB) *ledger.Key {
	secret, _, err := ledger.NewKey(Origin)
	require.NoError(t, err)
	key, err := ledger.ParseKey(secret)
	require.NoError(t, err)
	return key
}

func usd(t testing.TB, n int64) ledger.Money {
	m, err := ledger.Minor(n, "USD")
	require.NoError(t, err)
	return m
}

func eur(t testing.TB, n int64) ledger.Money {
	m, err := ledger.Minor(n, "EUR")
	require.NoError(t, err)
	return m
}

func digest(c string) string { return ledger.BodyDigest([]byte(c)) }

func run() ledger.Run {
	return ledger.Run{
		Workflow: "w", Root: "r1", Origin: "r1", PlanDigest: digest("plan"), PlanName: "pay", PlanVersion: "1.0",
		Agent: "agent-42", Requester: "alice", InputDigest: digest("input"),
	}
}

// draft is a task as it is asked for.
func draft() task.Draft {
	return task.Draft{
		AgentID: "agent-42", Description: "Pay", Resources: []string{"bank"}, CostEstimate: "150.0", Priority: task.High,
	}
}

// Story does one of everything, each step twice if twice says so: stores find
// what they have done before.
func Story(t testing.TB, s ledger.Store, twice bool) {
	ctx := t.Context()
	do := func(what string, f func() error) {
		t.Helper()
		require.NoError(t, f(), what)
		if twice {
			require.NoError(t, f(), what+", again")
		}
	}
	no := func(_ any, err error) error { return err }
	do("agent", func() error {
		return s.AddAgent(ctx, ledger.Agent{AgentID: "agent-42", PersonaRef: "persona/42", WalletAddress: "0xabc"})
	})
	do("tool", func() error {
		return s.RegisterTool(ctx, ledger.Tool{ToolID: "bank/transfer", Name: "transfer", Version: "1", Schema: json.RawMessage(`{"type": "object"}`), Fingerprint: digest("tool"), Status: "manual_review"})
	})
	do("trust", func() error { return s.TrustTools(ctx, "allow_auto", "bank/transfer") })
	do("signer", func() error {
		return s.EnrollSigner(ctx, ledger.Signer{ID: "s-1", Person: "bob", Roles: []string{"finance"}, SigType: "dev", PublicKey: "k", NotBefore: ledger.At(time.Unix(0, 0)), NotAfter: ledger.At(time.Unix(1<<33, 0))})
	})
	do("authority", func() error { return s.StateAuthority(ctx, json.RawMessage(`{"payload":"1"}`), "") })
	do("plan", func() error {
		return no(s.PublishPlan(ctx, ledger.Plan{Name: "pay", Version: "1.0", Digest: digest("plan"), SourceDigest: digest("source"), Author: "carol", Agent: "agent-42"}))
	})
	do("root budget", func() error {
		return s.SetBudget(ctx, ledger.Budget{Agent: "org", Currency: "USD", Every: ledger.Forever, Limit: usd(t, 1000)})
	})
	do("budget", func() error {
		return s.SetBudget(ctx, ledger.Budget{Agent: "agent-42", Currency: "USD", Parent: "org", Every: ledger.Forever, Limit: usd(t, 500)})
	})
	do("run", func() error { return s.OpenRun(ctx, run()) })
	do("outcomes", func() error {
		return s.RecordOutcomes(ctx, "w", "r1", []ledger.Outcome{
			{Node: "a", Kind: ledger.NodeSucceeded, Activity: "text/count", Attempts: 1, OutputDigest: digest("out")},
			{Node: "b", Kind: ledger.NodeFailed, Attempts: 3, Error: json.RawMessage(`{"kind":"timeout"}`)},
			{Node: "c", Kind: ledger.NodeSkipped},
		})
	})
	do("pause", func() error {
		return s.RecordOrder(ctx, "w", "r1", ledger.Order{Kind: ledger.RunPaused, N: 1, By: "dan", Reason: "look at it", Signed: json.RawMessage(`{"payload": "Mw=="}`), Signer: "s-1"})
	})
	do("resume", func() error { return s.RecordOrder(ctx, "w", "r1", ledger.Order{Kind: ledger.RunResumed, N: 2}) })
	require.NoError(t, no(s.RecordCheck(ctx, run(), ledger.Check{Node: "a", Visit: 1, State: ledger.CheckSucceeded, InputDigest: digest("in"), OutputDigest: digest("out")})))
	do("approval", func() error {
		return s.RecordApproval(ctx, run(), ledger.Approval{ID: "a-1", Barrier: "b", Signer: "s-1", Accepted: true, Actions: []string{digest("action")}, Envelope: json.RawMessage(`{"e":1}`)})
	})
	do("refused approval", func() error {
		return s.RecordApproval(ctx, run(), ledger.Approval{ID: "a-2", Barrier: "b", Signer: "s-9", Reason: "unknown signer", Actions: []string{digest("action")}, Envelope: json.RawMessage(`{"e":2}`)})
	})
	most := usd(t, 60)
	do("hold of a call without effect", func() error {
		return no(s.OpenHold(ctx, ledger.Hold{ID: "thought", Agent: "agent-42", Amount: usd(t, 50), ExpiresAt: ledger.At(time.Unix(1<<33, 0)),
			Call: &ledger.HeldCall{Workflow: "w", Root: "r1", Origin: "r1", Node: "a", Attested: true, Prob: true, Most: &most}}))
	})
	do("post", func() error { return no(s.PostHold(ctx, "thought", usd(t, 9))) })
	a := Ask("inv-1", "action")
	cost := usd(t, 400)
	a.Cost, a.Approvals = &cost, []string{"a-1"}
	require.NoError(t, no(s.Authorize(ctx, run(), a, Rule("REJECT"))))
	do("authorize", func() error { return no(s.Authorize(ctx, run(), a, Rule(ledger.Approve))) })
	do("claim", func() error { return no(s.Claim(ctx, "inv-1", "inv-1/2", "token", time.Minute)) })
	do("release", func() error { return no(s.Settle(ctx, "inv-1", ended(1, ledger.Released))) })
	do("authorize again", func() error { return no(s.Authorize(ctx, run(), a, Rule(ledger.Approve))) })
	do("claim again", func() error { return no(s.Claim(ctx, "inv-1", "inv-1/3", "token", time.Minute)) })
	do("lose", func() error { return no(s.Settle(ctx, "inv-1", ended(2, ledger.Unknown))) })
	receipt := settled(2, "receipt")
	spent := usd(t, 390)
	receipt.Spent = &spent
	do("settle", func() error { return no(s.Settle(ctx, "inv-1", receipt)) })
	do("hypothesis", func() error {
		return s.StateHypothesis(ctx, ledger.Hypothesis{HypothesisID: "h-1", AgentID: "agent-42", Inputs: json.RawMessage(`{"a":1}`), Prediction: json.RawMessage(`{"kpis":[{"variable":"kpi"}]}`), RiskScore: "0.25"})
	})
	do("observe", func() error { return s.ObserveHypothesis(ctx, "h-1", json.RawMessage(`{"kpi":2}`)) })
	do("snapshot", func() error {
		return s.TakeSnapshot(ctx, ledger.Snapshot{Server: "bank", Fingerprint: digest("server"), Digest: digest("listing")})
	})
	do("revoke", func() error { return s.RevokeSigner(ctx, "s-1") })
	end := run()
	end.State, end.OutputDigest = ledger.RunSucceeded, digest("result")
	do("close", func() error { _, _, err := s.CloseRun(ctx, end, nil); return err })
}

// Replay returns the state that the store's log tells, chain by chain in the order
// of the tree; all entries must have a place.
func Replay(t testing.TB, s ledger.Store) *model.State {
	m := model.New()
	last := map[string]ledger.Hash{}
	for from := int64(0); ; {
		records, err := s.Records(context.Background(), from, 1000)
		require.NoError(t, err)
		if len(records) == 0 {
			return m
		}
		for _, r := range records {
			require.Equal(t, from, r.Index)
			from++
			e, err := ledger.DecodeEntry(r.Bytes)
			require.NoError(t, err)
			require.Equal(t, last[e.Chain], e.Prev, "chain %s at %d", e.Chain, e.N)
			last[e.Chain] = r.Hash
			var data json.RawMessage
			if e.Body != "" {
				raw, err := s.Body(context.Background(), e.Body)
				if !errors.Is(err, ledger.ErrGone) {
					require.NoError(t, err)
					body, err := ledger.DecodeBody(raw)
					require.NoError(t, err)
					data = body.Data
				}
			}
			require.NoError(t, m.Apply(e, r.Hash, data), "%s", r.Bytes)
		}
	}
}

// Drain places all entries that are there.
func Drain(t testing.TB, s ledger.Store, key *ledger.Key) {
	q := ledger.Sequencer{Store: s, Key: key, Batch: 7}
	for {
		n, err := q.Integrate(context.Background())
		require.NoError(t, err)
		if n == 0 {
			return
		}
	}
}
