package ledger_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"chimera.ai/engine/approval"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/plan"
)

// What follows walks every interleaving of those who deal with one barrier at which two
// effects wait: an engine that may ask for anything at any time, as after a reset or after
// continuing as new, and for other actions after a reset; people who sign early, late, twice,
// with two keys, and one who rejects; two guardians, which read and then write, and crash in
// between; and a clock. In some walks one more person is asked after a while, or one effect has
// a precheck, which may be called for any round at any time. All make the moves of
// [ledger.Barrier], [ledger.Approval], [approval.Rule] and [approval.Vote], and no other.
// Signatures themselves are not walked: a signature is valid at some ticks.

// barrierMoves are those that guardians and stores make.
type barrierMoves struct {
	ends     func(b ledger.Barrier, rejected, met bool, now ledger.Time) ledger.BarrierState
	close    func(b ledger.Barrier, end ledger.BarrierState, now ledger.Time) (ledger.Barrier, bool, error)
	standsAt func(opened []ledger.Barrier, invocation string) (*ledger.Barrier, *ledger.Awaited)
	use      func(a ledger.Approval, barrier, action, invocation, by string) error
	count    func(r approval.Rule, votes []approval.Vote) approval.Tally
	// What follows while people have not approved, and what is asked then.
	approve  func(b ledger.Barrier, escalated bool, now ledger.Time) (ledger.Barrier, bool, error)
	due      func(b *ledger.Barrier) *ledger.Time
	escalate func(b ledger.Barrier, now ledger.Time) (ledger.Barrier, bool, error)
	asked    func(r *approval.Request) []plan.Group
	// Whether a signature that arrives counts, by when it is valid.
	validAt func(state ledger.BarrierState, now time.Time) time.Time
	arrives func(v approval.Vote, state ledger.BarrierState, counted []approval.Vote) error
	// What the role effects checks before it calls a precheck for a barrier, and what the
	// guardian checks of the calls that were made.
	checks    func(b ledger.Barrier) bool
	rechecked func(made []ledger.Check, barrier string) bool
	succeeded func(last ledger.Check) bool
}

var soundBarriers = barrierMoves{
	ends: func(b ledger.Barrier, rejected, met bool, now ledger.Time) ledger.BarrierState {
		return b.Ends(rejected, met, now)
	},
	close: func(b ledger.Barrier, end ledger.BarrierState, now ledger.Time) (ledger.Barrier, bool, error) {
		return b.Close(end, "", now)
	},
	standsAt: standsAt,
	use: func(a ledger.Approval, barrier, action, invocation, by string) error {
		return a.Use(barrier, action, invocation, by, false)
	},
	count: approval.Rule.Count,
	approve: func(b ledger.Barrier, escalated bool, now ledger.Time) (ledger.Barrier, bool, error) {
		return b.Approve("", escalated, now)
	},
	due:      (*ledger.Barrier).Escalates,
	escalate: ledger.Barrier.Escalate,
	asked:    (*approval.Request).Asked,
	validAt:  approval.ValidAt,
	arrives:  approval.Vote.Arrives,
	checks:   func(b ledger.Barrier) bool { return b.State == ledger.BarrierApproved },
	rechecked: func(made []ledger.Check, barrier string) bool {
		return slices.ContainsFunc(made, func(c ledger.Check) bool { return c.Barrier == barrier })
	},
	succeeded: func(last ledger.Check) bool { return last.State == ledger.CheckSucceeded },
}

// standsAt finds an invocation at the last of the rounds.
func standsAt(opened []ledger.Barrier, invocation string) (*ledger.Barrier, *ledger.Awaited) {
	if len(opened) == 0 {
		return nil, nil
	}
	last := &opened[len(opened)-1]
	if x := last.Awaits(invocation); x != nil {
		return last, x
	}
	return nil, nil
}

// Bounds of the walk: rounds of a barrier, and how many ticks one is open.
const (
	maxBarriers  = 2
	barrierTicks = 2
)

