package ledger_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/ledger"
)

// What follows walks every interleaving of those who deal with an effect, and with another that
// undoes it and that people approve with it: an engine that asks for both at any time, after a
// reset for another action, and for a third effect of which people know nothing; two people who
// sign; guardians that permit by what they have read, and crash in between; and a worker whose
// calls end in any way, and are resolved. All make the moves of [ledger.Barrier],
// [ledger.Approval] and [ledger.Invocation], and no other. There is no clock: what an effect has
// used counts for what undoes it, also when it has expired.

// undoMoves are those that guardian and store make.
type undoMoves struct {
	covers   func(b *ledger.Barrier, invocation string) (ledger.Awaited, bool)
	undoable func(s ledger.InvocationState) bool
	approved func(b *ledger.Barrier) bool
	used     func(by, invocation string) bool
	uses     func(a *ledger.Approval, x ledger.Awaited, u ledger.Invocation, by string) bool
}

var soundUndo = undoMoves{
	covers:   (*ledger.Barrier).Covers,
	undoable: ledger.InvocationState.Undoable,
	approved: func(b *ledger.Barrier) bool { return b.State == ledger.BarrierApproved },
	used:     func(by, invocation string) bool { return by == invocation },
	uses:     (*ledger.Approval).Covers,
}

// The invocations of the walk: the effect, what undoes it, and another that says so.
const (
	undoneInv int8 = iota
	undoerInv
	otherInv
)

// together is one round of the effect's barrier.
type together struct {
	// state is as in states, and action that of the effect by that decision.
	state, action, decision int8
	// lists reports that people were told what undoes it.
	lists  bool
	signed [2]bool
}

// grants is what a guardian has read, and is about to permit by a round, from 1; 0 is nothing.
type grants struct {
	round, inv int8
	fair       bool
}

// pair is one state of the walk.
type pair struct {
	row fact
	// wants is the action for which the engine wants the effect.
	wants  int8
	rounds [maxBarriers]together
	// used has the invocation, from 1, that has used a key's approval of a round, for the
	// effect's action by its number, and for what undoes it by 0.
	used [maxBarriers][2][4]int8
	hand grants
	// let has the action for which the effect was permitted by a round, or 0. One call may have
	// been by an earlier round than the last, for the same action.
	let   [maxBarriers]int8
	wrong string
}

func (p *pair) barrier(n int) ledger.Barrier {
	r := &p.rounds[n]
	x := ledger.Awaited{Invocation: invName(undoneInv), Action: actionName(r.action), Decision: idName(r.decision)}
	if r.lists {
		x.Undo = []string{invName(undoerInv)}
	}
	return ledger.Barrier{ID: roundName(int8(n)), State: states[r.state], Actions: []ledger.Awaited{x}}
}

// usedBy names the invocation that has used an approval for an action, or is "".
func (p *pair) usedBy(n, k int, action int8) string {
	if by := p.used[n][k][action]; by != 0 {
		return invName(by - 1)
	}
	return ""
}

// steps are the states that may follow.
func (p pair) steps(m undoMoves) (out []pair) {
	if p.wants == 1 {
		next := p
		next.wants = 3 // after a reset
		out = append(out, next)
	}
	for n := range p.rounds {
		out = p.meet(out, n)
		out = p.decide(out, m, n)
	}
	out = p.write(out, m)
	return p.work(out)
}

// meet opens a round, signs it, and ends it.
func (p pair) meet(out []pair, n int) []pair {
	r := p.rounds[n]
	switch {
	case r.state == 0 && (n == 0 || p.rounds[n-1].state != 0):
		for _, lists := range []bool{false, true} {
			next := p
			for i := range n {
				if next.rounds[i].state == 1 {
					next.rounds[i].state = 5
				}
			}
			next.rounds[n] = together{state: 1, action: p.wants, decision: int8(n + 1), lists: lists}
			out = append(out, next)
		}
	case r.state == 1:
		for k := range r.signed {
			if !r.signed[k] {
				next := p
				next.rounds[n].signed[k] = true
				out = append(out, next)
			}
		}
		next := p
		if next.rounds[n].state = 3; r.signed == [2]bool{true, true} {
			next.rounds[n].state = 2
		}
		out = append(out, next)
	}
	return out
}

