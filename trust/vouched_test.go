package trust

import (
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/ledger"
	"chimera.ai/engine/plan"
)

// TestVouched: of the keys that may start runs for an agent, those vouch for the input of a run
// that the admins have stated for that; in development all do.
func TestVouched(t *testing.T) {
	vouching, starting, other := ed(t), p256(t), ed(t)
	state := State{Deployment: "d", Audience: Prod, Agents: map[string]AddAgent{
		"clerk": {AgentID: "clerk", Keys: []string{vouching.Public(), starting.Public()}, Vouching: []string{vouching.Public()}},
		"bare":  {AgentID: "bare", Keys: []string{starting.Public()}},
	}}
	for name, c := range map[string]struct {
		agent    string
		key      *Key
		audience Audience
		want     bool
	}{
		"a key that vouches":          {"clerk", vouching, Prod, true},
		"a key that starts runs":      {"clerk", starting, Prod, false},
		"an unknown key":              {"clerk", other, Prod, false},
		"an agent without such keys":  {"bare", starting, Prod, false},
		"an agent that is not stated": {"ghost", starting, Prod, false},
		"in development":              {"clerk", starting, Dev, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := state
			s.Audience = c.audience
			grant, err := SignGrant(c.key, Grant{
				Deployment: "d", Audience: c.audience, Namespace: "n", WorkflowID: "w", Plan: plan.DigestOf(nil), Input: plan.DigestOf(nil), Agent: c.agent,
				Requester: "rae", Nonce: Nonce(), Issued: at(0), Expires: ledger.At(at(0).Time().Add(MaxGrant)),
			})
			require.NoError(t, err)
			got, err := Vouched(s, grant)
			require.NoError(t, err)
			require.Equal(t, c.want, got)
		})
	}
}
