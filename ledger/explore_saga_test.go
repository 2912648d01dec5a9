package ledger_test

import (
	"fmt"
	"slices"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/plan"
)

// What follows walks every interleaving of those who deal with a run of two effects that has to
// undo them: the run, which is cancelled, comes to its deadline, fails, continues as new and is
// reset at any step; workers that call effects and what undoes them, and are lost at any step,
// or are taken for lost and go on; tools of which nobody knows whether they got a call, and that
// undo nothing; and verify, which finds that out, or does not answer. The run makes the moves of
// [plan.Progress] and [plan.Undoing], and the rows of all calls those of [ledger.Invocation].

// working is how far a worker is with a call.
type working byte

const (
	works    working = iota + 1 // it has a permit
	looked                      // and the effect was not undone before
	claims                      // the call is about to be sent
	executed                    // the tool has done it
	refused                     // the tool has refused it: nothing has happened
	broken                      // the connection is broken
)

// worker is one that makes a call.
type worker struct {
	does              working
	decision, attempt int8
}

// tasked is the row of one call, and who calls: a worker for which the run waits, and one that
// was taken for lost.
type tasked struct {
	row      fact
	expired  bool // its permit
	workers  [2]worker
	happened int8
}

// saga is one state of the walk.
type saga struct {
	run   int32
	calls [handles]tasked
	// stands has whether the two effects stand.
	stands [undoesFirst]bool
	// losses counts workers that were lost, or taken for lost.
	losses int8
	// mark is the state of the run to which it may be reset, from 1, and reset reports that it
	// was.
	mark  int32
	reset bool
	wrong string
}

// bounds is how far a walk goes. With handling, a node handles that nobody knows what second did.
// Keyed operations take an idempotency key.
type bounds struct {
	inOrder, verified  bool
	keyed              bool
	handling           bool
	losses             int8
	resets, continuing bool
}

// sagas is one walk.
type sagas struct {
	runs
	out []saga
}

// now is when something happens to a call: later than all, once no worker makes it.
func (c *tasked) now() ledger.Time {
	late := c.expired
	if c.row.state == 2 { // calling
		late = !slices.ContainsFunc(c.workers[:], func(w worker) bool { return w.does >= claims && w.attempt == c.row.attempt })
	}
	if late {
		return unitTick(9)
	}
	return unitTick(0)
}

// tell goes on with a state in which the run is told something.
func (w *sagas) tell(s saga, e event) {
	from := int(s.run)
	s.run = int32(w.after(from, e))
	w.out = append(w.out, s)
	if e.renews = true; w.continuing && w.all[from].released {
		s.run = int32(w.after(from, e))
		w.out = append(w.out, s)
	}
}

// tidy makes states the same that differ in numbers only, or in times that are over: of decisions
// and attempts it matters only whether a worker has the last.
func (s *saga) tidy() {
	for i := range s.calls {
		c := &s.calls[i]
		if c.row.state == 0 {
			continue
		}
		for k := range c.workers {
			x := &c.workers[k]
			if x.does == works || x.does == looked {
				x.decision = 1 + is(x.decision == c.row.decision)
			} else if x.does != 0 {
				x.attempt = 1 + is(x.attempt == c.row.attempt)
			}
		}
		c.row.decision, c.row.ends = 2, -1
		if c.row.attempt > 0 {
			c.row.attempt, c.row.ends = 2, 0
		}
		c.expired = c.expired && c.row.unused
	}
}

func is(yes bool) int8 {
	if yes {
		return 1
	}
	return 0
}

