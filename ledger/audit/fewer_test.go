package audit_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/approval"
	"chimera.ai/engine/ledger/audit"
	"chimera.ai/engine/plan"
)

// TestFewerWereAsked: the decision by which an effect is permitted says who must approve it. What
// enough people have approved does not do if fewer were asked than that.
func TestFewerWereAsked(t *testing.T) {
	const says = "fewer people were asked than must approve it"
	for name, c := range map[string]struct {
		groups []plan.Group
		fewer  bool
	}{
		"as many":      {cfos, false},
		"one of two":   {[]plan.Group{{Role: "cfo", Min: 1}}, true},
		"another role": {[]plan.Group{{Role: "cto", Min: 2}}, true},
		"more":         {[]plan.Group{{Role: "cfo", Min: 2}, {Role: "cto", Min: 1}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDeployment(t)
			cat, dan := secret(t), secret(t)
			for id, key := range map[string]string{"cat": cat.Public(), "dan": dan.Public()} {
				s := signerOf(id, id, cat)
				s.PublicKey, s.Roles = key, []string{"cfo", "cto"}
				d.state(t, s)
			}
			a := d.asksAbout(t, "x", nil, plan.FollowUp{}, func(r *approval.Request) { r.Rule.Groups = c.groups })
			role := c.groups[0].Role
			d.permit(t, a, d.acceptAs(t, a, "cat", role, cat), d.acceptAs(t, a, "dan", role, dan))
			d.drain(t)
			found := slices.ContainsFunc(d.verify(t, nil).Problems, func(p audit.Problem) bool {
				return p.Kind == audit.BadAuthority && strings.Contains(p.Message, says)
			})
			require.Equal(t, c.fewer, found)
		})
	}
}
