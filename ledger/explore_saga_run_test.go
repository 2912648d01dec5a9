package ledger_test

import (
	"encoding/json"
	"fmt"
	"slices"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/plan"
)

// The run of a walk around sagas: what the interpreter does, by [plan.Progress] and
// [plan.Undoing], without calls and time. Like a workflow it is made again from its history, so
// that it continues as new, and is reset, as a run does.

// The nodes of the plan. What undoes second are two nodes, one after the other, of which the
// last takes back what it did; the first of them reads its output. In some walks it does not, and
// handles is delivered that nobody knows what second did. Only those before it make calls.
const (
	first = iota + 1
	second
	undoesFirst
	preparesSecond
	undoesSecond
	handles
	lastNode
)

// sagaPlan has two effects that follow each other, or not.
func sagaPlan(inOrder, handling bool) *plan.Plan {
	p := &plan.Plan{Nodes: make([]plan.Node, lastNode+1)}
	for i, id := range []string{"$input", "first", "second", "undoes first", "prepares second", "undoes second", "handles", "$output"} {
		p.Nodes[i].ID, p.Nodes[i].Kind = id, plan.KindCall
	}
	p.Nodes[0].Kind, p.Nodes[lastNode].Kind = plan.KindInput, plan.KindOutput
	p.Nodes[undoesFirst].Undoes, p.Nodes[preparesSecond].Undoes, p.Nodes[undoesSecond].Undoes = first, second, second
	edge := func(from, to int, port string) {
		e := plan.Edge{From: from, To: to, FromPort: port, ToPort: plan.StartPort, Type: plan.Control, Required: true}
		switch port {
		case plan.CompensatePort:
			e.Type, e.ToPort = plan.Error, "x"
		case plan.ErrorPort:
			e.Type = plan.Error
		}
		e.ReadsOutput = to == preparesSecond && !handling
		p.Edges = append(p.Edges, e)
	}
	if inOrder {
		edge(first, second, plan.DonePort)
	}
	edge(first, undoesFirst, plan.CompensatePort)
	edge(second, preparesSecond, plan.CompensatePort)
	edge(preparesSecond, undoesSecond, plan.DonePort)
	edge(second, handles, plan.ErrorPort)
	p.Index()
	return p
}

// event is what a run is told.
type event struct {
	is   told
	node int8
	// known comes with stands: the output of the effect is known.
	known bool
	// renews: the run continues as new before anything follows.
	renews bool
}

type told byte

const (
	decided   told = iota // the guardian has permitted the call of a node
	begun                 // a worker has begun the call
	gone                  // the worker is lost: nobody knows whether it has called
	succeeds              // the node has its output
	fails                 // the node has failed, and nothing has happened
	doubts                // nobody knows what its call did
	stands                // the effect stands
	unmade                // the effect does not stand, or no longer
	silence               // nobody can say that
	cancels               // the run is cancelled
	passes                // its deadline passes
	continues             // it continues as new
)

// flight is how far the call of a node is.
type flight byte

const (
	grounded flight = iota
	deciding        // the guardian is asked, perhaps again
	permitted
	calling
)

// sagaMoves are those of a run, and of those who deal with its effects.
type sagaMoves struct {
	armedLate bool // once they have succeeded, effects are armed
	next      func(u *plan.Undoing, c *contract.Carried) plan.UndoStep
	stands    func(u *plan.Undoing, stands, known bool)
	verified  func(u *plan.Undoing, gone bool)
	silent    func(u *plan.Undoing)
	stopped   func(u *plan.Undoing)
	carried   func(c *contract.Carried)
	ends      func(now, next contract.RunState) contract.RunState

	undone func(s *saga, i int) (undone, wait bool)
	ask    func(i ledger.Invocation, now ledger.Time) (stands, known, wait bool)
	verify func(stands bool) bool
	course func(i ledger.Invocation, action string, now ledger.Time) (ledger.Course, error)
	settle func(i ledger.Invocation, s ledger.Settlement, now ledger.Time) (ledger.Invocation, bool, error)
}

var soundSaga = sagaMoves{
	next:     func(u *plan.Undoing, _ *contract.Carried) plan.UndoStep { return u.Next() },
	stands:   (*plan.Undoing).Stands,
	verified: (*plan.Undoing).Verified,
	silent:   (*plan.Undoing).Unanswered,
	stopped:  (*plan.Undoing).Stopped,
	carried:  func(*contract.Carried) {},
	ends: func(now, next contract.RunState) contract.RunState {
		if now != "" {
			return now
		}
		return next
	},
	undone: undoneBefore,
	ask:    asksLedger,
	verify: func(stands bool) bool { return !stands },
	course: ledger.Invocation.Course,
	settle: ledger.Invocation.Settle,
}

