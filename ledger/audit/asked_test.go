package audit_test

import (
	"strings"
	"testing"

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
	for name, c := range map[string]struct {
		policy func(*deployment) string
		says   string
	}{
		"active":           {func(*deployment) string { return ledgertest.Policy }, ""},
		"just replaced":    {func(d *deployment) string { d.keeps(t, bundle); return ledgertest.Policy }, ""},
		"another":          {func(*deployment) string { return plan.DigestOf(nil) }, "which the admins had not activated then"},
		"no policy at all": {func(*deployment) string { return "" }, "which the admins had not activated then"},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDeployment(t)
			digest := c.policy(d)
			r := ledger.Run{Workflow: "x", Root: "r", Origin: "r", Agent: "bot", PlanDigest: ledger.BodyDigest(nil), InputDigest: ledger.BodyDigest(nil)}
			require.NoError(t, d.store.OpenRun(t.Context(), r))
			_, err := d.store.Authorize(t.Context(), r, ledgertest.Ask("i", "action"), func(st ledger.Standing) (ledger.Ruling, error) {
				out, err := ledgertest.Rule("REJECT")(st)
				out.Decision.PolicyDigest = digest
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
			require.Equal(t, audit.BadAuthority, found[0].Kind)
			require.Contains(t, found[0].Message, c.says)
		})
	}
}

// TestBarriersFollowThePolicy: a barrier excludes whom its policy excludes, who are known from
// what the run, the plan and the agent say, and asks those whom it names.
func TestBarriersFollowThePolicy(t *testing.T) {
	for name, c := range map[string]struct {
		bundle func(*policy.Bundle)
		edit   func(*approval.Request)
		says   string
	}{
		"as it says":                     {nil, func(*approval.Request) {}, ""},
		"more":                           {nil, func(r *approval.Request) { r.Rule.Excluded, r.Rule.Alone = []string{"ANN", "Moe", "rae", "zoe"}, true }, ""},
		"without the requester":          {nil, func(r *approval.Request) { r.Rule.Excluded = []string{"Ann", "Moe"} }, `does not exclude "Rae"`},
		"without the author":             {nil, func(r *approval.Request) { r.Rule.Excluded = []string{"Ann", "Rae"} }, `does not exclude "Moe"`},
		"without the owner":              {nil, func(r *approval.Request) { r.Rule.Excluded = []string{"Moe", "Rae"} }, `does not exclude "Ann"`},
		"an owner who may":               {func(b *policy.Bundle) { b.MaySign = []string{"owner"} }, func(r *approval.Request) { r.Rule.Excluded = []string{"Moe", "Rae"} }, ""},
		"each for others":                {func(b *policy.Bundle) { b.NoDelegation = true }, func(*approval.Request) {}, "it lets people sign for others"},
		"fewer":                          {nil, func(r *approval.Request) { r.Rule.Groups = []plan.Group{{Role: "cfo", Min: 1}} }, `does not ask for 2 of the role "cfo"`},
		"by a policy that is not active": {func(b *policy.Bundle) { b.Version = "idle" }, func(*approval.Request) {}, "which the admins had not activated then"},
		"by a policy out of sight":       {nil, func(r *approval.Request) { r.Policy = plan.DigestOf(nil) }, "the log does not have the policy of the barrier o/1"},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDeployment(t)
			moe := secret(t)
			d.state(t, &trust.AddPublisher{ID: "moe", Person: "Moe", Key: moe.Public(), Uses: []string{"plans"}})
			d.publish(t, "pay", moe, func(p *trust.Plan) { p.Author = "moe" })
			d.unknown(t, func(r *approval.Request) {
				if c.bundle != nil {
					b := *bundle
					c.bundle(&b)
					if b.Version == "idle" {
						d.activated = b.Digest()
					}
					r.Policy = d.keeps(t, &b)
				}
				r.Rule.Excluded = []string{"Ann", "Moe", "Rae"}
				c.edit(r)
			})
			d.drain(t)
			var found []string
			for _, p := range d.verify(t, nil).Problems {
				if p.Kind == audit.BadAuthority && strings.Contains(p.Message, "barrier") {
					found = append(found, p.Message)
				}
			}
			if c.says == "" {
				require.Empty(t, found)
				return
			}
			require.Len(t, found, 1)
			require.Contains(t, found[0], c.says)
		})
	}
}
