// Package plan is the compiled plan: what the compiler proves and the
// interpreter runs.
//
// A [Plan] is closed (every set in it is an enumeration), ordered (slices only,
// no maps) and self-contained (schemas are pooled in it; only the plans that it
// runs in turn are named by digest). Its canonical bytes
// are the UTF-8 JSON that [Plan.Encode] writes: struct fields in their declared
// order, embedded JSON values canonical as by [Canonical]. Its digest is the
// SHA-256 of those bytes, written "sha256:" and 64 hex digits; the field
// "format", which comes first, separates the digest's domain.
//
// Nodes[0] is the virtual node $input and the last node is $output, so edges
// name nodes by index only.
package plan

import (
	"encoding/json"
	"slices"

	"chimera.ai/engine/contract"
)

// Format is the first field of every encoded plan.
const Format = "chimera.ai/plan/v1"

// ExprVersion numbers the meaning of expressions, which package expr specifies.
// A worker that does not know a plan's number refuses the plan.
//
// Number 2: a JSON number is an int if its value is whole, not if it is written
// without fraction and exponent; numbers that neither 64 bits nor a double hold
// are kept exactly, not errors; numbers compare exactly across types; infinities
// are errors where they come up; keys of maps are strings, booleans or ints;
// conversions are written out in a plan.
const ExprVersion = 2

// Names of the virtual nodes and ports.
const (
	InputNode  = "$input"
	OutputNode = "$output"

	WholePort      = "$"
	DonePort       = "$done"
	StartPort      = "$start"
	ErrorPort      = "$error"
	CompensatePort = "$compensate"
)

// Plan is one compiled plan.
type Plan struct {
	Format  string `json:"format"`
	Name    string `json:"name"`
	Version string `json:"version"`
	Agent   string `json:"agent"`
	// Expr is the ExprVersion that the plan was compiled with.
	Expr   int    `json:"expr"`
	Limits Limits `json:"limits"`
	// Nodes starts with $input, ends with $output, and keeps file order between.
	Nodes []Node `json:"nodes"`
	// Edges keep file order, which decides between edges into one port; edges
	// that the compiler adds follow.
	Edges []Edge `json:"edges"`
	// Schemas is sorted by digest, without duplicates.
	Schemas []Schema `json:"schemas"`
	// Barriers are where effects wait for people, in the order of their first
	// members.
	Barriers []Barrier `json:"barriers,omitempty"`
	// Loops are the parts of the plan that run more than once, in the order of
	// their first nodes.
	Loops []Loop `json:"loops,omitempty"`

	// Children are all plans that this one runs, directly or through others,
	// sorted by digest. They are not part of the bytes: [Node.Plan] has the
	// digest of each, so a plan has the same digest alone and as a part of
	// another. [Decode] leaves them out.
	Children []Child `json:"-"`
	// Marks say what is tainted, for drawings. They are not part of the bytes,
	// and [Decode] leaves them out; decisions depend on [Node.Taint].
	Marks *Marks `json:"-"`

	index index
}

// Child is a plan that another one runs.
type Child struct {
	Digest string
	Plan   *Plan
}

// Limits bound a run.
type Limits struct {
	// MaxParallel is the largest number of nodes in flight.
	MaxParallel int `json:"max_parallel"`
	// DeadlineMS ends the run, in milliseconds after its start.
	DeadlineMS int64 `json:"deadline_ms"`
}

// Schema is a JSON Schema with the digest of its canonical bytes.
type Schema struct {
	Digest string          `json:"digest"`
	Schema json.RawMessage `json:"schema"`
}

// Kind says what a node is.
type Kind string

// The node kinds.
const (
	KindInput  Kind = "input"
	KindCall   Kind = "call"
	KindOutput Kind = "output"
)

// ProviderType says where an operation comes from.
type ProviderType string

// The provider types.
const (
	Skill ProviderType = "skill"
	MCP   ProviderType = "mcp"
)

// Mode says whether equal inputs give equal outputs.
type Mode string

// The modes.
const (
	Prob  Mode = "prob"
	Deter Mode = "deter"
)

// EffectClass says what a call does to the world.
type EffectClass string

// The effect classes, from harmless to final.
const (
	Pure         EffectClass = "pure"
	Staged       EffectClass = "staged"
	Committing   EffectClass = "committing"
	Irreversible EffectClass = "irreversible"
)

// Trust is a trust state, and the least that a node asks for.
type Trust string

