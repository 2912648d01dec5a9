package ledgertest

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/ledger"
)

// followUps: while people have not approved, they are reminded, and more groups are asked, not
// before it is time on the store's clock, and not after the end.
func followUps(t *testing.T, open Open) {
	s := open(t)
	ctx := t.Context()
	require.NoError(t, s.OpenRun(ctx, run()))
	later := ledger.At(time.Now().Add(time.Hour))
	opened := func(id string, change func(*ledger.Barrier)) (ledger.Barrier, error) {
		t.Helper()
		got, err := s.Authorize(ctx, run(), Ask(id, id), func(st ledger.Standing) (ledger.Ruling, error) {
			r, err := Rule("ESCALATE")(st)
			r.Waits = &later
			return r, err
		})
		require.NoError(t, err)
		b := ledger.Barrier{
			ID: id + "/1", Name: id, Request: []byte(`{}`), ExpiresAt: later,
			Actions: []ledger.Awaited{{Invocation: id, Action: got.Decision.ActionDigest, Decision: got.Decision.ID}},
		}
		change(&b)
		return s.OpenBarrier(ctx, run(), b)
	}
	barrier := func(id string, change func(*ledger.Barrier)) ledger.Barrier {
		t.Helper()
		b, err := opened(id, change)
		require.NoError(t, err)
		return b
	}
	eventually := func(what func() (ledger.Barrier, error)) (b ledger.Barrier) {
		t.Helper()
		require.Eventually(t, func() bool {
			var err error
			if b, err = what(); err != nil {
				require.ErrorIs(t, err, ledger.ErrConflict)
			}
			return err == nil
		}, waitFor, tick)
		return b
	}

	plain := barrier("plain", func(*ledger.Barrier) {})
	require.ErrorIs(t, errOf(s.RemindBarrier(ctx, plain.ID)), ledger.ErrConflict, "nobody is reminded")
	require.ErrorIs(t, errOf(s.EscalateBarrier(ctx, plain.ID)), ledger.ErrConflict, "it never escalates")
	require.ErrorIs(t, errOf(s.ApproveBarrier(ctx, plain.ID, "", true)), ledger.ErrConflict, "it was not escalated")
	for _, id := range []string{"nowhere", "\x00"} {
		require.ErrorIs(t, errOf(s.RemindBarrier(ctx, id)), ledger.ErrNotFound)
		require.ErrorIs(t, errOf(s.EscalateBarrier(ctx, id)), ledger.ErrNotFound)
	}

	early := barrier("early", func(b *ledger.Barrier) { b.EscalatesAt, b.RemindEveryMS = &later, time.Hour.Milliseconds() })
	require.ErrorIs(t, errOf(s.RemindBarrier(ctx, early.ID)), ledger.ErrConflict, "it is not time yet")
	require.ErrorIs(t, errOf(s.EscalateBarrier(ctx, early.ID)), ledger.ErrConflict, "it is not time yet")
	now, err := s.Barrier(ctx, early.ID)
	require.NoError(t, err)
	require.Equal(t, early, now)

	// What is said to have followed before it was opened has not.
	soon := ledger.At(time.Now().Add(50 * time.Millisecond))
	b := barrier("due", func(b *ledger.Barrier) {
		b.EscalatesAt, b.RemindEveryMS, b.Reminded, b.RemindedAt, b.EscalatedAt = &soon, 20, 7, &soon, &soon
	})
	require.Zero(t, b.Reminded)
	require.Nil(t, b.EscalatedAt)
	for n := 1; n <= 3; n++ {
		before := b
		b = eventually(func() (ledger.Barrier, error) { return s.RemindBarrier(ctx, b.ID) })
		require.Equal(t, n, b.Reminded)
		require.False(t, b.RemindedAt.Time().Before(before.RemindsAt().Time()))
	}
	b = eventually(func() (ledger.Barrier, error) { return s.EscalateBarrier(ctx, b.ID) })
	require.False(t, b.EscalatedAt.Time().Before(soon.Time()))
	again, err := s.EscalateBarrier(ctx, b.ID)
	require.NoError(t, err)
	require.Equal(t, b, again, "it was escalated")
	read, err := s.Barrier(ctx, b.ID)
	require.NoError(t, err)
	require.Equal(t, b, read)

	// Whoever has counted without the escalation has not counted enough.
	require.ErrorIs(t, errOf(s.ApproveBarrier(ctx, b.ID, "", false)), ledger.ErrConflict)
	require.ErrorIs(t, errOf(s.CloseBarrier(ctx, b.ID, ledger.BarrierApproved, "")), ledger.ErrConflict)
	closed, err := s.ApproveBarrier(ctx, b.ID, "", true)
	require.NoError(t, err)
	require.Equal(t, ledger.BarrierApproved, closed.State)
	require.Equal(t, b.EscalatedAt, closed.EscalatedAt)
	for _, what := range []func() (ledger.Barrier, error){
		func() (ledger.Barrier, error) { return s.RemindBarrier(ctx, b.ID) }, func() (ledger.Barrier, error) { return s.EscalateBarrier(ctx, b.ID) },
	} {
		after, err := what()
		require.NoError(t, err)
		require.Equal(t, closed, after, "a barrier that is closed stays as it is")
	}

	// After its time nothing follows but its end.
	var ended ledger.Barrier
	inTime(t, func(wait time.Duration) (err error) {
		ended, err = opened("over", func(b *ledger.Barrier) {
			over := ledger.At(time.Now().Add(wait))
			b.ExpiresAt, b.EscalatesAt, b.RemindEveryMS = over, &over, wait.Milliseconds()
		})
		return err
	})
	require.Eventually(t, func() bool {
		_, err := s.CloseBarrier(ctx, plain.ID, ledger.BarrierExpired, "")
		require.ErrorIs(t, err, ledger.ErrConflict)
		err = errors.Join(errOf(s.EscalateBarrier(ctx, ended.ID)), errOf(s.RemindBarrier(ctx, ended.ID)))
		require.ErrorIs(t, err, ledger.ErrConflict)
		_, err = s.CloseBarrier(ctx, ended.ID, ledger.BarrierExpired, "")
		return err == nil
	}, waitFor, tick)
	ended, err = s.Barrier(ctx, ended.ID)
	require.NoError(t, err)
	require.Nil(t, ended.EscalatedAt)
	require.Zero(t, ended.Reminded)

	many := barrier("many", func(b *ledger.Barrier) { b.RemindEveryMS = 1 })
	for n := 1; n <= ledger.MaxReminders; n++ {
		many = eventually(func() (ledger.Barrier, error) { return s.RemindBarrier(ctx, many.ID) })
		require.Equal(t, n, many.Reminded)
	}
	require.ErrorIs(t, errOf(s.RemindBarrier(ctx, many.ID)), ledger.ErrConflict, "often enough")
	Drain(t, s, Key(t))
	Same(t, s, Replay(t, s))
}
