package lint

import (
	"chimera.ai/engine/catalog"
	"chimera.ai/engine/diag"
	"chimera.ai/engine/internal/fields"
	"chimera.ai/engine/internal/syntax"
	"chimera.ai/engine/plan"
)

// Document is one plan of a file. A nil *syntax.Value means that the field is
// absent, or was refused with a diagnostic.
type Document struct {
	At *syntax.Value

	Name, Version, Agent *syntax.Value
	// Currency is the currency of estimates for operations without a price in
	// the catalog.
	Currency      *syntax.Value
	Input, Output *Schema
	Defs          *defs
	Allow         map[plan.EffectClass]bool
	Limits        plan.Limits
	Cycles        *cycles

	// Returns is the short form of edges into $output.
	Returns *syntax.Value
	// Short reports that some short form stands for nodes or edges.
	Short bool

	// Nodes starts with $input and ends with $output, like the compiled plan.
	Nodes []*Node
	Edges []*Edge
	// Index finds the first node of an id; $input and $output are in it.
	Index map[string]int
	// ids are the node ids in file order, for near names.
	ids []string
	// ends are ids and the virtual nodes.
	ends []string
	// In and Out list the indexes of sound edges per node, in file order.
	In, Out [][]int
	// arcs caches graph.
	arcs *digraph
	// Conditional lists the indexes of the conditional edges of each node.
	Conditional map[int][]int
	// Order is a topological order of the nodes over sound edges; nil if there
	// is a cycle that the plan does not allow.
	Order []int
	// Loops are the allowed loops; LoopOf gives each node's loop, or -1.
	Loops  []loop
	LoopOf []int
	// BlockOf is the node whose compensation a node belongs to, or -1.
	BlockOf []int
	// Back marks the back edges of allowed loops.
	Back map[int]bool
	// Broken reports that part of the plan was refused, so that nothing follows
	// from what is absent.
	Broken bool
	// Doubtful holds the nodes that a refused edge or verify was probably meant
	// for.
	Doubtful map[string]bool
}

// doubt marks a node as probably meant by something that was refused.
func (d *Document) doubt(id string) {
	if d.Doubtful == nil {
		d.Doubtful = map[string]bool{}
	}
	d.Doubtful[id] = true
}

// loop is one natural loop.
type loop struct {
	Header, Latch int
	// Back are its back edges, in file order.
	Back []int
}

type cycles struct {
	at            *syntax.Value
	MaxIterations int64
	CarryOn       bool
}

// endNames lists the names that an end of an edge can have.
func (d *Document) endNames() []string {
	if d.ends == nil {
		d.ends = append(append(d.ends, d.ids...), plan.InputNode, plan.OutputNode)
	}
	return d.ends
}

// Node is one step as its author wrote it, completed from its template.
type Node struct {
	Kind plan.Kind
	At   *syntax.Value
	// ID names the node in messages; idAt may be nil.
	ID   string
	idAt *syntax.Value
	// Key is the place that messages show for the whole node.
	Key diag.Range

	ProviderType plan.ProviderType
	Provider     string
	Operation    string
	Mode         plan.Mode
	Effect       plan.EffectClass
	Trust        plan.Trust
	Timeout      int64
	Retry        plan.Retry

	// Places of the fields above; nil where the template gave the value.
	TypeAt, ProviderAt, OperationAt, ModeAt, EffectAt, TrustAt, TimeoutAt, RetryAt *syntax.Value
	TemplateAt                                                                     *syntax.Value
	// FingerprintAt is the fingerprint that the plan pins, or nil.
	FingerprintAt *syntax.Value
	// Template is the operation's entry in the catalog, or nil.
	Template *catalog.Template

	Input, Output *Schema

	// With holds what fills ports by itself; references to other nodes are edges.
	With    *syntax.Value
	Commit  *CommitPolicy
	Cost    *syntax.Value
	ForEach *forEach
	// Description, Priority and resources are for the people who approve.
	Description, Priority string
	Resources             []string

	// AfterAt, WhenAt and OtherwiseAt are the short forms of edges into the node.
	AfterAt, WhenAt, OtherwiseAt *syntax.Value
	// Made reports that a short form stands for the node, Followed that a schema of it follows
	// from the rest of the plan.
	Made, Followed bool

	// meant are the fields that unknown ones were probably meant to be.
	meant []string

	// Sound reports that every required field is present and well formed.
	Sound bool
	// PortsUnknown reports that for_each was refused, so that what the ports
	// carry is not known.
	PortsUnknown bool
	// Undoable reports that a $compensate edge leaves the node, which has an effect.
	Undoable bool
	// Called reports that another node's verify calls this one, which has no
	// place in the graph.
	Called bool
}

