package activities

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"chimera.ai/engine/approval"
	"chimera.ai/engine/contract"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/trust"
)

// maxRounds bounds how often one barrier of a run is opened.
const maxRounds = 1000

// asks are the approvals that a plan asks for, of an effect, and what follows while they are
// not given.
func asks(n *node) ([]plan.Group, plan.FollowUp) {
	if c := n.spec.Commit; c != nil && c.Barrier >= 0 {
		b := &n.plan.Barriers[c.Barrier]
		return b.Groups, b.FollowUp
	}
	return nil, plan.FollowUp{}
}

// barrierName is the name of the barrier at which an effect waits: that of a shared one, or
// of the node.
func barrierName(n *node) string {
	if c := n.spec.Commit; c != nil && c.Barrier >= 0 && n.plan.Barriers[c.Barrier].ID != "" {
		return "barrier/" + n.plan.Barriers[c.Barrier].ID
	}
	return "node/" + n.spec.ID
}

// outcomeName is the name of the barrier at which people are asked what a call of a node did.
func outcomeName(n *node) string { return "outcome/" + n.spec.ID }

// expiry is until when people are asked about an effect, from an instant on. The deadline of the
// run bounds that, unless the effect undoes another, which it does not reach.
func expiry(e *effect, from time.Time) time.Time {
	lasts := plan.DefaultExpiresInMS * time.Millisecond
	if c := e.node.spec.Commit; c != nil && c.Barrier >= 0 {
		if ms := e.node.plan.Barriers[c.Barrier].ExpiresInMS; ms > 0 {
			lasts = time.Duration(ms) * time.Millisecond
		}
	}
	until := from.Add(lasts)
	end := e.run.OpenedAt.Time().Add(time.Duration(e.node.plan.Limits.DeadlineMS) * time.Millisecond)
	if e.node.spec.Undoes == 0 && end.Before(until) {
		return end
	}
	return until
}

// barrierID names a barrier of a run: the same in every run that continues the first. A
// slash and the round follow.
func (a *Acting) barrierID(s trust.State, run *ledger.Run, name string) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "chimera-barrier/1\x00%q\x00%q\x00%q\x00%q\x00%q", s.Deployment, a.Namespace, run.Workflow, run.Origin, name))
	return hex.EncodeToString(sum[:])
}

// rule is whose approval is enough for effects of a run, which is asked for apart from whom
// nobody counts.
func (a *Acting) rule(ctx context.Context, s trust.State, judge Judge, run *ledger.Run, n *node, asked approval.Rule) (approval.Rule, error) {
	may, alone := judge.MaySign()
	out := approval.Rule{Groups: asked.Groups, FollowUp: asked.FollowUp, Alone: alone}
	p, err := a.Ledger.Plan(ctx, run.PlanDigest)
	if err != nil {
		return out, refusal(err)
	}
	if !slices.Contains(may, "requester") && !s.Speaks(run.Agent, run.Requester) {
		return out, contract.Errorf(contract.Blocked, "people must approve what nobody knows the requester of: the admins have not stated that the keys of %s may speak for %.100q", run.Agent, run.Requester)
	}
	out.Excluded = approval.Interested{Requester: run.Requester, Author: s.Publishers[p.Author].Person, Owner: s.Agents[run.Agent].Owner}.Excluded(may)
	if c := n.spec.Commit; c != nil && c.Barrier >= 0 {
		out.Excluded = append(out.Excluded, n.plan.Barriers[c.Barrier].Exclude...)
	}
	return out.Join(approval.Rule{}), nil
}

// Open implements the activity guard.open: it opens a barrier for actions that wait.
func (g *Guardian) Open(ctx context.Context, request contract.OpenRequest) (contract.Opened, error) {
	out := contract.Opened{Request: request.Request}
	store, stop := storing(ctx, 0)
	defer stop()
	err := recovered("the guardian", func() error { return g.open(store, &request, &out) })
	return out, asked{request: request.Request, retry: journaling}.failed(ctx, err)
}

