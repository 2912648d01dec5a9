package audit

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"strings"

	"chimera.ai/engine/guardian"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/schemas"
	"chimera.ai/engine/trust"
)

// replays makes the decisions of a log again.
type replays struct {
	// rules are those that the log has, by digest, and gates what was made of them.
	rules map[string]json.RawMessage
	gates map[[2]string]*guardian.Gate
}

// keep remembers rules; the model holds them against their digest.
func (r *replays) keep(data json.RawMessage) {
	var d ledger.RulesData
	if json.Unmarshal(data, &d) != nil {
		return // the model says so
	}
	if r.rules == nil {
		r.rules, r.gates = map[string]json.RawMessage{}, map[[2]string]*guardian.Gate{}
	}
	r.rules[d.Digest] = d.Rules
}

// gate returns what decides by rules of the log, or nil if it does not have them. An
// operation of "" is none.
func (r *replays) gate(policy, operation string) (*guardian.Gate, error) {
	at := [2]string{policy, operation}
	if g := r.gates[at]; g != nil {
		return g, nil
	}
	of, about := r.rules[policy], r.rules[operation]
	if operation == "" {
		about = json.RawMessage("null")
	}
	if of == nil || about == nil {
		return nil, nil
	}
	g, err := guardian.Replay(guardian.Rules{Policy: of, Operation: about})
	if err == nil {
		r.gates[at] = g
	}
	return g, err
}

// replay makes a decision about a call of an agent again from its evidence, and compares the record.
// data is nil if nobody can read the decision, evidence nil if there is none; evidence that names no
// rules is from elsewhere.
func (v *verifier) replay(index int64, agent string, data json.RawMessage, evidence *ledger.Packet) {
	var d ledger.Decision
	readable := json.Unmarshal(data, &d) == nil
	var asked *guardian.Evidence
	if evidence != nil && readable {
		for _, part := range evidence.Parts {
			if part.Name == "action" {
				asked, _ = guardian.ParseEvidence(part.Data) // else it cannot be replayed
			}
		}
	}
	if readable {
		v.foresees(index, agent, &d, asked)
	} else {
		v.foresees(index, agent, nil, nil)
	}
	if asked == nil {
		v.NotReplayable++
		return
	}
	v.calls[d.ID] = callOfAction(asked)
	if asked.Budget.State == guardian.NoBudget {
		v.free[d.ID] = strings.Clone(asked.Action.Agent)
	}
	if len(asked.Action.Prechecks) > 0 {
		v.checked[d.ID] = asked.Action
	}
	gate, err := v.replays.gate(asked.Policy, asked.Operation)
	switch {
	case err != nil:
		v.problem(BadStory, index, "the decision %s cannot be made again: %s", d.ID, err)
		return
	case gate == nil:
		v.problem(BadStory, index, "the log does not have the rules of the decision %s before it", d.ID)
		return
	}
	if gate.Attended(asked.Action) {
		v.attended[d.ID] = true
	}
	again, err := gate.Again(asked)
	var raw []byte
	if err == nil {
		raw, err = again.Encode()
	}
	switch {
	case err != nil:
		v.problem(BadStory, index, "the decision %s cannot be made again: %s", d.ID, err)
	case engineOf(d.Record) != again.Engine:
		v.problem(BadStory, index, "the decision %s was made by %.40q, and this program decides by %q: verify it with one that decides so", d.ID, engineOf(d.Record), again.Engine)
	case !bytes.Equal(raw, d.Record):
		v.problem(BadStory, index, "the decision %s is %s, %s; by its rules and its evidence it is %s, %s", d.ID, d.Decision, d.Reason, again.Decision, again.Reason)
	case d.Decision != string(again.Decision) || d.Reason != again.Reason || d.ActionDigest != again.InputDigest || d.PolicyDigest != again.PolicyDigest:
		v.problem(BadStory, index, "the decision %s is not that of its own record", d.ID)
	default:
		v.Replayed++
	}
}

// engineOf says by what a record was made, or is "".
func engineOf(record json.RawMessage) string {
	var r struct {
		Engine string `json:"engine"`
	}
	_ = json.Unmarshal(record, &r) // what is no record is not the one that is made again
	return r.Engine
}

// callOfAction is the digest of the call that a decision is about, by its evidence, or "" if that has none.
func callOfAction(e *guardian.Evidence) string {
	salt, err := hex.DecodeString(e.Salt)
	if err != nil {
		return ""
	}
	v, err := schemas.Decode(e.Action.Inputs)
	if err != nil {
		return ""
	}
	input, err := plan.Canonical(v)
	if err != nil {
		return ""
	}
	return trust.Call{Operation: e.Action.Operation, Fingerprint: e.Action.Fingerprint, Input: input}.Digest(salt)
}
