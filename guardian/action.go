package guardian

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"chimera.ai/engine/expr"
	"chimera.ai/engine/fingerprint"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/schemas"
)

// Action is one call of an operation that has an effect, or that people review, as it is
// judged.
type Action struct {
	// Agent is on whose behalf the run acts.
	Agent string `json:"agent"`
	// Plan is the digest of the compiled plan, Node the id of the node in it.
	Plan string `json:"plan"`
	Node string `json:"node"`
	// Operation is "provider/operation"; Fingerprint what the plan pins of an MCP
	// tool, or "".
	Operation   string `json:"operation"`
	Fingerprint string `json:"fingerprint,omitempty"`
	// Listed is the definition of the tool that its server lists, if the words in it are not those of
	// Pinned, which the plan pins: then Fingerprint is that of Listed, and people must approve the call.
	// Otherwise both are nil.
	Pinned json.RawMessage  `json:"pinned,omitempty"`
	Listed json.RawMessage  `json:"listed,omitempty"`
	Effect plan.EffectClass `json:"effect"`
	// Inputs is the input of the call, with everything resolved: JSON.
	Inputs json.RawMessage `json:"inputs"`
	// Cost is what the call is estimated to cost, or nil if that is not known.
	Cost *ledger.Money `json:"cost,omitempty"`
	// Prechecks are the nodes that have succeeded before, sorted by node.
	Prechecks []Precheck `json:"prechecks,omitempty"`
	Taint     Taint      `json:"taint"`
	Run       Run        `json:"run"`
}

// Precheck is a node that has succeeded before an action.
type Precheck struct {
	Node string `json:"node"`
	// Output is the digest of what it has returned last.
	Output string `json:"output"`
}

// Taint says what of an action depends on what nobody vouches for.
type Taint struct {
	// Decision reports that whether the call is made does.
	Decision bool `json:"decision"`
	// Ports are the input ports that do, sorted.
	Ports []string `json:"ports"`
}

// Run says which call of which run an action is.
type Run struct {
	Deployment string `json:"deployment"`
	Namespace  string `json:"namespace"`
	Workflow   string `json:"workflow"`
	// Origin is the first run id of the root workflow.
	Origin string `json:"origin"`
	// Path is the scope path of the node: node, visit, element, and so on inwards.
	Path string `json:"path"`
	// Epoch counts the times that the effect was asked for anew, from 0.
	Epoch int `json:"epoch"`
}

// Bounds of an action.
const (
	// MaxInputs bounds the inputs of an action, in bytes.
	MaxInputs = 1 << 20
	maxName   = 1 << 10
	maxPorts  = 1000
	// MaxDefinition bounds each definition of an action, and MaxWords the words that differ, in bytes: people
	// read them. Package activities has the same bounds.
	MaxDefinition = 64 << 10
	MaxWords      = 16 << 10
)

// Digest identifies the action: "sha256:" and 64 hex digits. The salt keeps those who
// see the digest from guessing the inputs.
func (a *Action) Digest(salt []byte) (string, error) {
	doc, err := a.document()
	if err != nil {
		return "", err
	}
	raw, err := plan.Canonical(doc)
	if err != nil {
		return "", fmt.Errorf("digest action: %w", err)
	}
	return plan.DigestOf(fmt.Appendf(nil, "chimera-action/1\x00%x\x00%s", salt, raw)), nil
}

// document is the action as decoded JSON: what is digested, and what rules see but for
// the time.
func (a *Action) document() (map[string]any, error) {
	inputs, err := a.inputs()
	if err != nil {
		return nil, err
	}
	ports := make([]any, len(a.Taint.Ports))
	for i, p := range a.Taint.Ports {
		ports[i] = p
	}
	doc := map[string]any{
		"agent": a.Agent, "plan": a.Plan, "node": a.Node, "operation": a.Operation, "effect": string(a.Effect), "inputs": inputs,
		"taint": map[string]any{"decision": a.Taint.Decision, "ports": ports},
		"run": map[string]any{
			"deployment": a.Run.Deployment, "namespace": a.Run.Namespace, "workflow": a.Run.Workflow,
			"origin": a.Run.Origin, "path": a.Run.Path, "epoch": number(int64(a.Run.Epoch)),
		},
	}
	if a.Fingerprint != "" {
		doc["fingerprint"] = a.Fingerprint
	}
	if a.Listed != nil || a.Pinned != nil {
		was, _, err := a.reworded()
		if err != nil {
			return nil, err
		}
		doc["pinned"] = was
	}
	if len(a.Prechecks) > 0 {
		checks := make([]any, len(a.Prechecks))
		for i, c := range a.Prechecks {
			checks[i] = map[string]any{"node": c.Node, "output": c.Output}
		}
		doc["prechecks"] = checks
	}
	if a.Cost != nil {
		doc["cost"] = map[string]any{"amount": a.Cost.Amount(), "currency": string(a.Cost.Currency()), "minor": number(a.Cost.Minor())}
	}
	return doc, nil
}

