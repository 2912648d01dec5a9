package workflows

import (
	"slices"
	"time"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/plan"
)

const (
	// maxPending bounds what is in flight, whatever a plan allows: beyond 2,000
	// pending activities Temporal fails the workflow task forever. maxChildren
	// bounds the children among them.
	maxPending  = 1000
	maxChildren = 500
	// maxAnswers is how many answers may arrive while a workflow task runs local
	// activities: the server discards a task for which more than 100 events, or 2 MiB
	// of them, wait, and an answer brings two.
	maxAnswers = 45
)

// dispatch launches what can be launched.
func (r *run) dispatch() {
	r.meter.tick(r)
	r.record()
	paused := r.paused()
	if r.outage.away && paused {
		r.knock()
		return
	}
	if r.outage.away {
		r.probe()
		return
	}
	if len(r.journal.entries) >= journalEntries && !r.journal.writing {
		r.write()
	}
	r.post()
	if paused {
		r.verify()
		r.withhold()
		return
	}
	r.gather()
	r.verify()
	if r.draining {
		r.usePermits()
	}
	var aside []*wait
	for r.room() {
		w := r.next()
		if w == nil {
			break
		}
		if r.meter.full(r, w) {
			r.back(w)
			r.cut()
			break
		}
		if r.needsChild(w) && r.children() >= maxChildren || w.undecided(&r.plan.Nodes[w.node]) && !r.askable(w) {
			aside = append(aside, w)
			continue
		}
		r.launch(w)
	}
	r.again = slices.Concat(aside, r.again)
}

// room reports whether one more call may be in flight.
func (r *run) room() bool {
	n := r.inFlight()
	return !r.draining && !r.meter.cutting && r.meter.flying < r.meter.window && len(r.journal.entries) < maxEntries &&
		n < min(r.plan.Limits.MaxParallel, maxPending) && (r.outage.window == 0 || n < r.outage.window)
}

// usePermits launches the calls that have a permit. A run that continues as new first lets
// them end: the next execution would ask the guardian again, and so would the one after
// it, if a decision is all that its history has room for.
func (r *run) usePermits() {
	r.again = slices.DeleteFunc(r.again, func(w *wait) bool {
		switch {
		case !w.decided || r.meter.cutting || r.needsChild(w) && r.children() >= maxChildren:
			return false
		case r.meter.full(r, w):
			r.cut()
			return false
		}
		r.launch(w)
		return true
	})
}

// children counts the child workflows in flight.
func (r *run) children() int {
	n := 0
	for _, w := range r.flights {
		if w.kind == waitChild {
			n++
		}
	}
	return n
}

// next returns what to launch next, or nil. Retries come before first launches, and
// $output once everything else has settled.
func (r *run) next() *wait {
	if len(r.again) > 0 {
		w := r.again[0]
		r.again = r.again[1:]
		return w
	}
	i, ok := r.progress.Next()
	if !ok && r.phase == forward && r.idle() {
		i, ok = r.progress.Output()
	}
	if !ok {
		return nil
	}
	return &wait{kind: waitCall, node: i, since: r.now()}
}

// back returns what next has taken.
func (r *run) back(w *wait) { r.again = append([]*wait{w}, r.again...) }

// outage is what is known about the availability of the store.
type outage struct {
	// away reports that the store was unavailable, and that a probe is in
	// flight or has to be launched. knocking reports that a batch for the ledger is in
	// flight instead. why is the last reason.
	away, probing, knocking bool
	why                     string
	// again counts how often the store was unavailable since a call last
	// succeeded, and next is the earliest time of the next probe: a probe that
	// succeeds does not prove that the store accepts everything.
	again int
	next  time.Time
	// window bounds what is in flight once the store is available again: at
	// first two more than there are, which may take long, and twice as many
	// with each that returns. 0 means no bound.
	window int
}

// stall defers w until the store is available.
func (r *run) stall(w *wait, why string) {
	r.outage.why = why
	if w.patient {
		r.outage.probing = false
	}
	w.waits++
	r.stalled = append(r.stalled, r.anew(w))
	if r.outage.away && !w.patient {
		return
	}
	if r.outage.away = true; r.outage.again > 0 {
		r.outage.next = r.now().Add(backoff(r.outage.again - 1))
	}
	r.outage.again++
}

