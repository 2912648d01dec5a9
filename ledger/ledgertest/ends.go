package ledgertest

import (
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/ledger"
)

// ends: a run has one end, that which is stated first, with the outcomes that came
// with it; whoever asks for another is told of it, and that it stood. What can never be right is refused.
func ends(t *testing.T, open Open) {
	s := open(t)
	ctx := t.Context()
	failure := json.RawMessage(`{"kind":"timeout"}`)
	outcome := func(node string, kind ledger.Kind) ledger.Outcome { return ledger.Outcome{Node: node, Kind: kind} }
	proposals := []ledger.Run{
		{State: ledger.RunSucceeded, OutputDigest: digest("out"), Value: []byte("\x00\xffout")},
		{State: ledger.RunFailed, Failure: failure},
		{State: ledger.RunCancelled, Failure: failure},
		{State: ledger.RunTerminated},
		{State: ledger.RunTimedOut},
	}

	// Many propose at once.
	for i := range proposals {
		r := run()
		r.Root = fmt.Sprintf("at-once-%d", i)
		require.NoError(t, s.OpenRun(ctx, r))
		require.NoError(t, s.RecordOutcomes(ctx, r.Workflow, r.Root, []ledger.Outcome{outcome("a", ledger.NodeSucceeded)}))
		told, stood := make([]ledger.Run, len(proposals)), make([]bool, len(proposals))
		var all sync.WaitGroup
		for j, p := range append(proposals[i:len(proposals):len(proposals)], proposals[:i]...) {
			all.Go(func() {
				end := r
				end.State, end.OutputDigest, end.Failure, end.Value = p.State, p.OutputDigest, p.Failure, p.Value
				var err error
				told[j], stood[j], err = s.CloseRun(ctx, end, []ledger.Outcome{outcome("a", ledger.NodeSucceeded), outcome(string(end.State), ledger.NodeSkipped)})
				if err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if t.Failed() {
			return
		}
		first := 0
		for j, have := range told {
			require.Equal(t, told[0], have, "all are told of one end")
			if !stood[j] {
				first++
				require.Equal(t, append(proposals[i:len(proposals):len(proposals)], proposals[:i]...)[j].State, have.State)
			}
		}
		require.Equal(t, 1, first, "for one it did not stand yet")
		stands, err := s.Run(ctx, r.Workflow, r.Root)
		require.NoError(t, err)
		require.Equal(t, told[0], stands)
		at := slices.IndexFunc(proposals, func(p ledger.Run) bool { return p.State == stands.State })
		require.Equal(t, proposals[at].OutputDigest, stands.OutputDigest)
		require.Equal(t, string(proposals[at].Failure), string(stands.Failure))
		require.Equal(t, proposals[at].Value, stands.Value)
		have, err := s.Outcomes(ctx, r.Workflow, r.Root, everything)
		require.NoError(t, err)
		require.Equal(t, []ledger.Outcome{outcome("a", ledger.NodeSucceeded), outcome(string(stands.State), ledger.NodeSkipped)}, have, "none of another end")
		records, err := s.Chain(ctx, r.Chain(), 0, everything.Limit)
		require.NoError(t, err)
		require.Len(t, records, 4, "opened, two outcomes, closed once")
	}

	// What is refused leaves the run open, and states nothing.
	r := run()
	r.Root = "refused"
	require.NoError(t, s.OpenRun(ctx, r))
	require.NoError(t, s.RecordOutcomes(ctx, r.Workflow, r.Root, []ledger.Outcome{outcome("a", ledger.NodeSucceeded)}))
	end := r
	end.State = ledger.RunFailed
	refused := func(want error, end ledger.Run, last ...ledger.Outcome) {
		t.Helper()
		_, _, err := s.CloseRun(ctx, end, last)
		require.ErrorIs(t, err, want)
	}
	refused(ledger.ErrConflict, end, outcome("b", ledger.NodeSucceeded), outcome("a", ledger.NodeFailed))
	for _, change := range []func(*ledger.Run){
		func(r *ledger.Run) { r.PlanDigest = digest("other") }, func(r *ledger.Run) { r.InputDigest = digest("other") },
	} {
		other := end
		change(&other)
		refused(ledger.ErrConflict, other)
	}
	refused(ledger.ErrInvalid, end, ledger.Outcome{Node: "b", Kind: ledger.RunClosed})
	other := end
	other.Root = "never opened"
	refused(ledger.ErrNotFound, other)
	have, err := s.Run(ctx, r.Workflow, r.Root)
	require.NoError(t, err)
	require.Equal(t, ledger.RunRunning, have.State)
	outcomes, err := s.Outcomes(ctx, r.Workflow, r.Root, everything)
	require.NoError(t, err)
	require.Len(t, outcomes, 1)

	// Who does not know the plan closes it too; what contradicts it then is dropped,
	// but not another plan.
	have, stood, err := s.CloseRun(ctx, ledger.Run{Workflow: r.Workflow, Root: r.Root, State: ledger.RunTerminated}, nil)
	require.NoError(t, err)
	require.False(t, stood)
	require.Equal(t, ledger.RunTerminated, have.State)
	require.Equal(t, "pay", have.PlanName)
	again, stood, err := s.CloseRun(ctx, end, []ledger.Outcome{outcome("a", ledger.NodeFailed), outcome("late", ledger.NodeFailed)})
	require.NoError(t, err)
	require.True(t, stood)
	require.Equal(t, have, again)
	kept, err := s.Outcomes(ctx, r.Workflow, r.Root, everything)
	require.NoError(t, err)
	require.Equal(t, outcomes, kept)
	end.PlanDigest = digest("other")
	refused(ledger.ErrConflict, end)

	// Open runs are listed in their order, and those that have ended are not.
	var want []string
	for _, root := range []string{"z", "b", "y", "a"} {
		r := run()
		r.Workflow, r.Root = "open/"+root, root
		require.NoError(t, s.OpenRun(ctx, r))
		want = append(want, root)
	}
	_, _, err = s.CloseRun(ctx, ledger.Run{Workflow: "open/y", Root: "y", State: ledger.RunTimedOut}, nil)
	require.NoError(t, err)
	want = slices.DeleteFunc(want, func(root string) bool { return root == "y" })
	slices.Sort(want)
	var listed []string
	for at := (ledger.Run{}); ; {
		page, err := s.OpenRuns(ctx, at.Workflow, at.Root, 2)
		require.NoError(t, err)
		require.LessOrEqual(t, len(page), 2)
		if len(page) == 0 {
			break
		}
		for _, r := range page {
			require.Equal(t, ledger.RunRunning, r.State)
			listed = append(listed, r.Root)
		}
		at = page[len(page)-1]
	}
	require.Equal(t, want, listed)
	Drain(t, s, Key(t))
	Same(t, s, Replay(t, s))
}

// values: the value of a run lies beside the log, and goes with the run's bodies,
// or with whom it is about.
func values(t *testing.T, open Open) {
	s := open(t)
	ctx := t.Context()
	end := func(root, subject string) {
		t.Helper()
		r := run()
		r.Root, r.Origin, r.Subject = root, root, subject
		require.NoError(t, s.OpenRun(ctx, r))
		r.State, r.OutputDigest, r.Value = ledger.RunSucceeded, digest("out"), []byte("a value of Erika, "+root)
		have, _, err := s.CloseRun(ctx, r, nil)
		require.NoError(t, err)
		require.Equal(t, string(r.Value), string(have.Value))
		for _, d := range bodiesOf(t, s, r.Chain()) {
			raw, err := s.Body(ctx, d)
			require.NoError(t, err)
			require.NotContains(t, string(raw), "a value of")
		}
		records, err := s.Chain(ctx, r.Chain(), 0, everything.Limit)
		require.NoError(t, err)
		for _, record := range records {
			require.NotContains(t, string(record.Bytes), "a value of")
		}
	}
	has := func(root string, want bool) {
		t.Helper()
		r, err := s.Run(ctx, "w", root)
		require.NoError(t, err)
		require.Equal(t, want, len(r.Value) > 0)
		r.State, r.OutputDigest = ledger.RunFailed, ""
		r.Value = nil
		have, _, err := s.CloseRun(ctx, r, nil)
		require.NoError(t, err)
		require.Equal(t, want, len(have.Value) > 0)
		require.Equal(t, ledger.RunSucceeded, have.State)
	}
	end("plain", "")
	end("held", "")
	end("about", "erika")
	going := run()
	going.Root, going.Origin, going.Subject = "going", "going", "erika"
	require.NoError(t, s.OpenRun(ctx, going))

	require.NoError(t, s.EraseSubject(ctx, "erika", "asked"))
	has("about", false)
	has("plain", true)
	going.State, going.Value = ledger.RunSucceeded, []byte("said too late")
	have, _, err := s.CloseRun(ctx, going, nil)
	require.NoError(t, err)
	require.Empty(t, have.Value, "what such a run still states nobody reads")
	has("going", false)

	require.NoError(t, s.PlaceLegalHold(ctx, ledger.RunChain("w", "held"), "case"))
	_, err = s.Prune(ctx, ledger.Operational, time.Now().Add(-time.Hour), "policy")
	require.NoError(t, err)
	has("plain", true)
	_, err = s.Prune(ctx, ledger.Evidence, time.Now().Add(time.Hour), "policy")
	require.NoError(t, err)
	has("plain", true)
	_, err = s.Prune(ctx, ledger.Operational, time.Now().Add(time.Hour), "policy")
	require.NoError(t, err)
	has("plain", false)
	has("held", true)
	Drain(t, s, Key(t))
	Same(t, s, Replay(t, s))
}
