package activities

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"chimera.ai/engine/approval"
	"chimera.ai/engine/contract"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/schemas"
)

// What people approve with an effect: the plan says that the effect e undoes another, u, with
// arguments that follow from the call of u and from what it has answered, and people have
// approved u knowing that.

// undoneBy returns the invocation that an effect undoes, if by the plan an approval of that
// counts for e, too, if it has happened or may have, and if the call is the one that follows
// from what the ledger has of it. Otherwise it returns nil.
func (a *Acting) undoneBy(ctx context.Context, judge Judge, e *effect, call *contract.Call) (*ledger.Invocation, error) {
	p := e.node.plan
	if !p.Covered(e.node.index) {
		return nil, nil
	}
	i, err := a.Ledger.Invocation(ctx, a.invocation(e.state, call, &p.Nodes[e.node.spec.Undoes]))
	switch {
	case errors.Is(err, ledger.ErrNotFound):
		return nil, nil
	case err != nil:
		return nil, refusal(err)
	case !i.State.Undoable():
		return nil, nil
	}
	args, action, err := a.evidence(ctx, judge, i.DecisionID)
	if errors.Is(err, ledger.ErrNotFound) || errors.Is(err, ledger.ErrGone) {
		return nil, nil
	}
	if err != nil || action != i.ActionDigest {
		return nil, err
	}
	follows, err := follows(e.node, call, args, i.OutputDigest)
	if err != nil || !follows {
		return nil, err
	}
	return &i, nil
}

// evidence returns the arguments of the action of a decision, and the digest of the action.
func (a *Acting) evidence(ctx context.Context, judge Judge, decision string) (args []byte, action string, err error) {
	packet, err := a.packet(ctx, decision)
	if err != nil {
		return nil, "", err
	}
	if args, action, err = judge.Inputs(packet); err != nil {
		return nil, "", contract.Errorf(contract.Blocked, "%w", err)
	}
	return args, action, nil
}

// packet returns the evidence of a decision.
func (a *Acting) packet(ctx context.Context, decision string) (ledger.Packet, error) {
	d, err := a.Ledger.Decision(ctx, decision)
	if err != nil {
		return ledger.Packet{}, refusal(err)
	}
	p, err := a.Ledger.Packet(ctx, d.Evidence)
	if err != nil {
		return p, refusal(err)
	}
	return p, nil
}

// follows reports whether a call of a node that undoes an effect brings what the ledger has of
// that effect, and all of it: its arguments, and the output of that digest, "" where it is not
// known. What a covered node is called with depends on nothing else.
func follows(n *node, call *contract.Call, args []byte, output string) (bool, error) {
	of, err := digested(args)
	if err != nil {
		return false, err
	}
	left := call.Deliveries
	filled := map[string]bool{}
	for _, at := range n.plan.In(n.index) {
		e := &n.plan.Edges[at]
		if e.ReadsOutput && output == "" || filled[e.ToPort] {
			continue
		}
		filled[e.ToPort] = true
		if len(left) == 0 || left[0].Edge != at {
			return false, nil
		}
		have, err := digested(left[0].Args)
		if err != nil {
			return false, err
		}
		returned := ""
		if left[0].Output != nil {
			if returned, err = digested(left[0].Output); err != nil {
				return false, err
			}
		}
		if have != of || returned != output {
			return false, nil
		}
		left = left[1:]
	}
	return len(left) == 0, nil
}

// digested is the digest of a JSON value in canonical form.
func digested(raw []byte) (string, error) {
	v, err := schemas.Decode(raw)
	if err == nil {
		raw, err = plan.Canonical(v)
	}
	if err != nil {
		return "", contract.Errorf(contract.Contract, "a value of an effect that is undone: %w", err)
	}
	return plan.DigestOf(raw), nil
}

// undoes reports whether people were asked about an invocation, and told that e undoes it.
func undoes(r *approval.Request, u *ledger.Invocation, e *effect) bool {
	x := r.Covers(e.id)
	return x != nil && x.Invocation == u.ID && x.Action == u.ActionDigest &&
		slices.Contains(x.Undo, approval.Undo{Node: e.node.spec.ID, Operation: e.node.spec.Activity(), Invocation: e.id})
}

// used reports whether an invocation was permitted by all of these approvals.
func (a *Acting) used(ctx context.Context, approvals []string, u *ledger.Invocation) (bool, error) {
	for _, id := range approvals {
		list, err := a.Ledger.Consumptions(ctx, id)
		if err != nil {
			return false, refusal(err)
		}
		if !slices.Contains(list, ledger.Consumption{Approval: id, Action: u.ActionDigest, Invocation: u.ID}) {
			return false, nil
		}
	}
	return len(approvals) > 0, nil
}

