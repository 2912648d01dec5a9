package model_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/ledger"
	"chimera.ai/engine/ledger/model"
)

// What rests on another entry rests on it too where bodies are gone: their kinds are
// there, and cover nothing that cannot have happened.
func TestGoneCoversNothing(t *testing.T) {
	// A posted hold frees what was held; without bodies nobody knows how much. Nor which
	// hold and task an invocation has, or whether it may be called again without being
	// released, or whether a run continues another, in which it may have been paused; nor how
	// many KPIs were observed.
	covered := map[string]bool{"run.paused/1": true, "task.signed/i/1": true, "task.executed/i/2": true, "invocation.released/i/1": true, "invocation.permitted/i/2": true, "hold.posted/i/2": true, "hold.voided/i/1": true, "hold.voided/j": true, "hold.running/i/1": true, "hold.running/i/2": true, "hypothesis.observed/h/1": true}
	for i, missing := range life() {
		if missing.kind.Class() == ledger.Permanent {
			continue // its body is never gone
		}
		for _, by := range []func(j int) bool{
			func(int) bool { return true },       // nothing can be read
			func(j int) bool { return j%2 == 0 }, // every other one
		} {
			l := start()
			var refused []string
			for j, f := range life() {
				if i == j {
					continue
				}
				f.gone = by(j) && f.kind.Class() != ledger.Permanent
				if err := l.say(f); err != nil {
					require.ErrorIs(t, err, model.ErrImpossible)
					refused = append(refused, f.key)
				}
			}
			rests := needs[missing.key]
			switch {
			case len(rests) == 0, covered[missing.key], missing.kind == ledger.DecisionMade, missing.kind == ledger.ApprovalAccepted:
				// The body of a permit tells which one it depends on.
			default:
				found := slices.ContainsFunc(rests, func(key string) bool { return slices.Contains(refused, key) })
				require.True(t, found, "without %s, %v is refused", missing.key, refused)
			}
		}
	}
}

// A body that is gone makes as little vague as possible.
func TestVagueIsNarrow(t *testing.T) {
	byKey := map[string]fact{}
	for _, f := range life() {
		byKey[f.key] = f
	}
	limit := func(agent string, every ledger.Every, parent string, n int64) fact {
		return about(ledger.BudgetSet, budgetChain, fmt.Sprint(agent, n), ledger.BudgetData{Agent: agent, Currency: "USD", Parent: parent, Every: every, Limit: cents(n)})
	}
	hold := func(id string, n int64, charges ...ledger.Charge) fact {
		return about(ledger.HoldOpened, budgetChain, id, ledger.Hold{ID: id, Agent: charges[0].Agent, Charges: charges, Amount: cents(n), Status: ledger.TxPending, ExpiresAt: at(9)})
	}
	t.Run("budgets", func(t *testing.T) {
		l := start()
		for _, f := range []fact{limit("org", ledger.Forever, "", 100), limit("a", ledger.Forever, "org", 50), limit("b", ledger.Forever, "", 50)} {
			require.NoError(t, l.say(f))
		}
		lost := hold("1", 10, forever("a", "org")...)
		lost.gone = true
		require.NoError(t, l.say(lost))
		require.NoError(t, l.say(hold("2", 5000, forever("a", "org")...)), "nobody knows what is left")
		require.ErrorContains(t, l.say(hold("3", 51, forever("b")...)), "does not fit", "another budget")
		require.NoError(t, l.say(limit("a", ledger.Daily, "", 20)))
		require.ErrorContains(t, l.say(hold("4", 21, ledger.Charge{Agent: "a", Period: ledger.Daily.Period(at(0))})), "does not fit", "a later period")
		require.NoError(t, l.say(limit("a", ledger.Forever, "org", 70)))
		require.Equal(t, cents(70), l.Budgets[model.BudgetKey{Agent: "a", Currency: "USD"}].Limit, "limits are known")
		require.ErrorContains(t, l.say(about(ledger.HoldPosted, budgetChain, "9", ledger.HoldData{ID: "9"})), "is not pending")
	})
	t.Run("approvals", func(t *testing.T) {
		l := start()
		for _, f := range until("invocation.permitted/i/1") {
			if f.kind == ledger.ApprovalConsumed {
				f.gone = true
			}
			require.NoError(t, l.say(f))
		}
		require.True(t, l.Vague["used:v"])
		later := with(byKey["approval.accepted/v"], func(a *ledger.Approval) { a.ID = "later" })
		later.key = "approval.accepted/later"
		require.NoError(t, l.say(later))
		use := func(by, id string) fact {
			return about(ledger.ApprovalConsumed, chain, by+"/1", ledger.ConsumedData{Decision: by + "/1", Invocation: by, Action: sum("a"), Approvals: []string{id}})
		}
		require.NoError(t, l.say(use("i2", "later")))
		require.ErrorContains(t, l.say(use("i3", "later")), "is used up")
	})
}