// The trust states; stricter is towards Block.
const (
	AllowAuto    Trust = "allow_auto"
	ManualReview Trust = "manual_review"
	Block        Trust = "block"
)

// EdgeType is the seed's edge type.
type EdgeType string

// The edge types.
const (
	Data        EdgeType = "data"
	Control     EdgeType = "control"
	Conditional EdgeType = "conditional"
	Error       EdgeType = "error"
)

// Node is one step.
type Node struct {
	ID   string `json:"id"`
	Kind Kind   `json:"kind"`

	// The fields from here to Resource are empty on $input and $output.
	ProviderType ProviderType `json:"provider_type,omitempty"`
	Provider     string       `json:"provider,omitempty"`
	Operation    string       `json:"operation,omitempty"`
	Mode         Mode         `json:"mode,omitempty"`
	Effect       EffectClass  `json:"effect,omitempty"`
	Trust        Trust        `json:"trust,omitempty"`
	TimeoutMS    int64        `json:"timeout_ms,omitempty"`
	Retry        Retry        `json:"retry,omitzero"`
	// Fingerprint is what the plan pins of an MCP tool or of a resource, or "".
	Fingerprint string `json:"fingerprint,omitempty"`
	// Parts has the digests of the parts of the tool's definition (io, effect, prose and meta), so
	// that a changed tool is known by what has changed; nil if the catalog does not have that.
	Parts map[string]string `json:"parts,omitempty"`
	// Endpoints are the digests of where the operation may be called, sorted, or nil; Instructions
	// is that of what its MCP server tells models, or "".
	Endpoints    []string `json:"endpoints,omitempty"`
	Instructions string   `json:"instructions,omitempty"`
	// Structured reports that the definition of the MCP tool has a schema of what it returns: only its
	// structured content is the output.
	Structured bool `json:"structured,omitempty"`
	// Resource is given if the operation reads or lists resources of an MCP server.
	Resource *Resource `json:"resource,omitempty"`
	// InProcess reports that the operation is a Go function of the engine's
	// workers.
	InProcess bool `json:"in_process,omitempty"`
	// Local reports that the node is in-process, pure, deterministic and short,
	// so that it may run as a local activity.
	Local bool `json:"local,omitempty"`

	// InputSchema and OutputSchema index Plan.Schemas. $input has an output
	// schema only, $output an input schema only; the other is -1.
	InputSchema  int `json:"input_schema"`
	OutputSchema int `json:"output_schema"`
	// With holds constants and expressions for input ports, sorted by port.
	With []PortTemplate `json:"with,omitempty"`
	// RequiredPorts are the ports without which the node does not run, sorted.
	RequiredPorts []string `json:"required_ports,omitempty"`
	// OutPorts are the output ports that outgoing edges read, sorted; "$" is the whole output.
	OutPorts []string `json:"out_ports,omitempty"`
	// ReadsInput reports that an expression evaluated at this node (With, an
	// incoming edge's transform) reads the plan's input.
	ReadsInput bool `json:"reads_input,omitempty"`
	// RoutesOnInput reports that a predicate on an outgoing edge reads the
	// plan's input.
	RoutesOnInput bool `json:"routes_on_input,omitempty"`

	// Plan is the digest of the plan that the node runs, or "".
	Plan string `json:"plan,omitempty"`
	// IdempotencyPort is the input port that takes an idempotency key, or "". It
	// is given for nodes that are not pure.
	IdempotencyPort string `json:"idempotency_port,omitempty"`
	// Commit is given exactly for committing and irreversible nodes.
	Commit *Commit `json:"commit,omitempty"`
	// Relied reports that an effect may depend on what the node answers, which counts as
	// untainted by the word of the operator, or that it is a precheck: so the role that
	// calls effects calls it. A guarded node it calls anyway, with a permit.
	Relied bool `json:"relied,omitempty"`
	// Taint is given exactly for guarded nodes.
	Taint *Taint `json:"taint,omitempty"`
	// Estimate is what the plan says that a call costs, and Cost what the
	// operator's catalog says; either may be nil.
	Estimate *Cost `json:"estimate,omitempty"`
	Cost     *Cost `json:"cost,omitempty"`
	// ForEach runs the node once for each element of a list; or nil.
	ForEach *ForEach `json:"for_each,omitempty"`
	// Undoes is the node whose compensation this one belongs to, or 0, which is
	// $input and has none.
	Undoes int `json:"undoes,omitempty"`
	// Called reports that the node is not part of the run. It has no edges, and
	// runs when the Verify of another node calls it.
	Called bool `json:"called,omitempty"`
	// Description, Resources and Priority (low, medium, high) are for the
	// people who approve. They are set if a call may wait for approval.
	Description string   `json:"description,omitempty"`
	Resources   []string `json:"resources,omitempty"`
	Priority    string   `json:"priority,omitempty"`
}

