package ledger_test

import (
	"errors"
	"flag"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/ledger"
)

// What follows walks every interleaving of those who deal with one invocation: an engine
// that asks for it, and again after a reset, then perhaps for another action; a guardian
// that permits it; two workers that claim it with any permit there ever was, send the call,
// and say how it ended; whoever finds a call abandoned, or asks the tool what it did; a
// clock; and crashes. All of them make the moves of [ledger.Invocation] and no other.

// unit is one step of the clock: calls, permits and what is under way last so long.
const unit = ledger.CallSkew

// Bounds of the walk.
const (
	maxDecisions = 3
	maxCrashes   = 3
)

var lastTick = flag.Int("ticks", 4, "the last tick of the clock of the walks around one effect; from 5 on the other walks go further, too")

// moves are those that a row can make, and what a store does to its hold.
type moves struct {
	course func(i ledger.Invocation, action string, now ledger.Time) (ledger.Course, error)
	allow  func(i ledger.Invocation, p ledger.Permission, now ledger.Time) (ledger.Invocation, error)
	claim  func(i ledger.Invocation, decision string, d time.Duration, now ledger.Time) (ledger.Invocation, error)
	settle func(i ledger.Invocation, s ledger.Settlement, now ledger.Time) (ledger.Invocation, bool, error)
	ends   func(s ledger.InvocationState) ledger.TxStatus
	// verifiable reports that verify may be asked; it is nil for a tool without one.
	verifiable func(i ledger.Invocation, now ledger.Time) bool
}

var sound = moves{ledger.Invocation.Course, ledger.Invocation.Allow, ledger.Invocation.Claim, ledger.Invocation.Settle, ledger.InvocationState.Ends, nil}

// hand is a worker: what it does, and with which claim.
type hand struct {
	// does is "" for nothing, "claimed", "sent" (the tool gets it any moment, or never), or
	// "answered".
	does    string
	attempt int
	until   int // the last tick at which it may send
	lands   int // the last tick at which what was sent may arrive
}

// scene is one state of the walk.
type scene struct {
	row  *ledger.Invocation
	hold ledger.TxStatus // of the row's hold, "" for none
	held bool            // the hold runs
	// expires is when the hold expires, in ticks.
	expires int
	now     int
	hands   [2]hand
	crashes int
	reset   bool
	// happened counts what the tool got, by action; calls what was claimed, by decision.
	happened [2]int
	claims   [maxDecisions + 1]int
	decided  int
	// until is the last tick of each permit.
	until [maxDecisions + 1]int
	// late reports that the last call used a permit after its time.
	late bool
	// arrived is the attempt that the tool has got last.
	arrived int
}

func (s *scene) at() ledger.Time { return ledger.At(time.Unix(0, 0).Add(time.Duration(s.now) * unit)) }

// seenAs is a scene that can be compared.
type seenAs struct {
	rest                           scene // with no row
	state                          ledger.InvocationState
	action, decision, output, hold string
	unused, doubted                bool
	attempt                        int
	until                          int64
}

func (s scene) key() seenAs {
	k := seenAs{
		state: s.row.State, action: s.row.ActionDigest, decision: s.row.DecisionID, output: s.row.OutputDigest, hold: s.row.HoldID,
		unused: s.row.Unused, doubted: s.row.Doubted, attempt: s.row.Attempt,
	}
	if s.row.CallNotAfter != nil {
		k.until = s.row.CallNotAfter.Time().UnixMilli()
	}
	k.rest, k.rest.row = s, nil
	return k
}

// action names one of the two actions.
func action(n int) string { return []string{"a", "b"}[n] }

// walk goes through all scenes, and returns their number, or what is wrong in one.
func walk(m moves, repeatable bool) (int, error) {
	first := scene{row: new(ledger.Invocation)}
	seen := map[seenAs]bool{first.key(): true}
	queue := []scene{first}
	for len(queue) > 0 {
		s := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		for _, next := range s.steps(m, repeatable) {
			if err := next.wrong(repeatable); err != nil {
				return len(seen), fmt.Errorf("%w: %+v", err, next.key())
			}
			if k := next.key(); !seen[k] {
				seen[k] = true
				queue = append(queue, next)
			}
		}
	}
	return len(seen), nil
}

