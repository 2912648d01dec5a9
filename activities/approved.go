package activities

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"chimera.ai/engine/approval"
	"chimera.ai/engine/contract"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/task"
	"chimera.ai/engine/trust"
)

// approved is what people have approved, as the guardian has found it out.
type approved struct {
	request *approval.Request
	raw     json.RawMessage
	tally   approval.Tally
	// envelopes are those of the signatures that count, and last the one that completed the
	// quorum, as a task has it.
	envelopes []json.RawMessage
	last      task.Signature
	// least is whom the run, the plan and the policy exclude now, and whether each signs for
	// themselves.
	least approval.Rule
	// policy is the digest of the policy by which they were asked, and then decides by it. then is
	// nil if that is the active policy, and where with is set.
	policy string
	then   Judge
	// salt is that of the digest of the action that they were asked about, or nil where with is set.
	salt []byte
	// settled reports that the outcome of the call is known.
	settled bool
	// with is the invocation that people have approved this with, since it undoes that; or
	// "", if they have approved it by itself.
	with string
}

// standing says what people have said of an action so far: that they have approved it, or, by
// which decision it waits; or neither. The last barrier of its name that was opened for the
// run tells.
func (g *Guardian) standing(ctx context.Context, judge Judge, e *effect, call *contract.Call, action *Action) (*approved, string, error) {
	last, err := g.last(ctx, e, barrierName(e.node))
	if err != nil {
		return nil, "", err
	}
	var x *ledger.Awaited
	if last != nil {
		x = last.Awaits(e.id)
	}
	if x == nil {
		out, err := g.approvedWith(ctx, judge, e, call, action)
		action.Approved = out != nil
		return out, "", err
	}
	if !last.Counts() {
		return nil, "", nil
	}
	w, err := g.waiting(ctx, judge, x.Decision)
	if err != nil {
		return nil, "", err
	}
	digest, err := judge.Digest(action, w.Salt)
	if err != nil || digest != x.Action {
		return nil, "", err // it is another action by now
	}
	if last.State == ledger.BarrierOpen {
		return nil, x.Decision, nil
	}
	signed := time.Now()
	i, err := g.Ledger.Invocation(ctx, e.id)
	if err == nil {
		signed = time.Time{} // what it has used counts, also when it has expired
	} else if !errors.Is(err, ledger.ErrNotFound) {
		return nil, "", refusal(err)
	}
	out, err := g.approved(ctx, e, last, signed)
	if err != nil || out == nil {
		return nil, "", err
	}
	out.policy, out.salt, out.settled = w.Policy, w.Salt, i.State == ledger.Settled
	action.Approved = true
	for _, a := range out.request.Actions {
		if a.Invocation == e.id {
			action.Lifted = a.Lifts
		}
	}
	return out, "", nil
}

// last returns the last barrier of a name that was opened for the run, or nil.
func (g *Guardian) last(ctx context.Context, e *effect, name string) (last *ledger.Barrier, err error) {
	base := g.barrierID(e.state, &e.run, name)
	for round := 1; round <= maxRounds; round++ {
		b, err := g.Store.Barrier(ctx, fmt.Sprintf("%s/%d", base, round))
		if errors.Is(err, ledger.ErrNotFound) {
			break
		}
		if err != nil {
			return nil, refusal(err)
		}
		last = &b
	}
	return last, nil
}

// approved verifies again what people have signed at a barrier, or returns nil if that is no
// longer enough. The zero time stands for signatures that were used, and may have expired.
func (g *Guardian) approved(ctx context.Context, e *effect, b *ledger.Barrier, at time.Time) (*approved, error) {
	r, digest, err := approval.Of(b)
	if err != nil {
		return nil, contract.Errorf(contract.Blocked, "%w", err)
	}
	votes, of, err := g.votes(ctx, e.state, r, digest, at)
	if err != nil {
		return nil, err
	}
	out := &approved{request: r, raw: b.Request, tally: r.Count(votes)}
	if !out.tally.Met() {
		return nil, nil
	}
	for i, v := range votes {
		if slices.Contains(out.tally.Counted, v.ID) {
			out.envelopes = append(out.envelopes, of[i].Envelope)
			out.last = task.Signature{SignerID: v.Signer, SigType: v.SigType, Signature: v.ID, SignedAt: of[i].ReceivedAt.Time()}
		}
	}
	return out, nil
}

