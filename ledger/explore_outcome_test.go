package ledger_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/approval"
	"chimera.ai/engine/ledger"
)

// What follows walks every interleaving of those who deal with a call of which nobody knows what
// it did, and which may not be repeated: an engine that asks for the effect, and after a reset
// for another action, and that brings whatever was ever stated; workers that call, and are lost;
// two people who state what they see at the tool, and one who lies; a guardian that asks them,
// the role effects, which believes them, both of which read and then write, and crash in
// between; and a clock. All make the moves of [ledger.Invocation], [ledger.Barrier] and
// [approval.Request], and no other.

// outcomeMoves are those that guardian, role effects and store make.
type outcomeMoves struct {
	arrived   func(i ledger.Invocation, now ledger.Time) bool
	asks      func(b *ledger.Barrier, i ledger.Invocation) bool
	agreed    func(b *ledger.Barrier) bool
	ends      func(b ledger.Barrier, contradicted, met bool, now ledger.Time) ledger.BarrierState
	count     func(r *approval.Request, votes []approval.Vote) approval.Tally
	objection func(r *approval.Request, votes []approval.Vote) (approval.Vote, bool)
	settle    func(i ledger.Invocation, s ledger.Settlement, now ledger.Time) (ledger.Invocation, bool, error)
}

var soundOutcomes = outcomeMoves{
	arrived: ledger.Invocation.Arrived,
	asks:    (*ledger.Barrier).Asks,
	agreed:  func(b *ledger.Barrier) bool { return b.State == ledger.BarrierApproved },
	ends: func(b ledger.Barrier, contradicted, met bool, now ledger.Time) ledger.BarrierState {
		return b.Ends(contradicted, met, now)
	},
	count:     (*approval.Request).Count,
	objection: (*approval.Request).Objection,
	settle:    ledger.Invocation.Settle,
}

// Bounds of the walk: calls, and so decisions; and how often people are asked.
const (
	maxCalls     = 2
	maxInquiries = 2
)

// witnesses are those who state what a call did. Both roles must say the same.
var witnesses = []struct {
	person, role string
	lies         bool
}{{"Ann", "finance", false}, {"Ben", "legal", false}, {"Cleo", "legal", true}}

const nWitnesses = 3

// says are what a witness may have said.
var says = []approval.Decision{"", approval.Executed, approval.NotExecuted}

// rowStates are those of an invocation; 0 is one that there is not.
var rowStates = []ledger.InvocationState{"", ledger.Permitted, ledger.Calling, ledger.Released, ledger.Settled, ledger.Unknown}

// fact is an invocation that can be compared.
type fact struct {
	state, action, decision, attempt int8
	// until and ends are the last ticks of permit and call; ends is -1 before the first.
	until, ends     int8
	unused, doubted bool
}

func unitTick(n int8) ledger.Time { return ledger.At(time.Unix(0, 0).Add(time.Duration(n) * unit)) }

func tickOf(t ledger.Time) int8 { return int8(t.Time().Sub(time.Unix(0, 0)) / unit) }

func (f fact) invocation() ledger.Invocation {
	i := ledger.Invocation{State: rowStates[f.state], Attempt: int(f.attempt), Unused: f.unused, Doubted: f.doubted}
	if f.state != 0 {
		i.ID, i.Origin, i.ActionDigest, i.DecisionID, i.PermitUntil = invName(0), "o", actionName(f.action), idName(f.decision), unitTick(f.until)
	}
	if f.ends >= 0 {
		at := unitTick(f.ends)
		i.CallNotAfter = &at
	}
	return i
}

func factOf(i ledger.Invocation) fact {
	f := fact{
		state: int8(slices.Index(rowStates, i.State)), attempt: int8(i.Attempt), until: tickOf(i.PermitUntil), ends: -1, unused: i.Unused, doubted: i.Doubted,
	}
	for n := range int8(4) {
		if i.ActionDigest == actionName(n) {
			f.action = n
		}
		if i.DecisionID == idName(n) {
			f.decision = n
		}
	}
	if i.CallNotAfter != nil {
		f.ends = tickOf(*i.CallNotAfter)
	}
	return f
}

// sending is how far a call is.
type sending byte

const (
	uncalled sending = iota
	claimed
	sent
	lost // what was sent is under way, and nobody waits for the answer
	answered
	over
)

// call is one call, and until when it may be sent, and arrive.
type call struct {
	does         sending
	until, lands int8
	// arrived reports that the tool has got it.
	arrived bool
}

// inquiry is one round of the barrier at which people are asked about the call of a decision.
type inquiry struct {
	state, expires, decision, action int8
	said                             [nWitnesses]int8
}