// extent is how far one walk goes: how many rounds of the barrier, how many guardians, the
// last tick, and what else there is.
type extent struct {
	rounds, guardians, ticks int8
	// escalates: who has escalateKey is asked, too, one tick after a barrier was opened.
	escalates bool
	// checks: the first effect has a precheck. Only what it returns changes actions then, nobody
	// rejects, and nobody has two keys.
	checks bool
}

// String says how far a walk goes.
func (e extent) String() string {
	text := fmt.Sprintf("%d rounds, %d guardians, %d ticks", e.rounds, e.guardians, e.ticks)
	if e.escalates {
		text += ", escalates"
	}
	if e.checks {
		text += ", with a precheck"
	}
	return text
}

// keys are those with which people sign. Ann has two, in the two roles that must approve.
var keys = []struct {
	person, role string
	from, until  int // the ticks at which its signatures are valid
	decision     approval.Decision
}{
	{"Ann", "finance", 0, 9, approval.Approve},
	{"Ann", "legal", 0, 9, approval.Approve},
	{"Ben", "legal", 1, 2, approval.Approve},
	{"Cleo", "legal", 0, 9, approval.Reject},
	{"Dora", "board", 0, 9, approval.Approve},
}

// persons are those whom each key stands for.
var persons = func() (all [nKeys][]string) {
	for k := range keys {
		all[k] = []string{keys[k].person}
	}
	return all
}()

const (
	nKeys       = 5
	escalateKey = 4
)

// enough is whose approval is enough, and whose more is asked if a barrier escalates.
var enough = approval.Rule{
	Groups:   []plan.Group{{Role: "finance", Min: 1}, {Role: "legal", Min: 1}},
	FollowUp: plan.FollowUp{EscalateAfterMS: 1000, To: []plan.Group{{Role: "board", Min: 1}}},
}

// states are those of a barrier; 0 is one that was not opened.
var states = []ledger.BarrierState{"", ledger.BarrierOpen, ledger.BarrierApproved, ledger.BarrierRejected, ledger.BarrierExpired, ledger.BarrierWithdrawn}

// wanted is an action that an effect waits for, by a decision; 0 is none.
type wanted struct{ action, decision int8 }

// opened is one round of the barrier.
type opened struct {
	state   int8
	expires int8
	about   [2]wanted
	signed  [nKeys]bool
	// escalated is the tick at which it was escalated, or 0.
	escalated int8
	// checked reports whether the precheck was called for it: early, or after it was approved.
	checked checked
}

// checked says when a precheck was called for a barrier.
type checked byte

const (
	unchecked checked = iota
	early
	again
)

// doing is what a guardian does.
type doing byte

const (
	idle doing = iota
	closes
	escalates
	permits
)

// step is what a guardian has read, and is about to write.
type step struct {
	does doing
	at   int8 // the round
	end  int8 // of closes
	inv  int8 // of permits, and its action
	act  int8
	uses [nKeys]bool
	// more reports that by what it read, the barrier was escalated.
	more bool
	// fair reports that by what it read, judged without the moves, it may do so.
	fair bool
}

// hall is one state of the walk.
type hall struct {
	extent extent
	now    int8
	rounds [maxBarriers]opened
	// wants has the action of each effect, and the last decision by which it waits.
	wants [2]wanted
	reset bool
	hands [2]step
	// used has the invocation, from 1, that has used a key's approval of a round for an action.
	used [maxBarriers][nKeys][4]int8
	// permitted has the action for which each effect was permitted last, 0 if none.
	permitted [2]int8
	// last is what the precheck returned last, as the action of the first effect then, or 0 if
	// it has failed.
	last  int8
	wrong string
}

// names are made once, since a walk asks for them millions of times.
func names(of string) func(n int8) string {
	var all []string
	for n := range 10 {
		all = append(all, fmt.Sprint(of, n))
	}
	return func(n int8) string { return all[n] }
}

var (
	actionName, invName = names("action "), names("invocation ")
	roundName, idName   = names("b/"), names("")
)

func tick(n int8) ledger.Time { return ledger.At(time.Unix(int64(n), 0)) }