// decide is a guardian that is asked about the effect, or about what undoes it.
func (p pair) decide(out []pair, m undoMoves, n int) []pair {
	r := p.rounds[n]
	if r.state == 0 || p.hand.round != 0 {
		return out
	}
	row, b := p.row.invocation(), p.barrier(n)
	last := n == len(p.rounds)-1 || p.rounds[n+1].state == 0
	if course, err := row.Course(actionName(p.wants), tick(0)); err == nil && course == ledger.Decide && last && r.state == 2 && r.action == p.wants {
		next := p
		next.hand = grants{round: int8(n + 1), inv: undoneInv, fair: true}
		out = append(out, next)
	}
	for _, inv := range []int8{undoerInv, otherInv} {
		x, ok := m.covers(&b, invName(inv))
		if !ok || !m.undoable(row.State) || x.Action != row.ActionDigest || !m.approved(&b) || r.signed != [2]bool{true, true} {
			continue
		}
		ok = true
		for k := range r.signed {
			ok = ok && m.used(p.usedBy(n, k, p.row.action), row.ID)
		}
		if !ok {
			continue
		}
		next := p
		next.hand = grants{round: int8(n + 1), inv: inv, fair: p.lets(n, inv)}
		out = append(out, next)
	}
	return out
}

// lets reports, without the moves, whether people who have let the effect happen have let it be
// undone by an invocation, too.
func (p *pair) lets(n int, inv int8) bool {
	r, s := p.rounds[n], rowStates[p.row.state]
	return inv == undoerInv && r.lists && r.state == 2 && r.action == p.row.action && p.let[n] == r.action && (s == ledger.Settled || s == ledger.Unknown)
}

// write is a guardian that writes what it has read, or has crashed.
func (p pair) write(out []pair, m undoMoves) []pair {
	h := p.hand
	if h.round == 0 {
		return out
	}
	next := p
	next.hand = grants{}
	out = append(out, next)
	n := int(h.round - 1)
	row, b := p.row.invocation(), p.barrier(n)
	action := p.rounds[n].action
	covered := h.inv != undoneInv
	if covered {
		action = 0
	}
	for k := range p.rounds[n].signed {
		a := ledger.Approval{ID: idName(int8(k)), Barrier: b.ID, Accepted: true, Actions: []string{b.Actions[0].Action}, Envelope: json.RawMessage("{}")}
		if covered {
			if x, ok := m.covers(&b, invName(h.inv)); !ok || !m.uses(&a, x, row, p.usedBy(n, k, p.rounds[n].action)) {
				return out
			}
		}
		if a.Use(b.ID, actionName(action), invName(h.inv), p.usedBy(n, k, action), covered) != nil {
			return out
		}
		next.used[n][k][action] = h.inv + 1
	}
	switch {
	case covered && !h.fair:
		next.wrong = "what undoes an effect is permitted, and people have not approved that"
	case covered && !p.lets(n, h.inv):
		next.wrong = "what undoes an effect is permitted, and by now it has not happened by that"
	case !covered:
		permission := ledger.Permission{ID: invName(undoneInv), Origin: "o", ActionDigest: actionName(action), DecisionID: idName(h.round), Until: unitTick(1)}
		allowed, err := row.Allow(permission, tick(0))
		if err != nil {
			return out
		}
		next.row, next.let[n] = factOf(allowed), action
	}
	return append(out, next)
}

// work is what becomes of the effect: a call ends in any way, and one that is unknown is resolved.
func (p pair) work(out []pair) []pair {
	row := p.row.invocation()
	if calling, err := row.Claim(row.DecisionID, 0, unitTick(0)); err == nil && calling.Attempt <= maxBarriers {
		next := p
		next.row = factOf(calling)
		out = append(out, next)
	}
	for _, s := range []ledger.InvocationState{ledger.Settled, ledger.Released, ledger.Unknown} {
		e := ledger.Settlement{Attempt: row.Attempt, State: s}
		if s == ledger.Settled {
			e.OutputDigest = "x"
		}
		if ended, changed, err := row.Settle(e, unitTick(0)); err == nil && changed {
			next := p
			next.row = factOf(ended)
			out = append(out, next)
		}
	}
	return out
}

