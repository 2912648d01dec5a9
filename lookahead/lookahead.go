package lookahead

import (
	"slices"

	"chimera.ai/engine/plan"
	"chimera.ai/engine/schemas"
)

// Outlook is what is known of a run before it starts.
type Outlook struct {
	// Calls are the effects that the run may have, in an order in which it can have them.
	Calls []Call
	// Left are the ids of the nodes with effects that the run does not reach, in the order of the plan.
	Left []string
	// Undoing are the ids of the nodes with effects that undo others, which are not followed.
	Undoing []string
	// Faults are the nodes that would fail for sure, and not by their calls.
	Faults []Fault
}

// Fault says why a node would fail: its input, or a condition behind it, cannot be evaluated, or does not
// fit its schema.
type Fault struct{ Node, Message string }

// Call is one effect that a run may have.
type Call struct {
	// Node is the node's place in the plan.
	Node int
	// Depends lists the edges on which it depends that the call is made, or with which arguments, and
	// of which it is not known whether they are delivered: "from.port -> to.port". Without them the call
	// is made if those before it succeed. It has at most [MaxListed].
	Depends []string
	// Args is the input of the call, decoded JSON, if Gaps is empty.
	Args any
	// Gaps are what the arguments depend on and is not known, sorted; at most [MaxListed].
	Gaps []Gap
	// Problem says why the call would fail before it is made, or is "": an expression fails, or its
	// arguments do not fit the schema.
	Problem string
}

// MaxListed bounds what is listed of one call.
const MaxListed = 20

// Known reports whether the arguments of the call are known.
func (c *Call) Known() bool { return len(c.Gaps) == 0 && c.Problem == "" }

// Gap is something that is not known before a run.
type Gap struct {
	// Node is the id of the node that returns it, or that fails.
	Node string
	// Port is that of the node's output, or "" for the whole.
	Port string
	// Failed: it is how the node fails, which nobody can assume.
	Failed bool
}

// String is the name under which it can be assumed: "read" or "read.text"; or "read.$error".
func (g Gap) String() string {
	switch {
	case g.Failed:
		return g.Node + "." + plan.ErrorPort
	case g.Port == "":
		return g.Node
	}
	return g.Node + "." + g.Port
}

// Evaluate returns what a built-in node returns for an input, decoded JSON. It reports false for one
// whose output is not known without a call.
type Evaluate func(n *plan.Node, input any) (output any, known bool, err error)

// Follow follows a plan from an input, which must fit its schema. The plan must be one that the engine
// runs: without loops, for_each and sub-plans.
func Follow(p *plan.Plan, input any, assumed Assumed, evaluate Evaluate) *Outlook {
	f := &follower{
		plan: p, assumed: assumed, evaluate: evaluate, input: input,
		nodes: make([]outcome, len(p.Nodes)), edges: make([]edge, len(p.Edges)), schemas: map[int]*schemas.Schema{},
	}
	out := new(Outlook)
	for _, i := range f.order() {
		if c := f.node(i); c != nil {
			out.Calls = append(out.Calls, *c)
		}
		if fault := f.nodes[i].fault; fault != "" {
			out.Faults = append(out.Faults, Fault{p.Nodes[i].ID, fault})
		}
	}
	for i := range p.Nodes {
		switch n := &p.Nodes[i]; {
		case !n.Effect.Acts() || n.Called:
		case n.Undoes != 0:
			out.Undoing = append(out.Undoing, n.ID)
		case f.nodes[i].runs == no:
			out.Left = append(out.Left, n.ID)
		}
	}
	return out
}

// follower evaluates a plan, node by node.
type follower struct {
	plan     *plan.Plan
	assumed  Assumed
	evaluate Evaluate
	input    any
	nodes    []outcome
	edges    []edge
	// schemas are those of the plan that were needed, compiled; nil if one cannot be.
	schemas map[int]*schemas.Schema
}

// answer is a truth value of which nothing may be known.
type answer byte

const (
	no answer = iota
	maybe
	yes
)

// value is a value that may be unknown; then gaps says what it takes.
type value struct {
	v    any
	gaps []Gap
}

func (v value) known() bool { return len(v.gaps) == 0 }

// outcome is what is known of a node.
type outcome struct {
	runs, fails answer
	// depends are the edges on which it depends that the node runs, and doubts what is not known of them.
	depends []string
	doubts  []Gap
	whole   value
	// ports are the ports of the output that are known although the whole is not.
	ports map[string]any
	// in is the input of a node that returns it.
	in    *input
	fault string
}

// edge is what is known of an edge: whether it is delivered if its source runs, and with which value.
type edge struct {
	held answer
	// gaps are what that depends on, where it is not known.
	gaps []Gap
	// fault says why its condition cannot be evaluated.
	fault string
}

