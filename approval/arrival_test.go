package approval_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/approval"
	"chimera.ai/engine/ledger"
)

// TestArrives: a vote counts while the barrier is open, and for each person once in a role.
func TestArrives(t *testing.T) {
	vote := func(id string, d approval.Decision, role string, persons ...string) approval.Vote {
		return approval.Vote{ID: id, Decision: d, Role: role, Persons: persons}
	}
	ann := vote("1", approval.Approve, "legal", "ann")
	for name, c := range map[string]struct {
		v       approval.Vote
		state   ledger.BarrierState
		counted []approval.Vote
		want    approval.Code
	}{
		"the first":                   {ann, ledger.BarrierOpen, nil, ""},
		"the same again":              {ann, ledger.BarrierOpen, []approval.Vote{ann}, ""},
		"the same again, late":        {ann, ledger.BarrierApproved, []approval.Vote{ann}, ""},
		"another, late":               {vote("2", approval.Approve, "legal", "ben"), ledger.BarrierApproved, []approval.Vote{ann}, approval.Late},
		"a rejection, late":           {vote("2", approval.Reject, "legal", "ben"), ledger.BarrierExpired, nil, approval.Late},
		"another of the person":       {vote("2", approval.Approve, "legal", "ann"), ledger.BarrierOpen, []approval.Vote{ann}, approval.Twice},
		"another for the person":      {vote("2", approval.Approve, "legal", "ben", "ann"), ledger.BarrierOpen, []approval.Vote{ann}, approval.Twice},
		"in another role":             {vote("2", approval.Approve, "board", "ann"), ledger.BarrierOpen, []approval.Vote{ann}, ""},
		"by another person":           {vote("2", approval.Approve, "legal", "ben"), ledger.BarrierOpen, []approval.Vote{ann}, ""},
		"a rejection after all":       {vote("2", approval.Reject, "legal", "ann"), ledger.BarrierOpen, []approval.Vote{ann}, ""},
		"a statement":                 {vote("2", approval.Executed, "legal", "ben"), ledger.BarrierOpen, nil, ""},
		"the opposite by the same":    {vote("2", approval.NotExecuted, "board", "ann"), ledger.BarrierOpen, []approval.Vote{vote("1", approval.Executed, "legal", "ann")}, approval.Twice},
		"the opposite by another one": {vote("2", approval.NotExecuted, "legal", "ben"), ledger.BarrierOpen, []approval.Vote{vote("1", approval.Executed, "legal", "ann")}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			err := c.v.Arrives(c.state, c.counted)
			if c.want == "" {
				require.NoError(t, err)
				return
			}
			require.Equal(t, c.want, approval.Refused(err).Code)
		})
	}
	now := time.Unix(1, 0)
	require.Equal(t, now, approval.ValidAt(ledger.BarrierOpen, now))
	require.True(t, approval.ValidAt(ledger.BarrierApproved, now).IsZero())
}
