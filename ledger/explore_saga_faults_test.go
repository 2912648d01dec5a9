package ledger_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/plan"
)

// sagaWalks are those of make test, the smallest first.
var sagaWalks = []bounds{
	{inOrder: true, handling: true, verified: true, losses: 0, continuing: true},
	{losses: 0, continuing: true},
	{inOrder: true, losses: 1, continuing: true},
	{handling: true, losses: 0, continuing: true},
	{inOrder: true, verified: true, losses: 1, continuing: true},
	{inOrder: true, handling: true, losses: 1, continuing: true},
	{inOrder: true, keyed: true, losses: 0, continuing: true},
	{inOrder: true, losses: 0, resets: true},
}

// manySagas are those of make explore besides.
var manySagas = []bounds{
	{inOrder: true, handling: true, verified: true, losses: 0, resets: true},
	{inOrder: true, keyed: true, losses: 1, continuing: true},
	{losses: 1, verified: true, continuing: true},
	{inOrder: true, losses: 2, verified: true, continuing: true},
	{inOrder: true, losses: 0, resets: true, continuing: true},
	{inOrder: true, losses: 0, verified: true, resets: true},
	{inOrder: true, losses: 1, resets: true, continuing: true},
	{handling: true, losses: 1, continuing: true},
	{inOrder: true, handling: true, losses: 1, verified: true, continuing: true},
	{inOrder: true, handling: true, losses: 0, resets: true},
}

// foundIn has the walk for faults that none of the smaller finds.
var foundIn = map[string]bounds{
	"what was undone is found not to have happened": {inOrder: true, losses: 0, resets: true},
	"what was undone counts as done":                {inOrder: true, losses: 0, resets: true},
	"what was undone is called again":               manySagas[0],
	"what may be called again is undone":            manySagas[1],
}

// TestSagaProtocol walks all states around a run that has to undo its effects.
func TestSagaProtocol(t *testing.T) {
	all := sagaWalks
	if *lastTick > 4 { // make explore
		all = slices.Concat(all, manySagas)
	}
	for _, b := range all {
		n, err := walkSagas(soundSaga, b)
		require.NoError(t, err)
		t.Logf("%d states, %d of the run, %+v", n.all, n.ofRun, b)
		require.Greater(t, n.all, 5_000, "the walk goes somewhere")
		require.Positive(t, n.undone, "something is undone")
		require.Equal(t, b.handling, n.handled > 0, "something is handled")
	}
}