// reach goes through all states that steps lead to from the first, and returns their number, or
// what is wrong in one.
func reach[S comparable](first S, steps func(S) []S, wrong func(S) string) (int, error) {
	seen := map[S]bool{first: true}
	queue := []S{first}
	for len(queue) > 0 {
		s := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		for _, next := range steps(s) {
			if w := wrong(next); w != "" {
				return len(seen), fmt.Errorf("%w: %s: %+v", errWrong, w, next)
			}
			if !seen[next] {
				seen[next] = true
				queue = append(queue, next)
			}
		}
	}
	return len(seen), nil
}

// steps are the scenes that may follow.
func (s scene) steps(m moves, repeatable bool) (out []scene) {
	if s.now < *lastTick {
		next := s
		next.now++
		out = append(out, next)
	}
	// The engine asks, and after a reset perhaps for another action; the guardian permits.
	for n := range 2 {
		if n == 1 && !s.reset {
			continue
		}
		course, err := m.course(*s.row, action(n), s.at())
		if err != nil || course != ledger.Decide || s.decided == maxDecisions {
			continue
		}
		next := s
		next.decided++
		id := fmt.Sprint("i/", next.decided)
		p := ledger.Permission{ID: "i", Origin: "o", ActionDigest: action(n), DecisionID: id, TaskID: id, HoldID: id, Repeatable: repeatable, Until: ledger.At(s.at().Time().Add(unit))}
		if s.row.State == ledger.Calling || s.row.State == ledger.Unknown {
			p.HoldID = s.row.HoldID
		}
		row, err := m.allow(*s.row, p, s.at())
		if err != nil {
			continue
		}
		next.row, next.until[next.decided] = &row, s.now+1
		if row.HoldID == id {
			next.hold, next.held, next.expires = ledger.TxPending, false, s.now+1
		}
		out = append(out, next)
	}
	if !s.reset {
		next := s
		next.reset = true
		out = append(out, next)
	}
	// A hold that is not used expires.
	if s.hold == ledger.TxPending && !s.held && s.now > s.expires {
		next := s
		next.hold = ledger.TxExpired
		out = append(out, next)
	}
	// Somebody finds that a call is over.
	if s.row.State == ledger.Calling && !repeatable {
		out = s.settled(out, m, ledger.Settlement{Attempt: s.row.Attempt, State: ledger.Unknown, Abandoned: true}, -1)
	}
	// The tool's verify tells what the call did.
	if m.verifiable != nil && s.row.State == ledger.Unknown && !repeatable && m.verifiable(*s.row, s.at()) {
		e := ledger.Settlement{Attempt: s.row.Attempt, State: ledger.Released}
		if s.happened[0]+s.happened[1] > 0 {
			e.State, e.OutputDigest = ledger.Settled, "x"
		}
		out = s.settled(out, m, e, -1)
	}
	for w := range s.hands {
		out = s.work(out, m, w)
	}
	return out
}

// work adds what a worker may do.
func (s scene) work(out []scene, m moves, w int) []scene {
	h := s.hands[w]
	if h.does != "" && s.crashes < maxCrashes {
		next := s
		next.crashes++
		if next.hands[w].does == "sent" {
			next.hands[w].does = "gone" // what was sent is under way
		} else {
			next.hands[w] = hand{}
		}
		out = append(out, next)
	}
	switch h.does {
	case "":
		for d := 1; d <= s.decided; d++ {
			row, err := m.claim(*s.row, fmt.Sprint("i/", d), unit, s.at())
			if err != nil || s.row.HoldID != "" && s.hold != ledger.TxPending {
				continue
			}
			next := s
			next.row, next.held = &row, true
			next.claims[d]++
			next.late = s.now > s.until[d]
			next.hands[w] = hand{does: "claimed", attempt: row.Attempt, until: s.now + 1}
			out = append(out, next)
		}
	case "claimed":
		if s.now <= h.until {
			next := s
			next.hands[w].does, next.hands[w].lands = "sent", s.now+1
			out = append(out, next)
		}
		// It could not be sent.
		out = s.settled(out, m, ledger.Settlement{Attempt: h.attempt, State: ledger.Released}, w)
	case "sent", "gone":
		if s.now <= h.lands {
			next := s
			n := 0
			if s.row.ActionDigest == action(1) {
				n = 1
			}
			next.happened[n]++
			next.arrived = h.attempt
			if next.hands[w].does = "answered"; h.does == "gone" {
				next.hands[w] = hand{}
			}
			out = append(out, next)
		} else if h.does == "gone" {
			next := s
			next.hands[w] = hand{} // it never arrives
			out = append(out, next)
		}
		if h.does == "sent" {
			// The connection broke: what was sent may still arrive.
			for _, next := range s.settled(nil, m, ledger.Settlement{Attempt: h.attempt, State: ledger.Unknown}, w) {
				next.hands[w] = hand{does: "gone", attempt: h.attempt, lands: h.lands}
				out = append(out, next)
			}
		}
	case "answered":
		out = s.settled(out, m, ledger.Settlement{Attempt: h.attempt, State: ledger.Settled, OutputDigest: "x"}, w)
	}
	return out
}