// Activity is the Temporal activity type of a call node: "provider/operation".
func (n *Node) Activity() string { return n.Provider + "/" + n.Operation }

// Reviewed reports that people must review each call of the node.
func (n *Node) Reviewed() bool { return n.Trust == ManualReview }

// Guarded reports that a call of the node needs a permit: it has an effect, or people must
// review it.
func (n *Node) Guarded() bool { return n.Effect.Acts() || n.Reviewed() }

// Prechecks index the nodes that must succeed before the node, which has an effect, sorted.
func (n *Node) Prechecks() []int {
	if n.Commit == nil {
		return nil
	}
	return n.Commit.Prechecks
}

// Paid reports that a call of the node costs something and needs no permit: it is made with a
// hold for that.
func (n *Node) Paid() bool {
	return n.Kind == KindCall && !n.Guarded() && (n.Cost != nil || n.Estimate != nil)
}

// Retry is a node's retry contract.
type Retry struct {
	// MaxAttempts counts the first call too; at least 1.
	MaxAttempts int `json:"max_attempts"`
	// On lists the kinds that are retried, sorted.
	On        []contract.Kind `json:"on,omitempty"`
	InitialMS int64           `json:"initial_ms"`
	// MultiplierMilli is the backoff factor in thousandths; at least 1000.
	MultiplierMilli int64 `json:"multiplier_milli"`
	MaxMS           int64 `json:"max_ms"`
}

// Again reports whether the contract allows another attempt after so many, of which
// the last failed with that kind. Credentials are refreshed only once.
func (r *Retry) Again(kind contract.Kind, attempts int) bool {
	return attempts < r.MaxAttempts && slices.Contains(r.On, kind) && (kind != contract.Auth || attempts < 2)
}

// WaitMS is how long to wait after so many attempts, at least 1, before the next,
// in milliseconds.
func (r *Retry) WaitMS(attempts int) int64 {
	wait, most := max(r.InitialMS, 1), max(r.MaxMS, r.InitialMS, 1)
	for ; attempts > 1 && wait < most && r.MultiplierMilli > 1000; attempts-- {
		if wait > most*1000/r.MultiplierMilli {
			return most
		}
		wait = max(wait*r.MultiplierMilli/1000, wait+1)
	}
	return min(wait, most)
}

// PortTemplate fills one input port.
type PortTemplate struct {
	Port string `json:"port"`
	// Template is JSON whose strings may hold ${…} expressions over input.
	Template json.RawMessage `json:"template"`
}

// Edge connects a port of one node to a port of another.
type Edge struct {
	// From and To index Plan.Nodes.
	From     int      `json:"from"`
	FromPort string   `json:"from_port"`
	To       int      `json:"to"`
	ToPort   string   `json:"to_port"`
	Type     EdgeType `json:"type"`
	Required bool     `json:"required,omitempty"`
	// When is a predicate in CEL, or "".
	When string `json:"when,omitempty"`
	// Otherwise reports that the edge is delivered if no sibling conditional
	// edge holds.
	Otherwise bool `json:"otherwise,omitempty"`
	// Transform is a JSON template, or nil. The template of an adapter is
	// copied, so that the digest pins it.
	Transform json.RawMessage `json:"transform,omitempty"`
	// ReadsOutput reports that the transform reads the source's whole output.
	// An edge from $compensate is then delivered only if the output is known.
	ReadsOutput bool `json:"reads_output,omitempty"`
	// ReadsError reports that the transform of an edge from $compensate reads the failure
	// of the source.
	ReadsError bool `json:"reads_error,omitempty"`
	// Implicit reports that the edge is not in the source, but stands for a
	// precheck of its target.
	Implicit bool `json:"implicit,omitempty"`
}

// Carries reports whether the edge fills a port of its target: everything but
// control edges, edges from $done and edges to $start does.
func (e *Edge) Carries() bool {
	return e.Type != Control && e.FromPort != DonePort && e.ToPort != StartPort
}

// EdgeString formats edge i for people: "from.port -> to.port".
func (p *Plan) EdgeString(i int) string {
	e := &p.Edges[i]
	return p.Nodes[e.From].ID + "." + e.FromPort + " -> " + p.Nodes[e.To].ID + "." + e.ToPort
}
