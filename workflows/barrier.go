package workflows

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"go.temporal.io/sdk/workflow"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/plan"
)

// barrier is a place where effects wait until people have approved all of them. It has an
// id once it is open.
type barrier struct {
	name, id string
	// outcome: people are asked what a call did.
	outcome bool
	since   time.Time
	// due is when it expires, and next when the guardian is asked about that, or about what
	// follows before.
	due, next time.Time
	missing   []contract.Group
	followed  contract.Followed
}

// barrierOf is the name of the barrier at which w waits, as the guardian has it.
func (r *run) barrierOf(w *wait) string {
	n := &r.plan.Nodes[w.node]
	if w.outcome {
		return "outcome/" + n.ID
	}
	if c := n.Commit; c != nil && c.Barrier >= 0 && r.plan.Barriers[c.Barrier].ID != "" {
		return "barrier/" + r.plan.Barriers[c.Barrier].ID
	}
	return "node/" + n.ID
}

// park lets w wait for people, by a decision. At the barrier of an outcome, they are asked what
// the call did that the decision has permitted.
func (r *run) park(w *wait, decision string, outcome bool) {
	next := r.anew(w)
	next.kind, next.decision, next.outcome, next.approved = waitBarrier, decision, outcome, false
	r.parked = append(r.parked, next)
}

// gather opens the barriers at which all have arrived that can. Those that share one are
// asked for together: a member that has been skipped or has failed is not waited for.
func (r *run) gather() {
	if r.draining || r.outage.away || len(r.parked) == 0 {
		return
	}
	var awaits []string // barriers at which somebody is missing
	for _, w := range r.parked {
		name := r.barrierOf(w)
		if r.barrier(name) != nil || slices.Contains(awaits, name) {
			continue
		}
		if !w.outcome && !r.arrived(&r.plan.Nodes[w.node]) {
			awaits = append(awaits, name)
			continue
		}
		if r.journal.unopened {
			if !r.journal.writing {
				r.write()
			}
			return
		}
		r.barriers = append(r.barriers, &barrier{name: name, since: r.now(), outcome: w.outcome})
		r.open(name)
	}
}

// barrier returns the barrier of a name, or nil.
func (r *run) barrier(name string) *barrier {
	for _, b := range r.barriers {
		if b.name == name {
			return b
		}
	}
	return nil
}

// arrived reports whether nobody is on the way to the barrier of node n any more.
func (r *run) arrived(n *plan.Node) bool {
	if n.Commit == nil || n.Commit.Barrier < 0 {
		return true
	}
	for _, i := range r.plan.Barriers[n.Commit.Barrier].Members {
		if !r.progress.Node(i).Settled() && !slices.ContainsFunc(r.parked, func(w *wait) bool { return w.node == i && !w.outcome }) {
			return false
		}
	}
	return true
}

// waitersAt lists those that wait at a barrier.
func (r *run) waitersAt(name string) (all []*wait) {
	for _, w := range r.parked {
		if r.barrierOf(w) == name {
			all = append(all, w)
		}
	}
	return all
}

// open asks the guardian to open a barrier.
func (r *run) open(name string) {
	request := contract.OpenRequest{Run: r.identity(), Plan: r.head.Digest, Name: name, Request: r.guardianRequest("open")}
	for _, w := range r.waitersAt(name) {
		request.Decisions, request.Outcome = append(request.Decisions, w.decision), w.outcome
	}
	r.meter.emit(100 * len(request.Decisions))
	w := &wait{kind: waitOpen, since: r.now(), barrier: name, request: request.Request, key: r.key, queue: contract.QueueGuardian}
	w.future = r.askGuardian(contract.ActivityOpen, request.Request, name, tryTime, request)
	r.opening++
	r.flights = append(r.flights, w)
}

// guardianRequest names a request to the guardian about barriers.
func (r *run) guardianRequest(what string) string {
	r.inbox.requests++
	return r.tag + "/engine/" + what + "#" + strconv.Itoa(r.inbox.requests)
}

// askGuardian requests an activity of the guardian, which Temporal retries for so long while
// the store is unavailable.
func (r *run) askGuardian(activity, id, summary string, within time.Duration, request any) workflow.Future {
	return workflow.ExecuteActivity(workflow.WithActivityOptions(r.steady, workflow.ActivityOptions{
		TaskQueue: contract.QueueGuardian, ActivityID: id, Summary: summary,
		StartToCloseTimeout: journalTimeout, ScheduleToCloseTimeout: within, RetryPolicy: recording,
	}), activity, request)
}