func (g *Guardian) open(ctx context.Context, request *contract.OpenRequest, out *contract.Opened) error {
	s, err := g.Authority.State(ctx)
	if err != nil {
		return distrust(err)
	}
	call := contract.Call{Run: request.Run, Plan: request.Plan}
	run, err := g.granted(ctx, s, &call)
	if errors.Is(err, errUnopened) {
		out.Unopened = true
		return nil
	}
	if err != nil {
		return err
	}
	bench := g.Bench()
	if err := activated(s, &bench); err != nil {
		return err
	}
	if err := g.authored(ctx, s, &bench, request.Plan); err != nil {
		return err
	}
	judge, err := bench.Judge()
	if err != nil {
		return contract.Errorf(contract.Blocked, "%w", err)
	}
	if len(request.Decisions) == 0 || len(request.Decisions) > ledger.MaxAwaited {
		return contract.Errorf(contract.Contract, "a barrier for %d actions; there must be between 1 and %d", len(request.Decisions), ledger.MaxAwaited)
	}
	if request.Outcome && len(request.Decisions) != 1 {
		return contract.Errorf(contract.Contract, "a barrier for the outcomes of %d calls", len(request.Decisions))
	}
	o := &opening{guardian: g, state: s, run: run, judge: judge, name: request.Name, outcome: request.Outcome}
	for _, id := range request.Decisions {
		err := o.add(ctx, request.Plan, id)
		if errors.Is(err, errKnown) {
			out.Known = true
			return nil
		}
		if err != nil {
			return err
		}
	}
	// The auditor holds the barrier against the policy.
	rules, err := g.keep(ctx, judge, o.waiting[0].asked.Operation)
	if err != nil {
		return err
	}
	o.policy = rules[0].Digest
	b, err := o.open(ctx)
	if err != nil {
		return err
	}
	out.Barrier, err = g.stands(ctx, s, b, time.Now())
	return err
}

// opening is a barrier that is about to be opened.
type opening struct {
	guardian *Guardian
	state    trust.State
	run      ledger.Run
	judge    Judge
	name     string
	// outcome: people are asked what the call of the one action did.
	outcome bool
	rule    approval.Rule
	// policy is the digest of the policy that the rule is of.
	policy  string
	expires time.Time
	waiting []awaiting
}

// awaiting is one action of it.
type awaiting struct {
	asked approval.Action
	shown approval.Shown
	// undo lists what may be approved with it.
	undo []covered
}

// add adds an action that waits by a decision.
func (o *opening) add(ctx context.Context, digest, id string) error {
	read := o.guardian.waiting
	if o.outcome {
		read = o.guardian.unknown
	}
	w, err := read(ctx, o.judge, id)
	if err != nil {
		return err
	}
	if w.Plan != digest || w.Workflow != o.run.Workflow || w.Origin != o.run.Origin {
		return contract.Errorf(contract.Blocked, "the decision %.120q is about an action of another run", id)
	}
	q, err := preparedPlan(ctx, o.guardian.Plans, digest)
	if err != nil {
		return err
	}
	at := slices.IndexFunc(q.plan.Nodes, func(n plan.Node) bool { return n.ID == w.Asked.Node })
	if at < 0 {
		return contract.Errorf(contract.Blocked, "the plan has no node %.120q", w.Asked.Node)
	}
	n := q.node(at)
	name := barrierName(n)
	if o.outcome {
		name = outcomeName(n)
	}
	if name != o.name {
		return contract.Errorf(contract.Blocked, "the node %s does not wait at %.120q", n.spec.ID, o.name)
	}
	rule, err := o.guardian.rule(ctx, o.state, o.judge, &o.run, n, w.Rule)
	if err != nil {
		return err
	}
	o.rule = o.rule.Join(rule)
	until := expiry(&effect{run: o.run, node: n}, time.Now())
	if o.expires.IsZero() || until.Before(o.expires) {
		o.expires = until
	}
	w.Shown.Of(q.plan, at)
	var undo []covered
	if !o.outcome {
		undo, err = o.undoing(ctx, n, w.Asked.Path)
	}
	o.waiting = append(o.waiting, awaiting{w.Asked, w.Shown, undo})
	return err
}

// waiting reads an action that waits by a decision.
func (g *Guardian) waiting(ctx context.Context, judge Judge, decision string) (Waiting, error) {
	w, d, err := g.decided(ctx, decision, judge.Waiting)
	if err != nil {
		return w, err
	}
	if h, err := g.Store.Hold(ctx, d.ID); err == nil && h.Status == ledger.TxPending {
		w.Asked.Hold = h.ID
	} else if err != nil && !errors.Is(err, ledger.ErrNotFound) {
		return w, refusal(err)
	}
	return w, nil
}

