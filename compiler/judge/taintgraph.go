package judge

import (
	"fmt"
	"maps"
	"slices"

	"chimera.ai/engine/catalog"
	"chimera.ai/engine/compiler/typing"
	"chimera.ai/engine/internal/fields"
	"chimera.ai/engine/plan"
)

// Everything is tainted but what is listed here: constants, the plan's input, what
// the engine's own skills, transforms and operations with trusted_output make of
// untainted values, and all outputs of operations that endorse. So the outputs of
// tools and models are tainted, every error payload, and whether a node failed if
// the plan handles its failure.
//
// Taint spreads by values and by decisions. Whether an edge is delivered depends on
// whether its source ran, on its condition, for `otherwise` on the conditions of
// its siblings, and on the presence of a port that the schema does not require.
// That decides whether the target runs and, if the edge is not required, which
// value its port gets. Back edges count like others, so the number of visits is a
// decision. The length of a for_each list taints the lists that come out.

// nodeFlow holds the vertices of one node.
type nodeFlow struct {
	// runs is whether the node runs, in and out are any part of its input and
	// output, and all is what every part of the output depends on.
	runs, in, out, all int32
	// ins and outs are the ports that an edge or `with` names.
	ins, outs map[string]int32
}

// edgeFlow holds the vertices of one edge: the value that it brings, and whether it
// is delivered.
type edgeFlow struct{ value, decided int32 }

// taintGraph is the flow of values and decisions in one plan.
type taintGraph struct {
	flowGraph
	doc   *Document
	nodes []nodeFlow
	edges []edgeFlow
	// first is the first vertex of the edges, which alternate between value and
	// decided.
	first   int32
	sources []int32
	// causes says why a source is tainted.
	causes map[int32]string
	// conditions holds the vertex that stands for all conditions of a node.
	conditions map[int]int32
	// handled marks nodes with an edge from $error.
	handled []bool
	// summary returns what is tainted in a sub-plan by itself.
	summary func(*typing.Node) *Taint
}

// newTaintGraph builds the flow of a plan. input reports that its input is tainted.
func newTaintGraph(doc *Document, input bool, summary func(*typing.Node) *Taint) *taintGraph {
	g := &taintGraph{doc: doc, causes: map[int32]string{}, conditions: map[int]int32{}, handled: make([]bool, len(doc.Nodes)), summary: summary}
	g.nodes = make([]nodeFlow, len(doc.Nodes))
	for i := range g.nodes {
		f := &g.nodes[i]
		f.runs, f.in, f.out, f.all = g.vertex(), g.vertex(), g.vertex(), g.vertex()
		g.arc(f.all, f.out)
	}
	for _, e := range doc.Edges {
		if e.Sound && e.FromPort == plan.ErrorPort {
			g.handled[e.From] = true
		}
	}
	for _, e := range doc.Edges {
		if e.Sound {
			g.outPort(e.From, e.FromPort)
			if e.Carries() {
				g.inPort(e.To, e.ToPort)
			}
		}
	}
	if input {
		g.source(g.nodes[0].all, "the plan's input, to which a calling plan gives what nobody vouches for")
	}
	for i, n := range doc.Nodes {
		if n.Kind == plan.KindCall {
			g.node(i, n)
		}
	}
	g.first = g.count
	g.edges = make([]edgeFlow, len(doc.Edges))
	for i := range doc.Edges {
		g.edges[i] = edgeFlow{g.vertex(), g.vertex()}
	}
	for i, e := range doc.Edges {
		if e.Sound {
			g.edge(i, e)
		}
	}
	g.close()
	return g
}

func (g *taintGraph) source(v int32, cause string) {
	if _, known := g.causes[v]; !known {
		g.causes[v] = cause
		g.sources = append(g.sources, v)
	}
}

// inPort is the vertex of an input port; it is part of the whole input.
func (g *taintGraph) inPort(n int, port string) int32 {
	f := &g.nodes[n]
	if v, ok := f.ins[port]; ok {
		return v
	}
	if f.ins == nil {
		f.ins = map[string]int32{}
	}
	v := g.vertex()
	f.ins[port] = v
	g.arc(v, f.in)
	return v
}

// outPort is the vertex of an output port; `$` is the whole output.
func (g *taintGraph) outPort(n int, port string) int32 {
	f := &g.nodes[n]
	switch port {
	case plan.WholePort, plan.DonePort, plan.ErrorPort, plan.CompensatePort:
		return f.out
	}
	if v, ok := f.outs[port]; ok {
		return v
	}
	if f.outs == nil {
		f.outs = map[string]int32{}
	}
	v := g.vertex()
	f.outs[port] = v
	g.arc(f.all, v)
	g.arc(v, f.out)
	return v
}