// landOpen handles the answer of the guardian, which has opened a barrier, or says why not.
func (r *run) landOpen(w *wait) {
	r.opening--
	b := r.barrier(w.barrier)
	var out contract.Opened
	err := w.future.Get(r.steady, &out)
	if err == nil && (out.Request != w.request || out.Barrier.ID == "" && !out.Unopened && !out.Known) {
		err = errOther
	}
	if err == nil && !out.Unopened && !out.Known {
		b.id = out.Barrier.ID
		r.stands(b, out.Barrier)
		if i := slices.Index(r.inbox.early, b.id); i >= 0 {
			r.inbox.early = slices.Delete(r.inbox.early, i, i+1)
			b.next = r.now()
		}
		return
	}
	// It is opened anew, unless nobody can.
	r.barriers = slices.DeleteFunc(r.barriers, func(x *barrier) bool { return x == b })
	switch {
	case err == nil && out.Known:
		for _, at := range r.waitersAt(w.barrier) {
			r.unpark(at)
			r.later(at, 0)
		}
		return
	case err == nil:
		r.journal.unopened = true
		return
	}
	f := readFailure(err, w)
	for _, at := range r.waitersAt(w.barrier) {
		outcome := at.outcome
		r.unpark(at)
		if f.Kind == contract.StoreUnavailable || f.Kind == contract.WorkerLost || f.unstarted {
			at.waits++
			r.later(at, backoff(at.waits-1))
			continue
		}
		if outcome {
			f.ErrorPayload = contract.ErrorPayload{Kind: contract.OutcomeUnknown, Message: bounded(unknown + ": " + f.Message), Attempts: f.Attempts}
		}
		r.unsuccessful(at.node, f.ErrorPayload, nil)
	}
}

// unknown begins the message of a node of whose call nobody has said what it did.
const unknown = "a call was made, and nobody knows what it did"

// unpark lets w no longer wait for people.
func (r *run) unpark(w *wait) {
	r.parked = slices.DeleteFunc(r.parked, func(x *wait) bool { return x == w })
	w.kind, w.decision, w.outcome = waitCall, "", false
}

// stands handles how a barrier stands.
func (r *run) stands(b *barrier, now contract.Barrier) {
	b.missing, b.due, b.followed = now.Missing, time.UnixMilli(now.ExpiresMS).UTC(), now.Followed
	if b.next = b.due; now.NextMS > 0 && now.NextMS < now.ExpiresMS {
		b.next = time.UnixMilli(now.NextMS).UTC()
	}
	if now.State == contract.BarrierOpen {
		if !b.next.After(r.now()) {
			b.next = r.now().Add(minBackoff) // the guardian's clock is behind
		}
		return
	}
	r.barriers = slices.DeleteFunc(r.barriers, func(x *barrier) bool { return x == b })
	for _, w := range r.waitersAt(b.name) {
		r.unpark(w)
		if now.State == contract.BarrierApproved {
			if b.outcome {
				r.later(w, 0)
			} else {
				r.confirm(w, b.id)
			}
			continue
		}
		if now.State == contract.BarrierWithdrawn && r.phase == forward {
			// The ledger has the run as ended when it was withdrawn, and it goes on since.
			w.waits++
			r.later(w, backoff(w.waits-1))
			continue
		}
		kind, why := contract.Rejected, "people have not approved it ("+string(now.State)+")"
		switch {
		case b.outcome:
			kind, why = contract.OutcomeUnknown, unknown+", and people have not stated it ("+string(now.State)+")"
		case now.State == contract.BarrierExpired:
			kind = contract.Expired
		}
		if now.Reason != "" {
			why += ": " + now.Reason
		}
		r.unsuccessful(w.node, contract.ErrorPayload{Kind: kind, Message: bounded(why), Attempts: counted(1, w.spent)}, nil)
	}
}

// barriersDue is when the guardian is to be asked next: about the first barrier that expires,
// or again about what it did not answer. It is zero if there is nothing to ask, or no way to
// ask it now.
func (r *run) barriersDue() (first time.Time) {
	if r.inbox.signing || !r.asksGuardian() {
		return first
	}
	if len(r.inbox.waiting) > 0 {
		first = r.inbox.next
	}
	for _, b := range r.barriers {
		next := b.next
		if next.Before(r.inbox.next) {
			next = r.inbox.next
		}
		if b.id != "" && (first.IsZero() || next.Before(first)) {
			first = next
		}
	}
	return first
}

// asksPeople reports whether a barrier is open.
func (r *run) asksPeople() bool {
	return slices.ContainsFunc(r.barriers, func(b *barrier) bool { return b.id != "" })
}

// reconsider lets the guardian say how the open barriers stand: people may have approved what
// waits there since the run was reset, in another run that continues the same history.
func (r *run) reconsider() {
	for _, b := range r.barriers {
		if b.id != "" {
			b.next = r.now()
		}
	}
}

// withdraw closes what is open when the run's end is known, for a bounded time: nobody is
// asked any more. The guardian's sweeper closes what stays. If undoing, people are still asked
// about what undoes an effect.
func (r *run) withdraw(undoing bool) {
	request := contract.SignRequest{Run: r.identity(), Withdraw: "the run ends"}
	var barriers []*barrier
	for _, b := range r.barriers {
		switch {
		case b.id == "": // it is opened anew, if somebody waits there
		case undoing && slices.ContainsFunc(r.waitersAt(b.name), r.undoes):
			b.next = r.now() // what was on its way about it is dropped
			barriers = append(barriers, b)
		default:
			request.Barriers = append(request.Barriers, b.id)
		}
	}
	r.parked, r.barriers = slices.DeleteFunc(r.parked, func(w *wait) bool { return !undoing || !r.undoes(w) }), barriers
	if len(request.Barriers) == 0 {
		return
	}
	request.Request = r.guardianRequest("sign")
	if err := r.askGuardian(contract.ActivitySign, request.Request, "barriers", journalTimeout, request).Get(r.steady, nil); err != nil {
		workflow.GetLogger(r.ctx).Warn("barriers were not closed", "error", err)
	}
}