// barrier is a round as the moves see it.
func (h *hall) barrier(n int) ledger.Barrier {
	o := &h.rounds[n]
	b := ledger.Barrier{ID: roundName(int8(n)), ExpiresAt: tick(o.expires), State: states[o.state], Actions: make([]ledger.Awaited, 0, len(o.about))}
	if h.extent.escalates {
		at := tick(o.expires - barrierTicks + 1)
		b.EscalatesAt = &at
	}
	if o.escalated != 0 {
		at := tick(o.escalated)
		b.EscalatedAt = &at
	}
	for i, w := range o.about {
		if w.action != 0 {
			b.Actions = append(b.Actions, ledger.Awaited{Invocation: invName(int8(i)), Action: actionName(w.action), Decision: idName(w.decision)})
		}
	}
	return b
}

// rule says whose approval a round takes, as it stands.
func (h *hall) rule(m barrierMoves, n int) approval.Rule {
	if !h.extent.escalates {
		return enough
	}
	return approval.Rule{Groups: m.asked(&approval.Request{Rule: enough, Escalated: h.rounds[n].escalated != 0})}
}

func (h *hall) barriers() []ledger.Barrier {
	all := make([]ledger.Barrier, 0, len(h.rounds))
	for n := range h.rounds {
		if h.rounds[n].state != 0 {
			all = append(all, h.barrier(n))
		}
	}
	return all
}

// valid reports whether the signature of a key is valid now.
func (h *hall) valid(k int) bool { return int(h.now) >= keys[k].from && int(h.now) <= keys[k].until }

// vote is the signature of a key.
func vote(k int) approval.Vote {
	return approval.Vote{ID: idName(int8(k)), Decision: keys[k].decision, Signer: idName(int8(k)), Role: keys[k].role, Persons: persons[k]}
}

// votes are the signatures of a round that count now, or ever.
func (h *hall) votes(n int, ever bool) []approval.Vote {
	all := make([]approval.Vote, 0, nKeys)
	for k, signed := range h.rounds[n].signed {
		if signed && (ever || h.valid(k)) {
			all = append(all, vote(k))
		}
	}
	return all
}

// approvedBy reports, without the moves, whether keys are those of the people in both roles,
// and of one more if the barrier was escalated.
func approvedBy(has func(k int) bool, escalated bool) bool {
	return has(0) && has(2) && (!escalated || has(escalateKey))
}

// close lets a guardian close a round, by what it has read.
func (h *hall) close(m barrierMoves, n int, end ledger.BarrierState, s step) {
	before, fair := states[h.rounds[n].state], s.fair
	b, changed, err := h.barrier(n), false, error(nil)
	if end == ledger.BarrierApproved {
		b, changed, err = m.approve(b, s.more, tick(h.now))
		fair = fair && s.more == (h.rounds[n].escalated != 0)
	} else {
		b, changed, err = m.close(b, end, tick(h.now))
	}
	if err != nil || !changed {
		return
	}
	h.rounds[n].state = int8(slices.Index(states, b.State))
	over := h.now >= h.rounds[n].expires
	switch {
	case before != ledger.BarrierOpen:
		h.wrong = fmt.Sprintf("a barrier that is %s becomes %s", before, b.State)
	case b.State == ledger.BarrierApproved && over:
		h.wrong = "a barrier is approved after it has expired"
	case b.State == ledger.BarrierExpired && !over:
		h.wrong = "a barrier expires early"
	case !fair:
		h.wrong = fmt.Sprintf("a barrier is %s against what people have signed", b.State)
	}
}

// steps are the states that may follow.
func (h hall) steps(m barrierMoves) []hall {
	out := make([]hall, 0, 16)
	if h.now < h.extent.ticks {
		next := h
		next.now++
		out = append(out, next)
	}
	if !h.reset && !h.extent.checks {
		// What runs again wants another action, or even that of its neighbour.
		for inv, act := range []int8{3, 1} {
			next := h
			next.reset, next.wants[inv] = true, wanted{action: act}
			out = append(out, next)
		}
	}
	for i := range h.wants {
		out = h.decide(out, m, int8(i))
	}
	out = h.open(out, m)
	for n := range h.rounds {
		if h.rounds[n].state == 0 {
			continue
		}
		out = h.sign(out, m, n)
		out = h.look(out, m, n)
		if h.extent.checks {
			out = h.check(out, m, n)
		}
	}
	for i := range h.hands {
		out = h.write(out, m, i)
	}
	return out
}