// node adds how the output of a node depends on its input.
func (g *taintGraph) node(i int, n *typing.Node) {
	f := &g.nodes[i]
	if n.With != nil {
		// Constants are not tainted; an entry that did not compile may read anything.
		failed := len(n.Fills) < len(n.With.Fields)
		for _, fill := range n.Fills {
			v := g.inPort(i, fill.Port)
			if fill.Template.Reads("input") {
				g.arc(g.nodes[0].out, v)
			}
		}
		if failed {
			g.arc(g.nodes[0].out, f.in)
		}
	}
	if n.ForEach != nil && n.ForEach.Port != nil {
		g.arc(g.inPort(i, n.ForEach.Port.Text), f.all)
	}
	if n.Verify != nil {
		g.verify(i, n.Verify)
	}
	switch {
	case n.Subplan():
		s := g.summary(n)
		if s == nil {
			g.source(f.all, fmt.Sprintf("what the plan that %s calls returns", fields.Quote(n.ID)))
			return
		}
		g.arc(f.in, f.all)
		g.arc(f.runs, f.all)
		for _, port := range slices.Sorted(maps.Keys(f.outs)) {
			if s.port(port) {
				g.source(f.outs[port], fmt.Sprintf("the port %s of the plan that %s calls", fields.Quote(port), fields.Quote(n.ID)))
			}
		}
		if s.output {
			g.source(f.out, fmt.Sprintf("what the plan that %s calls returns", fields.Quote(n.ID)))
		}
	case n.Mode == plan.Prob && (n.Template == nil || n.Template.Mode != plan.Prob):
		// The operator vouches for an operation that always gives the same answer.
		g.source(f.all, fmt.Sprintf("what %s returns, which is prob", fields.Quote(n.ID)))
	case n.Provider == catalog.EngineProvider && n.Template != nil:
		// What these do is known: their output is as tainted as their input, whatever the
		// catalog says.
		if n.Operation != passOperation {
			g.arc(f.in, f.all)
			return
		}
		// Its output is its input, port by port.
		for _, port := range slices.Sorted(maps.Keys(f.ins)) {
			v := f.ins[port]
			if port == plan.WholePort {
				g.arc(v, f.all)
				continue
			}
			if out, ok := f.outs[port]; ok {
				g.arc(v, out)
			} else {
				g.arc(v, f.out)
			}
		}
	case n.Template != nil && n.Template.Endorses:
	case n.Template != nil && n.Template.TrustedOutput:
		g.arc(f.in, f.all)
	case n.Mode == plan.Prob:
		g.source(f.all, fmt.Sprintf("what %s returns, which is prob", fields.Quote(n.ID)))
	default:
		g.source(f.all, fmt.Sprintf("what %s returns, since its template has no `trusted_output`", fields.Quote(n.ID)))
	}
}

// passOperation is the skill whose output is its input.
const passOperation = "pass"

// verify adds the flow through the node that verifies an effect: it is called with
// the effect's arguments, and may supply what the effect returned.
func (g *taintGraph) verify(i int, v *typing.Verify) {
	to := v.Target
	if to == 0 {
		return
	}
	if v.With != nil {
		// What did not compile may read anything.
		if v.Args == nil || v.Args.Reads("args") {
			g.arc(g.nodes[i].in, g.nodes[to].in)
		}
		if v.Args == nil || v.Args.Reads("output") {
			g.arc(g.nodes[i].out, g.nodes[to].in)
		}
		if v.Args == nil || v.Args.Reads("error") {
			g.source(g.nodes[to].in, fmt.Sprintf("the error of %s", fields.Quote(g.doc.Nodes[i].ID)))
		}
		if v.Args == nil || v.Args.Reads("input") {
			g.arc(g.nodes[0].out, g.nodes[to].in)
		}
	}
	if v.Output != nil {
		g.arc(g.nodes[to].out, g.nodes[i].all)
	}
}

func (g *taintGraph) failure(n int) string {
	return fmt.Sprintf("whether %s fails, which its `$error` edge handles", fields.Quote(g.doc.Nodes[n].ID))
}

// edge adds what an edge brings and what it decides.
func (g *taintGraph) edge(i int, e *typing.Edge) {
	f := g.edges[i]
	from, to := &g.nodes[e.From], &g.nodes[e.To]
	g.arc(f.decided, to.runs)
	if e.Carries() {
		port := g.nodes[e.To].ins[e.ToPort]
		g.arc(f.value, port)
		if !e.Required {
			g.arc(f.decided, port)
		}
	}
	reads := func(name string) bool {
		switch {
		case e.Template != nil:
			return e.Template.Reads(name)
		case e.Transform == nil:
			return name == "value"
		}
		return true
	}
	if reads("input") {
		g.arc(g.nodes[0].out, f.value)
	}
	switch {
	case e.FromPort == plan.CompensatePort:
		g.compensation(i, e, reads)
		return
	case e.Kind == plan.Error:
		g.source(f.decided, fmt.Sprintf("whether %s fails, and how", fields.Quote(e.FromNode)))
		g.arc(from.runs, f.decided)
		if reads("value") || reads("error") {
			g.source(f.value, fmt.Sprintf("the error of %s", fields.Quote(e.FromNode)))
		}
		return
	}
	g.arc(from.runs, f.decided)
	if g.handled[e.From] {
		g.source(f.decided, g.failure(e.From))
	}
	g.presence(e, f.decided)
	if e.Carries() {
		if reads("value") {
			g.arc(g.outPort(e.From, e.FromPort), f.value)
		}
		if reads("output") {
			g.arc(from.out, f.value)
		}
	}
	if e.Kind != plan.Conditional {
		return
	}
	if !e.Otherwise {
		g.condition(e, f.decided)
		return
	}
	g.arc(g.otherwise(e.From), f.decided)
}

