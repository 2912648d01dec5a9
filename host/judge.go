package host

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"chimera.ai/engine/activities"
	"chimera.ai/engine/approval"
	"chimera.ai/engine/contract"
	"chimera.ai/engine/guardian"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/plan"
)

// judge decides by the operator's bundle. It is an activities.Judge.
type judge struct {
	gate *guardian.Gate
	// shadow decides too, without effect; or nil.
	shadow *guardian.Gate
	// most is the policy's cap on what prob nodes cost, or nil.
	most *ledger.Money
}

// Digest implements activities.Judge.
func (j judge) Digest(a *activities.Action, salt []byte) (string, error) {
	digest, err := actionOf(a).Digest(salt)
	switch {
	case err == nil:
		return digest, nil
	case len(a.Input) > guardian.MaxInputs:
		return "", contract.Errorf(contract.TooLarge, "%w", err)
	}
	return "", contract.Errorf(contract.Contract, "the action: %w", err)
}

func actionOf(a *activities.Action) *guardian.Action {
	n := a.Node
	out := &guardian.Action{
		Agent: a.Agent, Plan: a.Plan, Node: n.ID, Operation: n.Activity(), Fingerprint: a.Fingerprint, Pinned: a.Pinned, Listed: a.Listed, Effect: n.Effect, Inputs: a.Input, Cost: a.Cost,
		Run: guardian.Run{Deployment: a.Deployment, Namespace: a.Namespace, Workflow: a.Workflow, Origin: a.Origin, Path: a.Path, Epoch: a.Epoch},
	}
	for _, c := range a.Prechecks {
		out.Prechecks = append(out.Prechecks, guardian.Precheck(c))
	}
	out.Taint = guardian.Taint{Decision: a.Taint.Decision, Ports: a.Taint.Ports}
	return out
}

// reserves maps what became of the money to the guardian's words; what is not there is an
// error.
var reserves = map[ledger.Reserve]guardian.BudgetState{
	ledger.NoBudget: guardian.NoBudget, ledger.Reserved: guardian.Held, ledger.Exceeded: guardian.Exceeded, ledger.Unpriced: guardian.Unpriced,
}

// Rules implements activities.Judge.
func (j judge) Rules(operation string) ([]ledger.RulesData, error) {
	rules, err := j.gate.Rules(operation)
	if err != nil {
		return nil, err
	}
	return []ledger.RulesData{{Digest: plan.DigestOf(rules.Policy), Rules: rules.Policy}, {Digest: plan.DigestOf(rules.Operation), Rules: rules.Operation}}, nil
}

// ProbCost implements activities.Judge.
func (j judge) ProbCost() *ledger.Money { return j.most }

// Decide implements activities.Judge.
func (j judge) Decide(a *activities.Action, st ledger.Standing) (activities.Verdict, error) {
	action := actionOf(a)
	facts := guardian.Facts{
		At: st.At.Time(), Calls: st.Calls, Budget: guardian.Budget{State: reserves[st.Money], Hold: st.Hold, Detail: st.Detail},
		Asks: a.Asks, FollowUp: a.FollowUp, Review: a.Node.Reviewed(), Approved: a.Approved, Lifted: a.Lifted,
	}
	record := j.gate.Decide(action, st.Salt, facts)
	raw, err := record.Encode()
	if err != nil {
		return activities.Verdict{}, err
	}
	hypothesis, err := record.Hypothesis(action)
	if err != nil {
		return activities.Verdict{}, err
	}
	// From this the decision can be made again.
	asked, err := json.Marshal(guardian.Evidence{
		Action: action, Salt: hex.EncodeToString(st.Salt), At: st.At, Calls: st.Calls, Budget: record.Budget,
		Asks: facts.Asks, FollowUp: facts.FollowUp, Review: facts.Review, Approved: facts.Approved, Lifted: facts.Lifted, Policy: a.Rules[0].Digest, Operation: a.Rules[1].Digest,
	})
	if err != nil {
		return activities.Verdict{}, fmt.Errorf("write the evidence of a decision: %w", err)
	}
	parts := []ledger.Part{{Name: "action", Data: asked}, {Name: "decision", Data: raw}}
	if j.shadow != nil {
		facts.Shadow = true
		beside, err := j.shadow.Decide(action, st.Salt, facts).Encode()
		if err != nil {
			return activities.Verdict{}, err
		}
		parts = append(parts, ledger.Part{Name: "shadow", Data: beside})
	}
	return activities.Verdict{
		Decision: ledger.Decision{PolicyDigest: record.PolicyDigest, Decision: string(record.Decision), Reason: record.Reason, Record: raw},
		Evidence: ledger.Packet{Parts: parts},
		Rule:     approval.Rule{Groups: record.Groups, FollowUp: record.FollowUp}, Awaits: record.Awaits, Hypothesis: hypothesis,
	}, nil
}