// decide is a guardian that is asked about an effect: it waits, is decided on, or approved.
func (h hall) decide(out []hall, m barrierMoves, inv int8) []hall {
	w := h.wants[inv]
	if inv == 0 && h.extent.checks && !m.succeeded(h.lastCheck()) {
		return out // it is blocked
	}
	last, x := m.standsAt(h.barriers(), invName(inv))
	switch {
	case last == nil || !last.Counts() || x.Action != actionName(w.action):
		if w.decision == 0 || h.rounds[0].state > 1 && w.decision < 2 {
			next := h
			next.wants[inv].decision++
			out = append(out, next)
		}
		return out
	case last.State == ledger.BarrierOpen:
		return out
	}
	n := 0
	for last.ID != roundName(int8(n)) {
		n++
	}
	if inv == 0 && h.extent.checks && !m.rechecked(h.made(), last.ID) {
		return out // it is called once more
	}
	// What the invocation has used counts for it, also when it has expired.
	votes := h.votes(n, h.permitted[inv] != 0)
	t := m.count(h.rule(m, n), votes)
	if !t.Met() {
		return out
	}
	s := step{does: permits, at: int8(n), inv: inv, act: w.action}
	for k := range keys {
		s.uses[k] = slices.Contains(t.Counted, idName(int8(k)))
	}
	o := h.rounds[n]
	s.fair = o.state == 2 && n == len(h.barriers())-1 && o.about[inv].action == w.action &&
		approvedBy(func(k int) bool { return o.signed[k] && (h.permitted[inv] != 0 || h.valid(k)) }, o.escalated != 0)
	if inv == 0 && h.extent.checks {
		s.fair = s.fair && o.checked == again && h.last == w.action
	}
	return h.take(out, s)
}

// take lets one of the guardians do something next, which the other does not do already.
func (h hall) take(out []hall, s step) []hall {
	for i := range h.hands {
		if i < int(h.extent.guardians) && h.hands[i].does == idle && h.hands[1-i] != s {
			next := h
			next.hands[i] = s
			return append(out, next)
		}
	}
	return out
}

// open opens the barrier for what waits, or finds it.
func (h hall) open(out []hall, m barrierMoves) []hall {
	var about [2]wanted
	for i, w := range h.wants {
		if w.decision != 0 {
			about[i] = w
		}
	}
	if about == ([2]wanted{}) {
		return out
	}
	next := h
	for n := range next.rounds[:h.extent.rounds] {
		o := &next.rounds[n]
		switch {
		case o.state == 0:
			*o = opened{state: 1, expires: h.now + barrierTicks, about: about}
			return append(out, next)
		case o.about == about:
			return out
		case o.state == 1:
			next.close(m, n, ledger.BarrierWithdrawn, step{fair: true})
		}
	}
	return append(out, next)
}

// sign is a signature that arrives at a round, of each key, whenever it does. If the key has
// signed before, that comes again, and so does another one of it.
func (h hall) sign(out []hall, m barrierMoves, n int) []hall {
	state := states[h.rounds[n].state]
	ever := m.validAt(state, tick(h.now).Time()).IsZero()
	counted, groups := h.votes(n, ever), h.rule(m, n).Groups
	for k := range keys {
		if (n > 0 || h.extent.checks) && k%2 == 1 {
			continue // to walk less
		}
		signed, wrong := h.rounds[n].signed[k], ""
		// The verification refuses what is not valid, and whom nobody asks.
		if !ever && !h.valid(k) || !slices.ContainsFunc(groups, func(g plan.Group) bool { return g.Role == keys[k].role }) {
			if !signed || state != ledger.BarrierApproved {
				continue
			}
			wrong = "a signature that an approval rests on is refused when it comes again"
		} else if wrong = arrives(m, vote(k), signed, state, counted); wrong == "" && (signed || state != ledger.BarrierOpen) {
			continue
		}
		next := h
		next.rounds[n].signed[k], next.wrong = true, wrong
		out = append(out, next)
	}
	return out
}