// reworded compares the definition that is listed with the one that is pinned. It returns the
// fingerprint of that, and what differs, which is words alone.
func (a *Action) reworded() (pinned string, words []fingerprint.Change, err error) {
	if len(a.Pinned) > MaxDefinition || len(a.Listed) > MaxDefinition {
		return "", nil, fmt.Errorf("a definition of its tool has more than %d bytes", MaxDefinition)
	}
	was, err := fingerprint.Tool(a.Pinned)
	if err != nil {
		return "", nil, fmt.Errorf("what the plan pins: %w", err)
	}
	is, err := fingerprint.Tool(a.Listed)
	if err != nil {
		return "", nil, fmt.Errorf("what the server lists: %w", err)
	}
	switch {
	case is.Digest != a.Fingerprint:
		return "", nil, errors.New("its fingerprint is not that of the tool that is listed")
	case !fingerprint.Reworded(was, is):
		return "", nil, errors.New("the tool that is listed is another one than the plan pins, not only in its words")
	}
	if words, err = fingerprint.Compare(a.Pinned, a.Listed); err != nil {
		return "", nil, err
	}
	n := 0
	for _, w := range words {
		n += len(w.Was) + len(w.Is)
	}
	if n > MaxWords {
		return "", nil, fmt.Errorf("%d bytes of words differ, more than the %d that people are asked to read", n, MaxWords)
	}
	return was.Digest, words, nil
}

func (a *Action) inputs() (any, error) {
	if len(a.Inputs) > MaxInputs {
		return nil, fmt.Errorf("the inputs have %d bytes, more than %d", len(a.Inputs), MaxInputs)
	}
	v, err := schemas.Decode(a.Inputs)
	if err != nil {
		return nil, fmt.Errorf("the inputs are not JSON: %w", err)
	}
	return v, nil
}

// check reports what is wrong with the form of the action by itself.
func (a *Action) check() error {
	for _, f := range []struct {
		name, value string
		may         bool
	}{
		{"agent", a.Agent, true}, {"plan", a.Plan, false}, {"node", a.Node, false}, {"operation", a.Operation, false}, {"fingerprint", a.Fingerprint, true},
		{"run.deployment", a.Run.Deployment, true}, {"run.namespace", a.Run.Namespace, true},
		{"run.workflow", a.Run.Workflow, false}, {"run.origin", a.Run.Origin, false}, {"run.path", a.Run.Path, false},
	} {
		switch {
		case f.value == "" && !f.may:
			return fmt.Errorf("it has no %s", f.name)
		case len(f.value) > maxName:
			return fmt.Errorf("its %s has more than %d bytes", f.name, maxName)
		}
	}
	switch a.Effect {
	case plan.Pure, plan.Staged, plan.Committing, plan.Irreversible:
	default:
		return fmt.Errorf("its effect class is %.40q", string(a.Effect))
	}
	switch {
	case a.Cost != nil && (a.Cost.Currency() == "" || a.Cost.Minor() < 0):
		return fmt.Errorf("its cost is %s", a.Cost)
	case a.Run.Epoch < 0:
		return errors.New("its epoch is negative")
	case len(a.Prechecks) > maxPorts:
		return fmt.Errorf("it has more than %d prechecks", maxPorts)
	case len(a.Taint.Ports) > maxPorts:
		return fmt.Errorf("more than %d of its ports are tainted", maxPorts)
	case !slices.IsSorted(a.Taint.Ports):
		return errors.New("its tainted ports are not sorted")
	}
	for i, c := range a.Prechecks {
		switch {
		case c.Node == "" || c.Output == "" || len(c.Node) > maxName || len(c.Output) > maxName:
			return errors.New("a precheck has no node or output, or too long a one")
		case i > 0 && a.Prechecks[i-1].Node >= c.Node:
			return errors.New("its prechecks are not sorted, or not different")
		}
	}
	return nil
}

// variables are what rules read: the document of the action, and the time of the
// decision in UTC.
func variables(doc map[string]any, at time.Time) expr.Vars {
	at = at.UTC()
	action := make(map[string]any, len(doc)+1)
	for name, v := range doc {
		action[name] = v
	}
	action["inputs"] = view(doc["inputs"])
	action["at"] = map[string]any{
		"date": at.Format(time.DateOnly), "hour": number(int64(at.Hour())), "minute": number(int64(at.Minute())), "weekday": number(int64(at.Weekday())),
	}
	return expr.Vars{"action": action}
}

func number(n int64) json.Number { return json.Number(fmt.Sprint(n)) }
