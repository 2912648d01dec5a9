package ledgertest

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/ledger"
	"chimera.ai/engine/task"
)

// barriers: effects wait at a barrier with their money reserved, and what people approve is
// signed and permitted once.
func barriers(t *testing.T, open Open) {
	s := open(t)
	ctx := t.Context()
	require.NoError(t, s.OpenRun(ctx, run()))
	require.NoError(t, s.SetBudget(ctx, ledger.Budget{Agent: "payer", Currency: "USD", Every: ledger.Forever, Limit: usd(t, 100)}))
	pending := func(want int64) {
		t.Helper()
		b, err := s.Budget(ctx, "payer", "USD")
		require.NoError(t, err)
		require.Equal(t, want, b.Pending.Minor())
	}
	later := ledger.At(time.Now().Add(time.Hour))
	var salts [][]byte
	ask := func(id string) ledger.Authorization {
		a, cost := Ask(id, id), usd(t, 40)
		a.Agent, a.Cost = "payer", &cost
		a.Digest = func(salt []byte) (string, error) {
			salts = append(salts, salt)
			return digest(id), nil
		}
		return a
	}
	// wait decides that an action waits, and returns it.
	wait := func(id string) ledger.Awaited {
		t.Helper()
		got, err := s.Authorize(ctx, run(), ask(id), func(st ledger.Standing) (ledger.Ruling, error) {
			r, err := Rule("ESCALATE")(st)
			r.Waits = &later
			return r, err
		})
		require.NoError(t, err)
		require.Equal(t, "ESCALATE", got.Decision.Decision)
		return ledger.Awaited{Invocation: id, Action: digest(id), Decision: got.Decision.ID}
	}
	at := func(id string, until ledger.Time, actions ...ledger.Awaited) ledger.Barrier {
		return ledger.Barrier{ID: id, Name: "b", Actions: actions, Request: []byte(`{}`), ExpiresAt: until}
	}
	sign := func(id, barrier string, actions ...string) string {
		t.Helper()
		require.NoError(t, s.RecordApproval(ctx, run(), ledger.Approval{ID: id, Barrier: barrier, Signer: "s", Accepted: true, Actions: actions, Envelope: []byte(`{}`)}))
		return id
	}

	one, two := wait("one"), wait("two")
	pending(80)
	require.Equal(t, "one/1", one.Decision)
	require.ErrorIs(t, errOf(s.OpenBarrier(ctx, run(), at("x", later, ledger.Awaited{Invocation: "one", Action: digest("two"), Decision: "one/1"}))), ledger.ErrConflict)
	require.ErrorIs(t, errOf(s.OpenBarrier(ctx, run(), at("x", ledger.At(time.Now().Add(-time.Hour)), one))), ledger.ErrInvalid)
	require.ErrorIs(t, errOf(s.OpenBarrier(ctx, run(), at("x", later))), ledger.ErrInvalid)
	opened, err := s.OpenBarrier(ctx, run(), at("b/1", later, two, one))
	require.NoError(t, err)
	require.Equal(t, []ledger.Awaited{one, two}, opened.Actions)
	again, err := s.OpenBarrier(ctx, run(), at("b/1", later, one))
	require.NoError(t, err)
	require.Equal(t, opened, again)
	inbox, err := s.ListBarriers(ctx, ledger.BarrierOpen, everything)
	require.NoError(t, err)
	require.Equal(t, []ledger.Barrier{opened}, inbox)

	// Nothing is permitted before it is approved, or by signatures of another barrier.
	confirm := ask("one")
	confirm.Barrier, confirm.Approvals = "b/1", []string{sign("a", "b/1", digest("one"), digest("two"))}
	require.ErrorIs(t, errOf(s.Authorize(ctx, run(), confirm, Rule(ledger.Approve))), ledger.ErrConflict)
	require.ErrorIs(t, errOf(s.CloseBarrier(ctx, "b/1", ledger.BarrierExpired, "")), ledger.ErrConflict)
	require.ErrorIs(t, errOf(s.CloseBarrier(ctx, "b/1", ledger.BarrierOpen, "")), ledger.ErrInvalid)
	require.ErrorIs(t, errOf(s.CloseBarrier(ctx, "nowhere", ledger.BarrierExpired, "")), ledger.ErrNotFound)
	for i := range ledger.MaxRefused + 5 {
		require.NoError(t, s.RecordApproval(ctx, run(), ledger.Approval{ID: fmt.Sprint("forged-", i), Barrier: "b/1", Reason: "forged", Actions: []string{}, Envelope: []byte(`{}`)}))
	}
	closed, err := s.CloseBarrier(ctx, "b/1", ledger.BarrierApproved, "")
	require.NoError(t, err)
	require.Equal(t, int64(ledger.MaxRefused+5), closed.Refused)
	require.Equal(t, ledger.BarrierApproved, closed.State)
	again, err = s.CloseBarrier(ctx, "b/1", ledger.BarrierRejected, "too late")
	require.NoError(t, err)
	require.Equal(t, closed, again)
	list, err := s.Approvals(ctx, "b/1", everything)
	require.NoError(t, err)
	require.Len(t, list, 1+ledger.MaxRefused)
	accepted := func(page ledger.Page, barriers ...string) (ids []string) {
		t.Helper()
		list, err := s.Accepted(ctx, barriers, page)
		require.NoError(t, err)
		for _, a := range list {
			ids = append(ids, a.ID)
		}
		return ids
	}
	require.Equal(t, []string{"a"}, accepted(everything, "b/1"))
	foreign := confirm
	foreign.Approvals = []string{sign("elsewhere", "c/1", digest("one"))}
	require.ErrorIs(t, errOf(s.Authorize(ctx, run(), foreign, Rule(ledger.Approve))), ledger.ErrConflict)
	require.Equal(t, []string{"a", "elsewhere"}, accepted(everything, "c/1", "nowhere", "b/1"), "in order")
	require.Equal(t, []string{"elsewhere"}, accepted(ledger.Page{Limit: 1, Offset: 1}, "c/1", "b/1"))
	require.Empty(t, accepted(everything))

	got, err := s.Authorize(ctx, run(), confirm, Rule(ledger.Approve))
	require.NoError(t, err)
	require.Equal(t, "one/2", got.Decision.ID)
	require.Equal(t, "one/1", got.Invocation.TaskID, "the task that waited is signed")
	pending(80)
	for _, salt := range salts[1:] {
		if len(salts[0]) == len(salt) {
			require.NotEmpty(t, salt)
		}
	}
	require.Equal(t, salts[0], salts[len(salts)-1], "the action keeps its digest")
	v, err := s.Task(ctx, "one/1")
	require.NoError(t, err)
	require.Equal(t, task.StateSigned, v.Base().State)

	// What was approved is decided anew, and no longer approved: the money is free, and the
	// draft closed.
	confirm = ask("two")
	confirm.Barrier, confirm.Approvals = "b/1", []string{"a"}
	got, err = s.Authorize(ctx, run(), confirm, Rule("REJECT"))
	require.NoError(t, err)
	require.Equal(t, "two/2", got.Decision.ID)
	pending(40)
	drafts, err := s.ListTasks(ctx, task.StateDraft, everything)
	require.NoError(t, err)
	require.Empty(t, drafts)

	// A barrier that is not approved frees what waits at it.
	three := wait("three")
	pending(80)
	inTime(t, func(wait time.Duration) error {
		return errOf(s.OpenBarrier(ctx, run(), at("b/2", ledger.At(time.Now().Add(wait)), three)))
	})
	require.Eventually(t, func() bool {
		closed, err = s.CloseBarrier(ctx, "b/2", ledger.BarrierExpired, "nobody signed")
		return err == nil
	}, waitFor, tick)
	require.Equal(t, ledger.BarrierExpired, closed.State)
	pending(40)
	require.ErrorIs(t, errOf(s.OpenBarrier(ctx, run(), at("b/3", later, three))), ledger.ErrConflict, "its task is closed")

	// An action that waits again gets its money again, and a run's end forsakes it.
	four := wait("four")
	four = wait("four")
	require.Equal(t, "four/2", four.Decision)
	pending(80)
	_, err = s.OpenBarrier(ctx, run(), at("b/4", later, four))
	require.NoError(t, err)
	none, err := s.Forsaken(ctx, 10)
	require.NoError(t, err)
	require.Empty(t, none)
	r := run()
	r.State = ledger.RunCancelled
	_, _, err = s.CloseRun(ctx, r, nil)
	require.NoError(t, err)
	left, err := s.Forsaken(ctx, 10)
	require.NoError(t, err)
	require.Len(t, left, 1)
	_, err = s.CloseBarrier(ctx, "b/4", ledger.BarrierWithdrawn, "the run has ended")
	require.NoError(t, err)
	pending(40)
	Drain(t, s, Key(t))
	Same(t, s, Replay(t, s))
}