// Needs implements activities.Judge.
func (j judge) Needs(a *activities.Action, salt []byte, at time.Time) (decision string, rule approval.Rule) {
	money := guardian.NoBudget
	if slices.Contains(a.Lifted, guardian.BudgetExceeded) {
		money = guardian.Exceeded
	}
	r := j.gate.Decide(actionOf(a), salt, guardian.Facts{
		At: at, Calls: 1, Budget: guardian.Budget{State: money}, Asks: a.Asks, FollowUp: a.FollowUp, Review: a.Node.Reviewed(), Approved: a.Approved, Lifted: a.Lifted,
	})
	if !r.Awaits && r.Decision != guardian.Approve {
		return string(guardian.Reject), approval.Rule{} // nobody may lift it
	}
	return string(r.Decision), approval.Rule{Groups: r.Groups, FollowUp: r.FollowUp}
}

// By implements activities.Judge.
func (j judge) By(policy, operation json.RawMessage) (activities.Judge, error) {
	gate, err := guardian.Replay(guardian.Rules{Policy: policy, Operation: operation})
	if err != nil {
		return nil, err
	}
	return judge{gate: gate}, nil
}

// Waiting implements activities.Judge.
func (j judge) Waiting(p ledger.Packet) (activities.Waiting, error) {
	return waiting(guardian.ReadWaiting(p))
}

// Permitted implements activities.Judge.
func (j judge) Permitted(p ledger.Packet) (activities.Waiting, error) {
	return waiting(guardian.ReadPermitted(p))
}

// Outcome implements activities.Judge.
func (j judge) Outcome() []plan.Group { return j.gate.Outcome() }

func waiting(w *guardian.Waiting, err error) (activities.Waiting, error) {
	if err != nil {
		return activities.Waiting{}, err
	}
	return activities.Waiting{
		Asked: w.Asked, Shown: w.Shown, Rule: w.Rule, Plan: w.Action.Plan, Workflow: w.Action.Run.Workflow, Origin: w.Action.Run.Origin, Salt: w.Salt, Policy: w.Policy,
	}, nil
}

// Asked implements activities.Judge.
func (j judge) Asked(a *activities.Action) approval.Rule {
	return j.gate.Asked(actionOf(a), a.Asks, a.FollowUp)
}

// Inputs implements activities.Judge.
func (j judge) Inputs(p ledger.Packet) (inputs []byte, action string, err error) {
	e, err := evidenceIn(p)
	if err != nil {
		return nil, "", err
	}
	salt, err := hex.DecodeString(e.Salt)
	if err != nil {
		return nil, "", fmt.Errorf("the salt of an action: %w", err)
	}
	action, err = e.Action.Digest(salt)
	return e.Action.Inputs, action, err
}

// Listed implements activities.Judge.
func (j judge) Listed(p ledger.Packet) (json.RawMessage, error) {
	e, err := evidenceIn(p)
	if err != nil {
		return nil, err
	}
	return e.Action.Listed, nil
}

// Prechecks implements activities.Judge.
func (j judge) Prechecks(p ledger.Packet) (all []activities.Precheck, err error) {
	e, err := evidenceIn(p)
	if err != nil {
		return nil, err
	}
	for _, c := range e.Action.Prechecks {
		all = append(all, activities.Precheck(c))
	}
	return all, nil
}

// evidenceIn is what a decision rests on, by its evidence.
func evidenceIn(p ledger.Packet) (*guardian.Evidence, error) {
	for _, part := range p.Parts {
		if part.Name == "action" {
			return guardian.ParseEvidence(part.Data)
		}
	}
	return nil, errors.New("the evidence has no action")
}

// MaySign implements activities.Judge.
func (j judge) MaySign() (may []string, alone bool) { return j.gate.MaySign() }