// agree is what people say who are enough, by what was said, judged without the moves; or 0.
func (q *inquiry) agree() int8 {
	first := q.said[0]
	for _, x := range q.said {
		if x != 0 && x != first {
			return 0
		}
	}
	if q.said[1] == 0 && q.said[2] == 0 {
		return 0
	}
	return first
}

// pending is what somebody has read, and is about to write, about a round, from 1; 0 is nothing.
type pending struct {
	round, does, attempt int8
	fair                 bool
}

// doubt is one state of the walk.
type doubt struct {
	now     int8
	row     fact
	decided int8
	reset   bool
	calls   [maxCalls]call
	// of has the decision of each call.
	of               [maxCalls]int8
	rounds           [maxInquiries]inquiry
	closing, stating pending
	wrong            string
}

func (d *doubt) barrier(n int8) ledger.Barrier {
	q := &d.rounds[n]
	return ledger.Barrier{
		ID: roundName(n), Outcome: true, State: states[q.state], ExpiresAt: unitTick(q.expires),
		Actions: []ledger.Awaited{{Invocation: invName(0), Action: actionName(q.action), Decision: idName(q.decision)}},
	}
}

// request is what people are asked, and votes what they have said.
func (d *doubt) request(n int8) (*approval.Request, []approval.Vote) {
	var votes []approval.Vote
	for k, x := range d.rounds[n].said {
		if w := witnesses[k]; x != 0 {
			votes = append(votes, approval.Vote{ID: idName(int8(k)), Decision: says[x], Signer: idName(int8(k)), Role: w.role, Persons: []string{w.person}})
		}
	}
	return &approval.Request{Kind: approval.Outcome, Rule: enough}, votes
}

// settle ends a call in the row, if it may.
func (d *doubt) settle(m outcomeMoves, s ledger.Settlement) bool {
	row, changed, err := m.settle(d.row.invocation(), s, unitTick(d.now))
	if err == nil && changed {
		d.row = factOf(row)
	}
	return err == nil && changed
}

// steps are the states that may follow.
func (d doubt) steps(m outcomeMoves) (out []doubt) {
	if int(d.now) < *lastTick {
		next := d
		next.now++
		for i := range next.calls {
			if c := &next.calls[i]; c.does == lost && next.now > c.lands {
				c.does = over
			}
		}
		out = append(out, next)
	}
	if !d.reset {
		next := d
		next.reset = true
		out = append(out, next)
	}
	out = d.permit(out)
	for i := range d.calls {
		out = d.call(out, m, i)
	}
	if d.row.invocation().State == ledger.Calling {
		next := d
		if next.settle(m, ledger.Settlement{Attempt: int(d.row.attempt), State: ledger.Unknown, Abandoned: true}) {
			out = append(out, next)
		}
	}
	out = d.ask(out, m)
	for n := range int8(maxInquiries) {
		if d.rounds[n].state != 0 {
			out = d.say(out, n)
			out = d.look(out, m, n)
			out = d.believe(out, m, n)
		}
	}
	return d.write(out, m)
}

// permit lets the guardian permit a call, and a worker claim it.
func (d doubt) permit(out []doubt) []doubt {
	row := d.row.invocation()
	for action := int8(1); action <= 2 && (action == 1 || d.reset) && d.decided < maxCalls; action++ {
		p := ledger.Permission{ID: invName(0), Origin: "o", ActionDigest: actionName(action), DecisionID: idName(d.decided + 1), Until: unitTick(d.now + 1)}
		if allowed, err := row.Allow(p, unitTick(d.now)); err == nil {
			next := d
			next.decided++
			next.row = factOf(allowed)
			out = append(out, next)
		}
	}
	for n := int8(1); n <= d.decided; n++ {
		if calling, err := row.Claim(idName(n), unit, unitTick(d.now)); err == nil {
			next := d
			next.row = factOf(calling)
			next.calls[calling.Attempt-1] = call{does: claimed, until: d.now + 1}
			next.of[calling.Attempt-1] = n
			out = append(out, next)
		}
	}
	return out
}