// settled adds the scene in which a call has ended, or in which a worker was told that it
// has ended otherwise.
func (s scene) settled(out []scene, m moves, e ledger.Settlement, w int) []scene {
	next := s
	if w >= 0 {
		next.hands[w] = hand{}
	}
	row, changed, err := m.settle(*s.row, e, s.at())
	if err == nil && changed {
		next.row = &row
		if to := m.ends(row.State); to != ledger.TxPending && s.hold == ledger.TxPending {
			next.hold, next.held = to, false
		}
	}
	if w < 0 && (err != nil || !changed) {
		return out
	}
	return append(out, next)
}

var errWrong = errors.New("wrong")

// wrong reports what must never be.
func (s *scene) wrong(repeatable bool) error {
	all := s.happened[0] + s.happened[1]
	switch {
	case s.late:
		return fmt.Errorf("%w: a permit was used after its time", errWrong)
	case !repeatable && all > 1:
		return fmt.Errorf("%w: the tool was called %d times", errWrong, all)
	case s.happened[0] > 0 && s.happened[1] > 0:
		return fmt.Errorf("%w: the tool was called for two actions", errWrong)
	case s.row.State == ledger.Settled && all == 0:
		return fmt.Errorf("%w: it is settled, and never happened", errWrong)
	case s.row.State == ledger.Released && s.arrived == s.row.Attempt:
		return fmt.Errorf("%w: it is released, and has happened", errWrong)
	case (s.row.State == ledger.Settled || s.row.State == ledger.Released) && s.hold == ledger.TxPending && s.held:
		return fmt.Errorf("%w: it has ended, and its hold has not", errWrong)
	case s.row.State == ledger.Unknown && s.hold != ledger.TxPending:
		return fmt.Errorf("%w: nobody knows what it did, and its money is %s", errWrong, s.hold)
	}
	sent := 0
	for _, h := range s.hands {
		if h.does == "claimed" && s.now <= h.until || h.does == "sent" && s.now <= h.lands {
			sent++
		}
	}
	if sent > 1 {
		return fmt.Errorf("%w: two calls at a time", errWrong)
	}
	for d := 1; d <= s.decided; d++ {
		if s.claims[d] > 1 {
			return fmt.Errorf("%w: a permit let two calls be made", errWrong)
		}
	}
	return nil
}

// TestProtocol walks all scenes, for tools that may be called again, and for those that may
// not, with verify and without.
func TestProtocol(t *testing.T) {
	verified := sound
	verified.verifiable = ledger.Invocation.Arrived
	for _, c := range []struct {
		m          moves
		repeatable bool
	}{{sound, false}, {verified, false}, {sound, true}} {
		n, err := walk(c.m, c.repeatable)
		require.NoError(t, err)
		t.Logf("%d states, repeatable %t, verified %t", n, c.repeatable, c.m.verifiable != nil)
		require.Greater(t, n, 5_000, "the walk goes somewhere")
	}
}