// steps are the states that may follow.
func (w *sagas) steps(s saga) []saga {
	w.out = nil
	r := w.all[s.run]
	if r.ended {
		return nil
	}
	for i := first; i < handles; i++ {
		w.work(s, i)
		switch r.flights[i] {
		case deciding:
			w.decide(s, i)
		case permitted:
			next := s
			if c := &next.calls[i]; c.workers[0].does == 0 {
				c.workers[0] = worker{does: works, decision: c.row.decision}
				w.tell(next, event{is: begun, node: int8(i)})
			}
		case grounded, calling:
		}
		if next := s; next.calls[i].row.invocation().State == ledger.Calling {
			// Somebody finds that the call is over.
			w.settle(&next.calls[i], ledger.Settlement{Attempt: int(s.calls[i].row.attempt), State: ledger.Unknown, Abandoned: true})
			w.out = append(w.out, next)
		}
		if c := s.calls[i]; c.row.unused && !c.expired {
			next := s
			next.calls[i].expired = true
			w.out = append(w.out, next)
		}
	}
	if r.asking {
		w.answer(s, r)
	}
	w.tell(s, event{is: cancels})
	w.tell(s, event{is: passes})
	if w.continuing && r.renewable() {
		w.tell(s, event{is: continues})
	}
	if w.resets && !s.reset {
		next := s
		if s.mark == 0 {
			next.mark = s.run + 1
			w.out = append(w.out, next)
		} else if s.mark != s.run+1 {
			next.run, next.reset = s.mark-1, true
			for i := range next.calls {
				// Whoever works goes on, and nobody hears of it.
				if c := &next.calls[i]; c.workers[0].does != 0 {
					c.workers[0], c.workers[1] = worker{}, c.workers[0]
				}
				if w.all[next.run].flights[i] == calling {
					next.run = int32(w.after(int(next.run), event{is: gone, node: int8(i)}))
				}
			}
			w.out = append(w.out, next)
		}
	}
	return w.out
}

// row is the invocation of a call.
func (w *sagas) row(c *tasked) ledger.Invocation {
	i := c.row.invocation()
	i.Repeatable = w.keyed
	return i
}

// settle ends a call in the row, if it may.
func (w *sagas) settle(c *tasked, e ledger.Settlement) {
	if e.State == ledger.Settled {
		e.OutputDigest = "x"
	}
	if row, changed, err := w.m.settle(w.row(c), e, c.now()); err == nil && changed {
		c.row = factOf(row)
	}
}

// truth is what verify says about a call, if its effect is one of the two: that it has happened.
func (w *sagas) truth(s *saga, i int) bool {
	if i < undoesFirst {
		return s.stands[i]
	}
	return s.calls[i].happened > 0
}

// decide is a guardian that is asked about a call.
func (w *sagas) decide(s saga, i int) {
	c := &s.calls[i]
	row := w.row(c)
	switch undone, wait := w.m.undone(&s, i); {
	case wait:
		return
	case undone:
		w.recall(s, i)
		return
	}
	course, err := w.m.course(row, actionName(1), c.now())
	if err != nil {
		return
	}
	switch course {
	case ledger.Decide:
		p := ledger.Permission{ID: invName(0), Origin: "o", ActionDigest: actionName(1), DecisionID: idName(c.row.decision + 1), Repeatable: w.keyed, Until: unitTick(0)}
		if row.State == ledger.Settled {
			row.State = ledger.Released // only a wrong move comes here
		}
		allowed, err := row.Allow(p, c.now())
		if err != nil {
			return
		}
		c.row, c.expired = factOf(allowed), false
		w.tell(s, event{is: decided, node: int8(i)})
		w.out = append(w.out, s) // the answer is lost
	case ledger.Stands:
		if row.State == ledger.Settled {
			w.tell(s, event{is: succeeds, node: int8(i)})
			return
		}
		w.tell(s, event{is: decided, node: int8(i)})
	case ledger.Resolve:
		w.recall(s, i)
	case ledger.Wait:
	}
}

// recall is the role effects that finds out what an earlier call did, as far as it can.
func (w *sagas) recall(s saga, i int) {
	c := &s.calls[i]
	if c.row.invocation().State == ledger.Calling {
		w.settle(c, ledger.Settlement{Attempt: int(c.row.attempt), State: ledger.Unknown, Abandoned: true})
	}
	undone, wait := w.m.undone(&s, i)
	if wait {
		return
	}
	switch s := s; c.row.invocation().State {
	case ledger.Settled:
		if undone {
			w.tell(s, event{is: fails, node: int8(i)})
			return
		}
		w.tell(s, event{is: succeeds, node: int8(i)})
	case ledger.Unknown:
		w.tell(s, event{is: doubts, node: int8(i)}) // verify does not answer, or there is none
		if !w.verified || w.keyed || undone {
			return
		}
		e := ledger.Settlement{Attempt: int(c.row.attempt), State: ledger.Released}
		if w.truth(&s, i) {
			e.State = ledger.Settled
		}
		w.settle(&s.calls[i], e)
		w.out = append(w.out, s) // it is asked again
	case ledger.Permitted, ledger.Calling, ledger.Released:
	}
}

