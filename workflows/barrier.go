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
	since    time.Time
	// due is when it expires, and next when the guardian is asked about that.
	due, next time.Time
	missing   []contract.Group
}

// barrierOf is the name of the barrier at which node n waits, as the guardian has it.
func (r *run) barrierOf(n *plan.Node) string {
	if c := n.Commit; c != nil && c.Barrier >= 0 && r.plan.Barriers[c.Barrier].ID != "" {
		return "barrier/" + r.plan.Barriers[c.Barrier].ID
	}
	return "node/" + n.ID
}

// park lets w wait for people, by a decision.
func (r *run) park(w *wait, decision string) {
	next := r.anew(w)
	next.kind, next.decision, next.approved = waitBarrier, decision, false
	r.parked = append(r.parked, next)
}

// gather opens the barriers at which all have arrived that can. Those that share one are
// asked for together: a member that has been skipped or has failed is not waited for.
func (r *run) gather() {
	if r.draining || r.outage.away || len(r.parked) == 0 {
		return
	}
	for _, w := range r.parked {
		name := r.barrierOf(&r.plan.Nodes[w.node])
		if r.barrier(name) != nil || !r.arrived(&r.plan.Nodes[w.node]) {
			continue
		}
		if r.journal.unopened {
			if !r.journal.writing {
				r.write()
			}
			return
		}
		r.barriers = append(r.barriers, &barrier{name: name, since: r.now()})
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
		if !r.progress.Node(i).Settled() && !slices.ContainsFunc(r.parked, func(w *wait) bool { return w.node == i }) {
			return false
		}
	}
	return true
}

// waitersAt lists those that wait at a barrier.
func (r *run) waitersAt(name string) (all []*wait) {
	for _, w := range r.parked {
		if r.barrierOf(&r.plan.Nodes[w.node]) == name {
			all = append(all, w)
		}
	}
	return all
}

// open asks the guardian to open a barrier.
func (r *run) open(name string) {
	request := contract.OpenRequest{Run: r.identity(), Plan: r.head.Digest, Name: name, Request: r.guardianRequest("open")}
	for _, w := range r.waitersAt(name) {
		request.Decisions = append(request.Decisions, w.decision)
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
	if err == nil && (out.Request != w.request || out.Barrier.ID == "" && !out.Unopened) {
		err = errOther
	}
	if err == nil && !out.Unopened {
		b.id = out.Barrier.ID
		r.stands(b, out.Barrier)
		return
	}
	// It is opened anew, unless nobody can.
	r.barriers = slices.DeleteFunc(r.barriers, func(x *barrier) bool { return x == b })
	if err == nil {
		r.journal.unopened = true
		return
	}
	f := readFailure(err, w)
	for _, at := range r.waitersAt(w.barrier) {
		r.unpark(at)
		if f.Kind == contract.StoreUnavailable || f.Kind == contract.WorkerLost || f.unstarted {
			at.waits++
			r.later(at, backoff(at.waits-1))
			continue
		}
		r.unsuccessful(at.node, f.ErrorPayload)
	}
}

// unpark lets w no longer wait for people.
func (r *run) unpark(w *wait) {
	r.parked = slices.DeleteFunc(r.parked, func(x *wait) bool { return x == w })
	w.kind, w.decision = waitCall, ""
}

// stands handles how a barrier stands.
func (r *run) stands(b *barrier, now contract.Barrier) {
	b.missing, b.due = now.Missing, time.UnixMilli(now.ExpiresMS).UTC()
	if b.next = b.due; now.State == contract.BarrierOpen {
		if !b.next.After(r.now()) {
			b.next = r.now().Add(minBackoff) // the guardian's clock is behind
		}
		return
	}
	r.barriers = slices.DeleteFunc(r.barriers, func(x *barrier) bool { return x == b })
	for _, w := range r.waitersAt(b.name) {
		r.unpark(w)
		if now.State == contract.BarrierApproved {
			w.approved = true
			r.later(w, 0)
			continue
		}
		kind, why := contract.Rejected, "people have not approved it ("+string(now.State)+")"
		if now.State == contract.BarrierExpired {
			kind = contract.Expired
		}
		if now.Reason != "" {
			why += ": " + now.Reason
		}
		r.unsuccessful(w.node, contract.ErrorPayload{Kind: kind, Message: bounded(why), Attempts: counted(1, w.spent)})
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

// withdraw closes what is open when the run's end is known, for a bounded time: nobody is
// asked any more. The guardian's sweeper closes what stays.
func (r *run) withdraw() {
	request := contract.SignRequest{Run: r.identity(), Withdraw: "the run ends"}
	for _, b := range r.barriers {
		if b.id != "" {
			request.Barriers = append(request.Barriers, b.id)
		}
	}
	r.parked, r.barriers = nil, nil
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
			c.Barriers = append(c.Barriers, contract.CarriedBarrier{
				Name: b.name, ID: b.id, SinceMS: b.since.UnixMilli(), DueMS: b.due.UnixMilli(), Missing: b.missing,
			})
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
		r.barriers = append(r.barriers, &barrier{name: b.Name, id: b.ID, since: time.UnixMilli(b.SinceMS).UTC(), due: due, next: due, missing: b.Missing})
	}
	r.inbox.requests = c.Signing
	for _, s := range c.Signatures {
		r.inbox.take(&signature{envelope: s})
	}
}

// askedOf says for whom w waits.
func (r *run) askedOf(w *wait) string {
	b := r.barrier(r.barrierOf(&r.plan.Nodes[w.node]))
	if b == nil || b.id == "" {
		return "people are asked once all have arrived that share the barrier"
	}
	return missing(b.missing) + " (barrier " + b.id + ", until " + instant(b.due) + ")"
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
		s := contract.BarrierStatus{ID: b.id, Nodes: []string{}, Since: instant(b.since), Until: instant(b.due), Missing: b.missing}
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
		b.WriteString("\n\n**Waits for approval** by " + missing(s.Missing) + ": " + strings.Join(s.Nodes[:min(len(s.Nodes), 10)], ", ") +
			", since " + s.Since + ", until " + s.Until + " (barrier " + s.ID + ")")
	}
	return b.String()
}
