package compiler

import (
	"encoding/json"

	"chimera.ai/engine/diag"
	"chimera.ai/engine/plan"
)

// Catalog is the list of operations that a plan may call: the trust manifest.
type Catalog struct {
	Templates []Template
}

// Template is what the operator knows and says of one operation. A field of a
// node that a plan leaves out comes from here (`template: provider/operation`).
type Template struct {
	ProviderType plan.ProviderType
	Provider     string
	Operation    string
	Description  string
	Mode         plan.Mode
	Effect       plan.EffectClass
	InputSchema  json.RawMessage
	OutputSchema json.RawMessage
	// TimeoutMS is in milliseconds; 0 is "not given".
	TimeoutMS int64
	// Retry with MaxAttempts 0 is "not given".
	Retry plan.Retry
	// Trust is the least trust state that a node asks for; "" is "not given".
	Trust plan.Trust
	// Status is the operation's trust state. The empty status is manual_review.
	Status plan.Trust
	// Fingerprint is what plans pin of an MCP tool: "sha256:" and 64 hex digits, or "".
	Fingerprint string
	// TrustedOutput: the operator vouches for what the operation returns.
	TrustedOutput bool
	// EgressAllowed: arguments that are not trusted may leave through it.
	EgressAllowed bool
	// OpenWorld: it talks to parties outside.
	OpenWorld bool
	// IdempotencyPort is the input port that takes an idempotency key, or "".
	IdempotencyPort string
	// Cost says what a call costs, or is nil.
	Cost *Cost
	// InProcess: a Go skill of this build. Set by code, or by the catalog file's
	// key in_process.
	InProcess bool
	// Range is where the template stands in its file; invalid for one made by code.
	Range diag.Range
}

// Cost is the price of a call.
type Cost struct {
	// Expr is CEL over the call's arguments.
	Expr string
	// Currency is an ISO 4217 code.
	Currency string
	// FromOutput: the actual cost is taken from the operation's output.
	FromOutput bool
}

// ParseCatalog reads a catalog file (kind: Catalog). The catalog is nil exactly
// if the diagnostics hold an error.
func ParseCatalog(src Source) (*Catalog, diag.Diagnostics) {
	var ds diag.Diagnostics
	ds.Add(diag.Diagnostic{
		Code:    diag.PlanNotSupported,
		Summary: "not supported yet: catalog files",
		Subject: diag.Range{File: src.Name},
	})
	return nil, ds
}

// Merge gives a new catalog with the templates of both. An operation that
// stands in both is a conflict, which is reported at other's template; the
// merged catalog then keeps c's. Either catalog may be nil.
func (c *Catalog) Merge(other *Catalog) (*Catalog, diag.Diagnostics) {
	merged := new(Catalog)
	for _, from := range []*Catalog{c, other} {
		if from != nil {
			merged.Templates = append(merged.Templates, from.Templates...)
		}
	}
	return merged, nil
}
