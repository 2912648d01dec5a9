package ledgertest

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/ledger"
)

// outcomes: people resolve a call of unknown outcome, once, by statements that were accepted
// at a barrier about exactly that call, and approve nothing by them.
func outcomes(t *testing.T, open Open) {
	s := open(t)
	ctx := t.Context()
	require.NoError(t, s.OpenRun(ctx, run()))
	require.NoError(t, s.SetBudget(ctx, ledger.Budget{Agent: "payer", Currency: "USD", Every: ledger.Forever, Limit: usd(t, 100)}))
	later := ledger.At(time.Now().Add(time.Hour))
	ask := func(id string) ledger.Authorization {
		a, cost := Ask(id, id), usd(t, 30)
		a.Agent, a.Cost = "payer", &cost
		return a
	}
	// call makes a call that ends in a state, or goes on.
	call := func(a ledger.Authorization, end ledger.InvocationState) ledger.Invocation {
		t.Helper()
		d, err := permitted(ctx, s, run(), a)
		require.NoError(t, err)
		i, err := s.Claim(ctx, a.ID, d, "token", time.Minute)
		require.NoError(t, err)
		if end != ledger.Calling {
			i, err = s.Settle(ctx, a.ID, ended(i.Attempt, end))
			require.NoError(t, err)
		}
		return i
	}
	about := func(id string, i ledger.Invocation) ledger.Barrier {
		return ledger.Barrier{
			ID: id, Name: "outcome/n", Outcome: true, Request: []byte(`{}`), ExpiresAt: later,
			Actions: []ledger.Awaited{{Invocation: i.ID, Action: i.ActionDigest, Decision: i.DecisionID}},
		}
	}
	sign := func(id, barrier, action string, accepted bool) string {
		t.Helper()
		require.NoError(t, s.RecordApproval(ctx, run(), ledger.Approval{ID: id, Barrier: barrier, Signer: "s", Accepted: accepted, Actions: []string{action}, Envelope: []byte(`{}`)}))
		return id
	}
	state := func(i ledger.Invocation, end ledger.InvocationState, by ...string) error {
		e := ended(i.Attempt, end)
		e.Stated = by
		if e.Result = json.RawMessage(`{"stated":true}`); end != ledger.Settled {
			e.Result = nil
		}
		return errOf(s.Settle(ctx, i.ID, e))
	}
	hold := func(id string, want ledger.TxStatus) {
		t.Helper()
		h, err := s.Hold(ctx, id)
		require.NoError(t, err)
		require.Equal(t, want, h.Status)
	}

	// People are asked only about calls of unknown outcome, which may not be repeated.
	one := call(ask("one"), ledger.Unknown)
	calling, known := call(ask("two"), ledger.Calling), call(Ask("three", "three"), ledger.Released)
	again := Ask("four", "four")
	again.Repeatable = true
	repeatable := call(again, ledger.Unknown)
	for _, i := range []ledger.Invocation{calling, known, repeatable, {ID: "none", ActionDigest: digest("none"), DecisionID: "none/1"}} {
		require.ErrorIs(t, errOf(s.OpenBarrier(ctx, run(), about("x", i))), ledger.ErrConflict, i.ID)
	}
	wrong := one
	wrong.DecisionID = "one/2"
	require.ErrorIs(t, errOf(s.OpenBarrier(ctx, run(), about("x", wrong))), ledger.ErrConflict)
	several := about("x", one)
	several.Actions = append(several.Actions, ledger.Awaited{Invocation: "two", Action: calling.ActionDigest, Decision: calling.DecisionID})
	require.ErrorIs(t, errOf(s.OpenBarrier(ctx, run(), several)), ledger.ErrInvalid)
	opened, err := s.OpenBarrier(ctx, run(), about("one", one))
	require.NoError(t, err)
	require.True(t, opened.Asks(one))

	// Nothing counts but statements accepted there, once enough people have said the same.
	a, b := sign("a", "one", one.ActionDigest, true), sign("b", "one", one.ActionDigest, true)
	require.ErrorIs(t, state(one, ledger.Settled, a, b), ledger.ErrConflict, "people are still asked")
	refused := sign("refused", "one", one.ActionDigest, false)
	_, err = s.CloseBarrier(ctx, "one", ledger.BarrierApproved, "executed")
	require.NoError(t, err)
	hold(one.HoldID, ledger.TxPending)
	require.ErrorIs(t, state(one, ledger.Settled, refused), ledger.ErrConflict)
	require.ErrorIs(t, state(one, ledger.Settled, "nobody's"), ledger.ErrConflict)
	require.ErrorIs(t, state(one, ledger.Settled, a, sign("c", "elsewhere", one.ActionDigest, true)), ledger.ErrConflict)
	require.ErrorIs(t, state(one, ledger.Settled, b, a), ledger.ErrInvalid)
	require.ErrorIs(t, state(calling, ledger.Settled, a, b), ledger.ErrConflict, "its call may run")
	require.ErrorIs(t, state(repeatable, ledger.Settled, a, b), ledger.ErrConflict, "it may be called again")
	other := call(Ask("five", "five"), ledger.Unknown)
	require.ErrorIs(t, state(other, ledger.Released, a, b), ledger.ErrConflict, "they are about another call")
	approve := Ask("six", "one")
	approve.Approvals = []string{a}
	require.ErrorIs(t, errOf(s.Authorize(ctx, run(), approve, Rule(ledger.Approve))), ledger.ErrConflict, "a statement approves nothing")
	require.NoError(t, state(one, ledger.Settled, a, b))
	hold(one.HoldID, ledger.TxPosted)
	require.NoError(t, state(one, ledger.Settled, a, b), "it is found again")
	require.ErrorIs(t, state(one, ledger.Released, a, b), ledger.ErrConflict)

	// What had no effect may be called again, and what was stated of the first call says
	// nothing of the second.
	seven := call(ask("seven"), ledger.Unknown)
	_, err = s.OpenBarrier(ctx, run(), about("seven", seven))
	require.NoError(t, err)
	d := sign("d", "seven", seven.ActionDigest, true)
	_, err = s.CloseBarrier(ctx, "seven", ledger.BarrierApproved, "not_executed")
	require.NoError(t, err)
	require.NoError(t, state(seven, ledger.Released, d))
	hold(seven.HoldID, ledger.TxVoided)
	second := call(ask("seven"), ledger.Unknown)
	require.ErrorIs(t, state(second, ledger.Released, d), ledger.ErrConflict)

	// Nobody says anything: the money stays held.
	_, err = s.OpenBarrier(ctx, run(), about("seven/2", second))
	require.NoError(t, err)
	_, err = s.CloseBarrier(ctx, "seven/2", ledger.BarrierRejected, "they contradict each other")
	require.NoError(t, err)
	require.ErrorIs(t, state(second, ledger.Released, sign("e", "seven/2", second.ActionDigest, true)), ledger.ErrConflict)
	hold(second.HoldID, ledger.TxPending)
	got, err := s.Invocation(ctx, "seven")
	require.NoError(t, err)
	require.Equal(t, ledger.Unknown, got.State)
	Drain(t, s, Key(t))
	Same(t, s, Replay(t, s))
}