// work is what workers do next for a call.
func (w *sagas) work(s saga, i int) {
	for k, have := range s.calls[i].workers {
		attached := k == 0
		if have.does == 0 {
			continue
		}
		// It is lost; or it is taken for lost, and goes on.
		if s.losses < w.losses || !attached {
			next := s
			next.calls[i].workers[k] = worker{}
			if !attached {
				w.out = append(w.out, next)
			} else {
				next.losses++
				w.tell(next, event{is: gone, node: int8(i)})
				if next.calls[i].workers[1].does == 0 {
					next.calls[i].workers[1] = have
					w.tell(next, event{is: gone, node: int8(i)})
				}
			}
		}
		become := func(does working, happens bool) {
			next := s
			c := &next.calls[i]
			c.workers[k].does = does
			if happens {
				c.happened = min(2, c.happened+1)
				next.wrong = w.done(&next, i)
			}
			w.out = append(w.out, next)
			if happens && w.verified && (i == undoesFirst || i == undoesSecond) {
				next.stands = s.stands // it undoes nothing, and says that it has
				w.out = append(w.out, next)
			}
		}
		// says tells the run how the call has ended, if it waits for that.
		says := func(next saga, is told) {
			next.calls[i].workers[k] = worker{}
			if attached {
				w.tell(next, event{is: is, node: int8(i)})
			} else {
				w.out = append(w.out, next)
			}
		}
		next := s
		c := &next.calls[i]
		switch have.does {
		case works:
			switch undone, wait := w.m.undone(&s, i); {
			case undone:
				says(next, doubts)
			case wait:
				says(next, gone)
			default:
				c.workers[k].does = looked
				w.out = append(w.out, next)
			}
		case looked:
			row, err := w.row(c).Claim(idName(have.decision), 0, c.now())
			if err != nil {
				says(next, gone)
				continue
			}
			c.row = factOf(row)
			c.workers[k] = worker{does: claims, attempt: int8(row.Attempt)}
			w.out = append(w.out, next)
		case claims:
			become(executed, true)
			become(broken, true)
			become(broken, false)
			become(refused, false)
		case executed:
			w.settle(c, ledger.Settlement{Attempt: int(have.attempt), State: ledger.Settled})
			says(next, succeeds)
		case refused:
			w.settle(c, ledger.Settlement{Attempt: int(have.attempt), State: ledger.Released})
			says(next, fails)
		case broken:
			w.settle(c, ledger.Settlement{Attempt: int(have.attempt), State: ledger.Unknown})
			switch {
			case w.keyed:
				says(next, gone) // it is called again
				says(next, fails)
			case w.verified:
				says(next, gone) // it is to be found out
			default:
				says(next, doubts)
			}
		}
	}
}

// done is what a tool does, and what is wrong with that. After a reset, an effect may happen again
// where verify says that it does not stand, and nothing has undone it.
func (w *sagas) done(s *saga, i int) string {
	twice := s.calls[i].happened > 1 && !w.keyed
	switch i {
	case first, second:
		undone, _ := undoneBefore(s, i)
		twice = s.calls[i].happened > 1 && undone || twice && (s.stands[i] || !w.verified)
		s.stands[i] = true
	case undoesFirst:
		s.stands[first] = false
	case undoesSecond:
		s.stands[second] = false
	}
	switch {
	case twice:
		return "a tool is called twice"
	case w.inOrder && !s.reset && (i == preparesSecond || i == undoesSecond) && s.calls[undoesFirst].happened > 0:
		return "an effect is undone before what was done after it"
	}
	return ""
}

// answer is the role effects that is asked about the effect that is being undone.
func (w *sagas) answer(s saga, r *running) {
	i := r.undo.Node()
	w.tell(s, event{is: silence})
	c := &s.calls[i]
	if r.undo.Stage() == plan.UndoVerifying {
		is := unmade
		if w.verified && !w.m.verify(s.stands[i]) {
			is = stands
		}
		w.tell(s, event{is: is})
		return
	}
	if row := c.row.invocation(); row.State == ledger.Calling {
		w.settle(c, ledger.Settlement{Attempt: int(c.row.attempt), State: ledger.Unknown, Abandoned: true})
	}
	tell := func(s saga) {
		c := &s.calls[i]
		switch stand, known, wait := w.m.ask(c.row.invocation(), c.now()); {
		case wait:
		case stand:
			w.tell(s, event{is: stands, known: known})
		default:
			w.tell(s, event{is: unmade})
		}
	}
	tell(s) // also if it is unknown, and verify does not answer
	if c.row.invocation().State == ledger.Unknown && w.verified {
		e := ledger.Settlement{Attempt: int(c.row.attempt), State: ledger.Released}
		if s.stands[i] {
			e.State = ledger.Settled
		}
		w.settle(c, e)
		tell(s)
	}
}

