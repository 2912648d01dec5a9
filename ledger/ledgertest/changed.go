package ledgertest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/ledger"
)

// Change changes what the table of runs says of a run, in SQL that both databases know: its
// agent, who asked for it, its plan, and how it has ended.
const Change = `UPDATE runs SET doc = replace(replace(replace(replace(doc, '"agent-42"', '"mallory"'), '"alice"', '"eve"'), '"pay"', '"prey"'), '"terminated"', '"succeeded"')`

// ChangedRuns checks that the log says of a run what it has said when the run was opened,
// and when it has ended, whatever the table of runs says by then: change executes a statement.
func ChangedRuns(t *testing.T, s ledger.Store, change func(query string)) {
	ctx, key := t.Context(), Key(t)
	node := func(name string) []ledger.Outcome { return []ledger.Outcome{{Node: name, Kind: ledger.NodeSucceeded}} }
	end := run()
	end.State = ledger.RunTerminated
	require.NoError(t, s.OpenRun(ctx, run()))
	require.NoError(t, s.RecordOutcomes(ctx, "w", "r1", node("a")))
	d, err := permitted(ctx, s, run(), Ask("i", "action"))
	require.NoError(t, err)
	i, err := s.Claim(ctx, "i", d, "token", time.Minute)
	require.NoError(t, err)
	change(Change)
	require.NoError(t, s.RecordOutcomes(ctx, "w", "r1", node("b")))
	require.NoError(t, s.RecordOrder(ctx, "w", "r1", ledger.Order{Kind: ledger.RunPaused, N: 1}))
	told, stood, err := s.CloseRun(ctx, end, node("c"))
	require.NoError(t, err)
	require.False(t, stood)
	require.Equal(t, "alice", told.Requester)

	// What is settled later is followed by the same end.
	change(Change)
	_, err = s.Settle(ctx, "i", settled(i.Attempt, "output"))
	require.NoError(t, err)
	told, stood, err = s.CloseRun(ctx, end, nil)
	require.NoError(t, err)
	require.True(t, stood)
	require.Equal(t, ledger.RunTerminated, told.State)
	Drain(t, s, key)
	r := Replay(t, s).Runs[ledger.RunChain("w", "r1")]
	require.Equal(t, told.Requester, r.Requester)
	require.Equal(t, "pay", r.PlanName)
	require.Equal(t, "agent-42", r.Agent)
	require.Equal(t, ledger.RunTerminated, r.State)

	// Once the log's word is pruned, the table's remains, which nobody can compare.
	other := run()
	other.Root, end.Root = "r2", "r2"
	other.Origin, end.Origin = "r2", "r2"
	require.NoError(t, s.OpenRun(ctx, other))
	_, err = s.Prune(ctx, ledger.Operational, time.Now().Add(time.Hour), "policy")
	require.NoError(t, err)
	change(Change)
	_, _, err = s.CloseRun(ctx, end, node("a"))
	require.NoError(t, err)
	Drain(t, s, key)
	require.True(t, Replay(t, s).Vague["run:"+other.Chain()])
}
