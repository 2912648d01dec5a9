// Package catalog holds the operator's statements about the operations that plans
// may call, the trust manifest, and about the adapters that their edges may name:
// as values, and as files. Package compiler proves what depends on schemas, prices
// and transforms.
package catalog

import (
	"encoding/json"
	"fmt"

	"chimera.ai/engine/diag"
	"chimera.ai/engine/internal/fields"
	"chimera.ai/engine/internal/syntax"
	"chimera.ai/engine/plan"
)

// Catalog is the list of operations that a plan may call, the trust manifest,
// and of the adapters that its edges may name.
type Catalog struct {
	Templates []Template
	Adapters  []Adapter
	// Servers are those whose tools were imported, as they introduced themselves.
	Servers []Server
	// Statements are those of the admins that a file carries, as envelopes, from the bootstrap on,
	// and StatementsAt is where they stand. Nothing is concluded from them here.
	Statements   []json.RawMessage
	StatementsAt diag.Range
}

// Adapter is a transform of the operator that edges name by its id. The compiler
// copies it into each plan that uses it, so that the plan's digest pins it, and a
// change of the catalog changes no compiled plan.
type Adapter struct {
	// ID is what the transform of an edge says.
	ID          string
	Description string
	// InputSchema is what it accepts, OutputSchema what it promises to return.
	// Both are self-contained.
	InputSchema  json.RawMessage
	OutputSchema json.RawMessage
	// Transform is a JSON template over value (package expr, [expr.Adapter]).
	Transform json.RawMessage
	// Range is the place of the id in its file, and InputAt, OutputAt and
	// TransformAt those of the rest. They are invalid for an adapter made by
	// code.
	Range, InputAt, OutputAt, TransformAt diag.Range
}

// Template is the operator's statement about one operation. Fields that a node
// leaves out come from here (`template: provider/operation`).
type Template struct {
	ProviderType plan.ProviderType
	Provider     string
	Operation    string
	Description  string
	Mode         plan.Mode
	Effect       plan.EffectClass
	// InputSchema and OutputSchema are self-contained JSON Schemas. An MCP tool
	// without an OutputSchema returns the protocol's object {content: […]}.
	InputSchema  json.RawMessage
	OutputSchema json.RawMessage
	// TimeoutMS is in milliseconds, or 0 if not given.
	TimeoutMS int64
	// Retry is not given if MaxAttempts is 0. A nil On means the default kinds.
	Retry plan.Retry
	// Trust is the least trust state that a node asks for, or "" if not given.
	Trust plan.Trust
	// Status is the operation's trust state. The empty status is manual_review.
	Status plan.Trust
	// Fingerprint is what plans pin of an MCP tool or a resource: "sha256:" and 64 hex digits, or "".
	Fingerprint string
	// Parts has the digests of the parts of Definition, by [fingerprint.Part], or is nil.
	Parts map[string]string
	// Endpoints are where the operation may be called, by [fingerprint.Endpoint], sorted; wherever it
	// is if there are none. Instructions is the digest of what its server tells models, by
	// [fingerprint.Instructions], or "" if that does not count.
	Endpoints    []string
	Instructions string
	// Resource says which resources of an MCP server the operation reads or lists; nil for a tool.
	Resource *plan.Resource
	// Definition is the MCP tool as its server declares it, or nil. It gives the schemas,
	// except for an OutputSchema that is Given.
	Definition json.RawMessage
	Given      bool
	// TrustedOutput reports that the operation adds no taint: its output is
	// tainted if and only if its input is.
	TrustedOutput bool
	// Endorses reports that the operation checks its input: its output is never
	// tainted.
	Endorses bool
	// EgressAllowed reports that tainted arguments may leave through it.
	EgressAllowed bool
	// OpenWorld reports that it communicates with parties outside.
	OpenWorld bool
	// IdempotencyPort is the input port that takes an idempotency key, or "".
	IdempotencyPort string
	// Cost says what a call costs, or is nil.
	Cost *Cost
	// Commit is what the commit policy of every node that calls the operation begins with,
	// or nil.
	Commit *CommitPolicy
	// InProcess reports a Go skill of this build. It is set by code, or by the
	// catalog file's key in_process.
	InProcess bool
	// Range is where the template stands in its file, InputAt and OutputAt where
	// its schemas do; invalid for one made by code.
	Range, InputAt, OutputAt diag.Range
}

// Cost is the price of a call.
type Cost struct {
	// Expr is CEL over args, the call's input, and with FromOutput over output. It
	// gives an amount of Currency: a number from 0 on, or the text of one.
	Expr string
	// Currency is an ISO 4217 code.
	Currency string
	// FromOutput: Expr gives the actual cost, after the call.
	FromOutput bool
}

// CommitPolicy is what holds for an effect, whichever plan has it.
type CommitPolicy struct {
	// Waived is the reason why the effect can be neither verified nor undone, or "".
	Waived string
	// Verify finds out whether the effect happened, or is nil.
	Verify *Verify
}

