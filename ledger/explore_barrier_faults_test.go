package ledger_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/approval"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/plan"
)

// extents are those of the walks of make test, the smallest first: one guardian, or one round.
var extents = []extent{
	{rounds: 2, guardians: 1, ticks: 1, checks: true}, {rounds: 1, guardians: 2, ticks: 3},
	{rounds: 1, guardians: 2, ticks: 2, escalates: true}, {rounds: 2, guardians: 1, ticks: 1},
}

// TestBarrierProtocol walks all states around a barrier.
func TestBarrierProtocol(t *testing.T) {
	all := extents
	if *lastTick > 4 {
		all = append(slices.Clone(all), // make explore
			extent{rounds: 2, guardians: 1, ticks: 3}, extent{rounds: 2, guardians: 2, ticks: 2},
			extent{rounds: 1, guardians: 2, ticks: 3, escalates: true}, extent{rounds: 2, guardians: 1, ticks: 2, checks: true})
	}
	for _, e := range all {
		n, err := walkBarriers(soundBarriers, e)
		require.NoError(t, err)
		t.Logf("%d states, %s", n, e)
		require.Greater(t, n, 5_000, "the walk goes somewhere")
	}
}

// TestBarrierProtocolFaults: the walk finds moves that are wrong.
func TestBarrierProtocolFaults(t *testing.T) {
	for name, fault := range map[string]func(m *barrierMoves){
		"one signature is enough": func(m *barrierMoves) {
			m.ends = func(b ledger.Barrier, rejected, met bool, now ledger.Time) ledger.BarrierState {
				return b.Ends(rejected, true, now)
			}
		},
		"a rejection does not count": func(m *barrierMoves) {
			m.ends = func(b ledger.Barrier, rejected, met bool, now ledger.Time) ledger.BarrierState {
				return b.Ends(false, met, now)
			}
		},
		"everything is rejected": func(m *barrierMoves) {
			m.ends = func(b ledger.Barrier, rejected, met bool, now ledger.Time) ledger.BarrierState {
				return b.Ends(true, met, now)
			}
		},
		"a barrier is approved after its expiry": func(m *barrierMoves) {
			m.approve = func(b ledger.Barrier, escalated bool, _ ledger.Time) (ledger.Barrier, bool, error) {
				return b.Approve("", escalated, tick(0))
			}
		},
		"a barrier expires at once": func(m *barrierMoves) {
			m.ends = func(b ledger.Barrier, rejected, met bool, now ledger.Time) ledger.BarrierState {
				return b.Ends(rejected, met, tick(9))
			}
			m.close = func(b ledger.Barrier, end ledger.BarrierState, now ledger.Time) (ledger.Barrier, bool, error) {
				if end == ledger.BarrierExpired {
					now = tick(9)
				}
				return b.Close(end, "", now)
			}
		},
		"what is closed is closed again": func(m *barrierMoves) {
			m.close = func(b ledger.Barrier, end ledger.BarrierState, now ledger.Time) (ledger.Barrier, bool, error) {
				b.State = ledger.BarrierOpen
				return b.Close(end, "", now)
			}
			m.approve = func(b ledger.Barrier, _ bool, now ledger.Time) (ledger.Barrier, bool, error) {
				return m.close(b, ledger.BarrierApproved, now)
			}
		},
		"a person counts once for each key": func(m *barrierMoves) {
			m.count = func(r approval.Rule, votes []approval.Vote) approval.Tally {
				for i := range votes {
					votes[i].Persons = []string{votes[i].Signer}
				}
				return r.Count(votes)
			}
		},
		"a rejection counts as an approval": func(m *barrierMoves) {
			m.count = func(r approval.Rule, votes []approval.Vote) approval.Tally {
				for i := range votes {
					votes[i].Decision = approval.Approve
				}
				return r.Count(votes)
			}
			m.ends = func(b ledger.Barrier, rejected, met bool, now ledger.Time) ledger.BarrierState {
				return b.Ends(false, met, now)
			}
		},
		"a barrier that is open is approved": func(m *barrierMoves) {
			m.standsAt = func(opened []ledger.Barrier, invocation string) (*ledger.Barrier, *ledger.Awaited) {
				b, x := standsAt(opened, invocation)
				if b != nil {
					b.State = ledger.BarrierApproved
				}
				return b, x
			}
		},
		"a barrier that has ended otherwise is approved": func(m *barrierMoves) {
			m.standsAt = func(opened []ledger.Barrier, invocation string) (*ledger.Barrier, *ledger.Awaited) {
				for i := range opened {
					if opened[i].State.Closed() {
						opened[i].State = ledger.BarrierApproved
					}
				}
				return standsAt(opened, invocation)
			}
		},
		"an earlier round counts": func(m *barrierMoves) {
			m.standsAt = func(opened []ledger.Barrier, invocation string) (*ledger.Barrier, *ledger.Awaited) {
				return standsAt(opened[:min(1, len(opened))], invocation)
			}
		},
		"another action is approved": func(m *barrierMoves) {
			m.standsAt = func(opened []ledger.Barrier, invocation string) (*ledger.Barrier, *ledger.Awaited) {
				b, x := standsAt(opened, invocation)
				if b != nil {
					x = &ledger.Awaited{Invocation: invocation, Action: actionName(3)}
				}
				return b, x
			}
			m.use = func(ledger.Approval, string, string, string, string) error { return nil }
		},
		"another invocation uses an approval too": func(m *barrierMoves) {
			m.standsAt = func(opened []ledger.Barrier, invocation string) (*ledger.Barrier, *ledger.Awaited) {
				b, x := standsAt(opened, invocation)
				if b != nil && invocation == invName(1) {
					x = &ledger.Awaited{Invocation: invocation, Action: actionName(1)}
				}
				return b, x
			}
			m.use = func(a ledger.Approval, barrier, action, invocation, by string) error {
				return a.Use(barrier, action, invocation, "", false)
			}
		},
		"an escalated barrier is approved by too few": func(m *barrierMoves) {
			m.approve = func(b ledger.Barrier, _ bool, now ledger.Time) (ledger.Barrier, bool, error) {
				return b.Approve("", b.EscalatedAt != nil, now)
			}
		},
		"a barrier escalates, and nobody more is asked": func(m *barrierMoves) {
			m.asked = func(r *approval.Request) []plan.Group { return r.Rule.Groups }
		},
		"a barrier escalates at once": func(m *barrierMoves) {
			m.due = func(b *ledger.Barrier) *ledger.Time { return &ledger.Time{} }
			m.escalate = func(b ledger.Barrier, now ledger.Time) (ledger.Barrier, bool, error) {
				b.EscalatesAt = &now
				return b.Escalate(now)
			}
		},
		"a barrier escalates again": func(m *barrierMoves) {
			m.due = func(b *ledger.Barrier) *ledger.Time { return b.EscalatesAt }
			m.escalate = func(b ledger.Barrier, now ledger.Time) (ledger.Barrier, bool, error) {
				b.EscalatedAt = nil
				return b.Escalate(now)
			}
		},
		"what is closed escalates": func(m *barrierMoves) {
			m.escalate = func(b ledger.Barrier, now ledger.Time) (ledger.Barrier, bool, error) {
				b.State = ledger.BarrierOpen
				return b.Escalate(now)
			}
		},
		"what has expired escalates": func(m *barrierMoves) {
			m.escalate = func(b ledger.Barrier, now ledger.Time) (ledger.Barrier, bool, error) {
				b.ExpiresAt = tick(9)
				return b.Escalate(now)
			}
		},
		"a signature counts late": func(m *barrierMoves) {
			m.arrives = func(v approval.Vote, _ ledger.BarrierState, counted []approval.Vote) error {
				return v.Arrives(ledger.BarrierOpen, counted)
			}
		},
		"a person signs twice in a role": func(m *barrierMoves) {
			m.arrives = func(v approval.Vote, state ledger.BarrierState, counted []approval.Vote) error {
				if err := v.Arrives(state, counted); approval.Refused(err) == nil || approval.Refused(err).Code != approval.Twice {
					return err
				}
				return nil
			}
		},
		"what comes again is late": func(m *barrierMoves) {
			m.arrives = func(v approval.Vote, state ledger.BarrierState, _ []approval.Vote) error {
				return v.Arrives(state, nil)
			}
		},
		"what has counted must be valid when it comes again": func(m *barrierMoves) {
			m.validAt = func(_ ledger.BarrierState, now time.Time) time.Time { return now }
		},
		"checks before the last signature count": func(m *barrierMoves) {
			m.checks = func(b ledger.Barrier) bool { return true }
		},
		"nothing is checked again": func(m *barrierMoves) {
			m.rechecked = func([]ledger.Check, string) bool { return true }
		},
		"what was checked for an earlier round counts": func(m *barrierMoves) {
			m.rechecked = func(made []ledger.Check, _ string) bool { return len(made) > 0 }
		},
		"a precheck that fails changes nothing": func(m *barrierMoves) {
			m.succeeded = func(ledger.Check) bool { return true }
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := soundBarriers
			fault(&m)
			walks := extents
			if strings.Contains(name, "escalat") { // only there
				walks = slices.DeleteFunc(slices.Clone(extents), func(e extent) bool { return !e.escalates })
			}
			var err error
			for _, e := range walks {
				if _, err = walkBarriers(m, e); err != nil {
					break
				}
			}
			require.ErrorIs(t, err, errWrong)
			t.Log(err)
		})
	}
}
