package activities

import (
	"context"
	"errors"
	"time"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/ledger"
)

// undo answers a question about an effect that is to be undone, by the ledger: what a call
// was made with, what it has returned, and whether it stands.
func (f *Effects) undo(ctx, store context.Context, call *contract.Call) (contract.Outcome, error) {
	out := contract.Outcome{Held: []bool{false}}
	e, err := f.subject(store, call)
	if errors.Is(err, errUnopened) {
		out.Unopened = true
		return out, nil
	}
	if err != nil {
		// What nobody vouches for any more may have happened, but not without a permit.
		if never, lost := f.neverPermitted(store, call); lost == nil && never {
			out.Held[0] = call.Undo == contract.UndoVerify
			return out, nil
		}
		return out, err
	}
	if !e.node.spec.Effect.Acts() {
		return out, contract.Errorf(contract.Contract, "node %d of the plan has no effect", call.Node)
	}
	e.id = f.invocation(e.state, call, e.node.spec)
	i, err := persist(store, func() (ledger.Invocation, error) { return f.Store.Invocation(store, e.id) })
	if errors.Is(err, ledger.ErrNotFound) {
		out.Held[0] = call.Undo == contract.UndoVerify
		return out, nil // it was never permitted
	}
	if err != nil {
		return out, refusal(err)
	}
	if e.input, err = f.inputs(store, i.DecisionID); err != nil {
		return out, err
	}
	if call.Undo == contract.UndoVerify {
		if c := e.node.spec.Commit; c == nil || c.Verify == nil {
			out.Held[0] = true
			return out, nil
		}
		stands, _, err := f.verified(ctx, store, e, call)
		out.Held[0] = !stands
		return out, err
	}
	if i.State == ledger.Calling || i.State == ledger.Unknown && e.verify() != nil {
		// What it did is found out first, as far as it can be.
		if _, err := f.recall(ctx, store, e, call); err != nil {
			if k := kindOf(ctx, err).Kind; k == contract.StoreUnavailable || k == contract.WorkerLost {
				return out, err
			}
		}
		if i, err = persist(store, func() (ledger.Invocation, error) { return f.Store.Invocation(store, e.id) }); err != nil {
			return out, refusal(err)
		}
	}
	switch i.State {
	case ledger.Permitted:
		return out, unusable(&i)
	case ledger.Released:
		return out, nil
	case ledger.Calling:
		return out, contract.Errorf(contract.WorkerLost, "the effect is %s by another call", i.State)
	case ledger.Unknown:
		// Undone before it arrives, or is called again, it would stand after all.
		if err := unusable(&i); err != nil {
			return out, err
		}
		if err := arrived(ctx, &i); err != nil {
			return out, err
		}
	case ledger.Settled:
	}
	out.Held[0] = true
	out.Values = []contract.Value{e.input}
	if i.State == ledger.Settled {
		output, err := f.output(store, &i)
		if err != nil {
			return out, err
		}
		if output != nil { // null would be an output
			out.Values = append(out.Values, output)
		}
	}
	return out, nil
}

// neverPermitted reports whether the ledger knows of no permit for a call.
func (f *Effects) neverPermitted(ctx context.Context, call *contract.Call) (bool, error) {
	s, err := f.Authority.State(ctx)
	if err != nil {
		return false, distrust(err)
	}
	n, err := find(ctx, f.Plans, call.Plan, call.Node)
	if err != nil {
		return false, err
	}
	_, err = f.Store.Invocation(ctx, f.invocation(s, call, n.spec))
	if errors.Is(err, ledger.ErrNotFound) {
		return true, nil
	}
	return false, refusal(err)
}

// wasUndone reports whether something was called, or may have been, that undoes an effect. Then
// nobody can see any more whether that one happened, and if it did, it no longer stands; it is
// not called again, as what undoes it would not be.
func (a *Acting) wasUndone(ctx context.Context, e *effect, call *contract.Call) (bool, error) {
	for i := range e.node.plan.Nodes {
		n := &e.node.plan.Nodes[i]
		if n.Undoes != e.node.index || !n.Effect.Acts() {
			continue
		}
		by, err := persist(ctx, func() (ledger.Invocation, error) { return a.Ledger.Invocation(ctx, a.invocation(e.state, call, n)) })
		switch {
		case errors.Is(err, ledger.ErrNotFound):
		case err != nil:
			return false, refusal(err)
		case by.State == ledger.Calling || by.State.Undoable():
			return true, nil
		case by.State == ledger.Permitted:
			if err := unusable(&by); err != nil {
				return false, err
			}
		}
	}
	return false, nil
}

// unusable returns an error if the permit of an effect may still be used.
func unusable(i *ledger.Invocation) error {
	if i.Unused && time.Now().Before(i.PermitUntil.Time().Add(ledger.CallSkew)) {
		return contract.Errorf(contract.WorkerLost, "its permit may be used until %s", i.PermitUntil)
	}
	return nil
}

// inputs are the arguments of an effect, by the evidence of the decision about it.
func (f *Effects) inputs(ctx context.Context, decision string) ([]byte, error) {
	judge, err := f.Bench().Judge()
	if err != nil {
		return nil, contract.Errorf(contract.Blocked, "%w", err)
	}
	inputs, _, err := f.evidence(ctx, judge, decision)
	return inputs, err
}

// output is what an effect has answered, or nil if it has failed or that is no longer kept.
func (f *Effects) output(ctx context.Context, i *ledger.Invocation) (contract.Value, error) {
	if i.Output == nil {
		return nil, nil
	}
	record, err := f.answered(ctx, i)
	if err != nil {
		return nil, err
	}
	return record.Output, nil
}