// undoneBefore reports whether what undoes an effect was called, or may be, as both roles ask
// before the effect is called, or they say what an earlier call did.
func undoneBefore(s *saga, i int) (undone, wait bool) {
	var by []int
	switch i {
	case first:
		by = []int{undoesFirst}
	case second:
		by = []int{preparesSecond, undoesSecond}
	}
	for _, at := range by {
		c := &s.calls[at]
		row := c.row.invocation()
		undone = undone || row.State == ledger.Calling || row.State.Undoable()
		wait = wait || row.State == ledger.Permitted && usable(row, c.now())
	}
	return undone, wait && !undone
}

// usable reports whether the permit of an invocation may still be used.
func usable(i ledger.Invocation, now ledger.Time) bool {
	return i.Unused && !now.Time().After(i.PermitUntil.Time())
}

// asksLedger says by an invocation whether its effect stands, as the role effects does once no
// call runs; or that it is to be asked again.
func asksLedger(i ledger.Invocation, now ledger.Time) (stands, known, wait bool) {
	switch i.State {
	case ledger.Permitted:
		return false, false, usable(i, now)
	case ledger.Calling:
		return false, false, true
	case ledger.Settled, ledger.Unknown:
		return true, i.State == ledger.Settled, i.State == ledger.Unknown && usable(i, now)
	case ledger.Released:
	}
	return false, false, false
}

// running is a run, as its interpreter has it in memory.
type running struct {
	m        sagaMoves
	handling bool
	plan     *plan.Plan
	progress *plan.Progress
	undo     *plan.Undoing
	flights  [handles]flight
	// asking reports that the role effects is asked about the effect that is being undone.
	asking bool
	// end is how the run ends, once that is known; released reports that nothing of the time
	// before is in flight, and ended that nothing is left to undo.
	end             contract.RunState
	released, ended bool
	// attempted has the nodes whose calls the run has come to.
	attempted [handles]bool
	wrong     string
}

func (s *runs) start() *running {
	r := &running{m: s.m, handling: s.handling, plan: s.plan, progress: plan.NewProgress(s.plan)}
	r.undo = plan.NewUndoing(r.progress)
	r.progress.Begin(contract.Outcome{})
	r.advance()
	return r
}

// carry is what the run passes to its next execution.
func (r *running) carry() *contract.Carried {
	c := &contract.Carried{}
	r.progress.Carry(c)
	if r.released {
		c.Unwinding = &contract.Unwinding{End: contract.RunEnd{State: r.end}}
	}
	r.undo.Carry(c)
	for i, yes := range r.attempted {
		if yes {
			c.Attempts = append(c.Attempts, byte(i))
		}
	}
	return c
}

// restore is a run that continues another.
func (s *runs) restore(raw []byte) *running {
	var c contract.Carried
	r := &running{m: s.m, handling: s.handling, plan: s.plan, progress: plan.NewProgress(s.plan)}
	r.undo = plan.NewUndoing(r.progress)
	if json.Unmarshal(raw, &c) != nil || !r.progress.Restore(&c) || !r.undo.Restore(&c) {
		r.wrong = "a run cannot continue"
		return r
	}
	var recovers []contract.Recovery
	if w := c.Unwinding; w != nil {
		r.end, r.released = w.End.State, true
	} else if c.Undoing != nil {
		recovers = c.Undoing.Recoveries
	}
	r.asking = r.undo.Node() != 0 && r.undo.Stage() != plan.UndoBlock
	for i := first; i < handles; i++ {
		r.attempted[i] = slices.Contains(c.Attempts, byte(i))
		recovering := slices.ContainsFunc(recovers, func(x contract.Recovery) bool { return x.Node == i })
		if r.progress.Node(i) == plan.NodeRunning && !recovering && (!r.released || r.plan.Nodes[i].Undoes != 0) {
			r.flights[i] = deciding
		}
	}
	r.advance()
	return r
}

// idle reports whether no call runs.
func (r *running) idle() bool { return !slices.Contains(r.flights[:], calling) }

// tell tells the run what has happened, and lets it do what follows.
func (r *running) tell(e event) {
	r.land(e)
	r.advance()
}

// land notes what has happened.
func (r *running) land(e event) {
	i := int(e.node)
	switch e.is {
	case decided:
		r.flights[i] = permitted
	case begun:
		r.flights[i] = calling
	case gone:
		r.flights[i] = deciding
	case succeeds, fails, doubts:
		r.flights[i] = grounded
		if r.end != "" && r.plan.Nodes[i].Undoes == 0 {
			break // it was awaited
		}
		if e.is == doubts && r.handling && r.undo.Recover(i, []bool{true, true}) {
			break
		}
		if e.is != succeeds {
			r.progress.Fail(i, nil)
			break
		}
		if r.m.armedLate {
			r.undo.Attempt(i)
		}
		r.progress.Succeed(i, contract.Outcome{Held: []bool{true, true}})
	case stands, unmade, silence:
		r.asking = false
		switch {
		case e.is == silence:
			r.m.silent(r.undo)
		case r.undo.Stage() == plan.UndoVerifying:
			r.m.verified(r.undo, e.is == unmade)
		default:
			r.m.stands(r.undo, e.is == stands, e.known)
		}
	case cancels:
		r.end = r.m.ends(r.end, contract.RunCancelled)
	case passes:
		r.end = r.m.ends(r.end, contract.RunFailed)
	case continues:
	}
}