// call is what may become of a call.
func (d doubt) call(out []doubt, m outcomeMoves, i int) []doubt {
	c := d.calls[i]
	become := func(does sending, s ledger.InvocationState) {
		next := d
		next.calls[i].does = does
		switch {
		case does == sent:
			next.calls[i].lands = d.now + 1
		case s == ledger.Settled:
			next.settle(m, ledger.Settlement{Attempt: i + 1, State: s, OutputDigest: "x"})
		case s != "":
			next.settle(m, ledger.Settlement{Attempt: i + 1, State: s})
		}
		out = append(out, next)
	}
	land := func(does sending) {
		if d.now <= c.lands {
			next := d
			next.calls[i].does, next.calls[i].arrived = does, true
			out = append(out, next)
		}
	}
	switch c.does {
	case claimed:
		if d.now <= c.until {
			become(sent, "")
		}
		become(over, ledger.Released)
		become(over, "") // the worker is lost
	case sent:
		land(answered)
		become(lost, ledger.Unknown)
		become(lost, "")
	case lost:
		land(over)
	case answered:
		become(over, ledger.Settled)
		become(over, "")
	case uncalled, over:
	}
	return out
}

// ask lets the guardian ask people about the last call, or find that they are asked.
func (d doubt) ask(out []doubt, m outcomeMoves) []doubt {
	row := d.row.invocation()
	if row.State != ledger.Unknown || !m.arrived(row, unitTick(d.now)) {
		return out
	}
	next := d
	for n := range next.rounds {
		q := &next.rounds[n]
		switch {
		case q.state == 0:
			*q = inquiry{state: 1, expires: d.now + 1, decision: d.row.decision, action: d.row.action}
			return append(out, next)
		case q.decision == d.row.decision:
			return out
		case q.state == 1:
			b, _, err := next.barrier(int8(n)).Close(ledger.BarrierWithdrawn, "", unitTick(d.now))
			if err == nil {
				q.state = int8(slices.Index(states, b.State))
			}
		}
	}
	return append(out, next)
}

// say is a witness that says what the tool has got.
func (d doubt) say(out []doubt, n int8) []doubt {
	q := d.rounds[n]
	if q.state != 1 || d.now >= q.expires {
		return out
	}
	arrived := d.calls[slices.Index(d.of[:], q.decision)].arrived
	for k, w := range witnesses {
		if q.said[k] != 0 {
			continue
		}
		next := d
		if next.rounds[n].said[k] = 2; arrived != w.lies {
			next.rounds[n].said[k] = 1
		}
		out = append(out, next)
	}
	return out
}

// look is a guardian that says how a round stands.
func (d doubt) look(out []doubt, m outcomeMoves, n int8) []doubt {
	b := d.barrier(n)
	r, votes := d.request(n)
	_, contradicted := m.objection(r, votes)
	end := m.ends(b, contradicted, m.count(r, votes).Met(), unitTick(d.now))
	if end == b.State || d.closing.round != 0 {
		return out
	}
	next := d
	next.closing = pending{round: n + 1, does: int8(slices.Index(states, end)), fair: d.rounds[n].agree() != 0}
	return append(out, next)
}

// believe is the role effects, to which the engine brings what was stated at a round.
func (d doubt) believe(out []doubt, m outcomeMoves, n int8) []doubt {
	row, b := d.row.invocation(), d.barrier(n)
	r, votes := d.request(n)
	t := m.count(r, votes)
	_, against := m.objection(r, votes)
	if row.State != ledger.Unknown || !m.agreed(&b) || !m.asks(&b, row) || against || !t.Met() || !m.arrived(row, unitTick(d.now)) || d.stating.round != 0 {
		return out
	}
	next := d
	does := int8(slices.Index(says, t.Decision))
	next.stating = pending{
		round: n + 1, does: does, attempt: d.row.attempt,
		fair: d.rounds[n].state == 2 && d.rounds[n].agree() == does && d.rounds[n].decision == d.row.decision,
	}
	return append(out, next)
}

// write writes what somebody has read, or is what follows if they crash.
func (d doubt) write(out []doubt, m outcomeMoves) []doubt {
	if p := d.closing; p.round != 0 {
		next := d
		next.closing = pending{}
		out = append(out, next)
		b, changed, err := d.barrier(p.round-1).Close(states[p.does], "", unitTick(d.now))
		if err != nil { // enough people have said the same, and too late
			b, changed, err = d.barrier(p.round-1).Close(ledger.BarrierExpired, "", unitTick(d.now))
		}
		if err == nil && changed {
			next.rounds[p.round-1].state = int8(slices.Index(states, b.State))
			if b.State == ledger.BarrierApproved && !p.fair {
				next.wrong = "people are said to agree, and do not"
			}
			out = append(out, next)
		}
	}
	if p := d.stating; p.round != 0 {
		next := d
		next.stating = pending{}
		out = append(out, next)
		s := ledger.Settlement{Attempt: int(p.attempt), State: ledger.Released, Stated: []string{"x"}}
		if says[p.does] == approval.Executed {
			s.State, s.OutputDigest = ledger.Settled, "x"
		}
		b := d.barrier(p.round - 1)
		if m.agreed(&b) && m.asks(&b, d.row.invocation()) && next.settle(m, s) {
			if !p.fair || d.rounds[p.round-1].decision != d.row.decision {
				next.wrong = "a call is resolved by what people have not said of it"
			}
			out = append(out, next)
		}
	}
	return out
}