// arrives says what is wrong with how a valid signature fares, by whether its key has signed
// before.
func arrives(m barrierMoves, v approval.Vote, signed bool, state ledger.BarrierState, counted []approval.Vote) string {
	err := m.arrives(v, state, counted)
	switch {
	case err != nil && (signed || state == ledger.BarrierOpen):
		return "a signature that counts is refused"
	case err == nil && !signed && state != ledger.BarrierOpen:
		return "a signature is accepted that comes late"
	}
	if v.ID = "another"; signed && v.Decision == approval.Approve && m.arrives(v, state, counted) == nil {
		return "a person's second signature in a role is accepted"
	}
	return ""
}

// look is a guardian that says how a barrier stands.
func (h hall) look(out []hall, m barrierMoves, n int) []hall {
	b, votes := h.barrier(n), h.votes(n, false)
	rejected := slices.ContainsFunc(votes, func(v approval.Vote) bool { return v.Decision == approval.Reject })
	met := m.count(h.rule(m, n), votes).Met()
	if at := m.due(&b); at != nil && !tick(h.now).Time().Before(at.Time()) && !met && !rejected {
		out = h.take(out, step{does: escalates, at: int8(n), fair: true})
	}
	end := m.ends(b, rejected, met, tick(h.now))
	if end == b.State {
		return out
	}
	signed := h.rounds[n].signed
	has := func(k int) bool { return signed[k] && h.valid(k) }
	s := step{does: closes, at: int8(n), end: int8(slices.Index(states, end)), more: b.EscalatedAt != nil, fair: true}
	switch end {
	case ledger.BarrierApproved:
		s.fair = approvedBy(has, s.more) && !has(3)
	case ledger.BarrierRejected:
		s.fair = has(3)
	case ledger.BarrierOpen, ledger.BarrierExpired, ledger.BarrierWithdrawn:
	}
	return h.take(out, s)
}

// write is a guardian that writes what it has found, or has crashed.
func (h hall) write(out []hall, m barrierMoves, i int) []hall {
	s := h.hands[i]
	if s.does == idle {
		return out
	}
	crashed := h
	crashed.hands[i] = step{}
	out = append(out, crashed)
	next := crashed
	n := int(s.at)
	switch s.does {
	case closes:
		next.close(m, n, states[s.end], s)
		return append(out, next)
	case escalates:
		next.escalate(m, n)
		return append(out, next)
	case idle, permits:
	}
	b := h.barrier(n)
	used := 0
	for k, use := range s.uses {
		if !use {
			continue
		}
		a := ledger.Approval{ID: idName(int8(k)), Barrier: b.ID, Accepted: true, Envelope: json.RawMessage("{}")}
		for _, x := range b.Actions {
			a.Actions = append(a.Actions, x.Action)
		}
		by, have := "", h.used[n][k][s.act]
		if have != 0 {
			by = invName(have - 1)
		}
		if m.use(a, b.ID, actionName(s.act), invName(s.inv), by) != nil {
			return out
		}
		if have != 0 && have != s.inv+1 {
			next.wrong = "an approval is used twice"
		}
		next.used[n][k][s.act] = s.inv + 1
		used++
	}
	switch {
	case !s.fair:
		next.wrong = "an effect is permitted that people have not approved"
	case used < 2 || b.EscalatedAt != nil && used < 3:
		next.wrong = "an effect is permitted, and its approvals are not used up"
	}
	next.permitted[s.inv] = s.act
	return append(out, next)
}

// walkBarriers goes through all states, and returns their number, or what is wrong in one.
func walkBarriers(m barrierMoves, e extent) (int, error) {
	first := hall{extent: e, last: 1, wants: [2]wanted{{action: 1}, {action: 2}}}
	return reach(first, func(h hall) []hall { return h.steps(m) }, func(h hall) string { return h.wrong })
}
