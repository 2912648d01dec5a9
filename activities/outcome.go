package activities

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"chimera.ai/engine/approval"
	"chimera.ai/engine/contract"
	"chimera.ai/engine/ledger"
)

// unknown reads an action whose call was permitted by a decision, and of which nobody knows
// what it did: the guardian asks about no other.
func (g *Guardian) unknown(ctx context.Context, judge Judge, decision string) (Waiting, error) {
	w, d, err := g.decided(ctx, decision, judge.Permitted)
	if err != nil {
		return w, err
	}
	i, err := g.Ledger.Invocation(ctx, d.Invocation)
	switch {
	case err != nil && !errors.Is(err, ledger.ErrNotFound):
		return w, refusal(err)
	case err != nil || i.Repeatable:
		return w, contract.Errorf(contract.Blocked, "the decision %.120q has permitted no call that people are asked about", decision)
	case i.DecisionID != d.ID || i.State != ledger.Unknown:
		return w, errKnown
	case !i.Arrived(ledger.At(time.Now())):
		return w, contract.Errorf(contract.WorkerLost, "what the call has sent may have its effect until %s", ledger.At(i.CallNotAfter.Time().Add(ledger.CallSkew)))
	}
	w.Asked.Permitted, w.Asked.Hold = d.DecidedAt, i.HoldID
	if w.Rule = (approval.Rule{Groups: judge.Outcome()}); len(w.Rule.Groups) == 0 {
		return w, contract.Errorf(contract.Blocked, "the policy names nobody who states what a call did (approval.outcome)")
	}
	return w, nil
}

// errKnown reports that there is nothing to ask about a call.
var errKnown = errors.New("it is known what the call did")

// unresolved says what people have stated about the last call of an invocation, or that they
// are being asked about it.
func (g *Guardian) unresolved(ctx context.Context, e *effect, i *ledger.Invocation, out *contract.Decided) error {
	b, err := g.last(ctx, e, outcomeName(e.node))
	if err != nil || b == nil || !b.Asks(*i) {
		return err
	}
	switch b.State {
	case ledger.BarrierOpen:
		out.Waiting = &contract.Waiting{Decision: i.DecisionID, Outcome: true}
	case ledger.BarrierApproved:
		r, digest, err := approval.Of(b)
		if err != nil {
			return contract.Errorf(contract.Blocked, "%w", err)
		}
		votes, of, err := g.votes(ctx, e.state, r, digest, time.Time{})
		if err != nil {
			return err
		}
		judge, err := g.Bench().Judge()
		if err != nil {
			return contract.Errorf(contract.Blocked, "%w", err)
		}
		least, err := g.rule(ctx, e.state, judge, &e.run, e.node, approval.Rule{Groups: judge.Outcome()})
		if err != nil {
			return err
		}
		tally := r.Count(votes)
		if !tally.Met() || r.Rule.AtLeast(least) != nil {
			return nil // a signer was revoked since, or more people must say so: they are asked again
		}
		out.Stated = &contract.Approved{Request: b.Request}
		for n, v := range votes {
			if slices.Contains(tally.Counted, v.ID) {
				out.Stated.Envelopes = append(out.Stated.Envelopes, of[n].Envelope)
			}
		}
	case ledger.BarrierRejected, ledger.BarrierExpired, ledger.BarrierWithdrawn:
	}
	return nil
}

// asks reports whether people are asked what a call of an effect did, where nobody knows.
func (f *Effects) asks(e *effect) bool {
	if repeatable(e.node.spec) {
		return false
	}
	judge, err := f.Bench().Judge()
	return err == nil && len(judge.Outcome()) > 0
}

// unresolved says that people are to be asked what the last call did, if they may be asked,
// and whatever it has sent has arrived. Otherwise the failure stands.
func (f *Effects) unresolved(ctx context.Context, e *effect, i *ledger.Invocation, failure error) (contract.Outcome, error) {
	if !f.asks(e) {
		return contract.Outcome{}, failure
	}
	if err := arrived(ctx, i); err != nil {
		return contract.Outcome{}, err
	}
	return contract.Outcome{Unknown: i.DecisionID}, nil
}