// probe requests the first stalled call again by an activity that Temporal retries
// until the store is available, which costs no events. Until then nothing new
// starts. A call that may take long is only checked and not made, since it might
// wait for something that itself waits for the store; so is one that is paid for.
func (r *run) probe() {
	if r.outage.probing || r.outage.next.After(r.now()) {
		return
	}
	from := &r.stalled
	if len(*from) == 0 {
		from = &r.again
	}
	if len(*from) == 0 {
		// Everything that noticed it sleeps, or has failed.
		w := r.next()
		if w == nil {
			return
		}
		*from = append(*from, w)
	}
	w := (*from)[0]
	*from = (*from)[1:]
	w.patient, r.outage.probing = true, true
	n := &r.plan.Nodes[w.node]
	long := time.Duration(n.TimeoutMS)*time.Millisecond > contract.ShortWait
	w.probe = w.kind == waitCall && !n.Guarded() && (long && !n.Paid() || w.hold != "")
	r.launch(w)
}

// returned notes that a call has ended for another reason than the store. Stalled
// calls continue, slowly at first, since a part of the store may still be
// unavailable.
func (r *run) returned(w *wait) {
	switch {
	case w.patient:
		again := 0
		if w.probe {
			again = r.outage.again
		}
		r.outage = outage{window: r.inFlight() + 2, again: again}
		r.again = append(r.again, r.stalled...)
		r.stalled = nil
	case r.outage.window > 0:
		r.outage.again = 0
		if r.outage.window *= 2; r.outage.window > maxPending {
			r.outage.window = 0
		}
	}
}

// unproved notes that a call has ended without an answer, which says nothing about
// the store.
func (r *run) unproved(w *wait) {
	if w.patient {
		r.outage.probing = false
	}
}

// maxAttempts bounds the attempts that a worker may report.
const maxAttempts = 1 << 20

// settledAs records when node i settled, and after how many attempts.
func (r *run) settledAs(i int, attempts int) {
	r.ended[i] = stamp(r.started, r.now())
	r.attempts[i] = int32(counted(1, attempts))
}

// answered handles the answer to a call. If nobody knows what the call did, people are asked.
func (r *run) answered(w *wait, out contract.Outcome) {
	if out.Unknown != "" && r.onlyNoted(w) {
		r.effectFailed(w, failed(contract.OutcomeUnknown, unknown))
		return
	}
	if out.Unknown != "" {
		r.park(w, out.Unknown, true)
		return
	}
	r.pays(w, contract.Post{Spent: out.Spent})
	r.succeeded(w.node, out)
}

// succeeded settles node i with its outcome.
func (r *run) succeeded(i int, out contract.Outcome) {
	r.settledAs(i, out.Attempts)
	if i == r.last() {
		r.progress.Succeed(i, out)
		r.produced(out)
		return
	}
	r.journal.note(r.entry(i, contract.JournalEntry{
		State: contract.Succeeded, Attempts: counted(1, out.Attempts), Input: plan.OnlyDigest(out.Input), Output: plan.OnlyDigest(out.Output),
		Snapshots: digests(out.Snapshots),
	}))
	if r.remaining[i] > 0 {
		r.hold(i, out.Values)
	}
	r.progress.Succeed(i, out)
}

// produced records the plan's output.
func (r *run) produced(out contract.Outcome) {
	if len(out.Values) != 1 {
		r.fails(contract.Failure{Kind: contract.ServerError, Node: r.plan.Nodes[r.last()].ID, Message: "the output was assembled, and is missing"})
		return
	}
	r.output = out.Values[0]
	r.end = contract.RunEnd{State: contract.RunSucceeded, Output: out.Output}
}

// unsuccessful settles node i with its failure, and with the snapshots of its call or nil, once its
// error edges are chosen, which is at once if no predicate has to be evaluated.
func (r *run) unsuccessful(i int, e contract.ErrorPayload, s *contract.Snapshots) {
	e.Node = r.plan.Nodes[i].ID
	r.settledAs(i, e.Attempts)
	if i == r.last() {
		r.progress.Fail(i, nil)
		r.errors[i] = &e
		r.fails(contract.Failure{Kind: e.Kind, Node: e.Node, Message: e.Message})
		return
	}
	r.journal.note(r.entry(i, contract.JournalEntry{State: contract.Failed, Attempts: e.Attempts, Error: brief(&e), Snapshots: s}))
	r.errors[i] = &e
	if e.Kind == contract.OutcomeUnknown && (!r.plan.Undoable(i) || r.plan.Nodes[i].Undoes != 0) {
		// What may have happened stays: no error edge handles it.
		r.progress.Fail(i, nil)
		return
	}
	held, asked := r.unconditional(i)
	if asked {
		r.again = append(r.again, &wait{kind: waitRoute, node: i, since: r.now()})
		return
	}
	r.routed(i, held)
}

