package audit_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/approval"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/ledger/audit"
	"chimera.ai/engine/ledger/ledgertest"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/policy"
	"chimera.ai/engine/trust"
)

// TestPoliciesAreActivated: what is decided, and what people are asked, is by a policy that the
// admins have activated by then.
func TestPoliciesAreActivated(t *testing.T) {
	for name, c := range map[string]struct{ policy, says string }{
		"active":           {ledgertest.Policy, ""},
		"just replaced":    {bundle.Digest(), ""},
		"another":          {plan.DigestOf(nil), "which the admins had not activated then"},
		"no policy at all": {"", "which the admins had not activated then"},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDeployment(t)
			r := ledger.Run{Workflow: "x", Root: "r", Origin: "r", Agent: "bot", PlanDigest: ledger.BodyDigest(nil), InputDigest: ledger.BodyDigest(nil)}
			require.NoError(t, d.store.OpenRun(t.Context(), r))
			_, err := d.store.Authorize(t.Context(), r, ledgertest.Ask("i", "action"), func(st ledger.Standing) (ledger.Ruling, error) {
				out, err := ledgertest.Rule("REJECT")(st)
				out.Decision.PolicyDigest = c.policy
				return out, err
			})
			require.NoError(t, err)
			d.drain(t)
			found := d.verify(t, nil).Problems
			if c.says == "" {
				require.Empty(t, found)
				return
			}
			require.Len(t, found, 1)
			saysOnly(t, found, audit.BadAuthority, "", c.says)
		})
	}
}

// TestThePolicyOfThen: what people were asked by a policy that was replaced since may be refused by
// that one, but not approved.
func TestThePolicyOfThen(t *testing.T) {
	for name, c := range map[string]struct{ first, word, says string }{
		"refused":              {bundle.Digest(), "REJECT", ""},
		"asked again":          {bundle.Digest(), "ESCALATE", ""},
		"approved":             {bundle.Digest(), ledger.Approve, "the decision i/2 is by the policy"},
		"it never was by that": {ledgertest.Policy, "REJECT", "the decision i/2 is by the policy"},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDeployment(t)
			r := ledger.Run{Workflow: "x", Root: "r", Origin: "r", Agent: "bot", PlanDigest: ledger.BodyDigest(nil), InputDigest: ledger.BodyDigest(nil)}
			require.NoError(t, d.store.OpenRun(t.Context(), r))
			for _, by := range []struct{ policy, word string }{{c.first, "ESCALATE"}, {bundle.Digest(), c.word}} {
				_, err := d.store.Authorize(t.Context(), r, ledgertest.Ask("i", "action"), func(st ledger.Standing) (ledger.Ruling, error) {
					out, err := ledgertest.Rule(by.word)(st)
					out.Decision.PolicyDigest = by.policy
					return out, err
				})
				require.NoError(t, err)
			}
			d.drain(t)
			d.move(t, time.Hour, func(e *ledger.Entry) bool { return e.Key == "decision.made/i/2" })
			saysOnly(t, d.verify(t, nil).Problems, audit.BadAuthority, "the decision", c.says)
		})
	}
}

// TestBarriersFollowThePolicy: a barrier excludes whom its policy excludes, who are known from
// what the run, the plan and the agent say, and asks those whom it names.
func TestBarriersFollowThePolicy(t *testing.T) {
	for name, c := range map[string]struct {
		bundle func(*policy.Bundle)
		idle   bool // nobody has activated the bundle
		edit   func(*approval.Request)
		says   string
	}{
		"as it says":                     {},
		"more":                           {edit: func(r *approval.Request) { r.Rule.Excluded, r.Rule.Alone = []string{"ann", "moe", "rae", "zoe"}, true }},
		"without the requester":          {edit: func(r *approval.Request) { r.Rule.Excluded = []string{"ann", "moe"} }, says: `does not exclude "rae"`},
		"without the author":             {edit: func(r *approval.Request) { r.Rule.Excluded = []string{"ann", "rae"} }, says: `does not exclude "moe"`},
		"without the owner":              {edit: func(r *approval.Request) { r.Rule.Excluded = []string{"moe", "rae"} }, says: `does not exclude "ann"`},
		"an owner who may":               {bundle: func(b *policy.Bundle) { b.MaySign = []string{"owner"} }, edit: func(r *approval.Request) { r.Rule.Excluded = []string{"moe", "rae"} }},
		"each for others":                {bundle: func(b *policy.Bundle) { b.NoDelegation = true }, says: "it lets people sign for others"},
		"fewer":                          {edit: func(r *approval.Request) { r.Rule.Groups = []plan.Group{{Role: "cfo", Min: 1}} }, says: `does not ask for 2 of the role "cfo"`},
		"by a policy that is not active": {bundle: func(b *policy.Bundle) { b.Version = "2" }, idle: true, says: "which the admins had not activated then"},
		"by a policy out of sight":       {edit: func(r *approval.Request) { r.Policy = plan.DigestOf(nil) }, says: "the log does not have the policy of the barrier o/1"},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDeployment(t)
			moe := secret(t)
			d.state(t, &trust.AddPublisher{ID: "moe", Person: "moe", Key: moe.Public(), Uses: []string{"plans"}})
			d.publish(t, "pay", moe, func(p *trust.Plan) { p.Author = "moe" })
			d.unknown(t, func(r *approval.Request) {
				if c.bundle != nil {
					b := *bundle
					c.bundle(&b)
					if !c.idle {
						d.state(t, &trust.ActivateBundle{Digest: b.Digest()})
					}
					r.Policy = d.keeps(t, &b)
				}
				r.Rule.Excluded = []string{"ann", "moe", "rae"}
				if c.edit != nil {
					c.edit(r)
				}
			})
			d.drain(t)
			saysOnly(t, d.verify(t, nil).Problems, audit.BadAuthority, "barrier", c.says)
		})
	}
}