// carryBarriers carries barriers that are open, and signatures that are not verified.
func (r *run) carryBarriers(c *contract.Carried) {
	for _, b := range r.barriers {
		if b.id != "" {
			carried := contract.CarriedBarrier{
				Name: b.name, ID: b.id, Outcome: b.outcome, SinceMS: b.since.UnixMilli(), DueMS: b.due.UnixMilli(), Missing: b.missing, Followed: b.followed,
			}
			if b.next.Before(b.due) {
				carried.NextMS = b.next.UnixMilli()
			}
			c.Barriers = append(c.Barriers, carried)
		}
	}
	c.Signing = r.inbox.requests
	for _, s := range slices.Concat(r.inbox.sent, r.inbox.waiting) {
		if s.update == nil {
			c.Signatures = append(c.Signatures, s.envelope)
		}
	}
}

func (r *run) restoreBarriers(c *contract.Carried) {
	for _, b := range c.Barriers {
		due := time.UnixMilli(b.DueMS).UTC()
		next := due
		if b.NextMS > 0 {
			next = time.UnixMilli(b.NextMS).UTC()
		}
		r.barriers = append(r.barriers, &barrier{
			name: b.Name, id: b.ID, outcome: b.Outcome, since: time.UnixMilli(b.SinceMS).UTC(), due: due, next: next, missing: b.Missing, followed: b.Followed,
		})
	}
	r.inbox.requests = c.Signing
	for _, s := range c.Signatures {
		r.inbox.take(&signature{envelope: s})
	}
}

// askedOf says for whom w waits.
func (r *run) askedOf(w *wait) string {
	b := r.barrier(r.barrierOf(w))
	if b == nil || b.id == "" {
		if w.outcome {
			return "people are about to be asked what a call did"
		}
		return "people are asked once all have arrived that share the barrier"
	}
	text := missing(b.missing) + " (barrier " + b.id + ", until " + instant(b.due) + marks(b.followed) + ")"
	if w.outcome {
		return "what a call did, to be stated by " + text
	}
	return text
}

// marks says what has followed at a barrier.
func marks(f contract.Followed) (text string) {
	if f.Reminded > 0 {
		times := " times"
		if f.Reminded == 1 {
			times = " time"
		}
		text = ", reminded " + strconv.Itoa(f.Reminded) + times + ", last at " + instant(time.UnixMilli(f.RemindedMS))
	}
	if f.EscalatedMS > 0 {
		text += ", escalated to " + missing(f.To) + " since " + instant(time.UnixMilli(f.EscalatedMS))
	}
	return text
}

// missing says who still has to sign.
func missing(groups []contract.Group) string {
	var all []string
	for _, g := range groups {
		all = append(all, strconv.Itoa(g.Min)+" of "+g.Role)
	}
	if len(all) == 0 {
		return "people"
	}
	return strings.Join(all, ", ")
}

// asking lists the barriers at which people are asked.
func (r *run) asking() (all []contract.BarrierStatus) {
	for _, b := range r.barriers {
		if b.id == "" {
			continue
		}
		s := contract.BarrierStatus{ID: b.id, Outcome: b.outcome, Nodes: []string{}, Since: instant(b.since), Until: instant(b.due), Missing: b.missing}
		if f := b.followed; f.Reminded > 0 {
			s.Reminded, s.RemindedAt = f.Reminded, instant(time.UnixMilli(f.RemindedMS))
		}
		if f := b.followed; f.EscalatedMS > 0 {
			s.EscalatedAt, s.EscalatedTo = instant(time.UnixMilli(f.EscalatedMS)), f.To
		}
		for _, w := range r.waitersAt(b.name) {
			s.Nodes = append(s.Nodes, r.plan.Nodes[w.node].ID)
		}
		all = append(all, s)
		if len(all) == stateWaits {
			break
		}
	}
	return all
}

// asks says in the user interface for whom the run waits.
func (r *run) asks(state contract.RunState) string {
	if state != contract.RunRunning {
		return ""
	}
	var b strings.Builder
	for i, s := range r.asking() {
		if i == detailNodes/10 {
			break
		}
		followed := r.barriers[slices.IndexFunc(r.barriers, func(x *barrier) bool { return x.id == s.ID })].followed
		what := "Waits for approval"
		if s.Outcome {
			what = "Waits to know what a call did"
		}
		b.WriteString("\n\n**" + what + "** by " + missing(s.Missing) + ": " + strings.Join(s.Nodes[:min(len(s.Nodes), 10)], ", ") +
			", since " + s.Since + ", until " + s.Until + marks(followed) + " (barrier " + s.ID + ")")
	}
	return b.String()
}