// resolveStated resolves a call of unknown outcome by what people have stated. It does not believe
// who brings that. What had no effect may be called again, with another permit; of what had
// one, nobody knows what it returned.
func (f *Effects) resolveStated(ctx, store context.Context, e *effect, of *contract.Approved, i ledger.Invocation) (contract.Outcome, error) {
	said, err := f.answer(store, e, of, &i)
	if err != nil {
		if k := kindOf(ctx, err).Kind; k == contract.StoreUnavailable || k == contract.WorkerLost {
			return contract.Outcome{}, err
		}
		return contract.Outcome{}, contract.Errorf(contract.OutcomeUnknown, "a call was made, nobody knows what it did, and what people have stated does not count: %w", err)
	}
	if err := arrived(ctx, &i); err != nil {
		return contract.Outcome{}, err
	}
	settlement := ledger.Effect{Settlement: ledger.Settlement{Attempt: i.Attempt, State: ledger.Released, Stated: said.Counted}}
	var failure error = contract.Errorf(contract.Unsent, "a call of %s had no effect, as people have stated", e.node.spec.Activity())
	output := any(map[string]any{})
	if said.Decision == approval.Executed {
		if failure, err = f.silent(store, e, output, &settlement); err != nil {
			return contract.Outcome{}, err
		}
	}
	i, err = persist(store, func() (ledger.Invocation, error) { return f.Store.Settle(store, e.id, settlement) })
	switch {
	case errors.Is(err, ledger.ErrConflict):
		return contract.Outcome{}, contract.Errorf(contract.WorkerLost, "the effect is %s by another call", i.State)
	case err != nil:
		return contract.Outcome{}, refusal(err)
	case failure != nil:
		return contract.Outcome{}, failure
	}
	return e.outcome(output, settlement.OutputDigest)
}

// silent completes the settlement of an effect that has happened, and of whose answer nobody
// knows: that is the empty object, if the node may have that. Otherwise the node fails.
func (f *Effects) silent(store context.Context, e *effect, output any, s *ledger.Effect) (failure, err error) {
	if e.node.validate(e.node.output, output, contract.InvalidOutput, "the output of "+e.node.spec.ID) == nil {
		return nil, f.keep(store, e, output, "stated", s)
	}
	known := &contract.ErrorPayload{Kind: contract.InvalidOutput, Message: "the effect has happened, as people have stated, and nobody knows what it answered"}
	s.State = ledger.Settled
	if s.Result, err = json.Marshal(map[string]any{"error": map[string]string{"kind": string(known.Kind)}, "stated": true}); err != nil {
		return nil, err
	}
	raw, err := json.Marshal(answered{Error: known})
	if err == nil {
		s.Output, err = f.Outputs.Keep(store, scopeOf(e.id), raw)
	}
	return &contract.Error{Kind: known.Kind, Message: known.Message}, err
}

// answer verifies what people have stated about the last call of an invocation: by the rule of
// this role's own policy, about exactly that call.
func (f *Effects) answer(ctx context.Context, e *effect, of *contract.Approved, i *ledger.Invocation) (t approval.Tally, err error) {
	judge, err := f.Bench().Judge()
	if err != nil {
		return t, contract.Errorf(contract.Blocked, "%w", err)
	}
	groups := judge.Outcome()
	if len(groups) == 0 {
		return t, contract.Errorf(contract.Blocked, "the policy names nobody who states what a call did")
	}
	rule, err := f.rule(ctx, e.state, judge, &e.run, e.node, approval.Rule{Groups: groups})
	if err != nil {
		return t, err
	}
	r, votes, err := f.signed(ctx, e, of, approval.Outcome, rule)
	if err != nil {
		return t, err
	}
	x := r.Actions[0]
	if x.Invocation != e.id || x.Invocation != i.ID || x.Decision != i.DecisionID || x.Action != i.ActionDigest {
		return t, contract.Errorf(contract.Blocked, "it is about another call")
	}
	if !i.Arrived(r.Opened) {
		return t, contract.Errorf(contract.Blocked, "people were asked before whatever the call has sent had arrived")
	}
	if _, against := r.Objection(votes); against {
		return t, contract.Errorf(contract.Blocked, "the statements contradict each other")
	}
	if t = r.Count(votes); !t.Met() {
		return t, contract.Errorf(contract.Blocked, "not enough people have stated it: %v are missing", t.Missing)
	}
	return t, nil
}
