package activities

import (
	"context"
	"errors"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/trust"
)

// state gives what the admins have stated.
func (e *Engine) state(ctx context.Context) (trust.State, error) {
	s, err := e.Authority.State(ctx)
	return s, distrust(err)
}

// distrust gives an error of trust its kind.
func distrust(err error) error {
	if errors.Is(err, trust.ErrInvalid) {
		return contract.Errorf(contract.Blocked, "%w", err)
	}
	return refusal(err)
}

// authored holds a published plan that the store gave for a reference against
// what the admins have stated: a row alone is nobody's word. Without a root of
// trust it only is the one that was asked for; runs have no effects then.
func (e *Engine) authored(ctx context.Context, ref string, p ledger.Plan) error {
	if e.Authority == nil {
		if ref != p.Name+"@"+p.Version && ref != p.Digest {
			return contract.Errorf(contract.Blocked, "the store gives the plan %s@%s for %s", clip(p.Name, 100), clip(p.Version, 100), clip(ref, 200))
		}
		return nil
	}
	s, err := e.state(ctx)
	if err != nil {
		return err
	}
	return distrust(trust.Authored(s, ref, p))
}