// TestSagaProtocolFaults: the walk finds moves that are wrong.
func TestSagaProtocolFaults(t *testing.T) {
	carries := func(change func(c *contract.Carried, w *contract.Unwinding)) func(m *sagaMoves) {
		return func(m *sagaMoves) {
			m.carried = func(c *contract.Carried) {
				w := c.Unwinding
				if w == nil {
					w = new(contract.Unwinding)
				}
				change(c, w)
			}
		}
	}
	for name, fault := range map[string]func(m *sagaMoves){
		"an effect is armed when it has happened": func(m *sagaMoves) { m.armedLate = true },
		"the first effect is undone first": func(m *sagaMoves) {
			m.next = func(u *plan.Undoing, c *contract.Carried) plan.UndoStep {
				if u.Node() == 0 {
					slices.Reverse(c.Armed)
					u.Restore(c)
				}
				return u.Next()
			}
		},
		"a block that has failed has undone": func(m *sagaMoves) {
			m.stopped = func(u *plan.Undoing) { u.Verified(true) }
		},
		"what nobody can verify is undone": func(m *sagaMoves) {
			m.silent = func(u *plan.Undoing) { u.Verified(true) }
		},
		"what stands after its block is undone": func(m *sagaMoves) {
			m.verify = func(bool) bool { return true }
		},
		"what reads an output runs without it": func(m *sagaMoves) {
			m.stands = func(u *plan.Undoing, stands, _ bool) { u.Stands(stands, true) }
		},
		"what may have happened has not": func(m *sagaMoves) {
			m.ask = func(i ledger.Invocation, now ledger.Time) (stands, known, wait bool) {
				stands, known, wait = asksLedger(i, now)
				return stands && known, known, wait
			}
		},
		"a permit that may be used is none": func(m *sagaMoves) {
			m.ask = func(i ledger.Invocation, now ledger.Time) (stands, known, wait bool) {
				stands, known, wait = asksLedger(i, now)
				return stands, known, wait && i.State != ledger.Permitted
			}
		},
		"a call that runs has not happened": func(m *sagaMoves) {
			m.ask = func(i ledger.Invocation, now ledger.Time) (stands, known, wait bool) {
				stands, known, wait = asksLedger(i, now)
				return stands, known, wait && i.State != ledger.Calling
			}
		},
		"a call is over while it runs": func(m *sagaMoves) {
			m.settle = func(i ledger.Invocation, s ledger.Settlement, now ledger.Time) (ledger.Invocation, bool, error) {
				if s.Abandoned {
					now = unitTick(9)
				}
				return i.Settle(s, now)
			}
		},
		"what is undone while the run goes on is not asked about": func(m *sagaMoves) {
			m.stands = func(u *plan.Undoing, stands, known bool) { u.Stands(stands && !u.Recovering(), known) }
		},
		"what cannot be undone while the run goes on is handled": func(m *sagaMoves) {
			m.silent = func(u *plan.Undoing) {
				if u.Recovering() {
					u.Verified(true)
				} else {
					u.Unanswered()
				}
			}
		},
		"what was undone is found not to have happened": func(m *sagaMoves) {
			m.undone = func(*saga, int) (undone, wait bool) { return false, false }
		},
		"what was undone counts as done": func(m *sagaMoves) {
			m.undone = func(s *saga, i int) (undone, wait bool) {
				undone, wait = undoneBefore(s, i)
				return undone && s.calls[i].row.invocation().State != ledger.Settled, wait
			}
		},
		"what was undone is called again": func(m *sagaMoves) {
			m.undone = func(s *saga, i int) (undone, wait bool) {
				undone, wait = undoneBefore(s, i)
				return undone && s.calls[i].row.invocation().State == ledger.Settled, wait
			}
		},
		"what may be called again is undone": func(m *sagaMoves) {
			m.ask = func(i ledger.Invocation, now ledger.Time) (stands, known, wait bool) {
				stands, known, wait = asksLedger(i, now)
				return stands, known, wait && i.State != ledger.Unknown
			}
		},
		"a run that continues forgets what it undoes meanwhile": func(m *sagaMoves) {
			m.carried = func(c *contract.Carried) {
				if c.Undoing != nil {
					c.Undoing.Recoveries, c.Undoing.Node = nil, 0
				}
			}
		},
		"a run that continues forgets what it has undone meanwhile": func(m *sagaMoves) {
			m.carried = func(c *contract.Carried) {
				if c.Undoing != nil && len(c.Undoing.Recoveries) == 0 {
					c.Undoing = nil
				}
			}
		},
		"what is settled is called again": func(m *sagaMoves) {
			m.course = func(i ledger.Invocation, action string, now ledger.Time) (ledger.Course, error) {
				if i.State == ledger.Settled {
					return ledger.Decide, nil
				}
				return i.Course(action, now)
			}
		},
		"the last cause is the run's": func(m *sagaMoves) {
			m.ends = func(_, next contract.RunState) contract.RunState { return next }
		},
		"a run that continues forgets what is armed":           carries(func(c *contract.Carried, _ *contract.Unwinding) { c.Armed = nil }),
		"a run that continues forgets what it undoes":          carries(func(_ *contract.Carried, w *contract.Unwinding) { w.Node = 0 }),
		"a run that continues forgets what it has undone":      carries(func(_ *contract.Carried, w *contract.Unwinding) { w.Compensated = nil }),
		"a run that continues forgets what it could not undo":  carries(func(_ *contract.Carried, w *contract.Unwinding) { w.NotCompensated = nil }),
		"a run that continues forgets that a block has failed": carries(func(_ *contract.Carried, w *contract.Unwinding) { w.Orphans = false }),
		"a run that continues forgets what is to run":          carries(func(c *contract.Carried, _ *contract.Unwinding) { c.Queue = nil }),
		"a run that continues forgets its cause":               carries(func(_ *contract.Carried, w *contract.Unwinding) { w.End.State = contract.RunFailed }),
		"a run that continues goes on after the block": carries(func(_ *contract.Carried, w *contract.Unwinding) {
			if plan.UndoStage(w.Stage) == plan.UndoBlock {
				w.Stage = byte(plan.UndoVerifying)
			}
		}),
	} {
		t.Run(name, func(t *testing.T) {
			m := soundSaga
			fault(&m)
			var err error
			walks := sagaWalks
			if b, ok := foundIn[name]; ok {
				walks = []bounds{b}
			}
			for _, b := range walks {
				if _, err = walkSagas(m, b); err != nil {
					break
				}
			}
			require.ErrorIs(t, err, errWrong)
			t.Log(err)
		})
	}
}
