// Package task is the Task of people and services: what an effect is about,
// who signed it, and what came of it. A task is a record, never authority.
//
// A task is drafted, then signed, then executed; there is no other way. Each
// stage is a type of its own, so that a task without a signature cannot be executed:
//
//	Draft ── Sign ──> Signed ── Execute ──> Executed
//
// The documents are those of the JSON Schemas task.draft, task.signed and
// task.executed (package schemas). All functions check documents against the schema
// and against the types, which are stricter: the state is that of the stage, times
// are RFC 3339 and do not go backwards, a signature is complete, and a cost is a
// number that a decimal can represent. All faults of a document are reported at
// once.
package task

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// State is the stage of a task.
type State string

// The states.
const (
	StateDraft    State = "draft"
	StateSigned   State = "signed"
	StateExecuted State = "executed"
)

// Priority says how urgent a task is.
type Priority string

// The priorities; Medium is the default.
const (
	Low    Priority = "low"
	Medium Priority = "medium"
	High   Priority = "high"
)

// Draft is a task that nobody has signed.
type Draft struct {
	TaskID      string   `json:"task_id"`
	AgentID     string   `json:"agent_id"`
	Description string   `json:"description"`
	Resources   []string `json:"resources"`
	// CostEstimate is a number as written, in the currency that the contract of its
	// operation names.
	CostEstimate json.Number `json:"cost_estimate"`
	Priority     Priority    `json:"priority"`
	State        State       `json:"state"`
	CreatedAt    time.Time   `json:"created_at"`
}

// Signature says who approved a task, and how. It repeats what an approval's
// envelope proves.
type Signature struct {
	SignerID string `json:"signer_id"`
	// SigType is the kind of key, such as "webauthn" or "pkcs11".
	SigType   string    `json:"sig_type"`
	Signature string    `json:"signature"`
	SignedAt  time.Time `json:"signed_at"`
}

// Signed is a task that was approved.
type Signed struct {
	Draft
	Signature Signature `json:"signature"`
}

// Executed is a task whose effect has ended.
type Executed struct {
	Signed
	ExecutedAt time.Time `json:"executed_at"`
	// Result is a JSON object: the result of the effect, or how it failed.
	Result json.RawMessage `json:"result"`
	// AuditRef names the ledger's entry: "ledger://ORIGIN/HASH".
	AuditRef string `json:"audit_ref"`
}

// Task is a task of any stage: a [Draft], [Signed] or [Executed].
type Task interface {
	// Base returns the draft of the task, with its current state.
	Base() Draft
	// faults returns the faults that the types find.
	faults() []Fault
}

// Base implements [Task].
func (d Draft) Base() Draft { return d }

// Base implements [Task].
func (s Signed) Base() Draft { return s.Draft }

// Base implements [Task].
func (e Executed) Base() Draft { return e.Draft }

// Sign approves the draft. The error is [Faults] if the result would not be a valid task.
func (d Draft) Sign(s Signature) (Signed, error) {
	if err := check(d); err != nil {
		return Signed{}, fmt.Errorf("sign task: %w", err)
	}
	out := Signed{Draft: d, Signature: s}
	out.Resources = slices.Clone(d.Resources)
	out.State = StateSigned
	if err := check(out); err != nil {
		return Signed{}, fmt.Errorf("sign task: %w", err)
	}
	return out, nil
}

// Execute closes the task with a result, a JSON object, and the ledger entry that records
// it.
func (s Signed) Execute(result json.RawMessage, auditRef string, at time.Time) (Executed, error) {
	if err := check(s); err != nil {
		return Executed{}, fmt.Errorf("execute task: %w", err)
	}
	out := Executed{Signed: s, ExecutedAt: at, Result: slices.Clone(result), AuditRef: auditRef}
	out.Resources = slices.Clone(s.Resources)
	out.State = StateExecuted
	if err := check(out); err != nil {
		return Executed{}, fmt.Errorf("execute task: %w", err)
	}
	return out, nil
}

// check checks a task against its schema and its type.
func check(t Task) error {
	if f := t.faults(); len(f) > 0 {
		return Faults(f)
	}
	raw, err := json.Marshal(t)
	if err != nil {
		return err
	}
	_, err = Parse(raw)
	return err
}
