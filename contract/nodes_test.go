package contract_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/contract"
)

func TestNodeStates(t *testing.T) {
	states := []contract.NodeState{contract.Succeeded, contract.Failed, contract.Skipped, contract.Dropped, ""}
	s := contract.Letters(states)
	require.Equal(t, contract.NodeStates("sfk--"), s)
	states[4] = contract.Dropped
	for i, want := range states {
		require.Equal(t, want, s.State(i))
	}
	// An answer may come from a worker that is not ours.
	for _, i := range []int{-1, len(s)} {
		require.Equal(t, contract.Dropped, s.State(i))
	}
	require.Equal(t, contract.Dropped, contract.NodeStates("?").State(0))
}