// decided reads the action of a decision from its evidence.
func (g *Guardian) decided(ctx context.Context, decision string, read func(ledger.Packet) (Waiting, error)) (w Waiting, d ledger.Decision, err error) {
	d, err = g.Ledger.Decision(ctx, decision)
	if errors.Is(err, ledger.ErrNotFound) {
		return w, d, contract.Errorf(contract.Blocked, "there is no decision %.120q", decision)
	}
	if err != nil {
		return w, d, refusal(err)
	}
	packet, err := g.Ledger.Packet(ctx, d.Evidence)
	if err != nil {
		return w, d, refusal(err)
	}
	if w, err = read(packet); err != nil {
		return w, d, contract.Errorf(contract.Blocked, "%w", err)
	}
	if w.Asked.Action != d.ActionDigest {
		return w, d, contract.Errorf(contract.Blocked, "the evidence of the decision %.120q is about another action", decision)
	}
	w.Asked.Invocation, w.Asked.Decision, w.Asked.Evidence = d.Invocation, d.ID, d.Evidence
	return w, d, nil
}

// open opens the barrier, or finds the one that is there for the same actions. Whatever was
// asked before about others is withdrawn.
func (o *opening) open(ctx context.Context) (ledger.Barrier, error) {
	slices.SortFunc(o.waiting, func(a, b awaiting) int { return strings.Compare(a.asked.Invocation, b.asked.Invocation) })
	base := o.guardian.barrierID(o.state, &o.run, o.name)
	for round := 1; round <= maxRounds; round++ {
		id := fmt.Sprintf("%s/%d", base, round)
		have, err := o.guardian.Store.Barrier(ctx, id)
		if errors.Is(err, ledger.ErrNotFound) {
			b, err := o.barrier(ctx, id)
			if err != nil {
				return b, err
			}
			b, err = o.guardian.Store.OpenBarrier(ctx, o.run, b)
			if err == nil && !o.same(&b) {
				continue // another worker has opened it meanwhile, for others
			}
			return b, refusal(err)
		}
		switch {
		case err != nil:
			return have, refusal(err)
		case o.same(&have) && have.State == ledger.BarrierWithdrawn:
			// The run has ended, and goes on since.
		case o.same(&have):
			if ok, err := o.counts(ctx, &have); err != nil || ok {
				return have, err
			}
		case have.State == ledger.BarrierOpen:
			if _, err := o.guardian.Store.CloseBarrier(ctx, id, ledger.BarrierWithdrawn, "something else waits here now"); err != nil {
				return have, refusal(err)
			}
		}
	}
	return ledger.Barrier{}, contract.Errorf(contract.Blocked, "the barrier %s was opened %d times", o.name, maxRounds)
}

// counts reports whether a barrier is one by whose end people need not be asked again: what they
// have stated may no longer be enough.
func (o *opening) counts(ctx context.Context, b *ledger.Barrier) (bool, error) {
	if !o.outcome || b.State != ledger.BarrierApproved {
		return true, nil
	}
	r, digest, err := approval.Of(b)
	if err != nil {
		return false, contract.Errorf(contract.Blocked, "%w", err)
	}
	votes, _, err := o.guardian.votes(ctx, o.state, r, digest, time.Time{})
	return err == nil && r.Count(votes).Met() && r.Rule.AtLeast(o.rule) == nil, err
}

// same reports whether a barrier is for exactly these decisions.
func (o *opening) same(b *ledger.Barrier) bool {
	return slices.EqualFunc(b.Actions, o.waiting, func(x ledger.Awaited, w awaiting) bool { return x.Decision == w.asked.Decision })
}

