package workflows

import (
	"slices"
	"time"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/plan"
)

const (
	// maxPending bounds what is in flight, whatever a plan allows: Temporal refuses
	// more than 2,000 pending activities, and fails the workflow task for ever.
	// maxChildren bounds the children among them.
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
	if r.outage.away {
		r.probe()
		return
	}
	if len(r.journal.entries) >= journalEntries && !r.journal.writing {
		r.write()
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
		if r.begets(w) && r.children() >= maxChildren {
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

// next gives what is to be launched next, or nil: what was launched before comes
// before what was not, and $output when all else has settled.
func (r *run) next() *wait {
	if len(r.again) > 0 {
		w := r.again[0]
		r.again = r.again[1:]
		return w
	}
	i, ok := r.progress.Next()
	if !ok && r.idle() {
		i, ok = r.progress.Output()
	}
	if !ok {
		return nil
	}
	return &wait{kind: waitCall, node: i, since: r.now()}
}

// back puts off what next has given.
func (r *run) back(w *wait) { r.again = append([]*wait{w}, r.again...) }

// outage is what is known of the store.
type outage struct {
	// away: the store was unavailable, and what proves the contrary is in flight, or
	// has to be launched. why is what was said of that last.
	away, probing bool
	why           string
	// again counts how often the store was away since something last came of it, and
	// next is when it is probed at the earliest: what proves that it is back need not
	// prove that it takes all that it is given.
	again int
	next  time.Time
	// window bounds what is in flight once the store is back: two more than there were
	// then, which may take long, and twice as many with each that returns. 0 is no bound.
	window int
}

// stall puts off w until the store is back.
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

// probe asks again for the first of what has stalled, by an activity that Temporal
// tries until the store is back: that costs no event. Until then nothing new
// starts. What may take long is not called for that: what it waits for might be
// something that waits for the store.
func (r *run) probe() {
	if r.outage.probing || r.outage.next.After(r.now()) {
		return
	}
	from := &r.stalled
	if len(*from) == 0 {
		from = &r.again
	}
	if len(*from) == 0 {
		// All that has felt it sleeps, or has failed.
		w := r.next()
		if w == nil {
			return
		}
		*from = append(*from, w)
	}
	w := (*from)[0]
	*from = (*from)[1:]
	w.patient, r.outage.probing = true, true
	w.probe = w.kind == waitCall && time.Duration(r.plan.Nodes[w.node].TimeoutMS)*time.Millisecond > contract.ShortWait
	r.launch(w)
}

// returned is told that a call has ended for another reason than the store. What
// has stalled goes on, slowly at first: what answered may not be what was away.
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

// unproved is told that a call has ended without an answer, which says nothing of
// the store.
func (r *run) unproved(w *wait) {
	if w.patient {
		r.outage.probing = false
	}
}

// maxAttempts bounds what a worker may say that it took.
const maxAttempts = 1 << 20

// settledAs notes when node i has settled, and after how many attempts.
func (r *run) settledAs(i int, attempts int) {
	r.ended[i] = stamp(r.started, r.now())
	r.attempts[i] = int32(counted(1, attempts))
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
	}))
	if r.remaining[i] > 0 {
		r.hold(i, out.Values)
	}
	r.progress.Succeed(i, out)
}

// produced takes the plan's output.
func (r *run) produced(out contract.Outcome) {
	if len(out.Values) != 1 {
		r.fails(contract.Failure{Kind: contract.ServerError, Node: r.plan.Nodes[r.last()].ID, Message: "the output was assembled, and is missing"})
		return
	}
	r.output = out.Values[0]
	r.end = contract.RunEnd{State: contract.RunSucceeded, Output: out.Output}
}

// unsuccessful settles node i with its failure, once its error edges are chosen: at
// once where no predicate has to be asked.
func (r *run) unsuccessful(i int, e contract.ErrorPayload) {
	e.Node = r.plan.Nodes[i].ID
	r.settledAs(i, e.Attempts)
	if i == r.last() {
		r.progress.Fail(i, nil)
		r.errors[i] = &e
		r.fails(contract.Failure{Kind: e.Kind, Node: e.Node, Message: e.Message})
		return
	}
	r.journal.note(r.entry(i, contract.JournalEntry{State: contract.Failed, Attempts: e.Attempts, Error: brief(&e)}))
	r.errors[i] = &e
	held, asked := r.unconditional(i)
	if asked {
		r.again = append(r.again, &wait{kind: waitRoute, node: i, since: r.now()})
		return
	}
	r.progress.Fail(i, held)
}

// release follows nodes that have settled: it forgets the values that no edge will
// read any more, and notes the nodes that were skipped.
func (r *run) release() {
	for _, i := range r.progress.TakeSettled() {
		r.ahead -= weight(&r.plan.Nodes[i])
		if r.progress.Node(i) == plan.NodeSkipped {
			r.journal.note(r.entry(i, contract.JournalEntry{State: contract.Skipped}))
		}
		for _, e := range r.plan.In(i) {
			r.consume(r.plan.Edges[e].From)
		}
	}
}

// unconditional gives which error edges of failed node i hold, or reports that a
// predicate has to be asked.
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

// failedCall takes the failure of a call: the infrastructure's is no attempt of the
// node's contract.
func (r *run) failedCall(w *wait, f failure) {
	n := &r.plan.Nodes[w.node]
	if f.Kind == contract.StoreUnavailable {
		w.spent = max(w.spent, f.spent)
		r.stall(w, f.Message)
		return
	}
	if f.unstarted || f.wrongQueue || f.Kind == contract.WorkerLost {
		r.unproved(w)
	} else {
		r.returned(w)
		// Whatever a worker says of it, this was one more.
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
		if f.Attempts = w.lost; w.lost < maxLost {
			w.waits++
			r.later(w, backoff(w.waits-1))
			return
		}
	case n.Kind == plan.KindCall && n.Retry.Again(f.Kind, f.Attempts):
		w.spent = f.Attempts
		r.later(w, max(f.wait, time.Duration(n.Retry.WaitMS(f.Attempts))*time.Millisecond))
		return
	}
	r.unsuccessful(w.node, f.ErrorPayload)
}
