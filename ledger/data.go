package ledger

import (
	"encoding/json"

	"chimera.ai/engine/contract"
)

// The data of entries whose kind has no entity of its own; the package comment
// lists what each kind has.
type (
	// RevokedData is the data of signer.revoked.
	RevokedData struct {
		ID        string `json:"id"`
		RevokedAt Time   `json:"revoked_at"`
	}
	// TrustedData is the data of tool.trusted.
	TrustedData struct {
		ToolID string `json:"tool_id"`
		Status string `json:"status"`
	}
	// BudgetData is the data of budget.set.
	BudgetData struct {
		Agent    string   `json:"agent"`
		Currency Currency `json:"currency"`
		Parent   string   `json:"parent,omitempty"`
		Every    Every    `json:"every"`
		Limit    Money    `json:"limit"`
	}
	// HoldData is the data of hold.running, hold.posted, hold.voided and
	// hold.expired; Posted is there for hold.posted alone.
	HoldData struct {
		ID     string `json:"id"`
		Posted *Money `json:"posted,omitempty"`
	}
	// ConsumedData is the data of approval.consumed.
	ConsumedData struct {
		Decision   string   `json:"decision"`
		Invocation string   `json:"invocation"`
		Action     string   `json:"action"`
		Approvals  []string `json:"approvals"`
	}
	// AttemptData is the data of invocation.calling, released, settled and unknown.
	AttemptData struct {
		ID      string `json:"id"`
		Attempt int    `json:"attempt"`
		// DecisionID and CallNotAfter are there for calling alone.
		DecisionID   string `json:"decision_id,omitempty"`
		CallNotAfter *Time  `json:"call_not_after,omitempty"`
		OutputDigest string `json:"output_digest,omitempty"`
		// Abandoned and Stated are as in [Settlement].
		Abandoned bool     `json:"abandoned,omitempty"`
		Stated    []string `json:"stated,omitempty"`
		// Snapshots are those of the call of a pinned MCP tool, or nil.
		Snapshots *contract.Snapshots `json:"snapshots,omitempty"`
	}
	// ExecutedData is the data of task.executed: what the task got, without
	// audit_ref, which names the entry itself.
	ExecutedData struct {
		TaskID     string          `json:"task_id"`
		ExecutedAt Time            `json:"executed_at"`
		Result     json.RawMessage `json:"result"`
	}
	// TaskClosedData is the data of task.closed.
	TaskClosedData struct {
		TaskID string `json:"task_id"`
		Reason string `json:"reason"`
	}
	// BarrierData is the data of barrier.closed.
	BarrierData struct {
		ID      string       `json:"id"`
		State   BarrierState `json:"state"`
		Reason  string       `json:"reason,omitempty"`
		Refused int64        `json:"refused,omitempty"`
	}
	// RemindedData is the data of barrier.reminded: the reminder of that number, from 1.
	RemindedData struct {
		ID     string `json:"id"`
		Number int    `json:"number"`
	}
	// EscalatedData is the data of barrier.escalated.
	EscalatedData struct {
		ID string `json:"id"`
	}
	// ObservedData is the data of hypothesis.observed: the KPIs that were not observed before.
	ObservedData struct {
		HypothesisID string          `json:"hypothesis_id"`
		Observed     json.RawMessage `json:"observed"`
	}
	// RulesData is the data of rules.kept: what decisions rest on, and its digest, that of
	// the canonical JSON.
	RulesData struct {
		Digest string          `json:"digest"`
		Rules  json.RawMessage `json:"rules"`
	}
	// AuthorityData is the data of authority.stated.
	AuthorityData struct {
		// Prev is the digest of the statement before, "" for the first.
		Prev      string          `json:"prev"`
		Statement json.RawMessage `json:"statement"`
	}
	// PrunedData is the data of body.pruned: bodies of a class that were stated
	// before an instant are gone, but for chains under legal hold.
	PrunedData struct {
		Class  Class  `json:"class"`
		Before Time   `json:"before"`
		Count  int    `json:"count"`
		Reason string `json:"reason"`
	}
	// ErasedData is the data of subject.erased. Key is the id of the key that was
	// deleted, as sealed bodies name it, and never the subject.
	ErasedData struct {
		Key    string `json:"key"`
		Reason string `json:"reason"`
	}
	// LegalHoldData is the data of legal-hold.placed and legal-hold.lifted.
	LegalHoldData struct {
		Chain  string `json:"chain"`
		Reason string `json:"reason"`
	}
)
