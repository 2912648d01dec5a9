package ledgertest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/ledger"
)

// checks: calls on which effects rely are numbered over all runs of an origin, and made for
// barriers that were approved.
func checks(t *testing.T, open Open) {
	s := open(t)
	ctx := t.Context()
	good := func(node string) ledger.Check {
		return ledger.Check{Node: node, Visit: 1, State: ledger.CheckSucceeded, InputDigest: digest("in"), OutputDigest: digest(node), Snapshots: &contract.Snapshots{After: digest("after")}}
	}
	require.ErrorIs(t, errOf(s.RecordCheck(ctx, run(), good("a"))), ledger.ErrNotFound, "the run is not open")
	require.NoError(t, s.OpenRun(ctx, run()))
	last := func(node, barrier string) ledger.Check {
		t.Helper()
		c, err := s.LastCheck(ctx, "w", "r1", node, 1, barrier)
		require.NoError(t, err)
		return c
	}
	require.ErrorIs(t, errOf(s.LastCheck(ctx, "w", "r1", "a", 1, "")), ledger.ErrNotFound)
	one, err := s.RecordCheck(ctx, run(), good("a"))
	require.NoError(t, err)
	require.Equal(t, 1, one.Number)
	require.Equal(t, one, last("a", ""))
	failed := ledger.Check{Node: "a", Visit: 1, State: ledger.CheckFailed, Failure: "tool_error"}
	two, err := s.RecordCheck(ctx, run(), failed)
	require.NoError(t, err)
	require.Equal(t, 2, two.Number)
	require.Equal(t, two, last("a", ""))
	require.ErrorIs(t, errOf(s.LastCheck(ctx, "w", "r1", "a", 2, "")), ledger.ErrNotFound, "another visit")
	require.ErrorIs(t, errOf(s.LastCheck(ctx, "w", "r2", "a", 1, "")), ledger.ErrNotFound, "another origin")
	for name, change := range map[string]func(*ledger.Check){
		"no node": func(c *ledger.Check) { c.Node = "" }, "no visit": func(c *ledger.Check) { c.Visit = 0 },
		"no state": func(c *ledger.Check) { c.State = "" }, "no output": func(c *ledger.Check) { c.OutputDigest = "" },
		"success with a failure": func(c *ledger.Check) { c.Failure = "timeout" }, "failure without a kind": func(c *ledger.Check) { c.State, c.OutputDigest = ledger.CheckFailed, "" },
	} {
		c := good("a")
		change(&c)
		require.ErrorIs(t, errOf(s.RecordCheck(ctx, run(), c)), ledger.ErrInvalid, name)
	}

	// One is made for a barrier only once that is approved.
	later := ledger.At(time.Now().Add(time.Hour))
	got, err := s.Authorize(ctx, run(), Ask("i", "i"), func(st ledger.Standing) (ledger.Ruling, error) {
		r, err := Rule("ESCALATE")(st)
		r.Waits = &later
		return r, err
	})
	require.NoError(t, err)
	_, err = s.OpenBarrier(ctx, run(), ledger.Barrier{
		ID: "b/1", Name: "b", Request: []byte(`{}`), ExpiresAt: later,
		Actions: []ledger.Awaited{{Invocation: "i", Action: digest("i"), Decision: got.Decision.ID}},
	})
	require.NoError(t, err)
	again := good("a")
	again.Barrier = "b/1"
	require.ErrorIs(t, errOf(s.RecordCheck(ctx, run(), again)), ledger.ErrConflict, "nobody has approved it")
	_, err = s.CloseBarrier(ctx, "b/1", ledger.BarrierApproved, "")
	require.NoError(t, err)
	require.ErrorIs(t, errOf(s.LastCheck(ctx, "w", "r1", "a", 1, "b/1")), ledger.ErrNotFound)
	three, err := s.RecordCheck(ctx, run(), again)
	require.NoError(t, err)
	require.Equal(t, 3, three.Number)
	nowhere := again
	nowhere.Barrier = "b/2"
	require.ErrorIs(t, errOf(s.RecordCheck(ctx, run(), nowhere)), ledger.ErrConflict)

	// A run that continues another goes on counting, whoever else does.
	next := run()
	next.Root = "r2"
	require.NoError(t, s.OpenRun(ctx, next))
	errs := make(chan error, 8)
	for i := range 8 {
		go func() {
			r := run()
			if i%2 == 0 {
				r = next
			}
			errs <- errOf(s.RecordCheck(ctx, r, good("a")))
		}()
	}
	for range cap(errs) {
		require.NoError(t, <-errs)
	}
	require.Equal(t, 11, last("a", "").Number)
	require.Equal(t, three, last("a", "b/1"))
	other := run()
	other.Workflow, other.Root, other.Origin = "v", "q", "q"
	require.NoError(t, s.OpenRun(ctx, other))
	require.ErrorIs(t, errOf(s.RecordCheck(ctx, other, again)), ledger.ErrConflict, "the barrier of another run")

	end := run()
	end.State = ledger.RunCancelled
	_, _, err = s.CloseRun(ctx, end, nil)
	require.NoError(t, err)
	require.ErrorIs(t, errOf(s.RecordCheck(ctx, run(), good("a"))), ledger.ErrConflict, "the run has ended")
	Drain(t, s, Key(t))
	Same(t, s, Replay(t, s))
}