// WithPort is one entry of `with`.
func (n *Node) WithPort(port string) *syntax.Value {
	if n.With == nil {
		return nil
	}
	return n.With.Get(port)
}

// Subplan reports whether the node runs another plan.
func (n *Node) Subplan() bool {
	return n.ProviderType == plan.Skill && n.Provider == catalog.PlanProvider
}

// CommitPolicy is the `commit_policy` of a node, as written.
type CommitPolicy struct {
	Approval *syntax.Value
	// FollowUp is what follows while people have not approved, and expires how long they
	// are asked, in milliseconds; 0 is "not given".
	FollowUp  plan.FollowUp
	expires   int64
	Barrier   *syntax.Value
	Prechecks []*syntax.Value
	// Checks are the nodes that prechecks name; -1 where unknown.
	Checks []int
	Verify *Verify
	// Undo is the short form of the node that undoes the effect, or nil.
	Undo *Undo
	// Waived is the reason that rollback gives, or that of the template, why nothing can
	// be verified or undone; "" if there is none.
	Waived string
	// refused reports that part of the policy is malformed, so that it is not
	// known who approves.
	refused bool
}

// Verify is the `verify` of a commit policy, as written.
type Verify struct {
	at *syntax.Value
	// Node names the node that is called; nil where the template says how to verify.
	Node                   *syntax.Value
	With, Executed, Output *syntax.Value
	// Target is the node that is called; 0 where it is unknown.
	Target int
}

// Undo is a `rollback` that names a node, as written.
type Undo struct{ Node, With *syntax.Value }

type forEach struct {
	At   *syntax.Value
	Port *syntax.Value
	// Parallel is 0 where it is not given.
	Parallel, Items int64
}

// Form is the notation of an edge.
type Form int

// The notations: a map of the six fields, the map of an arrow and other fields, the arrow
// alone, and the short forms of nodes and of the plan's output.
const (
	FormLong Form = iota
	FormMap
	FormArrow
	FormAfter
	FormWhen
	FormOtherwise
	FormWith
	FormDefault
	FormGather
	FormOutput
	FormRollback
)

// Edge is one edge of a plan. From and To are -1 where the node is unknown.
type Edge struct {
	At *syntax.Value
	// Form is its notation. Reference is what its author wrote for the source, "" where an
	// edge names both ends.
	Form      Form
	Reference string
	// Alternative reports that other values stand behind this one in an entry with `??`, Hidden
	// that the edge leaves a node that the plan does not name, and Partial that the edge stands
	// for a part of its entry.
	Alternative, Hidden, Partial bool
	// reader is the node for which the target gathers, or "".
	reader string

	From, To int
	// Names as written, and where.
	FromNode, FromPort, ToNode, ToPort         string
	fromNodeAt, FromPortAt, toNodeAt, ToPortAt diag.Range

	Kind     plan.EdgeType
	kindAt   diag.Range
	Required bool
	// RequiredAt is invalid in the short form, which is always required.
	RequiredAt diag.Range
	When       *syntax.Value
	Otherwise  bool
	Transform  *syntax.Value
	Check      *syntax.Value
	// Implicit reports that the edge stands for a precheck of its target; At is
	// the precheck.
	Implicit bool

	// Shaped reports that all six fields are present, Sound that the edge also
	// obeys the rules of its type and that its ports exist.
	Shaped, Sound bool
}

