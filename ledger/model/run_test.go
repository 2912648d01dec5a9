package model_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/ledger"
	"chimera.ai/engine/ledger/model"
)

// A long run takes as long for each outcome as for the first.
func TestLongRun(t *testing.T) {
	l := start()
	require.NoError(t, l.say(fact{kind: ledger.RunOpened, chain: chain, key: "run.opened", data: aRun()}))
	const n = 50_000
	for i := range n {
		require.NoError(t, l.say(node(fmt.Sprint("n", i), ledger.NodeSucceeded)))
	}
	require.Len(t, l.Runs[chain].Outcomes, n)
	require.ErrorIs(t, l.say(node("n7", ledger.NodeFailed)), model.ErrImpossible)
}

// TestEnds: a run may end in each of the states that say so.
func TestEnds(t *testing.T) {
	for state, ends := range map[ledger.RunState]bool{
		ledger.RunSucceeded: true, ledger.RunFailed: true, ledger.RunCancelled: true, ledger.RunTerminated: true, ledger.RunTimedOut: true,
		ledger.RunRunning: false, "": false, "Terminated": false,
	} {
		end := closed()
		end.State, end.OutputDigest = state, ""
		m := start()
		require.NoError(t, m.say(fact{kind: ledger.RunOpened, chain: chain, key: "run.opened", data: aRun()}))
		require.Equal(t, ends, state.Ended(), string(state))
		err := m.say(fact{kind: ledger.RunClosed, chain: chain, key: "run.closed/1", data: end})
		if !ends {
			require.ErrorIs(t, err, model.ErrImpossible, string(state))
			continue
		}
		require.NoError(t, err)
		require.Equal(t, state, m.Runs[chain].State)
	}
}
