package host

import (
	"encoding/hex"
	"encoding/json"
	"fmt"

	"chimera.ai/engine/activities"
	"chimera.ai/engine/guardian"
	"chimera.ai/engine/ledger"
)

// judge decides by the operator's bundle. It is an activities.Judge.
type judge struct{ gate *guardian.Gate }

// Digest implements activities.Judge.
func (j judge) Digest(a *activities.Action, salt []byte) (string, error) {
	return actionOf(a).Digest(salt)
}

func actionOf(a *activities.Action) *guardian.Action {
	n := a.Node
	out := &guardian.Action{
		Agent: a.Agent, Plan: a.Plan, Node: n.ID, Operation: n.Activity(), Fingerprint: n.Fingerprint, Effect: n.Effect, Inputs: a.Input, Cost: a.Cost,
		Run: guardian.Run{Deployment: a.Deployment, Namespace: a.Namespace, Workflow: a.Workflow, Origin: a.Origin, Path: a.Path, Epoch: a.Epoch},
	}
	if n.Taint != nil {
		out.Taint = guardian.Taint{Decision: n.Taint.Decision, Ports: n.Taint.Ports}
	}
	return out
}

// reserves maps what became of the money to the guardian's words; what is not there is an
// error.
var reserves = map[ledger.Reserve]guardian.BudgetState{
	ledger.NoBudget: guardian.NoBudget, ledger.Reserved: guardian.Held, ledger.Exceeded: guardian.Exceeded, ledger.Unpriced: guardian.Unpriced,
}

// Decide implements activities.Judge.
func (j judge) Decide(a *activities.Action, st ledger.Standing) (activities.Verdict, error) {
	action := actionOf(a)
	record := j.gate.Decide(action, st.Salt, guardian.Facts{
		At: st.At.Time(), Calls: st.Calls, Budget: guardian.Budget{State: reserves[st.Money], Hold: st.Hold, Detail: st.Detail},
	})
	raw, err := record.Encode()
	if err != nil {
		return activities.Verdict{}, err
	}
	// From this the decision can be made again.
	asked, err := json.Marshal(struct {
		Action *guardian.Action `json:"action"`
		Salt   string           `json:"salt"`
		At     ledger.Time      `json:"at"`
		Calls  int64            `json:"calls"`
	}{action, hex.EncodeToString(st.Salt), st.At, st.Calls})
	if err != nil {
		return activities.Verdict{}, fmt.Errorf("write the evidence of a decision: %w", err)
	}
	return activities.Verdict{
		Decision: ledger.Decision{PolicyDigest: record.PolicyDigest, Decision: string(record.Decision), Reason: record.Reason, Record: raw},
		Evidence: ledger.Packet{Parts: []ledger.Part{{Name: "action", Data: asked}, {Name: "decision", Data: raw}}},
		Approval: len(record.Floor) > 0,
	}, nil
}