// licensed returns an error unless people have approved an effect where they must, as far as
// that can be said without the guardian: by the plan and by the bundle, for exactly this
// action. at is when the permit was issued.
func (a *Acting) licensed(ctx context.Context, e *effect, call *contract.Call, at time.Time) error {
	judge, err := a.Bench().Judge()
	if err != nil {
		return contract.Errorf(contract.Blocked, "%w", err)
	}
	action, err := a.action(ctx, judge, e, call)
	if err != nil {
		return err
	}
	// Whether there was money is the guardian's to know: where it says that people have lifted
	// that, those who may must have.
	action.Lifted = lifts(call.Permit.Approved, e.id)
	decision, needs := judge.Needs(action, call.Permit.Salt, at)
	switch {
	case decision == ledger.Approve:
		return nil
	case len(needs.Groups) == 0:
		return contract.Errorf(contract.Blocked, "the guardian permits what the policy does not allow")
	case call.Permit.Approved == nil:
		return contract.Errorf(contract.Blocked, "the guardian permits what people must approve, and nobody has")
	}
	rule, err := a.rule(ctx, e.state, judge, &e.run, e.node, needs)
	if err != nil {
		return err
	}
	r, votes, err := a.signed(ctx, e, call.Permit.Approved, approval.Approval, rule)
	if err != nil {
		return err
	}
	salted, err := judge.Digest(action, call.Permit.Salt)
	if err != nil {
		return err
	}
	about := slices.ContainsFunc(r.Actions, func(x approval.Action) bool { return x.Invocation == e.id && x.Action == salted })
	var u *ledger.Invocation
	if !about && e.listed == nil {
		if u, err = a.undoneBy(ctx, judge, e, call); err != nil {
			return err
		}
		about = u != nil && undoes(r, u, e)
	}
	if !about {
		return contract.Errorf(contract.Blocked, "people have approved something else")
	}
	if u == nil { // what undoes an effect was checked after people had approved it
		again, err := a.rechecked(ctx, e, call, r.Barrier)
		switch {
		case err != nil:
			return err
		case !again:
			return contract.Errorf(contract.Blocked, "people have approved what was not checked again after that")
		}
	}
	t := r.Count(votes)
	if !t.Met() {
		return contract.Errorf(contract.Blocked, "not enough people have approved: %v are missing", t.Missing)
	}
	if u == nil {
		return nil
	}
	// Nobody has lifted what else is objected to it.
	action.Approved, action.Lifted = true, nil
	if decision, _ := judge.Needs(action, call.Permit.Salt, at); decision != ledger.Approve {
		return contract.Errorf(contract.Blocked, "people have approved it with what it undoes, and the policy objects to more")
	}
	ok, err := a.used(ctx, t.Counted, u)
	if err == nil && !ok {
		err = contract.Errorf(contract.Blocked, "people have approved what this undoes, and it has not happened by that")
	}
	return err
}

// lifts lists what people were told that they lift by approving a call, or nil. Nobody has
// verified yet that they have.
func lifts(of *contract.Approved, invocation string) []string {
	if of == nil {
		return nil
	}
	r, _, err := approval.ParseRequest(of.Request)
	if err != nil {
		return nil // who verifies it says so
	}
	for _, x := range r.Actions {
		if x.Invocation == invocation {
			return x.Lifts
		}
	}
	return nil
}

// signed verifies what people have signed about a run: a request of a kind, by a rule that is
// at least the given one.
func (a *Acting) signed(ctx context.Context, e *effect, of *contract.Approved, kind approval.Kind, rule approval.Rule) (*approval.Request, []approval.Vote, error) {
	r, digest, err := approval.ParseRequest(of.Request)
	if err == nil {
		err = r.Rule.AtLeast(rule)
	}
	if err != nil {
		return nil, nil, contract.Errorf(contract.Blocked, "what people have signed: %w", err)
	}
	if r.Kind != kind || r.Deployment != e.state.Deployment || r.Audience != e.state.Audience || r.Namespace != a.Namespace ||
		r.Workflow != e.run.Workflow || r.Origin != e.run.Origin || r.Plan != e.run.PlanDigest {
		return nil, nil, contract.Errorf(contract.Blocked, "people have signed something else")
	}
	if err := a.escalated(ctx, r, digest); err != nil {
		return nil, nil, err
	}
	if len(of.Envelopes) > trust.MaxSignatures*ledger.MaxRefused {
		return nil, nil, contract.Errorf(contract.Blocked, "%d signatures", len(of.Envelopes))
	}
	var votes []approval.Vote
	for _, envelope := range of.Envelopes {
		v, err := approval.Verify(e.state, r, digest, envelope, time.Time{})
		if err != nil {
			return nil, nil, contract.Errorf(contract.Blocked, "a signature: %w", err)
		}
		votes = append(votes, v)
	}
	return r, votes, nil
}
