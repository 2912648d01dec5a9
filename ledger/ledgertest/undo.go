package ledgertest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/ledger"
)

// undo: an approval counts for what undoes the effect that it was used for, if its barrier
// says so.
func undo(t *testing.T, open Open) {
	s := open(t)
	ctx := t.Context()
	require.NoError(t, s.OpenRun(ctx, run()))
	later := ledger.At(time.Now().Add(time.Hour))
	wait := func(id string, undo ...string) ledger.Awaited {
		t.Helper()
		got, err := s.Authorize(ctx, run(), Ask(id, id), func(st ledger.Standing) (ledger.Ruling, error) {
			r, err := Rule("ESCALATE")(st)
			r.Waits = &later
			return r, err
		})
		require.NoError(t, err)
		return ledger.Awaited{Invocation: id, Action: digest(id), Decision: got.Decision.ID, Undo: undo}
	}
	at := func(id string, actions ...ledger.Awaited) error {
		return errOf(s.OpenBarrier(ctx, run(), ledger.Barrier{ID: id, Name: "b", Actions: actions, Request: []byte(`{}`), ExpiresAt: later}))
	}
	sign := func(id, barrier string, actions ...string) string {
		t.Helper()
		require.NoError(t, s.RecordApproval(ctx, run(), ledger.Approval{ID: id, Barrier: barrier, Signer: "s", Accepted: true, Actions: actions, Envelope: []byte(`{}`)}))
		return id
	}
	permit := func(id string, approvals ...string) (ledger.Authorized, error) {
		a := Ask(id, id)
		a.Barrier, a.Approvals = "b/1", approvals
		return s.Authorize(ctx, run(), a, Rule(ledger.Approve))
	}
	refused := func(err error) {
		t.Helper()
		require.ErrorIs(t, err, ledger.ErrConflict)
	}
	one, two := wait("one", "back", "back-2"), wait("two", "off")
	for _, bad := range [][]string{{"y", "x"}, {"x", "x"}, {""}, make([]string, ledger.MaxUndo+1)} {
		wrong := one
		wrong.Undo = bad
		require.ErrorIs(t, at("b/1", wrong, two), ledger.ErrInvalid)
	}
	require.NoError(t, at("b/1", one, two))
	sign("a", "b/1", digest("one"), digest("two"))
	sign("partly", "b/1", digest("two"))
	refused(errOf(permit("back", "a"))) // the barrier is open
	_, err := s.CloseBarrier(ctx, "b/1", ledger.BarrierApproved, "")
	require.NoError(t, err)
	refused(errOf(permit("back", "a"))) // nothing has happened yet
	got, err := permit("one", "a")
	require.NoError(t, err)
	refused(errOf(permit("back", "a"))) // it is not called yet
	i, err := s.Claim(ctx, "one", got.Decision.ID, "token", time.Minute)
	require.NoError(t, err)
	refused(errOf(permit("back", "a"))) // the call runs
	_, err = s.Settle(ctx, "one", settled(i.Attempt, "done"))
	require.NoError(t, err)

	refused(errOf(permit("other", "a")))  // undoes nothing
	refused(errOf(permit("off", "a")))    // undoes what has not happened
	refused(errOf(permit("back", "off"))) // no such approval
	refused(errOf(permit("back", "partly")))
	got, err = permit("back", "a")
	require.NoError(t, err)
	require.Equal(t, "back/1", got.Invocation.TaskID, "it has a task of its own")
	used, err := s.Consumptions(ctx, "a")
	require.NoError(t, err)
	require.ElementsMatch(t, []ledger.Consumption{{Approval: "a", Action: digest("one"), Invocation: "one"}, {Approval: "a", Action: digest("back"), Invocation: "back"}}, used)
	// Nothing else counts as the same undoing.
	other := Ask("two", "back")
	other.Approvals = []string{"a"}
	refused(errOf(s.Authorize(ctx, run(), other, Rule(ledger.Approve))))
	i, err = s.Claim(ctx, "back", got.Decision.ID, "token", time.Minute)
	require.NoError(t, err)
	_, err = s.Settle(ctx, "back", settled(i.Attempt, "undone"))
	require.NoError(t, err)
	got, err = permit("back-2", "a")
	require.NoError(t, err, "several effects may undo one")

	// What the plan says of undoing stands in the decision.
	by := &ledger.Compensation{Node: "three", By: []string{"back-3"}, WithOutput: []string{"back-4"}}
	compensated := func(c *ledger.Compensation) func(ledger.Standing) (ledger.Ruling, error) {
		return func(st ledger.Standing) (ledger.Ruling, error) {
			r, err := Rule(ledger.Approve)(st)
			r.Decision.Compensation = c
			return r, err
		}
	}
	require.ErrorIs(t, errOf(s.Authorize(ctx, run(), Ask("three", "three"), compensated(&ledger.Compensation{By: []string{"y", "x"}}))), ledger.ErrInvalid)
	got, err = s.Authorize(ctx, run(), Ask("three", "three"), compensated(by))
	require.NoError(t, err)
	d, err := s.Decision(ctx, got.Decision.ID)
	require.NoError(t, err)
	require.Equal(t, by, d.Compensation)
	Drain(t, s, Key(t))
	Same(t, s, Replay(t, s))
}
