package activities

import (
	"context"
	"errors"
	"time"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/trust"
)

// arrivedWithin bounds how long ago an order has arrived. Its signature is verified for that
// time, so that an attempt after the store was away finds the same.
const arrivedWithin = 2 * time.Hour

// Steer implements the activity engine/steer: it verifies what a run is told, and records it.
// The answer says why an order does not count.
func (e *Engine) Steer(ctx context.Context, request contract.SteerRequest) (contract.Steered, error) {
	out := contract.Steered{Request: request.Request}
	store, stop := storing(ctx, 0)
	defer stop()
	err := e.steer(store, &request, &out)
	var refused *contract.Error
	if errors.As(err, &refused) && final(refused.Kind) {
		out.Refused, err = refused.Message, nil
	}
	return out, asked{request: request.Request, root: request.Run.Root, retry: journaling}.failed(ctx, err)
}

// final reports whether a failure of that kind refuses an order for good.
func final(k contract.Kind) bool {
	return k == contract.Conflict || k == contract.Contract || k == contract.Blocked || k == contract.TooLarge
}

func (e *Engine) steer(ctx context.Context, request *contract.SteerRequest, out *contract.Steered) error {
	p, err := e.Plans.Get(ctx, request.Plan)
	if err != nil {
		return contract.Errorf(contract.StoreUnavailable, "the plan cannot be read: %w", err)
	}
	r := runOf(p, request.Plan, request.Run, request.Input)
	o, err := e.ordered(ctx, r, request)
	if err != nil {
		return err
	}
	out.Pause = contract.Pause{By: o.By, Reason: o.Reason, Verified: o.Signed != nil, Signer: o.Signer}
	return e.stated(ctx, r, func() error { return e.Ledger.RecordOrder(ctx, r.Workflow, r.Root, o) })
}

// ordered returns an order in the form of the ledger. One that is signed is verified.
func (e *Engine) ordered(ctx context.Context, r ledger.Run, request *contract.SteerRequest) (ledger.Order, error) {
	said, signed, ok := contract.ReadOrder(request.Argument)
	o := ledger.Order{N: request.N, By: said.By, Reason: said.Reason}
	want := trust.Order{Namespace: e.Namespace, WorkflowID: r.Workflow, Origin: r.Origin}
	switch {
	case !ok:
		return o, contract.Errorf(contract.Contract, "the argument is neither a reason nor the envelope of an order")
	case request.Order == contract.OrderPause:
		o.Kind, want.Order = ledger.RunPaused, trust.OrderPause
	case request.Order == contract.OrderResume:
		o.Kind, want.Order = ledger.RunResumed, trust.OrderResume
	default:
		return o, contract.Errorf(contract.Contract, "a run is not told to %.40q", string(request.Order))
	}
	if !signed {
		return o, nil
	}
	if e.Authority == nil {
		return o, contract.Errorf(contract.Blocked, "the order is signed, and this worker has no root of trust to verify it by (trust.bootstrap)")
	}
	s, err := e.state(ctx)
	if err != nil {
		return o, err
	}
	at, now := time.UnixMilli(request.ArrivedMS), time.Now()
	if e.Now != nil {
		now = e.Now()
	}
	if now.Sub(at).Abs() > arrivedWithin {
		at = now // whoever can write the history says another time
	}
	by, err := trust.VerifyOrder(s, request.Argument, want, r.Agent, at)
	if err != nil {
		return o, distrust(err)
	}
	o.By, o.Reason, o.Signer, o.Signed = by.By, by.Reason, by.Signer, request.Argument
	return o, nil
}