// check says what must never be.
func (w *sagas) check(s, from *saga) string {
	r, before := w.all[s.run], w.all[from.run]
	switch {
	case s.wrong != "":
		return s.wrong
	case r.wrong != "":
		return r.wrong
	case r.progress.Node(handles) == plan.NodeSucceeded && s.stands[second]:
		return "what nobody knows is handled while it stands"
	case !w.handling && r.flights[preparesSecond] > before.flights[preparesSecond] && s.calls[second].row.invocation().State != ledger.Settled:
		return "what reads the output of an effect runs without it"
	case before.end != "" && r.end != before.end && s.reset == from.reset:
		return "a run that was to end as " + string(before.end) + " ends as " + string(r.end)
	case r.end == contract.RunSucceeded:
		for i := first; i <= second; i++ {
			// A run that is reset to after an effect does not ask about it again.
			asked := !s.reset || w.all[s.mark-1].progress.Node(i) != plan.NodeSucceeded
			if asked && r.progress.Node(i) == plan.NodeSucceeded && !s.stands[i] {
				return "a run succeeds, and what it has done was undone"
			}
		}
		return ""
	case !r.ended:
		return ""
	}
	done, not := r.undo.Compensated(), r.undo.NotCompensated()
	for i := first; i <= second; i++ {
		id := w.plan.Nodes[i].ID
		// What it has not come to since it was reset is what the run before that has left.
		c := &s.calls[i]
		may := slices.ContainsFunc(c.workers[:], func(x worker) bool {
			return x.does >= claims && x.attempt == c.row.attempt && c.row.state == 2 || (x.does == works || x.does == looked) && c.row.unused && !c.expired && x.decision == c.row.decision
		})
		said := 0
		for _, x := range slices.Concat(done, not) {
			if x == id {
				said++
			}
		}
		switch {
		case said > 1:
			return "an effect is undone twice"
		case slices.Contains(done, id) && (s.stands[i] || may):
			return "an effect is said to be undone, and stands, or may yet happen"
		case said == 0 && r.attempted[i] && c.happened > 0 && !(s.reset && w.verified):
			return "an effect has happened, and nobody says what became of it"
		case said == 0 && r.attempted[i] && (s.stands[i] || may):
			return "an effect stands, or may yet happen, and nobody says so"
		}
	}
	if len(done) == 2 && w.inOrder && done[0] != "second" {
		return "the first effect is undone first"
	}
	return ""
}

// walked counts the states of a walk, those of the run among them, and those in which a run has
// ended that has undone something, or has handled what nobody knew.
type walked struct{ all, ofRun, undone, handled int }

// walkSagas goes through all states, and returns how many there are; or what is wrong in one.
func walkSagas(m sagaMoves, b bounds) (n walked, err error) {
	w := &sagas{runs: runs{m: m, bounds: b, plan: sagaPlan(b.inOrder, b.handling), byKey: map[string]int{}, next: map[turn]int{}}}
	w.add(w.start(), past{})
	var begin saga
	for i := range begin.calls {
		begin.calls[i].row.ends = -1
	}
	seen := map[saga]bool{begin: true}
	queue := []saga{begin}
	for len(queue) > 0 {
		s := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		steps := w.steps(s)
		if r := w.all[s.run]; r.ended {
			if len(r.undo.Compensated()) > 0 {
				n.undone++
			}
			if r.progress.Node(handles) == plan.NodeSucceeded {
				n.handled++
			}
		}
		waits := !w.all[s.run].ended
		for _, next := range steps {
			next.tidy()
			waits = waits && next == s
			if wrong := w.check(&next, &s); wrong != "" {
				return n, fmt.Errorf("%w: %s: %s: %+v", errWrong, wrong, w.all[next.run].key(), next)
			}
			if !seen[next] {
				seen[next] = true
				queue = append(queue, next)
			}
		}
		if waits {
			return n, fmt.Errorf("%w: the run waits for ever: %s: %+v", errWrong, w.all[s.run].key(), s)
		}
	}
	n.all, n.ofRun = len(seen), len(w.all)
	return n, nil
}
