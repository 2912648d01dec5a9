package activities

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"go.temporal.io/sdk/activity"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/plan"
)

// Hold implements the activity guard.hold: it reserves what one call of a node without
// effect is estimated to cost.
func (g *Guardian) Hold(ctx context.Context, call contract.Call) (contract.Held, error) {
	out := contract.Held{Request: call.Request}
	store, stop := storing(ctx, 0)
	defer stop()
	err := waited(store, g.Plans, call.Patient)
	if err == nil {
		err = recovered("the guardian", func() error { return g.hold(store, &call, &out) })
	}
	return out, of(&call, nil).failed(ctx, err)
}

func (g *Guardian) hold(ctx context.Context, call *contract.Call, out *contract.Held) error {
	e, err := g.subject(ctx, call)
	if errors.Is(err, errUnopened) {
		out.Unopened = true
		return nil
	}
	if err != nil {
		return err
	}
	n := e.node.spec
	if !n.Paid() || n.Called {
		return contract.Errorf(contract.Contract, "a call of node %d costs nothing, or has an effect", call.Node)
	}
	judge, err := g.Bench().Judge()
	if err != nil {
		return contract.Errorf(contract.Blocked, "%w", err)
	}
	if e.input, err = e.node.assemble(call); err != nil {
		return err
	}
	cost, err := estimate(n, e)
	switch {
	case err != nil:
		return err
	case cost == nil:
		return contract.Errorf(contract.Budget, "the cost of %s is known only after the call, and the plan gives no estimate", n.Activity())
	case e.run.Agent == "":
		return contract.Errorf(contract.Budget, "the run has no agent, who would pay for %s", n.Activity())
	}
	if err := g.limited(ctx, e.state, e.run.Agent, cost); err != nil {
		return err
	}
	h := ledger.Hold{
		ID:    g.holdID(e.state.Deployment, call, n),
		Agent: e.run.Agent, Amount: *cost,
		ExpiresAt: ledger.At(time.Now().Add(time.Duration(n.TimeoutMS)*time.Millisecond + holdLife)),
		Call: &ledger.HeldCall{
			Workflow: e.run.Workflow, Root: e.run.Root, Origin: e.run.Origin, Node: n.ID, Attested: n.Cost != nil && n.Cost.FromOutput,
			Prob: n.Mode == plan.Prob, Most: most(judge, n),
		},
	}
	h, err = g.Store.OpenHold(ctx, h)
	switch {
	case errors.Is(err, ledger.ErrBudget), errors.Is(err, ledger.ErrNotFound):
		return contract.Errorf(contract.Budget, "there is no money for the call: %w", err)
	case err != nil:
		return refusal(err)
	case h.Status != ledger.TxPending:
		return contract.Errorf(contract.Conflict, "the hold for the call is %s", h.Status)
	}
	out.Hold = h.ID
	return nil
}

// holdLife is how long a call may be on its way, besides its node's timeout. After that its
// hold is posted if its run has ended.
const holdLife = 5 * time.Minute

// most is what calls of probabilistic nodes may cost together in a run, where the node is
// one, or nil.
func most(judge Judge, n *plan.Node) *ledger.Money {
	if n.Mode != plan.Prob {
		return nil
	}
	return judge.ProbCost()
}

// holdID is the id of the hold for a call: the same one until it has ended. After a reset it
// is another.
func (g *Guardian) holdID(deployment string, call *contract.Call, n *plan.Node) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "chimera-hold/1\x00%q\x00%q\x00%q\x00%q\x00%q\x00%d",
		deployment, g.Namespace, call.Run.Workflow, call.Run.Root, path(call, n), call.Paid))
	return hex.EncodeToString(sum[:])
}

// Post implements the activity guard.post: it ends holds of calls without effect.
func (g *Guardian) Post(ctx context.Context, request contract.PostRequest) (contract.Posted, error) {
	store, stop := storing(ctx, 0)
	defer stop()
	err := recovered("the guardian", func() error {
		if len(request.Posts) > contract.MaxPosts {
			return contract.Errorf(contract.TooLarge, "more than %d holds in one request", contract.MaxPosts)
		}
		for i := range request.Posts {
			if err := g.post(store, &request, &request.Posts[i]); err != nil {
				return err
			}
		}
		return nil
	})
	return contract.Posted{Request: request.Request}, asked{request: request.Request, retry: journaling}.failed(ctx, err)
}

// post ends one hold. Money is freed by the word of the worker that made the call only where
// the operator attests what that says of the cost.
func (g *Guardian) post(ctx context.Context, request *contract.PostRequest, p *contract.Post) error {
	h, err := g.Store.Hold(ctx, p.Hold)
	switch {
	case errors.Is(err, ledger.ErrNotFound), err == nil && (h.Call == nil || h.Call.Workflow != request.Run.Workflow || h.Call.Origin != request.Run.Origin):
		activity.GetLogger(ctx).Warn("a run posts a hold that it does not have", "run", request.Run.Workflow, "hold", p.Hold)
		return nil
	case err != nil:
		return refusal(err)
	case h.Call.Root != request.Run.Root:
		// The run was reset, and makes a call again that an earlier one may have made, too.
		if h, err = g.again(ctx, h, request.Run.Root); err != nil {
			return err
		}
	}
	spent := h.Amount
	switch {
	case p.Unstarted, p.Unsent && h.Call.Attested:
		_, err = g.Store.VoidHold(ctx, h.ID)
		return endedHold(err)
	case p.Spent != "" && h.Call.Attested:
		m, err := ledger.ParseMoney(p.Spent, h.Amount.Currency())
		if err != nil {
			break // all of it is spent
		}
		if c, err := m.Cmp(h.Amount); err == nil && c < 0 && m.Minor() >= 0 {
			spent = m
		}
	}
	_, err = g.Store.PostHold(ctx, h.ID, spent)
	return endedHold(err)
}

// again opens another hold for a call that is made again after a reset. It exceeds the
// budget if need be, since the call is made.
func (g *Guardian) again(ctx context.Context, h ledger.Hold, root string) (ledger.Hold, error) {
	call := *h.Call
	call.Root = root
	out, err := g.Store.OpenHold(ctx, ledger.Hold{
		ID: ledger.HoldAgain(h.ID, root), Agent: h.Agent, Amount: h.Amount, Overdraft: true, ExpiresAt: h.ExpiresAt, Call: &call,
	})
	return out, refusal(err)
}

// endedHold is the error of ending a hold. One that has ended already, as by the sweeper, stays
// as it is.
func endedHold(err error) error {
	if errors.Is(err, ledger.ErrConflict) {
		return nil
	}
	return refusal(err)
}