// order lists the nodes that are followed, each behind those that it depends on.
func (f *follower) order() []int {
	p := f.plan
	open := make([]int, len(p.Nodes))
	for i := range p.Edges {
		open[p.Edges[i].To]++
	}
	var queue, order []int
	followed := func(i int) bool {
		return p.Nodes[i].Undoes == 0 && !p.Nodes[i].Called && p.Nodes[i].Kind != plan.KindOutput
	}
	for i := range p.Nodes {
		if open[i] == 0 && followed(i) {
			queue = append(queue, i)
		}
	}
	for len(queue) > 0 {
		i := queue[0]
		queue = queue[1:]
		order = append(order, i)
		for _, e := range p.Out(i) {
			to := p.Edges[e].To
			if open[to]--; open[to] == 0 && followed(to) {
				queue = append(queue, to)
			}
		}
	}
	return order
}

// node follows a node whose edges have been, and returns its call if it has an effect and may run.
func (f *follower) node(i int) *Call {
	n, out := &f.plan.Nodes[i], &f.nodes[i]
	if f.runs(i); out.runs == no {
		return nil
	}
	if n.Kind == plan.KindInput {
		out.whole = value{v: f.input}
		f.route(i)
		return nil
	}
	in := f.assemble(i)
	out.fault = in.fault
	if out.fault == "" && in.whole.known() {
		out.fault = f.misfit(n.InputSchema, in.whole.v, "the input")
	}
	c := &Call{Node: i, Depends: listed(slices.Concat(out.depends, in.depends)), Problem: out.fault}
	if out.fault == "" {
		c.Args, c.Gaps = in.whole.v, in.whole.gaps
	}
	f.output(i, in)
	f.route(i)
	if !n.Effect.Acts() {
		return nil
	}
	return c
}

// runs finds out whether a node runs, by the rules of [plan.Progress], and on which edges that depends.
func (f *follower) runs(i int) {
	out, in := &f.nodes[i], f.plan.In(i)
	runs, delivered := f.filled(i), no
	if len(in) == 0 {
		delivered = yes
	}
	for _, e := range in {
		at := f.delivered(e)
		delivered = max(delivered, at)
		if f.plan.Edges[e].Required {
			runs = min(runs, at)
		}
	}
	if out.runs = min(runs, delivered); out.runs != maybe {
		return
	}
	for _, e := range in {
		if f.delivered(e) == maybe {
			out.depends = listed(append(out.depends, f.depends(e)...))
			out.doubts = sorted(append(out.doubts, f.doubts(e)...))
		}
	}
}

// delivered says whether an edge is.
func (f *follower) delivered(e int) answer {
	return min(f.nodes[f.plan.Edges[e].From].runs, f.edges[e].held)
}

// depends are the edges on which it depends that one is delivered.
func (f *follower) depends(e int) []string {
	all := f.nodes[f.plan.Edges[e].From].depends
	if f.edges[e].held == maybe {
		all = append(slices.Clone(all), f.plan.EdgeString(e))
	}
	return all
}

// doubts is what is not known and on which it depends that an edge is delivered. It is not empty where
// that is not known.
func (f *follower) doubts(e int) []Gap {
	from := f.plan.Edges[e].From
	all := slices.Concat(f.nodes[from].doubts, f.edges[e].gaps)
	if len(all) == 0 {
		all = []Gap{{Node: f.plan.Nodes[from].ID}}
	}
	return all
}

// filled says whether every port that a node requires has a value.
func (f *follower) filled(i int) answer {
	n := &f.plan.Nodes[i]
	ports := map[string]answer{}
	for _, w := range n.With {
		ports[w.Port] = yes
	}
	for _, e := range f.plan.In(i) {
		if edge := &f.plan.Edges[e]; edge.Carries() {
			ports[edge.ToPort] = max(ports[edge.ToPort], f.delivered(e))
		}
	}
	all := yes
	for _, port := range n.RequiredPorts {
		all = min(all, max(ports[port], ports[plan.WholePort]))
	}
	return all
}

// output finds out what a node returns, and whether it fails.
func (f *follower) output(i int, in *input) {
	n, out := &f.plan.Nodes[i], &f.nodes[i]
	out.fails, out.whole, out.in = maybe, value{gaps: []Gap{{Node: n.ID}}}, in
	if a, ok := f.assumed[n.ID]; ok {
		out.fails, out.ports = no, a.ports
		if a.whole {
			out.whole = value{v: a.value}
		}
		return
	}
	switch {
	case out.fault != "":
		out.fails = yes
	case n.ProviderType != plan.Skill || !n.InProcess:
	case in.whole.known():
		v, known, err := f.evaluate(n, in.whole.v)
		if err == nil && known {
			out.fault = f.misfit(n.OutputSchema, v, "the output")
		}
		switch {
		case err != nil, out.fault != "":
			out.fails = yes
		case known:
			out.fails, out.whole = no, value{v: v}
		}
	case n.Activity() == passing:
		out.whole, out.ports = value{gaps: in.whole.gaps}, in.ports
	}
}

// passing is the operation that returns its input.
const passing = "engine/pass"
