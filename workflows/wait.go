package workflows

import (
	"cmp"
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	"chimera.ai/engine/contract"
)

// waitKind is what a run waits for.
type waitKind byte

const (
	waitCall     waitKind = iota // the activity that runs a node
	waitRoute                    // the activity that chooses a failed node's error edges
	waitChild                    // the child workflow that makes a node's call
	waitJournal                  // a batch on its way to the ledger
	waitGuardian                 // the guardian's decision on a node's effect, or its hold
	waitPost                     // what calls have cost, on its way to the guardian
	waitBarrier                  // people, who must approve a node's effect, or say what it was
	waitOpen                     // a barrier that is being opened
	waitSign                     // signatures that are being verified
	waitUndo                     // whether an effect stands
	waitSteer                    // what people have told the run, on its way to the ledger
	waitCheck                    // a precheck that is called once more after an approval
)

// tries counts the requests for a node, and its failures outside its contract.
type tries struct {
	// launches counts requests, lost the workers lost with them, and waits the
	// repetitions outside the contract.
	launches, lost, waits int
	// called reports that one of those workers may have made the call.
	called bool
	// spent counts the contract's attempts that were used up, and paid the calls for
	// which there was a hold.
	spent, paid int
}

// wait is something that a run waits for. All of it but the future is data, which
// an execution can pass to the next.
type wait struct {
	kind waitKind
	node int
	tries
	// since is when it began, and due is when a wait with nothing in flight
	// continues; zero means as soon as there is room.
	since, due time.Time
	// unstarted: no worker took the request before.
	unstarted bool
	// asked is when the first request was made that no worker took, or zero, as in each execution at first.
	asked time.Time
	// patient requests an activity that Temporal retries until the store is
	// available.
	patient bool
	// probe requests nothing but that, since the call itself may take long.
	probe bool
	child *contract.Child
	// decided reports that the guardian has been asked, and permit is what it gave for
	// one call: neither is carried into the next execution, which asks again.
	decided bool
	permit  *contract.Permit
	// hold is the hold for the next call, or the one in flight, and owed how many calls
	// must be settled with the guardian before it is asked for a hold.
	hold string
	owed int
	// decision is the one by which the node waits for people, or "", and approved reports
	// that they have approved it. barrier is the name of the barrier that is being opened.
	decision, barrier string
	approved          bool
	// outcome reports that people are asked what the call did that the decision has permitted,
	// and stated is what they have stated.
	outcome bool
	stated  *contract.Approved
	// recheck is the barrier for which the node's prechecks are called once more, or "".
	// checked counts those that were, and tried the calls of the next.
	recheck        string
	checked, tried int
	// listed is the definition of the node's tool that people are asked about, or nil, and reworded
	// counts those so far.
	listed   contract.Value
	reworded int
	// after is how many outcomes the journal must have recorded before the guardian is
	// asked.
	after int

	// The rest describes something in flight.
	future  workflow.Future
	request string
	// key is the id of the payload key with which the request is sealed, or "".
	key   string
	queue string
	local bool
	// started is the start of a child, and asking reports that future is the
	// answer to a query about it.
	started workflow.Future
	asking  bool
}

// checks reports whether the request asks to check the store before the call: after
// the store was unavailable, and after workers were lost, which a hanging store
// looks like.
func (w *wait) checks() bool { return w.patient || w.lost > 0 }

// grace is what an ordinary activity has beyond the node's own timeout. A repeated
// one has longer: with a slow store it would otherwise never end, least of all if
// it checks the store first.
func (w *wait) grace() time.Duration {
	if w.patient || w.waits > 0 {
		return journalTimeout
	}
	return graceTimeout
}

// sealed reports whether something sealed with a key may be the answer.
func (w *wait) sealed(key string) bool { return w.key == "" || w.key == key }

// sealedWith returns a context in which requests are sealed with the key of an id,
// and only answers sealed with it are accepted.
func sealedWith(ctx workflow.Context, key string) workflow.Context {
	if key == "" {
		return ctx
	}
	return workflow.WithValue(ctx, contract.SealedWith{}, key)
}

// ready reports whether what is in flight has ended.
func (w *wait) ready() bool { return w.future != nil && w.future.IsReady() }

// watched reports whether Temporal is asked about a child when w is due. A child
// reports by itself to the run that started it; after a reset no run may know of
// it.
func (w *wait) watched() bool { return w.kind == waitChild && !w.asking }

// overdue reports whether it is time to ask about a child. One that has ended, or could
// not be started, is about to land.
func (w *wait) overdue(t time.Time) bool { return w.watched() && !w.ready() && !w.due.After(t) }