// otherwise returns the vertex that stands for all conditions of a node, so that
// each `otherwise` edge needs one arc.
func (g *taintGraph) otherwise(n int) int32 {
	if v, ok := g.conditions[n]; ok {
		return v
	}
	v := g.vertex()
	g.conditions[n] = v
	for _, x := range g.doc.Siblings[n] {
		if !x.Otherwise {
			g.presence(x, v)
			g.condition(x, v)
		}
	}
	return v
}

// presence adds that the value of a port that may be absent decides whether it is.
func (g *taintGraph) presence(e *typing.Edge, v int32) {
	out := g.doc.Nodes[e.From].Output
	if e.FromPort != plan.DonePort && (out == nil || !out.Ports().Certain(e.FromPort)) {
		g.arc(g.outPort(e.From, e.FromPort), v)
	}
}

// condition adds that what a `when` reads decides, or else the value itself.
func (g *taintGraph) condition(e *typing.Edge, v int32) {
	reads := func(name string) bool { return e.Predicate == nil || e.Predicate.Reads(name) }
	if e.When == nil || reads("value") {
		g.arc(g.outPort(e.From, e.FromPort), v)
	}
	if e.When == nil {
		return
	}
	if reads("output") {
		g.arc(g.nodes[e.From].out, v)
	}
	if reads("input") {
		g.arc(g.nodes[0].out, v)
	}
}

// compensation adds the flow of a compensation. An approval vouches for an effect
// and for undoing it, if that depends on nothing but the effect's arguments and
// output. The failure of the run is not a decision of the plan.
func (g *taintGraph) compensation(i int, e *typing.Edge, reads func(string) bool) {
	f := g.edges[i]
	from := &g.nodes[e.From]
	if g.doc.approved(g.doc.Nodes[e.From]) && !reads("error") && !reads("input") {
		return
	}
	g.arc(from.runs, f.decided)
	if reads("args") {
		g.arc(from.in, f.value)
	}
	if reads("output") {
		g.arc(from.out, f.value)
	}
	if reads("error") || reads("value") {
		g.source(f.value, fmt.Sprintf("the error of %s", fields.Quote(e.FromNode)))
	}
}

// port reports whether a port of the plan's output is tainted.
func (r *Taint) port(name string) bool {
	out := &r.g.nodes[len(r.g.nodes)-1]
	whole, ok := out.ins[plan.WholePort]
	if v, named := out.ins[name]; named && r.came[v] >= 0 {
		return true
	}
	return ok && r.came[whole] >= 0
}

// flowGraph says which facts of a run depend on which. A vertex is the value of a
// port, whether a node runs, or what an edge brings or decides. Its size is linear
// in the nodes, ports and edges of the plan.
type flowGraph struct {
	arcs []flowArc
	// next[starts[v]:starts[v+1]] are the successors of v, once closed.
	starts []int32
	next   []int32
	count  int32
}

type flowArc struct{ from, to int32 }

func (g *flowGraph) vertex() int32 {
	g.count++
	return g.count - 1
}

func (g *flowGraph) arc(from, to int32) { g.arcs = append(g.arcs, flowArc{from, to}) }

// close sorts the arcs by source, stably.
func (g *flowGraph) close() {
	g.starts = make([]int32, g.count+1)
	for _, a := range g.arcs {
		g.starts[a.from+1]++
	}
	for v := range g.count {
		g.starts[v+1] += g.starts[v]
	}
	g.next = make([]int32, len(g.arcs))
	at := append([]int32(nil), g.starts...)
	for _, a := range g.arcs {
		g.next[at[a.from]] = a.to
		at[a.from]++
	}
	g.arcs = nil
}

// reach returns for every vertex its predecessor on a shortest path from a source:
// itself for a source, -1 for a vertex that no source reaches.
func (g *flowGraph) reach(sources []int32) []int32 {
	came := make([]int32, g.count)
	for v := range came {
		came[v] = -1
	}
	queue := make([]int32, 0, len(sources))
	for _, v := range sources {
		if came[v] < 0 {
			came[v] = v
			queue = append(queue, v)
		}
	}
	for head := 0; head < len(queue); head++ {
		v := queue[head]
		for _, to := range g.next[g.starts[v]:g.starts[v+1]] {
			if came[to] < 0 {
				came[to] = v
				queue = append(queue, to)
			}
		}
	}
	return came
}
