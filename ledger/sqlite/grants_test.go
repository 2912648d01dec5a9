package sqlite_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/ledger"
	"chimera.ai/engine/plan"
)

// TestAGrantOpensOneRun: a start grant that has opened a run opens no other, however that run has
// ended.
func TestAGrantOpensOneRun(t *testing.T) {
	digest := func(of string) string { return plan.DigestOf([]byte(of)) }
	for _, end := range []ledger.RunState{ledger.RunSucceeded, ledger.RunFailed, ledger.RunCancelled, ledger.RunTerminated, ledger.RunTimedOut} {
		t.Run(string(end), func(t *testing.T) {
			s := suite(t)(t)
			first := ledger.Run{
				Workflow: "w", Root: "r1", Origin: "r1", PlanDigest: digest("plan"), InputDigest: digest("input"), Agent: "clerk", Requester: "rae",
				Grant: []byte(`{"payload":"x"}`), GrantDigest: digest("grant"),
			}
			require.NoError(t, s.OpenRun(t.Context(), first))
			ended := first
			ended.State = end
			_, _, err := s.CloseRun(t.Context(), ended, nil)
			require.NoError(t, err)
			again := first
			again.Root, again.Origin = "r2", "r2"
			err = s.OpenRun(t.Context(), again)
			require.ErrorIs(t, err, ledger.ErrConflict)
			require.ErrorContains(t, err, "the start grant has opened the run r1")
			again.GrantDigest = digest("another grant")
			require.NoError(t, s.OpenRun(t.Context(), again))
		})
	}
}