// check says what must never be.
func (d *doubt) check() string {
	arrived, under := 0, false
	for i, c := range d.calls {
		if c.arrived {
			arrived++
		}
		if i+1 == int(d.row.attempt) {
			under = c.arrived || (c.does == sent || c.does == lost) && d.now <= c.lands
		}
	}
	switch s := rowStates[d.row.state]; {
	case d.wrong != "":
		return d.wrong
	case arrived > 1:
		return "the tool was called twice"
	case s == ledger.Settled && arrived == 0:
		return "it is settled, and never happened"
	case s == ledger.Released && under:
		return "it is released, and has happened, or will"
	}
	return ""
}

// walkOutcomes goes through all states, and returns their number, or what is wrong in one.
func walkOutcomes(m outcomeMoves) (int, error) {
	first := doubt{row: fact{ends: -1}}
	return reach(first, func(d doubt) []doubt { return d.steps(m) }, func(d doubt) string { return d.check() })
}

// TestOutcomeProtocol walks all states around a call of unknown outcome.
func TestOutcomeProtocol(t *testing.T) {
	n, err := walkOutcomes(soundOutcomes)
	require.NoError(t, err)
	t.Logf("%d states", n)
	require.Greater(t, n, 5_000, "the walk goes somewhere")
}

// TestOutcomeProtocolFaults: the walk finds moves that are wrong.
func TestOutcomeProtocolFaults(t *testing.T) {
	for name, fault := range map[string]func(m *outcomeMoves){
		"people are asked while what was sent is under way": func(m *outcomeMoves) {
			m.arrived = func(ledger.Invocation, ledger.Time) bool { return true }
		},
		"what people state of an earlier call counts": func(m *outcomeMoves) {
			m.asks = func(b *ledger.Barrier, i ledger.Invocation) bool {
				i.DecisionID, i.ActionDigest = b.Actions[0].Decision, b.Actions[0].Action
				return b.Asks(i)
			}
		},
		"statements count while people are asked": func(m *outcomeMoves) {
			m.agreed = func(b *ledger.Barrier) bool {
				return b.State == ledger.BarrierApproved || b.State == ledger.BarrierOpen
			}
		},
		"statements count after the barrier has expired": func(m *outcomeMoves) {
			m.agreed = func(b *ledger.Barrier) bool {
				return b.State == ledger.BarrierApproved || b.State == ledger.BarrierExpired
			}
		},
		"one statement is enough": func(m *outcomeMoves) {
			m.count = func(r *approval.Request, votes []approval.Vote) approval.Tally {
				t := r.Count(votes)
				if t.Decision != "" {
					t.Missing = nil
				}
				return t
			}
		},
		"statements count whatever they say": func(m *outcomeMoves) {
			m.objection = func(*approval.Request, []approval.Vote) (v approval.Vote, ok bool) { return v, false }
			m.count = func(r *approval.Request, votes []approval.Vote) approval.Tally {
				for i := range votes {
					votes[i].Decision = votes[0].Decision
				}
				return r.Count(votes)
			}
		},
		"nobody contradicts": func(m *outcomeMoves) {
			m.objection = func(*approval.Request, []approval.Vote) (v approval.Vote, ok bool) { return v, false }
		},
		"what people state is turned round": func(m *outcomeMoves) {
			m.count = func(r *approval.Request, votes []approval.Vote) approval.Tally {
				t := r.Count(votes)
				if t.Decision == approval.Executed {
					t.Decision = approval.NotExecuted
				}
				return t
			}
		},
		"contradicted people agree": func(m *outcomeMoves) {
			m.ends = func(b ledger.Barrier, contradicted, met bool, now ledger.Time) ledger.BarrierState {
				return b.Ends(false, met || contradicted, now)
			}
		},
		"a statement resolves whatever call is the last": func(m *outcomeMoves) {
			m.asks = func(b *ledger.Barrier, i ledger.Invocation) bool { return b.Outcome }
			m.settle = func(i ledger.Invocation, s ledger.Settlement, now ledger.Time) (ledger.Invocation, bool, error) {
				if len(s.Stated) > 0 {
					s.Attempt = i.Attempt
				}
				return i.Settle(s, now)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := soundOutcomes
			fault(&m)
			_, err := walkOutcomes(m)
			require.ErrorIs(t, err, errWrong)
			t.Log(err)
		})
	}
}
