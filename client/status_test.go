package client

import (
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/contract"
)

// TestCutOff: of a run that Temporal has ended, nothing says that anybody waits or is asked.
func TestCutOff(t *testing.T) {
	s := &contract.State{
		Waiting: []contract.Wait{{Kind: contract.WaitApproval}}, Paused: &contract.Pause{By: "bob"}, Barriers: []contract.BarrierStatus{{ID: "b/1"}},
		Counts: contract.Counts{Succeeded: 1, Running: 1, Pending: 2},
		Nodes:  []contract.NodeStatus{{ID: "a", State: contract.Succeeded}, {ID: "b", State: contract.Running}, {ID: "c", State: contract.Pending}},
	}
	cutOff(s)
	require.Equal(t, &contract.State{
		Counts: contract.Counts{Succeeded: 1, Dropped: 3},
		Nodes:  []contract.NodeStatus{{ID: "a", State: contract.Succeeded}, {ID: "b", State: contract.Dropped}, {ID: "c", State: contract.Dropped}},
	}, s)
}
