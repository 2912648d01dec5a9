package activities

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"chimera.ai/engine/approval"
	"chimera.ai/engine/contract"
	"chimera.ai/engine/expr"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/schemas"
	"chimera.ai/engine/task"
	"chimera.ai/engine/trust"
)

// Guardian implements the activities of the role that decides on effects, and that holds
// the money for calls.
type Guardian struct {
	*Acting
	Store GuardianStore
	// Key signs permits; a statement of the admins names it.
	Key *trust.Key

	// kept are the digests of rules that the ledger has.
	kept recent
	// then is the judge of the policy that was last needed beside the one of now.
	then judgeThen
	// turns are those of making predictions.
	turns turns
}

// Judge decides on actions. Equal arguments give equal decisions.
type Judge interface {
	// Rules returns what decisions about an operation rest on, besides the action: the policy,
	// and what the catalog says of the operation.
	Rules(operation string) ([]ledger.RulesData, error)
	// Digest identifies an action.
	Digest(a *Action, salt []byte) (string, error)
	Decide(a *Action, st ledger.Standing) (Verdict, error)
	// Predicts reports whether decisions about an operation need a prediction, and Predict makes that
	// for an action, so that Decide with the same salt has it at once.
	Predicts(operation string) bool
	Predict(a *Action, salt []byte)
	// By returns a judge by rules that the ledger has: by a policy, and by what the catalog says
	// of an operation. It is an error if the policy does not fit that.
	By(policy, operation json.RawMessage) (Judge, error)
	// ProbCost is what the calls of probabilistic nodes in one run may cost together, or nil.
	ProbCost() *ledger.Money
	// Needs says, apart from what the run has done before, what would be decided on an action,
	// and who must approve it. There is money for it, unless Lifted says that there was not.
	Needs(a *Action, salt []byte, at time.Time) (decision string, rule approval.Rule)
	// Waiting reads an action that waits for people from the evidence of its decision.
	Waiting(p ledger.Packet) (Waiting, error)
	// Asked says who must approve an action whatever is objected to it. Its Input does not
	// matter.
	Asked(a *Action) approval.Rule
	// Inputs are the arguments of the action of a decision, by its evidence, and action is the
	// digest of that action.
	Inputs(p ledger.Packet) (inputs []byte, action string, err error)
	// Listed is the definition of the tool of the action of a decision, by its evidence, if that is
	// another than its plan pins; or nil.
	Listed(p ledger.Packet) (json.RawMessage, error)
	// Prechecks are those of the action of a decision, by its evidence, sorted by node.
	Prechecks(p ledger.Packet) ([]Precheck, error)
	// Permitted is like Waiting, for an action that was permitted. Its Rule asks for nobody.
	Permitted(p ledger.Packet) (Waiting, error)
	// Outcome are those who state what a call did, where nobody knows, or none.
	Outcome() []plan.Group
	// Observes reports whether anything is measured of calls of an operation, and Observe gives what was,
	// of one that has succeeded, by the record of its decision; or nil.
	Observes(operation string) bool
	Observe(operation string, record, args, output json.RawMessage) *ledger.Observation
	// MaySign are those of policy.Interested who may approve, and alone reports that nobody
	// signs for another.
	MaySign() (may []string, alone bool)
}

// Waiting is an action that waits for people, by the evidence of its decision.
type Waiting struct {
	// Asked is what people are asked, without decision, evidence and hold, and Shown what
	// they are shown, without what the plan says.
	Asked approval.Action
	Shown approval.Shown
	// Rule says who must approve it, but for whom nobody counts.
	Rule                   approval.Rule
	Plan, Workflow, Origin string
	// Salt is that of the action's digest.
	Salt []byte
	// Policy is the digest of the policy that the decision is by: see [Judge.Rules].
	Policy string
}

// Action is one call that needs a permit, as it is judged.
type Action struct {
	Agent, Plan string
	Node        *plan.Node
	// Taint is what of the call nobody vouches for.
	Taint plan.Taint
	// Input is what would be sent, and Cost what that is estimated to cost, or nil.
	Input []byte
	Cost  *ledger.Money
	// Pinned and Listed are the definitions of the node's tool that the plan pins, and that its server
	// lists, if they differ in their words; else nil. Fingerprint is that of the tool to be called.
	Pinned, Listed json.RawMessage
	Fingerprint    string
	// Prechecks are what its prechecks have returned, sorted by node.
	Prechecks []Precheck
	// Rules is what the decision rests on, as [Judge.Rules] returns it.
	Rules []ledger.RulesData
	// Asks lists the approvals that the plan asks for, and FollowUp is what follows while they
	// are not given. Approved reports that people have approved the action, and lifted the
	// guardian's reasons in Lifted.
	Asks     []plan.Group
	FollowUp plan.FollowUp
	Approved bool
	Lifted   []string
	// The rest says which call of which run it is.
	Deployment, Namespace, Workflow, Origin, Path string
	Epoch                                         int
}

