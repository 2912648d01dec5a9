package activities

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/expr"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/plan"
)

// verify is how it is found out what a call of the effect did, or nil. A call that may be
// repeated is repeated instead.
func (e *effect) verify() *plan.Verify {
	if c := e.node.spec.Commit; c != nil && !repeatable(e.node.spec) {
		return c.Verify
	}
	return nil
}

// resolve finds out by verify whether a call had its effect, of which nobody knows. What
// had none may be called again, with another permit.
func (f *Effects) resolve(ctx, store context.Context, e *effect, call *contract.Call, i ledger.Invocation) (contract.Outcome, error) {
	if err := arrived(ctx, &i); err != nil {
		return contract.Outcome{}, err
	}
	executed, output, err := f.verified(ctx, store, e, call)
	if err != nil {
		if k := kindOf(ctx, err).Kind; k == contract.StoreUnavailable || k == contract.WorkerLost {
			return contract.Outcome{}, err // it is tried again
		}
		return f.unresolved(ctx, e, &i, contract.Errorf(contract.OutcomeUnknown, "a call was made, nobody knows what it did, and it could not be verified: %w", err))
	}
	settlement := ledger.Effect{Settlement: ledger.Settlement{Attempt: i.Attempt, State: ledger.Released}}
	if executed {
		if err := f.keep(store, e, output, "verified", &settlement); err != nil {
			return contract.Outcome{}, err
		}
		if whole, err := plan.Canonical(output); err == nil {
			settlement.Observation = f.observed(store, e, i.DecisionID, whole)
		}
	}
	i, err = persist(store, func() (ledger.Invocation, error) { return f.Store.Settle(store, e.id, settlement) })
	switch {
	case errors.Is(err, ledger.ErrConflict):
		return contract.Outcome{}, contract.Errorf(contract.WorkerLost, "the effect is %s by another call", i.State)
	case err != nil:
		return contract.Outcome{}, refusal(err)
	case i.State == ledger.Unknown:
		return contract.Outcome{}, f.unknown(nil) // an earlier call may have had it
	case i.State == ledger.Released:
		return contract.Outcome{}, contract.Errorf(contract.Unsent, "a call of %s had no effect, as its verify says", e.node.spec.Activity())
	}
	return e.outcome(output, settlement.OutputDigest)
}

// arrived waits until whatever a call has sent has had its effect.
func arrived(ctx context.Context, i *ledger.Invocation) error {
	if i.CallNotAfter == nil {
		return nil
	}
	return pause(ctx, time.Until(i.CallNotAfter.Time().Add(ledger.CallSkew)))
}

// keep stores what an effect returned, and completes its settlement; how is how that is known.
func (f *Effects) keep(store context.Context, e *effect, output any, how string, s *ledger.Effect) error {
	whole, err := plan.Canonical(output)
	if err != nil {
		return contract.Errorf(contract.OutcomeUnknown, "the effect has happened, and what it returned cannot be kept: %w", err)
	}
	s.State, s.OutputDigest = ledger.Settled, plan.DigestOf(whole)
	if s.Result, err = json.Marshal(map[string]any{"output_digest": s.OutputDigest, how: true}); err != nil {
		return err
	}
	raw, err := json.Marshal(answered{Output: whole})
	if err != nil {
		return err
	}
	s.Output, err = f.Outputs.Keep(store, scopeOf(e.id), raw)
	return err
}

// verified calls the node that verifies an effect, which has one. output is what the effect
// returned, if it happened.
func (f *Effects) verified(ctx, store context.Context, e *effect, call *contract.Call) (executed bool, output any, err error) {
	v := e.node.spec.Commit.Verify
	by, err := find(store, f.Plans, call.Plan, v.Node)
	if err != nil {
		return false, nil, err
	}
	bench := f.Bench()
	if err := stated(e.state, &bench, by.spec); err != nil {
		return false, nil, err
	}
	args, err := decode(e.input, "the arguments of the effect")
	if err != nil {
		return false, nil, err
	}
	input, err := evaluated(v.With, expr.Compensate, expr.Vars{"args": args, "output": nil, "error": nil, "input": e.planInput})
	if err != nil {
		return false, nil, contract.Errorf(contract.Expr, "verify.with: %w", err)
	}
	if err := by.validate(by.input, input, contract.Contract, "the input of "+by.spec.ID); err != nil {
		return false, nil, err
	}
	raw, err := plan.Canonical(input)
	if err != nil {
		return false, nil, err
	}
	said, err := f.said(ctx, by, raw, e.run.Origin)
	if err != nil {
		return false, nil, err
	}
	predicate, err := expr.CompilePredicate(v.Executed, expr.When)
	if err != nil {
		return false, nil, err
	}
	vars := expr.Vars{"value": said, "output": said, "input": e.planInput}
	if executed, err = predicate.EvalBool(vars); err != nil || !executed {
		return false, nil, err
	}
	output = map[string]any{}
	if v.Output != nil {
		if output, err = evaluated(v.Output, expr.Transform, vars); err != nil {
			return false, nil, contract.Errorf(contract.Expr, "verify.output: %w", err)
		}
	}
	return true, output, e.node.validate(e.node.output, output, contract.InvalidOutput, "what verify says that "+e.node.spec.ID+" returned")
}

// evaluated is the value of a template.
func evaluated(raw json.RawMessage, scope expr.Scope, vars expr.Vars) (any, error) {
	t, err := template(raw, scope)
	if err != nil {
		return nil, err
	}
	return t.Eval(vars)
}

// said calls the node that verifies, as often as its contract allows.
func (f *Effects) said(ctx context.Context, by *node, input []byte, run string) (any, error) {
	for attempt := 1; ; attempt++ {
		answer, err := invoke(ctx, f.Caller, by.request(input, run))
		var output any
		if err == nil {
			err = recovered("what checks an output", func() (err error) {
				output, err = by.accept(answer.Forms)
				return err
			})
		}
		if err == nil {
			return output, nil
		}
		if !by.spec.Retry.Again(kindOf(ctx, err).Kind, attempt) {
			return nil, err
		}
		if err := pause(ctx, time.Duration(by.spec.Retry.WaitMS(attempt))*time.Millisecond); err != nil {
			return nil, err
		}
	}
}

// pause waits, or says that there is no time left to.
func pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return contract.Errorf(contract.WorkerLost, "there was no time to wait: %w", context.Cause(ctx))
	case <-timer.C:
		return nil
	}
}