// walkUndo goes through all states, and returns their number, or what is wrong in one.
func walkUndo(m undoMoves) (int, error) {
	first := pair{row: fact{ends: -1}, wants: 1}
	return reach(first, func(p pair) []pair { return p.steps(m) }, func(p pair) string { return p.wrong })
}

// TestUndoProtocol walks all states around an effect and what undoes it.
func TestUndoProtocol(t *testing.T) {
	n, err := walkUndo(soundUndo)
	require.NoError(t, err)
	t.Logf("%d states", n)
	require.Greater(t, n, 1_000, "the walk goes somewhere")
}

// TestUndoProtocolFaults: the walk finds moves that are wrong.
func TestUndoProtocolFaults(t *testing.T) {
	for name, fault := range map[string]func(m *undoMoves){
		"whatever says so undoes it": func(m *undoMoves) {
			m.covers = func(b *ledger.Barrier, _ string) (ledger.Awaited, bool) { return b.Covers(invName(undoerInv)) }
		},
		"people need not know what undoes it": func(m *undoMoves) {
			m.covers = func(b *ledger.Barrier, _ string) (ledger.Awaited, bool) { return b.Actions[0], true }
		},
		"what has not happened is undone": func(m *undoMoves) {
			m.undoable = func(ledger.InvocationState) bool { return true }
			m.uses = func(a *ledger.Approval, x ledger.Awaited, u ledger.Invocation, by string) bool {
				u.State = ledger.Settled
				return a.Covers(x, u, by)
			}
		},
		"the store believes that it has happened": func(m *undoMoves) {
			m.uses = func(a *ledger.Approval, x ledger.Awaited, u ledger.Invocation, by string) bool {
				u.State = ledger.Settled
				return a.Covers(x, u, by)
			}
		},
		"approvals of another round count": func(m *undoMoves) {
			m.used = func(string, string) bool { return true }
			m.uses = func(a *ledger.Approval, x ledger.Awaited, u ledger.Invocation, _ string) bool {
				return a.Covers(x, u, x.Invocation)
			}
		},
		"another action is undone": func(m *undoMoves) {
			m.covers = func(b *ledger.Barrier, invocation string) (ledger.Awaited, bool) {
				x, ok := b.Covers(invocation)
				x.Action = actionName(3)
				return x, ok
			}
			m.used = func(string, string) bool { return true }
			m.uses = func(*ledger.Approval, ledger.Awaited, ledger.Invocation, string) bool { return true }
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := soundUndo
			fault(&m)
			_, err := walkUndo(m)
			require.ErrorIs(t, err, errWrong)
			t.Log(err)
		})
	}
}

// TestWhatIsUndoneCountsOnce: what was approved with an effect counts for the one invocation that
// undoes it.
func TestWhatIsUndoneCountsOnce(t *testing.T) {
	a := ledger.Approval{ID: "a", Barrier: "b/1", Accepted: true, Actions: []string{"x"}}
	x := ledger.Awaited{Invocation: "u", Action: "x", Undo: []string{"v"}}
	u := ledger.Invocation{ID: "u", ActionDigest: "x", State: ledger.Settled}
	require.True(t, a.Covers(x, u, "u"))
	for name, change := range map[string]func(x *ledger.Awaited, u *ledger.Invocation, by *string){
		"not used":          func(_ *ledger.Awaited, _ *ledger.Invocation, by *string) { *by = "" },
		"used by another":   func(_ *ledger.Awaited, _ *ledger.Invocation, by *string) { *by = "v" },
		"of another action": func(_ *ledger.Awaited, u *ledger.Invocation, _ *string) { u.ActionDigest = "y" },
		"of another effect": func(_ *ledger.Awaited, u *ledger.Invocation, _ *string) { u.ID = "w" },
		"not listed":        func(x *ledger.Awaited, u *ledger.Invocation, _ *string) { x.Action, u.ActionDigest = "y", "y" },
		"released":          func(_ *ledger.Awaited, u *ledger.Invocation, _ *string) { u.State = ledger.Released },
	} {
		x, u, by := x, u, "u"
		change(&x, &u, &by)
		require.False(t, a.Covers(x, u, by), name)
	}
	require.NoError(t, a.Use("b/1", "y", "v", "v", true))
	require.ErrorIs(t, a.Use("b/1", "y", "w", "v", true), ledger.ErrConflict)
}