// Verdict is a decision on an action, with what it rests on.
type Verdict struct {
	Decision ledger.Decision
	Evidence ledger.Packet
	// Rule says who must approve the action, but for whom nobody counts, and Awaits reports
	// that they are asked now.
	Rule   approval.Rule
	Awaits bool
	// Hypothesis is what was predicted for the decision, or nil.
	Hypothesis *ledger.Hypothesis
}

// GuardianStore is what the guardian writes.
type GuardianStore interface {
	Append(ctx context.Context, drafts ...ledger.Draft) ([]ledger.Record, error)
	Budget(ctx context.Context, agent string, c ledger.Currency) (ledger.Budget, error)
	SetBudget(ctx context.Context, b ledger.Budget) error
	OpenHold(ctx context.Context, h ledger.Hold) (ledger.Hold, error)
	PostHold(ctx context.Context, id string, spent ledger.Money) (ledger.Hold, error)
	VoidHold(ctx context.Context, id string) (ledger.Hold, error)
	Hold(ctx context.Context, id string) (ledger.Hold, error)
	Checkpoint(ctx context.Context) ([]byte, error)
	Chain(ctx context.Context, name string, from int64, limit int) ([]ledger.Record, error)
	Body(ctx context.Context, digest string) ([]byte, error)
	OpenBarrier(ctx context.Context, run ledger.Run, b ledger.Barrier) (ledger.Barrier, error)
	CloseBarrier(ctx context.Context, id string, end ledger.BarrierState, reason string) (ledger.Barrier, error)
	ApproveBarrier(ctx context.Context, id, reason string, escalated bool) (ledger.Barrier, error)
	RemindBarrier(ctx context.Context, id string) (ledger.Barrier, error)
	EscalateBarrier(ctx context.Context, id string) (ledger.Barrier, error)
	Barrier(ctx context.Context, id string) (ledger.Barrier, error)
	RecordApproval(ctx context.Context, run ledger.Run, a ledger.Approval) error
	Approvals(ctx context.Context, barrier string, page ledger.Page) ([]ledger.Approval, error)
	Authorize(ctx context.Context, run ledger.Run, a ledger.Authorization, judge func(ledger.Standing) (ledger.Ruling, error)) (ledger.Authorized, error)
}

// Decide implements the activity guard.decide: it permits one call that needs it, or says
// why not. What it decides is in the ledger before it answers.
func (g *Guardian) Decide(ctx context.Context, call contract.Call) (contract.Decided, error) {
	out := contract.Decided{Request: call.Request}
	store, stop := storing(ctx, 0)
	defer stop()
	err := waited(store, g.Plans, call.Patient)
	if err == nil {
		err = recovered("the guardian", func() error { return g.decide(store, &call, &out) })
	}
	return out, of(&call, nil).failed(ctx, err)
}