// renewable reports whether the run may continue as new: nothing is in flight then.
func (r *running) renewable() bool { return r.idle() && (r.end == "" || r.released) }

// launch lets what is ready begin.
func (r *running) launch() {
	for i, ok := r.progress.Next(); ok; i, ok = r.progress.Next() {
		if i == handles {
			r.progress.Succeed(i, contract.Outcome{})
			continue
		}
		if !r.m.armedLate {
			r.undo.Attempt(i)
		}
		if u := r.plan.Nodes[i].Undoes; u != 0 && u != r.undo.Node() {
			r.wrong = "an effect is undone out of its turn"
		}
		r.flights[i], r.attempted[i] = deciding, true
	}
}

// proceed takes the next step of undoing an effect while the run goes on, and reports whether
// something follows at once.
func (r *running) proceed() bool {
	if r.asking {
		return false
	}
	switch r.undo.Proceed() {
	case plan.UndoAsk:
		r.asking = true
	case plan.UndoEnd:
		return true
	case plan.UndoWait, plan.UndoStop:
	}
	return false
}

// advance goes on until the run waits.
func (r *running) advance() {
	for r.end == "" {
		if r.launch(); r.undo.Recovering() && r.proceed() {
			continue
		}
		switch {
		case len(r.progress.Orphans()) > 0:
			r.end = contract.RunFailed
		case r.progress.Done():
			r.end, r.ended = contract.RunSucceeded, true
		}
		break
	}
	if r.end == "" || r.ended {
		return
	}
	if !r.released {
		effects := r.flights[first:undoesFirst] // what undoes one already goes on
		for i := range effects {
			if effects[i] != calling {
				effects[i] = grounded
			}
		}
		if slices.Contains(effects, calling) {
			return
		}
		r.undo.Unwind()
		r.released = true
	}
	for r.undo.Left() {
		if r.asking {
			return
		}
		switch r.m.next(r.undo, r.carry()) {
		case plan.UndoAsk:
			r.asking = true
		case plan.UndoStop:
			for i := range r.flights {
				if r.flights[i] != calling {
					r.flights[i] = grounded
				}
			}
			if !r.idle() {
				return
			}
			r.m.stopped(r.undo)
		case plan.UndoWait:
			r.launch()
			return
		case plan.UndoEnd:
		}
	}
	r.ended = true
}

// key is all that the future of a run depends on.
func (r *running) key() string {
	c := r.carry()
	c.Unwinding = &contract.Unwinding{}
	r.undo.Carry(c)
	raw, err := json.Marshal(c)
	return fmt.Sprint(string(raw), r.flights, r.asking, r.end, r.released, r.ended, r.progress.Orphans(), r.wrong, err)
}

// past is the history of an execution of a run: what it began with, and was told.
type past struct {
	carried []byte
	events  []event
}

// runs are all states of a run that a walk has come to. A state is named by its number.
type runs struct {
	m sagaMoves
	bounds
	plan  *plan.Plan
	byKey map[string]int
	pasts []past
	all   []*running
	next  map[turn]int
}

type turn struct {
	run int
	by  event
}

func (s *runs) add(r *running, of past) int {
	k := r.key()
	n, ok := s.byKey[k]
	if !ok {
		n = len(s.all)
		s.byKey[k], s.all, s.pasts = n, append(s.all, r), append(s.pasts, of)
	}
	return n
}

// replay makes a run anew from its history.
func (s *runs) replay(of past) *running {
	r := s.start()
	if of.carried != nil {
		r = s.restore(of.carried)
	}
	for _, e := range of.events {
		r.tell(e)
	}
	return r
}

// after is the state of a run after one more event: it is made anew from its history.
func (s *runs) after(n int, e event) int {
	t := turn{n, e}
	if to, ok := s.next[t]; ok {
		return to
	}
	of := past{s.pasts[n].carried, append(slices.Clone(s.pasts[n].events), e)}
	r := s.replay(past{of.carried, s.pasts[n].events})
	if r.land(e); e.is == continues || e.renews && r.renewable() {
		c := r.carry()
		s.m.carried(c)
		raw, err := json.Marshal(c)
		if of = (past{carried: raw}); err != nil {
			panic(err)
		}
		r = s.replay(of)
	} else {
		r.advance()
	}
	to := s.add(r, of)
	s.next[t] = to
	return to
}
