package audit_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/approval"
	"chimera.ai/engine/guardian"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/ledger/audit"
	"chimera.ai/engine/ledger/ledgertest"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/policy"
	"chimera.ai/engine/trust"
)

// TestWithoutGrant: a run that was started without a grant has no effects.
func TestWithoutGrant(t *testing.T) {
	d := newDeployment(t)
	r := ledger.Run{Workflow: "y", Root: "r", Origin: "r", Agent: "bot", PlanDigest: ledger.BodyDigest(nil), InputDigest: ledger.BodyDigest(nil)}
	require.NoError(t, d.store.OpenRun(t.Context(), r))
	_, err := d.store.Authorize(t.Context(), r, ledgertest.Ask("i", "action"), ledgertest.Rule(ledger.Approve))
	require.NoError(t, err)
	d.drain(t)
	d.finds(t, audit.BadAuthority, "an effect was permitted in the run y, which was started without a grant")
	// Without a bootstrap no grant is verified, and this is said.
	d.trust.Bootstrap = nil
	rep := d.finds(t, "", "")
	require.Contains(t, rep.Warnings[0].Message, "1 effect was permitted in runs that were started without a grant, the first in y")
}

// TestOverdrafts: who spends more than a budget has, needs the approval of those who may let it,
// and the report says how much it was, and who they were.
func TestOverdrafts(t *testing.T) {
	for name, c := range map[string]struct {
		// lifts are the reasons that people are told, and may the role that may let a budget be exceeded.
		lifts    []string
		may      string
		approved bool
		says     string
	}{
		"by those who may":     {[]string{guardian.BudgetExceeded}, "cfo", true, ""},
		"by nobody":            {nil, "cfo", false, "nobody has approved it"},
		"who did not know":     {[]string{guardian.CausalRisk}, "cfo", true, "none of cfo has approved that, knowing of it"},
		"by those who may not": {[]string{guardian.BudgetExceeded}, "treasurer", true, "none of treasurer has approved that, knowing of it"},
		"that nobody may let":  {[]string{guardian.BudgetExceeded}, "", true, "its policy lets nobody approve that"},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDeployment(t)
			cat, dan := secret(t), secret(t)
			one, err := ledger.Minor(100, "USD")
			require.NoError(t, err)
			two, err := ledger.Minor(250, "USD")
			require.NoError(t, err)
			d.state(t, signerOf("cat", "cat", cat), signerOf("dan", "dan", dan), &trust.SetBudget{Agent: "bot", Currency: "USD", Every: ledger.Forever, Limit: one})
			by := &policy.Bundle{Version: "1"}
			if c.may != "" {
				by.Lift = []policy.Lift{{Reason: guardian.BudgetExceeded, Roles: []string{c.may}}}
			}
			a := d.asksAbout(t, "x", nil, plan.FollowUp{}, func(r *approval.Request) { r.Policy, r.Actions[0].Lifts = d.keeps(t, by), c.lifts })
			a.ask.Cost, a.ask.Overdraft, a.ask.Agent = &two, true, "bot"
			if c.approved {
				approvals := []string{d.accept(t, a, "cat", cat), d.accept(t, a, "dan", dan)}
				_, err := d.store.ApproveBarrier(t.Context(), a.barrier.ID, "", false)
				require.NoError(t, err)
				a.ask.Barrier, a.ask.Approvals = a.barrier.ID, approvals
			}
			got, err := d.store.Authorize(t.Context(), a.run, a.ask, asks)
			require.NoError(t, err)
			_, err = d.store.Claim(t.Context(), a.ask.ID, got.Decision.ID, "token", time.Minute)
			require.NoError(t, err)
			d.drain(t)
			r := d.verify(t, nil)
			var says []string
			for _, p := range r.Problems {
				if strings.Contains(p.Message, "exceeds the budget of bot") {
					says = append(says, p.Message)
				}
			}
			if c.says == "" {
				require.Empty(t, says)
			} else {
				require.Len(t, says, 1)
				require.Contains(t, says[0], c.says)
			}
			require.Equal(t, []audit.Overdraft{{Agent: "bot", Amount: two, Holds: 1}}, r.Overdrafts)
			require.Len(t, r.Lifted, 1)
			var text bytes.Buffer
			require.NoError(t, r.WriteText(&text, time.Now()))
			require.Contains(t, text.String(), "beyond the budget of bot: 2.50 USD, 1 hold\n")
			if c.approved {
				require.Equal(t, a.barrier.ID, r.Lifted[0].Barrier)
				require.ElementsMatch(t, []string{"cat", "dan"}, r.Lifted[0].Signers)
			} else {
				require.Contains(t, text.String(), "for i-x/2; nobody has approved it\n")
			}
		})
	}
}

// TestRepeatedCalls: a call without effect that is made again after a reset exceeds a budget, and
// no other does.
func TestRepeatedCalls(t *testing.T) {
	d := newDeployment(t)
	one, err := ledger.Minor(100, "USD")
	require.NoError(t, err)
	d.state(t, &trust.SetBudget{Agent: "bot", Currency: "USD", Every: ledger.Forever, Limit: one})
	hold := func(id, root string, over bool) {
		_, err := d.store.OpenHold(t.Context(), ledger.Hold{
			ID: id, Agent: "bot", Amount: one, Overdraft: over, ExpiresAt: ledger.At(time.Now().Add(time.Hour)),
			Call: &ledger.HeldCall{Workflow: "w", Root: root, Origin: "a", Node: "n"},
		})
		require.NoError(t, err)
	}
	hold("first", "a", false)
	hold(ledger.HoldAgain("first", "b"), "b", true)
	d.drain(t)
	r := d.finds(t, "", "")
	require.True(t, r.Lifted[0].Again)
	hold("made up", "c", true)
	d.drain(t)
	d.finds(t, audit.BadAuthority, "the hold made up of 1.00 USD exceeds the budget of bot, and no call before a reset had a hold that it repeats")
}