func (g *Guardian) decide(ctx context.Context, call *contract.Call, out *contract.Decided) error {
	e, err := g.effect(ctx, call)
	if errors.Is(err, errUnopened) {
		out.Unopened = true
		return nil
	}
	if err != nil {
		return err
	}
	if undone, err := g.wasUndone(ctx, e, call); err != nil || undone {
		return err // the role effects says what became of it
	}
	by, err := g.signer(e.state)
	if err != nil {
		return err
	}
	judge, err := g.Bench().Judge()
	if err != nil {
		return contract.Errorf(contract.Blocked, "%w", err)
	}
	action, err := g.action(ctx, judge, e, call)
	if err != nil {
		return err
	}
	approved, waiting, err := g.standing(ctx, judge, e, call, action)
	if err != nil {
		return err
	}
	if waiting != "" {
		out.Waiting = &contract.Waiting{Decision: waiting}
		return nil
	}
	if approved != nil && approved.with == "" {
		if again, err := g.rechecked(ctx, e, call, approved.request.Barrier); err != nil || !again {
			out.Recheck = approved.request.Barrier
			return err
		}
	}
	if err := g.limited(ctx, e.state, e.run.Agent, action.Cost); err != nil {
		return err
	}
	if action.Rules, err = g.keep(ctx, judge, e.node.spec.Activity()); err != nil {
		return err
	}
	if approved != nil {
		if approved.least, err = g.rule(ctx, e.state, judge, &e.run, e.node, approval.Rule{}); err != nil {
			return err
		}
	}
	if approved, err = g.judgedThen(ctx, judge, approved, action); err != nil {
		return err
	}
	salt, err := g.predict(ctx, judge, approved, action)
	if err != nil {
		return err
	}
	a := ledger.Authorization{
		ID: e.id, Salt: salt, Digest: func(salt []byte) (string, error) { return judge.Digest(action, salt) }, Repeatable: repeatable(e.node.spec), Agent: e.run.Agent, Cost: action.Cost,
		Operation: e.node.spec.Activity(),
		Life:      trust.MaxPermit, Task: draft(e, action),
	}
	if m := most(judge, e.node.spec); m != nil {
		a.Call = &ledger.HeldCall{Workflow: e.run.Workflow, Origin: e.run.Origin, Node: e.node.spec.ID, Prob: true, Most: m}
	}
	if approved != nil {
		a.Barrier, a.Approvals = approved.request.Barrier, approved.tally.Counted
		a.Overdraft = overdraws(judge, action, approved)
	}
	compensation := g.compensation(e, call)
	got, err := g.Store.Authorize(ctx, e.run, a, func(st ledger.Standing) (ledger.Ruling, error) {
		out, err := g.judge(judge, e, action, by, approved, st)
		out.Decision.Compensation = compensation
		return out, err
	})
	if err != nil {
		return refusal(err)
	}
	switch got.Course {
	case ledger.Wait:
		// The store's clock is not this one; it is asked again then.
		out.WaitMS = (time.Duration(e.node.spec.TimeoutMS)*time.Millisecond + ledger.CallSkew).Milliseconds()
		return nil
	case ledger.Resolve:
		return g.unresolved(ctx, e, &got.Invocation, out)
	case ledger.Stands:
		if got.Invocation.State == ledger.Settled {
			return nil
		}
	case ledger.Decide:
		if got.Decision.Decision != ledger.Approve {
			return disapproved(&got.Decision, out)
		}
	}
	out.Permit = &contract.Permit{Envelope: got.Invocation.Permit, Salt: got.Salt}
	if approved != nil {
		out.Permit.Approved = &contract.Approved{Request: approved.raw, Envelopes: approved.envelopes}
	}
	return nil
}

// keep sees to it that the ledger has the rules of a decision before the decision.
func (g *Guardian) keep(ctx context.Context, judge Judge, operation string) ([]ledger.RulesData, error) {
	rules, err := judge.Rules(operation)
	if err != nil {
		return nil, contract.Errorf(contract.Blocked, "%w", err)
	}
	for _, r := range rules {
		if _, ok := g.kept.get(r.Digest); ok {
			continue
		}
		data, err := json.Marshal(r)
		if err != nil {
			return nil, err
		}
		_, err = g.Store.Append(ctx, ledger.Draft{Chain: ledger.RulesChain, Key: string(ledger.RulesKept) + "/" + r.Digest, Kind: ledger.RulesKept, Data: data})
		if errors.Is(err, ledger.ErrInvalid) {
			return nil, contract.Errorf(contract.Blocked, "the ledger does not take the rules of the decision: %w", err)
		}
		if err != nil {
			return nil, refusal(err)
		}
		g.kept.remember(r.Digest, r.Digest)
	}
	return rules, nil
}

// signer is the id under which the admins have stated the guardian's key.
func (g *Guardian) signer(s trust.State) (string, error) {
	if id, ok := s.Signs(g.Key.Public()); ok {
		return id, nil
	}
	return "", contract.Errorf(contract.Blocked, "no statement of the admins lets this guardian's key sign permits")
}

// action is the call as it is judged. All its prechecks must have succeeded.
func (a *Acting) action(ctx context.Context, judge Judge, e *effect, call *contract.Call) (*Action, error) {
	n := e.node.spec
	checks, err := a.prechecks(ctx, judge, e, call)
	if err != nil {
		return nil, err
	}
	cost, err := estimate(n, e)
	if err != nil {
		return nil, err
	}
	tainted, err := taint(e)
	groups, followUp := asks(e.node)
	return &Action{
		Asks: groups, FollowUp: followUp,
		Agent: e.run.Agent, Plan: e.run.PlanDigest, Node: n, Taint: tainted, Input: e.input, Pinned: e.pinned, Listed: e.listed, Fingerprint: e.call().Fingerprint, Cost: cost, Prechecks: checks,
		Deployment: e.state.Deployment, Namespace: a.Namespace, Workflow: e.run.Workflow, Origin: e.run.Origin, Path: path(call, n), Epoch: epoch,
	}, err
}