// Verify calls an operation to find out whether an effect happened. The fields are as in a
// plan's `verify`.
type Verify struct {
	// Operation is a pure one of the catalog, as "provider/operation".
	Operation string
	// With and Output may be nil.
	With, Executed, Output *syntax.Value
}

// Name is the operation as plans and messages write it: "provider/operation".
func (t *Template) Name() string { return OperationName(t.Provider, t.Operation) }

// Merge returns a new catalog with the templates and adapters of both. An operation
// or an adapter in both catalogs, and a provider that is a skill in one and an MCP
// server in the other, is a conflict: it is reported in the place of other's entry,
// which is left out. At most one of the two carries statements. Either catalog may be nil.
func (c *Catalog) Merge(other *Catalog) (*Catalog, diag.Diagnostics) {
	merged := new(Catalog)
	var ds diag.Diagnostics
	named := map[string]*Template{}
	types := map[string]*Template{}
	add := func(t *Template, report bool) {
		if first := named[t.Name()]; first != nil {
			if report {
				ds.Add(diag.Diagnostic{
					Code: diag.PlanDuplicateID, Summary: fmt.Sprintf("the operation %s is in the catalog already", fields.Quote(t.Name())),
					Detail: "One operation has one template. " + origin(first.Range), Subject: t.Range, Context: first.Range,
				})
			}
			return
		}
		if first := types[t.Provider]; first != nil && first.ProviderType != t.ProviderType {
			if report {
				ds.Add(diag.Diagnostic{
					Code: diag.PlanSchema, Summary: fmt.Sprintf("the provider %s is of type `%s` already", fields.Quote(t.Provider), first.ProviderType),
					Detail:  "A provider is either a skill provider or an MCP server, since plans name it without its type. " + origin(first.Range),
					Subject: t.Range, Context: first.Range,
				})
			}
			return
		}
		named[t.Name()] = t
		if types[t.Provider] == nil {
			types[t.Provider] = t
		}
		merged.Templates = append(merged.Templates, *t)
	}
	for i, from := range []*Catalog{c, other} {
		if from == nil {
			continue
		}
		for t := range from.Templates {
			add(&from.Templates[t], i == 1)
		}
		ds = append(ds, merged.addAdapters(from.Adapters, i == 1)...)
		for _, s := range from.Servers {
			if merged.Server(s.Name) == nil { // the first one counts
				merged.Servers = append(merged.Servers, s)
			}
		}
		if from.StatementsAt.IsValid() && merged.StatementsAt.IsValid() {
			ds.Add(diag.Diagnostic{
				Code: diag.PlanDuplicateID, Summary: "the catalog has statements of the admins already",
				Detail: "One file carries them all. " + origin(merged.StatementsAt), Subject: from.StatementsAt, Context: merged.StatementsAt,
			})
		} else if from.StatementsAt.IsValid() {
			merged.Statements, merged.StatementsAt = from.Statements, from.StatementsAt
		}
	}
	return merged, ds
}

// addAdapters adds the adapters with new ids.
func (c *Catalog) addAdapters(more []Adapter, report bool) (ds diag.Diagnostics) {
	known := map[string]diag.Range{}
	for _, a := range c.Adapters {
		known[a.ID] = a.Range
	}
	for _, a := range more {
		first, there := known[a.ID]
		if !there {
			known[a.ID] = a.Range
			c.Adapters = append(c.Adapters, a)
		} else if report {
			ds.Add(diag.Diagnostic{
				Code: diag.PlanDuplicateID, Summary: fmt.Sprintf("the adapter %s is in the catalog already", fields.Quote(a.ID)),
				Detail: "Edges name an adapter by its id alone. " + origin(first), Subject: a.Range, Context: first,
			})
		}
	}
	return ds
}

func origin(first diag.Range) string {
	if !first.IsValid() {
		return "The first one is built in."
	}
	return fmt.Sprintf("The first one stands in %s, line %d.", first.File, first.Start.Line)
}

// ContentSchema is what an MCP tool returns that declares no output schema: the
// protocol's object, a list of blocks that each have a type.
const ContentSchema = `{"type":"object","properties":{"content":{"type":"array","items":{"type":"object","properties":{"type":{"type":"string"}},"required":["type"]}}},"required":["content"]}`

// OperationName is an operation as plans and messages write it.
func OperationName(provider, operation string) string { return provider + "/" + operation }

// Names that no catalog may define.
const (
	EngineProvider = "engine"
	PlanProvider   = "plan"
)

// State is the template's trust state. The default is manual_review.
func (t *Template) State() plan.Trust {
	if t.Status == "" {
		return plan.ManualReview
	}
	return t.Status
}

// Passes reports whether the operation is engine/pass, whose output is its
// input: what it promises is the node's own input schema.
func (t *Template) Passes() bool { return t.Provider == EngineProvider && t.Operation == "pass" }
