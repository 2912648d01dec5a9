package guardian

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	"chimera.ai/engine/catalog"
	"chimera.ai/engine/internal/strict"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/policy"
	"chimera.ai/engine/schemas"
)

// Evidence is what a decision rests on, apart from its rules: from it the decision can be
// made again.
type Evidence struct {
	Action *Action `json:"action"`
	// Salt is that of the action's digest, in hex.
	Salt   string      `json:"salt"`
	At     ledger.Time `json:"at"`
	Calls  int64       `json:"calls"`
	Budget Budget      `json:"budget"`
	// Asks, FollowUp, Review, Approved and Lifted are as in [Facts].
	Asks     []plan.Group  `json:"asks,omitempty"`
	FollowUp plan.FollowUp `json:"follow_up,omitzero"`
	Review   bool          `json:"review,omitempty"`
	Approved bool          `json:"approved,omitempty"`
	Lifted   []string      `json:"lifted,omitempty"`
	// Policy and Operation are the digests of the rules: of the bundle, and of what the
	// catalog says of the operation. See [Gate.Rules].
	Policy    string `json:"policy"`
	Operation string `json:"operation"`
}

// Rules is what decisions about an operation rest on, in canonical JSON: the bundle, and
// what the catalog says of the operation. Either may be null.
type Rules struct{ Policy, Operation json.RawMessage }

// keptOperation is what decisions read of a template.
type keptOperation struct {
	ProviderType plan.ProviderType `json:"provider_type"`
	Provider     string            `json:"provider"`
	Operation    string            `json:"operation"`
	Mode         plan.Mode         `json:"mode"`
	Effect       plan.EffectClass  `json:"effect"`
	Fingerprint  string            `json:"fingerprint,omitempty"`
	InputSchema  json.RawMessage   `json:"input_schema,omitempty"`
}

// Rules returns what decisions about an operation rest on.
func (g *Gate) Rules(operation string) (r Rules, err error) {
	if r.Policy, err = canonical(g.bundle); err != nil {
		return r, fmt.Errorf("keep the policy: %w", err)
	}
	if g.digest == "" {
		r.Policy = json.RawMessage("null")
	}
	r.Operation = json.RawMessage("null")
	if o := g.operations[operation]; o != nil {
		t := o.template
		r.Operation, err = canonical(keptOperation{t.ProviderType, t.Provider, t.Operation, t.Mode, t.Effect, t.Fingerprint, t.InputSchema})
	}
	if err != nil {
		return r, fmt.Errorf("keep the operation %s: %w", operation, err)
	}
	return r, nil
}

func canonical(v any) (json.RawMessage, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	decoded, err := schemas.Decode(raw)
	if err != nil {
		return nil, err
	}
	return plan.Canonical(decoded)
}

// ParseEvidence reads what a decision rests on.
func ParseEvidence(raw json.RawMessage) (*Evidence, error) {
	e := new(Evidence)
	if err := strict.Decode(raw, e); err != nil {
		return nil, fmt.Errorf("read the evidence of a decision: %w", err)
	}
	if e.Action == nil || e.Policy == "" || e.Operation == "" {
		return nil, errors.New("read the evidence of a decision: it has no action, or not the digests of its rules")
	}
	return e, nil
}

// Replay returns the gate of kept rules: about their operation it decides as the one did
// that they are of.
func Replay(r Rules) (*Gate, error) {
	var bundle *policy.Bundle
	if err := json.Unmarshal(r.Policy, &bundle); err != nil {
		return nil, fmt.Errorf("read the policy of a decision: %w", err)
	}
	operations := new(catalog.Catalog)
	if !bytes.Equal(r.Operation, []byte("null")) {
		var k keptOperation
		if err := strict.Decode(r.Operation, &k); err != nil {
			return nil, fmt.Errorf("read the operation of a decision: %w", err)
		}
		operations.Templates = []catalog.Template{{
			ProviderType: k.ProviderType, Provider: k.Provider, Operation: k.Operation, Mode: k.Mode, Effect: k.Effect, Fingerprint: k.Fingerprint, InputSchema: k.InputSchema,
		}}
	}
	g, found := gate(bundle, operations, true)
	if g == nil {
		return nil, fmt.Errorf("the policy of a decision is not valid: %s", found[0].Summary)
	}
	return g, nil
}

// Again decides once more what a decision rests on.
func (g *Gate) Again(e *Evidence) (*Record, error) {
	salt, err := hex.DecodeString(e.Salt)
	if err != nil {
		return nil, fmt.Errorf("the salt of a decision: %w", err)
	}
	return g.Decide(e.Action, salt, Facts{
		At: e.At.Time(), Calls: e.Calls, Budget: e.Budget, Asks: e.Asks, FollowUp: e.FollowUp, Review: e.Review, Approved: e.Approved, Lifted: e.Lifted,
	}), nil
}