// taint is what of a call nobody vouches for: the plan's input too, unless the run's grant
// does.
func taint(e *effect) (t plan.Taint, err error) {
	of := e.node.spec.Taint
	if of == nil {
		return t, nil
	}
	vouched, err := trust.Vouched(e.state, e.run.Grant)
	if err != nil {
		return t, distrust(err)
	}
	t = plan.Taint{Ports: slices.Clone(of.Ports), Decision: of.Decision}
	if !vouched {
		t.Ports = slices.Sorted(slices.Values(append(t.Ports, of.InputPorts...)))
		t.Decision = t.Decision || of.InputDecision
	}
	return t, nil
}

// estimate is what a call is estimated to cost, or nil if that is not known before it.
func estimate(n *plan.Node, e *effect) (*ledger.Money, error) {
	c, scope := n.Estimate, expr.Estimate
	if c == nil {
		c, scope = n.Cost, expr.Price
	}
	if c == nil || c.FromOutput {
		return nil, nil
	}
	return amount(c, scope, expr.Vars{"input": e.planInput}, e.input)
}

// amount evaluates a cost for the arguments of a call.
func amount(c *plan.Cost, scope expr.Scope, vars expr.Vars, args []byte) (*ledger.Money, error) {
	text := c.Amount
	if text == "" {
		program, err := expr.CompileAmount(c.Expr, scope)
		if err != nil {
			return nil, contract.Errorf(contract.Expr, "the cost: %w", err)
		}
		if vars["args"], err = schemas.Decode(args); err != nil {
			return nil, contract.Errorf(contract.Expr, "the cost: %w", err)
		}
		n, err := program.Eval(vars)
		if err != nil {
			return nil, contract.Errorf(contract.Expr, "the cost: %w", err)
		}
		text = string(n)
	}
	m, err := ledger.ParseMoney(text, ledger.Currency(c.Currency))
	if err != nil {
		return nil, contract.Errorf(contract.Expr, "the cost: %w", err)
	}
	return &m, nil
}

// draft is the effect as people and services see it.
func draft(e *effect, a *Action) task.Draft {
	n := e.node.spec
	d := task.Draft{
		AgentID: cmp.Or(e.run.Agent, "nobody"), Description: cmp.Or(n.Description, n.Activity()), Resources: n.Resources,
		CostEstimate: "0", Priority: task.Priority(cmp.Or(n.Priority, string(task.Medium))),
	}
	if d.Resources == nil {
		d.Resources = []string{}
	}
	if a.Cost != nil {
		d.CostEstimate = json.Number(a.Cost.Amount())
	}
	return d
}

// disapproved says that an action waits for people, or is the failure of a node whose effect
// was not approved.
func disapproved(d *ledger.Decision, out *contract.Decided) error {
	var record struct {
		Awaits     bool `json:"awaits"`
		Objections []struct {
			Detail string `json:"detail"`
		} `json:"objections"`
	}
	if err := json.Unmarshal(d.Record, &record); err != nil {
		return fmt.Errorf("read the decision: %w", err)
	}
	if record.Awaits {
		out.Waiting = &contract.Waiting{Decision: d.ID}
		return nil
	}
	kind, why := contract.Rejected, ""
	switch d.Reason {
	case budgetExceeded:
		kind = contract.Budget
	case noReview:
		kind = contract.Blocked
	}
	if len(record.Objections) > 0 && record.Objections[0].Detail != "" {
		why = ": " + record.Objections[0].Detail
	}
	e := contract.Errorf(kind, "the guardian's decision is %s, %s%s", d.Decision, d.Reason, why)
	details, err := json.Marshal(map[string]string{"decision": d.ID, "reason": d.Reason})
	if err != nil {
		return errors.Join(e, err)
	}
	e.Details = details
	return e
}

// Reasons of the guardian with which a failure has a kind of its own: there is no money, and
// nobody reviews what must be reviewed.
const (
	budgetExceeded = "budget_exceeded"
	noReview       = "no_review"
)