const (
	// Bounds of the wait before something is requested again outside its
	// contract.
	minBackoff = time.Second
	maxBackoff = time.Minute
)

// backoff is the wait before the next attempt after so many.
func backoff(waits int) time.Duration {
	if waits >= 6 {
		return maxBackoff
	}
	return min(minBackoff<<waits, maxBackoff)
}

// anew returns a wait that repeats the request of w. Whether a child makes the call
// is decided when it is launched.
func (r *run) anew(w *wait) *wait {
	again := &wait{
		kind: w.kind, node: w.node, tries: w.tries, since: r.now(), unstarted: w.unstarted, hold: w.hold, approved: w.approved,
		recheck: w.recheck, checked: w.checked, tried: w.tried, listed: w.listed, reworded: w.reworded,
	}
	if w.unstarted {
		again.asked = cmp.Or(w.asked, w.since)
	}
	if again.kind == waitChild || again.kind == waitGuardian {
		again.kind = waitCall
	}
	return again
}

// later repeats the request of w after a wait.
func (r *run) later(w *wait, after time.Duration) {
	again := r.anew(w)
	if after > 0 {
		again.due = again.since.Add(after)
		r.sleeping = append(r.sleeping, again)
		return
	}
	r.again = append(r.again, again)
}

// arm ensures that a timer fires by the time the first wait is due. One timer
// serves all waits.
func (r *run) arm() {
	var first time.Time
	for _, w := range r.sleeping {
		if first.IsZero() || w.due.Before(first) {
			first = w.due
		}
	}
	if next := r.barriersDue(); !next.IsZero() && (first.IsZero() || next.Before(first)) {
		first = next
	}
	if next := r.steeringDue(); !next.IsZero() && (first.IsZero() || next.Before(first)) {
		first = next
	}
	if o := &r.outage; o.away && !o.probing && o.next.After(r.now()) && (first.IsZero() || o.next.Before(first)) {
		first = o.next
	}
	for _, w := range r.flights {
		if w.watched() && (first.IsZero() || w.due.Before(first)) {
			first = w.due
		}
	}
	if first.IsZero() {
		r.disarm()
		return
	}
	if r.alarm.future != nil && !r.alarm.future.IsReady() && !r.alarm.at.After(first) {
		return
	}
	r.disarm()
	ctx, cancel := workflow.WithCancel(r.steady)
	r.alarm.at, r.alarm.cancel = first, cancel
	r.alarm.future = workflow.NewTimerWithOptions(ctx, max(first.Sub(r.now()), time.Millisecond), workflow.TimerOptions{Summary: "engine/wait"})
}

func (r *run) disarm() {
	if r.alarm.future != nil && !r.alarm.future.IsReady() {
		r.alarm.cancel()
	}
	r.alarm = alarm{}
}

// alarm is the timer of what sleeps.
type alarm struct {
	at     time.Time
	future workflow.Future
	cancel workflow.CancelFunc
}

// rung reports whether the timer has fired.
func (a *alarm) rung() bool { return a.future != nil && a.future.IsReady() }

// inFlight counts the nodes whose calls are in flight. Batches to the ledger and to the
// guardian do not count, nor what is asked about barriers.
func (r *run) inFlight() int {
	n := len(r.flights)
	if r.journal.writing {
		n--
	}
	if r.payments.posting {
		n--
	}
	if r.inbox.signing {
		n--
	}
	if r.steering.sent {
		n--
	}
	return n - r.opening
}

// undoes reports whether w belongs to the undoing of an effect.
func (r *run) undoes(w *wait) bool { return w.kind == waitUndo || r.plan.Nodes[w.node].Undoes != 0 }

// idle reports whether no node's call is in flight. A batch in flight is written
// again at the end, or carried.
func (r *run) idle() bool { return r.inFlight() == 0 }

// takeReady removes from what is in flight what has ended, and returns it.
func (r *run) takeReady() []*wait {
	var ready []*wait
	r.flights = slices.DeleteFunc(r.flights, func(w *wait) bool {
		if w.ready() {
			ready = append(ready, w)
			return true
		}
		return false
	})
	return ready
}

func (r *run) now() time.Time { return workflow.Now(r.ctx) }

// begun reports whether all children are known to run.
func (r *run) begun() bool {
	all := true
	for _, w := range r.flights {
		if w.kind == waitChild && !r.identified(w) {
			all = false
		}
	}
	return all
}

// identified reports whether it is known if the child of w has started, and records
// its run id.
func (r *run) identified(w *wait) bool {
	if w.child.Run != "" {
		return true
	}
	if !w.started.IsReady() {
		return false
	}
	var execution workflow.Execution
	if w.started.Get(r.steady, &execution) == nil {
		w.child.Run = execution.RunID
	}
	return true
}