// The fields of an entry agree with its body.
func TestTold(t *testing.T) {
	for _, c := range []struct {
		name   string
		f      fact
		change func(e *ledger.Entry)
		says   string
	}{
		{"another agent", life()[7], func(e *ledger.Entry) { e.Agent = "mallory" }, "of another agent, plan, input or output"},
		{"another plan", life()[7], func(e *ledger.Entry) { e.Plan = sum("q") }, "of another agent, plan, input or output"},
		{"another input", life()[7], func(e *ledger.Entry) { e.Refs = []ledger.Ref{{Name: "input", Digest: sum("q")}} }, "of another agent, plan, input or output"},
		{"another output", life()[8], func(e *ledger.Entry) { e.Refs = []ledger.Ref{{Name: "output", Digest: sum("q")}} }, "of another agent, plan, input or output"},
		{"another agent's hold", life()[13], func(e *ledger.Entry) { e.Agent = "b" }, "of another currency or agent"},
		{"a hold of another currency", life()[13], func(e *ledger.Entry) { e.Chain = "budget/EUR" }, "of another currency or agent"},
		{"a budget of another currency", life()[6], func(e *ledger.Entry) { e.Chain = "budget/EUR" }, "in the chain budget/EUR"},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := start()
			for _, f := range life() {
				if f.key == c.f.key {
					break
				}
				require.NoError(t, l.say(f))
			}
			e, data, err := entry(c.f, l.next[c.f.chain])
			require.NoError(t, err)
			c.change(e)
			require.ErrorContains(t, l.Apply(e, ledger.Hash{1}, data), c.says)
		})
	}
}

// An end must agree with the beginning, and a second end with the first.
func TestEndsAgree(t *testing.T) {
	for name, change := range map[string]func(*ledger.Run){
		"requester": func(r *ledger.Run) { r.Requester = "mallory" }, "grant": func(r *ledger.Run) { r.GrantDigest = sum("g") },
		"agent": func(r *ledger.Run) { r.Agent = "mallory" }, "name": func(r *ledger.Run) { r.PlanName = "other" },
		"origin": func(r *ledger.Run) { r.Origin = "q" }, "beginning": func(r *ledger.Run) { r.OpenedAt = at(3) },
	} {
		l := start()
		require.NoError(t, l.say(life()[7]))
		end := with(fact{kind: ledger.RunClosed, chain: chain, key: "run.closed/1", data: closed()}, change)
		require.ErrorContains(t, l.say(end), "something else of how it was opened", name)
	}
	for name, change := range map[string]func(*ledger.Run){
		"output": func(r *ledger.Run) { r.OutputDigest = sum("other") }, "time": func(r *ledger.Run) { later := at(10); r.ClosedAt = &later },
		"failure": func(r *ledger.Run) { r.Failure = json.RawMessage(`{}`) },
	} {
		l := start()
		for _, f := range life() {
			require.NoError(t, l.say(f))
		}
		again := with(fact{kind: ledger.RunClosed, chain: chain, key: "run.closed/99", data: closed()}, change)
		require.ErrorContains(t, l.say(again), "something else of how the run has ended", name)
	}
}

// A hold ends at its time, and an approval belongs to its workflow.
func TestHoldsAndApprovalsKeepToTheirs(t *testing.T) {
	l := start()
	for _, f := range until("decision.made/i/1") {
		if f.kind == ledger.HoldOpened {
			f = with(f, func(h *ledger.Hold) { h.ExpiresAt = at(3600) })
		}
		require.NoError(t, l.say(f))
	}
	require.ErrorContains(t, l.say(about(ledger.HoldExpired, budgetChain, "i/1", ledger.HoldData{ID: "i/1"})), "before its time")

	l = start()
	for _, f := range until("approval.consumed/i/1") {
		require.NoError(t, l.say(f))
	}
	other := aRun()
	other.Workflow = "other"
	require.NoError(t, l.say(fact{kind: ledger.RunOpened, chain: other.Chain(), key: "run.opened", data: other}))
	use := about(ledger.ApprovalConsumed, other.Chain(), "i/1", ledger.ConsumedData{Decision: "i/1", Invocation: "i", Action: sum("a"), Approvals: []string{"v"}})
	require.ErrorContains(t, l.say(use), "approval v is of another workflow")
	use.chain, use.key = chain, "approval.consumed/j/1"
	require.ErrorContains(t, l.say(use), "its key is not that of i/1")
}