// routed settles failed node i once it is known which of its error edges hold. One of unknown
// outcome is undone before any of them is delivered.
func (r *run) routed(i int, held []bool) {
	if r.errors[i].Kind == contract.OutcomeUnknown {
		if r.undo.Recover(i, held) {
			return
		}
		held = nil
	}
	r.progress.Fail(i, held)
}

// release cleans up after settled nodes: it drops the values that no edge will read
// any longer, and records the nodes that were skipped.
func (r *run) release() {
	for _, i := range r.progress.TakeSettled() {
		r.ahead -= weight(&r.plan.Nodes[i])
		if r.progress.Node(i) == plan.NodeSkipped {
			r.journal.note(r.entry(i, contract.JournalEntry{State: contract.Skipped}))
		}
		r.read(i, r.consume)
	}
}

// unconditional returns which error edges of failed node i hold, or reports that a
// predicate has to be evaluated.
func (s *scope) unconditional(i int) (held []bool, asked bool) {
	for _, e := range s.plan.Out(i) {
		edge := &s.plan.Edges[e]
		if edge.Type != plan.Error {
			continue
		}
		if edge.When != "" {
			return nil, true
		}
		held = append(held, true)
	}
	return held, false
}

// maxReworded bounds how often people are asked about other words of one call: a server that changes
// them again and again would ask without end.
const maxReworded = 10

// failedCall handles the failure of a call. A failure of the infrastructure does
// not count as an attempt of the node's contract.
func (r *run) failedCall(w *wait, f failure) {
	if r.onlyNoted(w) {
		r.effectFailed(w, f)
		return
	}
	n := &r.plan.Nodes[w.node]
	if !f.unstarted && !f.wrongQueue && !w.probe {
		r.pays(w, contract.Post{Unsent: f.Kind.NothingSent()})
	}
	if f.Kind == contract.StoreUnavailable {
		w.spent = max(w.spent, f.spent)
		r.stall(w, f.Message)
		return
	}
	if f.unstarted || f.wrongQueue || f.Kind == contract.WorkerLost {
		r.unproved(w)
	} else {
		r.returned(w)
		// Whatever the worker reports, this was one more attempt.
		f.Attempts = max(f.Attempts, w.spent+1)
	}
	switch {
	case f.wrongQueue && w.queue != contract.QueueTools && !n.InProcess:
		r.toolsQueue = contract.QueueTools
		r.later(w, 0)
		return
	case f.unstarted || f.wrongQueue:
		w.spent = max(w.spent, f.spent)
		w.waits, w.unstarted = w.waits+1, f.unstarted
		r.later(w, backoff(w.waits))
		return
	case f.Kind == contract.WorkerLost && w.probe:
		w.waits++
		r.later(w, backoff(w.waits-1))
		return
	case f.Kind == contract.WorkerLost:
		w.spent = max(w.spent, f.spent)
		w.lost++
		w.called = w.called || w.kind != waitGuardian
		if f.Attempts = w.lost; w.lost < maxLost {
			w.waits++
			r.later(w, backoff(w.waits-1))
			return
		}
		if n.Effect.Commits() && w.called {
			f.ErrorPayload = contract.ErrorPayload{Kind: contract.OutcomeUnknown, Message: bounded("its workers were lost, and nobody knows what they did: " + f.Message), Attempts: f.Attempts}
		}
	case f.listed != nil && n.Guarded() && w.decided && w.reworded < maxReworded:
		w.listed, w.approved = f.listed, false
		w.reworded++
		r.later(w, 0)
		return
	case n.Kind == plan.KindCall && n.Retry.Again(f.Kind, f.Attempts):
		w.spent = f.Attempts
		r.later(w, max(f.wait, time.Duration(n.Retry.WaitMS(f.Attempts))*time.Millisecond))
		return
	}
	r.unsuccessful(w.node, f.ErrorPayload, f.snapshots)
}
