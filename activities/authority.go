package activities

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/internal/excerpt"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/trust"
)

// state returns what the admins have stated.
func (e *Engine) state(ctx context.Context) (trust.State, error) {
	s, err := e.Authority.State(ctx)
	return s, distrust(err)
}

// distrust assigns an error of package trust its kind.
func distrust(err error) error {
	if errors.Is(err, trust.ErrInvalid) {
		return contract.Errorf(contract.Blocked, "%w", err)
	}
	return refusal(err)
}

// authored checks a published plan from the store against what the admins have
// stated, since a row alone proves nothing. Without a root of trust it only checks
// that it is the plan that was asked for; runs have no effects then.
func (e *Engine) authored(ctx context.Context, ref string, p ledger.Plan) error {
	if e.Authority == nil {
		if ref != p.Name+"@"+p.Version && ref != p.Digest {
			return contract.Errorf(contract.Blocked, "the store gives the plan %s@%s for %s", excerpt.Bytes(p.Name, 100), excerpt.Bytes(p.Version, 100), excerpt.Bytes(ref, 200))
		}
		return nil
	}
	s, err := e.state(ctx)
	if err != nil {
		return err
	}
	return distrust(trust.Authored(s, ref, p))
}

// granted checks a start grant against what the admins have stated and against the
// run, and adds it to the statement about the run.
func (e *Engine) granted(ctx context.Context, r *ledger.Run, envelope json.RawMessage) error {
	if e.Authority == nil {
		return contract.Errorf(contract.Blocked, "the run has a start grant, and this worker has no root of trust to verify it by (trust.bootstrap)")
	}
	s, err := e.state(ctx)
	if err != nil {
		return err
	}
	now := time.Now
	if e.Now != nil {
		now = e.Now
	}
	g, err := trust.VerifyGrant(s, envelope, trust.Grant{
		Namespace: e.Namespace, WorkflowID: r.Workflow, Plan: r.PlanDigest, Input: r.InputDigest, Agent: r.Agent,
	}, now())
	if err != nil {
		return distrust(err)
	}
	if r.GrantDigest, err = trust.GrantDigest(envelope); err != nil {
		return distrust(err)
	}
	r.Requester, r.Grant = g.Requester, envelope
	return nil
}

// harmless refuses a plan with effects, reviews or costs whose start nobody has granted, at
// once rather than hours later at its barrier.
func harmless(p *plan.Plan, granted bool) error {
	if granted {
		return nil
	}
	for i := range p.Nodes {
		n := &p.Nodes[i]
		if n.Paid() {
			return contract.Errorf(contract.Blocked, "the node %s has a cost: a run without a start grant has no agent who pays", excerpt.Bytes(n.ID, 100))
		}
		if n.Kind == plan.KindCall && n.Reviewed() {
			return contract.Errorf(contract.Blocked, "people review the node %s: a run without a start grant has nobody who asked for it", excerpt.Bytes(n.ID, 100))
		}
		if n.Kind == plan.KindCall && n.Effect != plan.Pure {
			return contract.Errorf(contract.Blocked, "the node %s has the effect class %s: a run without a start grant may hold pure nodes only; a grant is for the agent that the plan names in `agent`", excerpt.Bytes(n.ID, 100), n.Effect)
		}
	}
	return nil
}

// believed refuses, in production, a plan whose catalog says of an operation outside of this program
// what the admins have not stated. Calls that need a permit are refused one by one, when their turn
// comes.
func (e *Engine) believed(ctx context.Context, bench *Workbench, p *plan.Plan) error {
	if e.Authority == nil {
		return nil
	}
	var s *trust.State // read at the first such operation
	for i := range p.Nodes {
		n := &p.Nodes[i]
		if n.Kind != plan.KindCall || n.InProcess || n.Plan != "" || n.Guarded() {
			continue
		}
		if s == nil {
			is, err := e.state(ctx)
			if err != nil || is.Audience == trust.Dev {
				return err
			}
			s = &is
		}
		if err := bench.Stated(*s, n); err != nil {
			return contract.Errorf(contract.Blocked, "the node %s: %w", n.ID, err)
		}
	}
	return nil
}