// String returns the edge as diagnostics show it: without the node that the plan does not name, if
// one gathers.
func (e *Edge) String() string {
	from, to := e.FromNode+"."+e.FromPort, e.ToNode+"."+e.ToPort
	if e.Hidden {
		from = nodesName
	}
	if e.reader != "" {
		to = e.reader
	}
	return from + " -> " + to
}

// Source names the source in messages, as the author wrote it.
func (e *Edge) Source() string {
	switch {
	case e.Hidden:
		return "the nodes that it reads"
	case e.Reference != "":
		return fields.Quote(e.Reference)
	}
	return fields.Quote(e.FromNode + "." + e.FromPort)
}

// Carries reports whether the edge fills a port of its target.
func (e *Edge) Carries() bool {
	return e.Kind != plan.Control && e.FromPort != plan.DonePort && e.ToPort != plan.StartPort
}

// Place is the place that messages show for the whole edge: all of it if it is on
// one line, else its first key.
func (e *Edge) Place() diag.Range {
	if r := e.At.Range(); r.Start.Line == r.End.Line {
		return r
	}
	return fields.Head(e.At)
}

// FromRange covers the source end, node and port.
func (e *Edge) FromRange() diag.Range { return join(e.fromNodeAt, e.FromPortAt) }

// ToRange covers the target end, node and port.
func (e *Edge) ToRange() diag.Range { return join(e.toNodeAt, e.ToPortAt) }

// join returns the range of a and b together if they are adjacent on one line, else
// b, or whichever of the two is valid.
func join(a, b diag.Range) diag.Range {
	switch {
	case !b.IsValid():
		return a
	case !a.IsValid() || a.Start.Line != b.Start.Line || a.Start.Byte > b.Start.Byte || b.Start.Byte-a.End.Byte > 1:
		return b
	}
	return diag.Range{File: a.File, Start: a.Start, End: b.End}
}

// Asks reports whether the policy names a group that must approve.
func (c *CommitPolicy) Asks() bool {
	if c.refused {
		return true // which was reported
	}
	if c.Approval == nil {
		return false
	}
	groups := c.Approval.Get("groups")
	return groups != nil && groups.Kind == syntax.List && len(groups.Items) > 0
}

// Repeatable reports whether a call may be made again after any failure: it has
// no lasting effect, or the operation takes an idempotency key.
func (n *Node) Repeatable() bool { return !n.Lasting() || n.KeyPort() != "" }

// KeyPort is the input port at which a run gives each effect its idempotency key, or "".
func (n *Node) KeyPort() string {
	if n.Effect == plan.Pure || n.Template == nil {
		return ""
	}
	return n.Template.IdempotencyPort
}

// Reviewed reports whether people must review each call of the node.
func (n *Node) Reviewed() bool { return n.Trust == plan.ManualReview }

// Lasting reports whether the node's effect persists if its answer is refused.
func (n *Node) Lasting() bool { return n.Effect == plan.Committing || n.Effect == plan.Irreversible }

// EffectRange is the place that messages show for the node's effect class.
func (n *Node) EffectRange() diag.Range {
	if n.EffectAt != nil {
		return n.EffectAt.Range()
	}
	return n.OperationRange()
}

// TrustRange is the place that messages show for the node's trust requirement.
func (n *Node) TrustRange() diag.Range {
	if n.TrustAt != nil {
		return n.TrustAt.Range()
	}
	return n.OperationRange()
}

// Written reports whether the node stands in the file, rather than being made by a short form or
// by a template of the catalog.
func (n *Node) Written() bool { return n.idAt != nil }

// title names the node in messages.
func (n *Node) title() string {
	if n.ID == "" {
		return "the node"
	}
	return fields.Quote(n.ID)
}
