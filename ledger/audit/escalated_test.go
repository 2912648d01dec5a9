package audit_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/plan"
	"chimera.ai/engine/trust"
)

// TestEscalated: the signatures of those to whom a barrier escalates count once the log has
// that it was escalated, and must then be there.
func TestEscalated(t *testing.T) {
	for name, c := range map[string]struct {
		escalated bool
		by        []string
		says      string
	}{
		"escalated, and all have signed":            {true, []string{"cat", "dan", "fay"}, ""},
		"escalated, and those have not signed":      {true, []string{"cat", "dan"}, "not enough people have approved it"},
		"not escalated, and those have signed":      {false, []string{"cat", "dan", "fay"}, "ineligible: the role board is asked from"},
		"not escalated, and one of those stands in": {false, []string{"fay", "cat"}, "ineligible: the role board is asked from"},
		"not escalated, and the others have signed": {false, []string{"cat", "dan"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDeployment(t)
			keys := map[string]*trust.Key{"cat": secret(t), "dan": secret(t), "fay": secret(t)}
			board := signerOf("fay", "fay", keys["fay"])
			board.Roles = []string{"board"}
			d.state(t, signerOf("cat", "cat", keys["cat"]), signerOf("dan", "dan", keys["dan"]), board)
			after := int64(30_000) // it was opened a minute ago
			if !c.escalated {
				after = 3_600_000
			}
			a := d.asksAbout(t, "x", nil, plan.FollowUp{EscalateAfterMS: after, To: []plan.Group{{Role: "board", Min: 1}}})
			if c.escalated {
				var err error
				a.barrier, err = d.store.EscalateBarrier(t.Context(), a.barrier.ID)
				require.NoError(t, err)
			}
			var used []string
			for _, signer := range c.by {
				role := "cfo"
				if signer == "fay" {
					role = "board"
				}
				used = append(used, d.acceptAs(t, a, signer, role, keys[signer]))
			}
			d.permit(t, a, used...)
			d.drain(t)
			saysOfApprovals(t, d.verify(t, nil).Problems, c.says)
		})
	}
}