// approvedWith returns what people have approved with the effect that e undoes, if that is
// enough for e, too; or nil. Nobody is asked about e then.
func (g *Guardian) approvedWith(ctx context.Context, judge Judge, e *effect, call *contract.Call, action *Action) (*approved, error) {
	asked := judge.Asked(action)
	if len(asked.Groups) == 0 || action.Listed != nil { // nobody has seen its words
		return nil, nil
	}
	u, err := g.undoneBy(ctx, judge, e, call)
	if err != nil || u == nil {
		return nil, err
	}
	rule, err := g.rule(ctx, e.state, judge, &e.run, e.node, asked)
	if err != nil {
		return nil, err
	}
	p := e.node.plan
	owner := &node{plan: p, index: e.node.spec.Undoes, spec: &p.Nodes[e.node.spec.Undoes]}
	base := g.barrierID(e.state, &e.run, barrierName(owner))
	for round := 1; round <= maxRounds; round++ {
		b, err := g.Store.Barrier(ctx, fmt.Sprintf("%s/%d", base, round))
		if errors.Is(err, ledger.ErrNotFound) {
			return nil, nil
		}
		if err != nil {
			return nil, refusal(err)
		}
		if x, ok := b.Covers(e.id); !ok || x.Action != u.ActionDigest || b.State != ledger.BarrierApproved {
			continue
		}
		out, err := g.approved(ctx, e, &b, time.Time{})
		if err != nil {
			return nil, err
		}
		if out == nil || !undoes(out.request, u, e) || out.request.Rule.AtLeast(rule) != nil {
			continue
		}
		ok, err := g.used(ctx, out.tally.Counted, u)
		if err != nil {
			return nil, err
		}
		if ok {
			out.with = u.ID
			return out, nil
		}
	}
	return nil, nil
}

// undoing lists the effects that undo the effect of a node and are approved with it, each with
// the rule that this takes. path is where the node is called.
func (o *opening) undoing(ctx context.Context, n *node, path string) ([]covered, error) {
	var out []covered
	for i := range n.plan.Nodes {
		if n.plan.Nodes[i].Undoes != n.index || !n.plan.Covered(i) {
			continue
		}
		by := &node{plan: n.plan, index: i, spec: &n.plan.Nodes[i]}
		groups, followUp := asks(by)
		asked := o.judge.Asked(&Action{Agent: o.run.Agent, Plan: o.run.PlanDigest, Node: by.spec, Asks: groups, FollowUp: followUp})
		if len(asked.Groups) == 0 {
			continue // nobody is asked
		}
		rule, err := o.guardian.rule(ctx, o.state, o.judge, &o.run, by, asked)
		if err != nil {
			return nil, err
		}
		id := o.guardian.invocationAt(o.state, o.run.Workflow, o.run.Origin, beside(path, by.spec))
		out = append(out, covered{approval.Undo{Node: by.spec.ID, Operation: by.spec.Activity(), Invocation: id}, rule})
	}
	return out, nil
}

// covered is an effect that is approved with the one that it undoes, if at least the rule is
// met.
type covered struct {
	approval.Undo
	rule approval.Rule
}

// compensation is what the plan says of undoing the effect of a call, or nil.
func (a *Acting) compensation(e *effect, call *contract.Call) *ledger.Compensation {
	p, at := e.node.plan, e.node.index
	if !p.Undoable(at) {
		return nil
	}
	out := &ledger.Compensation{Node: e.node.spec.ID}
	for i := range p.Nodes {
		n := &p.Nodes[i]
		if n.Undoes != at || !n.Effect.Acts() {
			continue
		}
		switch certain, reads := entered(p, i); {
		case !certain:
		case reads:
			out.WithOutput = append(out.WithOutput, a.invocation(e.state, call, n))
		default:
			out.By = append(out.By, a.invocation(e.state, call, n))
		}
	}
	slices.Sort(out.By)
	slices.Sort(out.WithOutput)
	return out
}

// entered reports whether a node that undoes an effect runs whatever other nodes do, and
// nothing stands in for it if it fails; and whether it needs the output of the effect for
// that.
func entered(p *plan.Plan, i int) (certain, reads bool) {
	for _, at := range p.In(i) {
		e := &p.Edges[at]
		if e.FromPort != plan.CompensatePort {
			return false, false
		}
		reads = reads || e.ReadsOutput
	}
	return !slices.ContainsFunc(p.Out(i), func(at int) bool { return p.Edges[at].FromPort == plan.ErrorPort }), reads
}
