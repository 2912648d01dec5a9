package guardian

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	"chimera.ai/engine/approval"
	"chimera.ai/engine/approval/display"
	"chimera.ai/engine/internal/strict"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/plan"
)

// Waiting is an action that waits for people, by the evidence of the decision.
type Waiting struct {
	// Asked is what people are asked, without decision, evidence and hold, and Shown what
	// they are shown, without what the plan says.
	Asked approval.Action
	Shown approval.Shown
	// Rule says who must approve it, but for whom nobody counts.
	Rule approval.Rule
	// Action is the action, and Salt that of its digest.
	Action *Action
	Salt   []byte
	// Policy is the digest of the rules of the bundle that the decision is by.
	Policy string
}

// ReadWaiting reads an action that waits from the evidence of its decision. It verifies that
// the evidence is about the action that the decision is about.
func ReadWaiting(p ledger.Packet) (*Waiting, error) {
	w, r, err := readDecided(p)
	if err == nil && !r.Awaits {
		err = fmt.Errorf("read an action that waits: the decision is %s, and nobody is asked", r.Decision)
	}
	if err != nil {
		return nil, err
	}
	return w, nil
}

// ReadPermitted is like [ReadWaiting], for an action that was approved: people are asked what
// became of it.
func ReadPermitted(p ledger.Packet) (*Waiting, error) {
	w, r, err := readDecided(p)
	if err == nil && r.Decision != Approve {
		err = fmt.Errorf("read an action that was permitted: the decision is %s", r.Decision)
	}
	if err != nil {
		return nil, err
	}
	w.Rule, w.Asked.Lifts = approval.Rule{}, nil
	return w, nil
}

// readDecided reads an action, and the record of the decision about it.
func readDecided(p ledger.Packet) (*Waiting, *Record, error) {
	var e *Evidence
	var r *Record
	for _, part := range p.Parts {
		var err error
		switch part.Name {
		case "action":
			e, err = ParseEvidence(part.Data)
		case "decision":
			r = new(Record)
			err = strict.Decode(part.Data, r)
		}
		if err != nil {
			return nil, nil, fmt.Errorf("read an action: %w", err)
		}
	}
	if e == nil || r == nil {
		return nil, nil, errors.New("read an action: the evidence has no action, or no decision")
	}
	w := &Waiting{Action: e.Action, Policy: e.Policy, Rule: approval.Rule{Groups: r.Groups, FollowUp: r.FollowUp}}
	var err error
	if w.Salt, err = hex.DecodeString(e.Salt); err != nil {
		return nil, nil, fmt.Errorf("read an action: the salt: %w", err)
	}
	digest, err := e.Action.Digest(w.Salt)
	switch {
	case err != nil:
		return nil, nil, fmt.Errorf("read an action: %w", err)
	case digest != r.InputDigest:
		return nil, nil, errors.New("read an action: the decision is about another action")
	}
	a := e.Action
	w.Asked = approval.Action{
		Node: a.Node, Path: a.Run.Path, Operation: a.Operation, Effect: a.Effect, Action: digest, Policy: r.PolicyDigest,
	}
	if a.Cost != nil {
		w.Asked.Amount, w.Asked.Currency = a.Cost.Amount(), string(a.Cost.Currency())
	}
	w.Shown = approval.Shown{Fingerprint: a.Fingerprint, Inputs: a.Inputs, Tainted: a.Taint.Ports, TaintedDecision: a.Taint.Decision}
	if a.Listed != nil {
		_, words, err := a.reworded()
		if err != nil {
			return nil, nil, fmt.Errorf("read an action: %w", err)
		}
		for _, c := range words {
			w.Shown.Reworded = append(w.Shown.Reworded, display.Rewording{Path: c.Path, Was: said(c.Was), Is: said(c.Is)})
		}
	}
	for _, c := range a.Prechecks {
		w.Shown.Prechecks = append(w.Shown.Prechecks, display.Precheck(c))
	}
	for _, o := range r.Objections {
		why := o.Reason
		if o.Detail != "" {
			why += ": " + o.Detail
		}
		w.Shown.Objections = append(w.Shown.Objections, why)
		if o.Reason != ApprovalNeeded {
			w.Asked.Lifts = append(w.Asked.Lifts, o.Reason)
		}
	}
	return w, r, nil
}

// said is a text of a definition, or another value in its place as JSON; "" is nothing.
func said(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	return string(raw)
}

// Outcome are those who state what a call did, where nobody knows, by the bundle: of each role
// the largest number that one of its files names. They are sorted by role.
func (g *Gate) Outcome() []plan.Group {
	most := map[string]int{}
	for _, x := range g.bundle.Outcome {
		most[x.Role] = max(most[x.Role], x.Min)
	}
	return groupsOf(most)
}

// MaySign are those of [policy.Interested] who may approve by the bundle, and alone reports
// that nobody signs for another.
func (g *Gate) MaySign() (may []string, alone bool) {
	return g.bundle.MaySign, g.bundle.NoDelegation
}