// barrier is what people are asked.
func (o *opening) barrier(ctx context.Context, id string) (ledger.Barrier, error) {
	raw, err := o.guardian.Store.Checkpoint(ctx)
	if err != nil && !errors.Is(err, ledger.ErrNotFound) {
		return ledger.Barrier{}, refusal(err)
	}
	r := approval.Request{
		Deployment: o.state.Deployment, Audience: o.state.Audience, Namespace: o.guardian.Namespace, Workflow: o.run.Workflow, Origin: o.run.Origin,
		Barrier: id, Name: o.name, Plan: o.run.PlanDigest, PlanName: o.run.PlanName + "@" + o.run.PlanVersion, Agent: o.run.Agent, Requester: o.run.Requester,
		Policy: o.policy, Rule: o.rule, Renderer: approval.Renderer, Checkpoint: approval.Checkpoint(raw), Opened: ledger.At(time.Now()), Expires: ledger.At(o.expires),
	}
	b := ledger.Barrier{
		ID: id, Name: o.name, ExpiresAt: r.Expires, Outcome: o.outcome, RemindEveryMS: r.Rule.FollowUp.RemindEveryMS, EscalatesAt: r.EscalatesAt(),
	}
	if o.outcome {
		r.Kind = approval.Outcome
	}
	var shown []approval.Shown
	for _, w := range o.waiting {
		for _, u := range w.undo {
			if o.rule.AtLeast(u.rule) == nil {
				w.asked.Undo = append(w.asked.Undo, u.Undo)
			}
		}
		slices.SortFunc(w.asked.Undo, func(a, b approval.Undo) int { return strings.Compare(a.Invocation, b.Invocation) })
		r.Actions = append(r.Actions, w.asked)
		shown = append(shown, w.shown)
		b.Actions = append(b.Actions, ledger.Awaited{
			Invocation: w.asked.Invocation, Action: w.asked.Action, Decision: w.asked.Decision, Undo: w.asked.UndoneBy(),
		})
	}
	if len(o.rule.Groups) == 0 {
		return b, contract.Errorf(contract.Blocked, "nobody is asked to approve what waits at %s", o.name)
	}
	if _, r.Text, err = approval.Text(&r, shown); err != nil {
		return b, contract.Errorf(contract.TooLarge, "%w", err)
	}
	b.Request, err = r.Encode()
	return b, err
}

// stands says how a barrier stands, does what is due at it, and closes it if it is approved,
// rejected or expired.
func (g *Guardian) stands(ctx context.Context, s trust.State, b ledger.Barrier, at time.Time) (contract.Barrier, error) {
	b, err := g.followUp(ctx, s, b)
	if err != nil {
		return contract.Barrier{}, err
	}
	r, digest, err := approval.Of(&b)
	if err != nil {
		return contract.Barrier{}, contract.Errorf(contract.Blocked, "%w", err)
	}
	if b.State == ledger.BarrierApproved {
		at = time.Time{} // the signatures have counted
	}
	votes, _, err := g.votes(ctx, s, r, digest, at)
	if err != nil {
		return contract.Barrier{}, err
	}
	late := "not enough people have approved in time"
	if r.Kind == approval.Outcome {
		late = "not enough people have said in time what the call did"
	}
	tally := r.Count(votes)
	against, objected := r.Objection(votes)
	if end := b.Ends(objected, tally.Met(), ledger.At(at)); end != b.State {
		reason := late
		switch {
		case end == ledger.BarrierRejected && r.Kind == approval.Outcome:
			reason = fmt.Sprintf("they contradict each other: %s says %s: %s", against.Persons[0], against.Decision, against.Reason)
		case end == ledger.BarrierRejected:
			reason = against.Persons[0] + ": " + against.Reason
		}
		if end == ledger.BarrierApproved {
			b, err = g.Store.ApproveBarrier(ctx, b.ID, string(tally.Decision), r.Escalated)
		} else {
			b, err = g.Store.CloseBarrier(ctx, b.ID, end, reason)
		}
	}
	if errors.Is(err, ledger.ErrConflict) {
		// The store's clock is another, or the barrier was escalated meanwhile.
		b, err = g.Store.Barrier(ctx, r.Barrier)
		if err == nil && !b.State.Closed() && r.Escalated != (b.EscalatedAt != nil) {
			return g.stands(ctx, s, b, at)
		}
		if err == nil && tally.Met() && !b.State.Closed() {
			b, err = g.Store.CloseBarrier(ctx, b.ID, ledger.BarrierExpired, late)
		}
	}
	if err != nil && !errors.Is(err, ledger.ErrConflict) {
		return contract.Barrier{}, refusal(err)
	}
	out := contract.Barrier{ID: b.ID, State: contract.BarrierState(b.State), ExpiresMS: b.ExpiresAt.Time().UnixMilli(), Reason: b.Reason}
	out.Followed, out.NextMS = followed(&b, r)
	for _, m := range tally.Missing {
		out.Missing = append(out.Missing, contract.Group{Role: m.Role, Min: m.Min})
	}
	return out, nil
}
