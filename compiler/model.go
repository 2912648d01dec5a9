package compiler

import (
	"chimera.ai/engine/catalog"
	"chimera.ai/engine/diag"
	"chimera.ai/engine/internal/fields"
	"chimera.ai/engine/internal/syntax"
	"chimera.ai/engine/plan"
)

// document is one plan of a file as far as it was understood. A nil
// *syntax.Value means that the field is absent or was refused; every refusal
// has its diagnostic already.
type document struct {
	at *syntax.Value

	name, version, agent *syntax.Value
	// currency is that of estimates of operations that the catalog does not price.
	currency      *syntax.Value
	input, output *contractSchema
	defs          *defs
	allow         map[plan.EffectClass]bool
	limits        plan.Limits
	cycles        *cycles

	// nodes starts with $input and ends with $output, like the compiled plan.
	nodes []*node
	edges []*edge
	// index finds the first node of an id; $input and $output are in it.
	index map[string]int
	// ids are the node ids in file order, for near names.
	ids []string
	// ends are ids and the virtual nodes.
	ends []string
	// in and out list the indexes of sound edges per node, in file order.
	in, out [][]int
	// arcs is the graph of order, built once.
	arcs *digraph
	// conditional lists the indexes of the conditional edges of each node.
	conditional map[int][]int
	// order is a topological order of the nodes over sound edges; nil if there
	// is a cycle that the plan does not allow.
	order []int
	// loops are the allowed loops; loopOf gives each node's loop, or -1.
	loops  []loop
	loopOf []int
	// blockOf is the node whose compensation a node belongs to, or -1.
	blockOf []int
	// back marks the back edges of allowed loops.
	back map[int]bool
	// broken: something in the graph was refused, so that what is absent from
	// it proves nothing.
	broken bool
	// doubtful are the nodes that a refused edge or verify was probably meant for.
	doubtful map[string]bool
}

// doubt notes that something that was refused was probably meant for a node.
func (d *document) doubt(id string) {
	if d.doubtful == nil {
		d.doubtful = map[string]bool{}
	}
	d.doubtful[id] = true
}

// loop is one natural loop.
type loop struct {
	header, latch int
	// back are its back edges, in file order.
	back []int
}

type cycles struct {
	at            *syntax.Value
	maxIterations int64
	carryOn       bool
}

// endNames lists everything that an edge can name, for near names.
func (d *document) endNames() []string {
	if d.ends == nil {
		d.ends = append(append(d.ends, d.ids...), plan.InputNode, plan.OutputNode)
	}
	return d.ends
}

// node is one step as its author wrote it, completed from its template.
type node struct {
	kind plan.Kind
	at   *syntax.Value
	// id is what messages call the node; idAt may be nil.
	id   string
	idAt *syntax.Value
	// key is the token that stands for the whole node in messages.
	key diag.Range

	providerType plan.ProviderType
	provider     string
	operation    string
	mode         plan.Mode
	effect       plan.EffectClass
	trust        plan.Trust
	timeout      int64
	retry        plan.Retry

	// Places of the fields above; nil where the template gave the value.
	typeAt, providerAt, operationAt, modeAt, effectAt, trustAt, timeoutAt, retryAt *syntax.Value
	templateAt                                                                     *syntax.Value
	// fingerprintAt is what the plan's author saw of the operation, or nil.
	fingerprintAt *syntax.Value
	// template is what the catalog says of the operation, or nil.
	template *catalog.Template

	input, output *contractSchema

	with    *syntax.Value
	commit  *commitPolicy
	cost    *syntax.Value
	forEach *forEach
	// description, priority and resources are for the people who approve.
	description, priority string
	resources             []string

	// meant are the fields that unknown ones were probably meant to be.
	meant []string

	// sound: every required field is there and well formed.
	sound bool
	// torn: for_each was refused, so what its ports carry is not known.
	torn bool
	// called: another node's verify calls it, so it has no place in the graph.
	called bool
}

// withPort is one entry of `with`.
func (n *node) withPort(port string) *syntax.Value {
	if n.with == nil {
		return nil
	}
	return n.with.Get(port)
}

// subplan reports whether the node runs another plan.
func (n *node) subplan() bool {
	return n.providerType == plan.Skill && n.provider == catalog.PlanProvider
}

type commitPolicy struct {
	at        *syntax.Value
	approval  *syntax.Value
	barrier   *syntax.Value
	prechecks []*syntax.Value
	// checks are the nodes that prechecks name; -1 where unknown.
	checks   []int
	verify   *verify
	rollback *syntax.Value
	// waived: rollback is {none: reason}.
	waived bool
	// refused: something in it is not well formed, so who approves is not known.
	refused bool
}

type verify struct {
	at                     *syntax.Value
	node                   *syntax.Value
	with, executed, output *syntax.Value
	// target is the node that is called.
	target int
}

type forEach struct {
	at   *syntax.Value
	port *syntax.Value
	// parallel is 0 where it is not given.
	parallel, items int64
}

// edge is one arrow. from and to are -1 where the node is unknown.
type edge struct {
	at       *syntax.Value
	from, to int
	// Names as written, and where.
	fromNode, fromPort, toNode, toPort         string
	fromNodeAt, fromPortAt, toNodeAt, toPortAt diag.Range

	kind     plan.EdgeType
	kindAt   diag.Range
	required bool
	// requiredAt is invalid in the short form, which is always required.
	requiredAt diag.Range
	when       *syntax.Value
	otherwise  bool
	transform  *syntax.Value
	check      *syntax.Value
	// implicit: a precheck of the target makes the edge, and at is its place there.
	implicit bool

	// shaped: all six fields are there. sound: it also obeys the rules of its
	// type between ports that exist.
	shaped, sound bool
}

// String writes the edge as diagnostics do.
func (e *edge) String() string {
	return e.fromNode + "." + e.fromPort + " -> " + e.toNode + "." + e.toPort
}

// carries reports whether the edge fills a port of its target.
func (e *edge) carries() bool {
	return e.kind != plan.Control && e.fromPort != plan.DonePort && e.toPort != plan.StartPort
}

// place is what stands for the whole edge in messages: all of it if it is on
// one line, else its first key.
func (e *edge) place() diag.Range {
	if r := e.at.Range(); r.Start.Line == r.End.Line {
		return r
	}
	return fields.Head(e.at)
}

// fromRange covers the source end, node and port.
func (e *edge) fromRange() diag.Range { return join(e.fromNodeAt, e.fromPortAt) }

// toRange covers the target end, node and port.
func (e *edge) toRange() diag.Range { return join(e.toNodeAt, e.toPortAt) }

// join covers a and b where they stand next to each other on one line, else
// gives b, or whichever of the two is valid.
func join(a, b diag.Range) diag.Range {
	switch {
	case !b.IsValid():
		return a
	case !a.IsValid() || a.Start.Line != b.Start.Line || a.Start.Byte > b.Start.Byte || b.Start.Byte-a.End.Byte > 1:
		return b
	}
	return diag.Range{File: a.File, Start: a.Start, End: b.End}
}