// TestProtocolFaults: the walk finds moves that are wrong.
func TestProtocolFaults(t *testing.T) {
	later := func(now ledger.Time) ledger.Time { return ledger.At(now.Time().Add(10 * unit)) }
	for name, fault := range map[string]func(m *moves){
		"a permit is used again": func(m *moves) {
			m.claim = func(i ledger.Invocation, decision string, d time.Duration, now ledger.Time) (ledger.Invocation, error) {
				if i.State == ledger.Calling {
					i.Unused, i.PermitUntil = true, now
				}
				return i.Claim(decision, d, now)
			}
		},
		"an expired permit is used": func(m *moves) {
			m.claim = func(i ledger.Invocation, decision string, d time.Duration, now ledger.Time) (ledger.Invocation, error) {
				if i.Unused {
					i.PermitUntil = now
				}
				return i.Claim(decision, d, now)
			}
		},
		"any permit will do": func(m *moves) {
			m.claim = func(i ledger.Invocation, decision string, d time.Duration, now ledger.Time) (ledger.Invocation, error) {
				if i.State == ledger.Calling || i.State == ledger.Permitted {
					i.State, i.Unused, i.DecisionID, i.PermitUntil = ledger.Permitted, true, decision, now
				}
				return i.Claim(decision, d, now)
			}
		},
		"a call that runs is over": func(m *moves) {
			m.course = func(i ledger.Invocation, a string, now ledger.Time) (ledger.Course, error) {
				return i.Course(a, later(now))
			}
			m.allow = func(i ledger.Invocation, p ledger.Permission, now ledger.Time) (ledger.Invocation, error) {
				i.Repeatable = true
				return i.Allow(p, later(now))
			}
			m.claim = func(i ledger.Invocation, decision string, d time.Duration, now ledger.Time) (ledger.Invocation, error) {
				if i.Unused && i.State == ledger.Calling {
					i.State = ledger.Permitted
				}
				return i.Claim(decision, d, now)
			}
		},
		"what is unknown is tried again": func(m *moves) {
			m.course = func(i ledger.Invocation, a string, now ledger.Time) (ledger.Course, error) {
				if i.State == ledger.Unknown {
					return ledger.Decide, nil
				}
				return i.Course(a, now)
			}
			m.allow = func(i ledger.Invocation, p ledger.Permission, now ledger.Time) (ledger.Invocation, error) {
				if i.State == ledger.Unknown {
					i.State = ledger.Released
				}
				return i.Allow(p, now)
			}
		},
		"an abandoned call is released": func(m *moves) {
			m.settle = func(i ledger.Invocation, s ledger.Settlement, now ledger.Time) (ledger.Invocation, bool, error) {
				if s.Abandoned {
					s.State = ledger.Released
				}
				return i.Settle(s, now)
			}
		},
		"a call is abandoned while it runs, and called again": func(m *moves) {
			m.settle = func(i ledger.Invocation, s ledger.Settlement, now ledger.Time) (ledger.Invocation, bool, error) {
				if s.Abandoned {
					s.State, s.Abandoned = ledger.Released, false
				}
				return i.Settle(s, now)
			}
		},
		"another action is called after the first": func(m *moves) {
			m.course = func(i ledger.Invocation, a string, now ledger.Time) (ledger.Course, error) {
				i.ActionDigest = a
				return i.Course(a, now)
			}
			m.allow = func(i ledger.Invocation, p ledger.Permission, now ledger.Time) (ledger.Invocation, error) {
				i.ActionDigest = p.ActionDigest
				return i.Allow(p, now)
			}
		},
		"whoever made another attempt settles": func(m *moves) {
			m.settle = func(i ledger.Invocation, s ledger.Settlement, now ledger.Time) (ledger.Invocation, bool, error) {
				s.Attempt = i.Attempt
				return i.Settle(s, now)
			}
		},
		"the hold of what ended stays": func(m *moves) {
			m.ends = func(ledger.InvocationState) ledger.TxStatus { return ledger.TxPending }
		},
		"the hold of what is unknown is freed": func(m *moves) {
			m.ends = func(s ledger.InvocationState) ledger.TxStatus {
				if s == ledger.Unknown {
					return ledger.TxVoided
				}
				return s.Ends()
			}
		},
		"verify asks too early": func(m *moves) {
			m.verifiable = func(ledger.Invocation, ledger.Time) bool { return true }
		},
		"what was sent and lost is released": func(m *moves) {
			m.settle = func(i ledger.Invocation, s ledger.Settlement, now ledger.Time) (ledger.Invocation, bool, error) {
				if s.State == ledger.Unknown && !s.Abandoned {
					s.State = ledger.Released
				}
				return i.Settle(s, now)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := sound
			fault(&m)
			_, err := walk(m, false)
			if err == nil {
				_, err = walk(m, true)
			}
			require.ErrorIs(t, err, errWrong)
			t.Log(err)
		})
	}
}
