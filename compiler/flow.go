package compiler

import (
	"fmt"
	"slices"

	"chimera.ai/engine/internal/fields"

	"chimera.ai/engine/diag"
	"chimera.ai/engine/plan"
)

// condition is what an atom stands for.
type condition struct {
	// yes and no complete a sentence that lists the facts of an example.
	yes, no string
	// failing is the node whose failure the atom is, else -1.
	failing int
	// merged: the atom replaces a formula of too many atoms.
	merged bool
}

// flow is what can run: for every node a formula over the conditions of the
// plan, under the run rule of the package comment.
type flow struct {
	doc *typedDocument
	// has reports whether every output of a node has a port.
	has func(n *typedNode, port string) bool
	*logic
	conditions []condition
	// runs is by node, in the order of the plan. The others are made when they
	// are needed: delivers by edge, succeeded by node, others ("no condition of
	// the node holds") for nodes with an otherwise edge.
	runs      []formula
	delivers  []formula
	known     []bool
	succeeded map[int]formula
	others    map[int]formula
	// fails, undone, whens and presence find the atoms.
	fails, undone map[int]formula
	whens         map[whenKey]formula
	presence      map[portKey]formula
}

type whenKey struct {
	node       int
	port, when string
}

type portKey struct {
	node int
	port string
}

func newFlow(doc *typedDocument, has func(n *typedNode, port string) bool) *flow {
	f := &flow{
		doc: doc, has: has, logic: newLogic(len(doc.nodes) + len(doc.edges)),
		runs: make([]formula, len(doc.nodes)), delivers: make([]formula, len(doc.edges)), known: make([]bool, len(doc.edges)),
		succeeded: map[int]formula{}, others: map[int]formula{},
		fails: map[int]formula{}, undone: map[int]formula{}, whens: map[whenKey]formula{}, presence: map[portKey]formula{},
	}
	for _, i := range doc.order {
		f.runs[i] = f.orMerged(f.running(i), func() condition {
			return condition{yes: fmt.Sprintf("%s runs", fields.Quote(doc.nodes[i].id)), no: fmt.Sprintf("%s does not run", fields.Quote(doc.nodes[i].id)), failing: -1}
		})
	}
	return f
}

func (f *flow) condition(c condition) formula {
	a := f.atom()
	f.conditions = append(f.conditions, c)
	return a
}

// orMerged replaces an unclear formula by an atom of its own, which can only
// make more seem possible.
func (f *flow) orMerged(x formula, c func() condition) formula {
	if x != unclear {
		return x
	}
	made := c()
	made.merged = true
	return f.condition(made)
}

// running is the run rule for one node.
func (f *flow) running(i int) formula {
	n := f.doc.nodes[i]
	runs, anyRequired := always, false
	for _, at := range f.doc.in[i] {
		if e := f.doc.edges[at]; e.required && !f.doc.back[at] {
			anyRequired = true
			runs = f.and(runs, f.delivered(at))
		}
	}
	if n.kind == plan.KindCall && !anyRequired && len(f.doc.in[i]) > 0 {
		some := never
		for _, at := range f.doc.in[i] {
			if some == always {
				break
			}
			if !f.doc.back[at] {
				some = f.or(some, f.delivered(at))
			}
		}
		runs = f.and(runs, some)
	}
	// What $output lacks is an error of its own (certain), not a reason to skip it.
	if n.kind == plan.KindCall && n.input != nil {
		for _, p := range f.doc.needs(i) {
			runs = f.and(runs, f.filled(i, p))
		}
	}
	return runs
}

// needs lists the ports without which a node does not run: `$` if anything is
// sent there, else the ports that its schema requires.
func (d *typedDocument) needs(i int) []string {
	n := d.nodes[i]
	if n.input == nil {
		return nil
	}
	if n.withPort(plan.WholePort) != nil {
		return []string{plan.WholePort}
	}
	for _, at := range d.in[i] {
		if e := d.edges[at]; e.carries() && e.toPort == plan.WholePort {
			return []string{plan.WholePort}
		}
	}
	ports := n.input.Ports()
	if ports.Never {
		return []string{plan.WholePort}
	}
	return ports.Required()
}

// filled says when a port has a value. A port that nothing fills is reported
// elsewhere, and counts as filled here.
func (f *flow) filled(i int, port string) formula {
	if f.doc.nodes[i].withPort(port) != nil {
		return always
	}
	value, sources := never, 0
	for _, at := range f.doc.in[i] {
		e := f.doc.edges[at]
		if !e.carries() || e.toPort != port {
			continue
		}
		sources++
		if e.required && f.doc.nodes[i].kind == plan.KindCall {
			// The node does not run without this edge anyway.
			return always
		}
		if !f.doc.back[at] {
			value = f.or(value, f.delivered(at))
		}
	}
	if sources == 0 {
		return always
	}
	return value
}

// delivered says when an edge is delivered.
func (f *flow) delivered(at int) formula {
	if !f.known[at] {
		f.delivers[at] = f.delivery(at)
		f.known[at] = true
	}
	return f.delivers[at]
}

func (f *flow) delivery(at int) formula {
	e := f.doc.edges[at]
	switch {
	case e.fromPort == plan.CompensatePort:
		a, ok := f.undone[e.from]
		if !ok {
			a = f.condition(condition{yes: fmt.Sprintf("%s is undone", fields.Quote(e.fromNode)), no: fmt.Sprintf("%s is not undone", fields.Quote(e.fromNode)), failing: -1})
			f.undone[e.from] = a
		}
		return a
	case e.kind == plan.Error:
		d := f.and(f.runs[e.from], f.failing(e.from))
		if e.when != nil {
			d = f.and(d, f.holds(e))
		}
		return d
	}
	d := f.succeeds(e.from)
	switch {
	case e.otherwise:
		d = f.and(f.and(d, f.present(e)), f.elsewise(e.from))
	case e.kind == plan.Conditional:
		d = f.and(f.and(d, f.present(e)), f.holds(e))
	case e.kind == plan.Data:
		d = f.and(d, f.present(e))
	}
	return d
}

// succeeds: a node without error edges that fails ends the run, so nothing of
// that case needs to be decided.
func (f *flow) succeeds(i int) formula {
	s, ok := f.succeeded[i]
	if !ok {
		s = f.runs[i]
		for _, at := range f.doc.out[i] {
			if f.doc.edges[at].fromPort == plan.ErrorPort {
				s = f.and(s, f.not(f.failing(i)))
				break
			}
		}
		f.succeeded[i] = s
	}
	return s
}

func (f *flow) failing(i int) formula {
	a, ok := f.fails[i]
	if !ok {
		id := fields.Quote(f.doc.nodes[i].id)
		a = f.condition(condition{yes: id + " fails", no: id + " does not fail", failing: i})
		f.fails[i] = a
	}
	return a
}

// holds is the condition of an edge: one atom for all edges of a node that ask
// the same of the same port.
func (f *flow) holds(e *typedEdge) formula {
	key := whenKey{e.from, e.fromPort, ""}
	what := fmt.Sprintf("the value of %s.%s", e.fromNode, e.fromPort)
	if e.when != nil {
		key.when = e.when.Text
		what = fmt.Sprintf("%s of %s", fields.Quote(e.when.Text), e.String())
	}
	a, ok := f.whens[key]
	if !ok {
		c := condition{yes: what + " holds", no: what + " does not hold", failing: -1}
		if e.when == nil {
			c.yes, c.no = what+" is true", what+" is false"
		}
		a = f.condition(c)
		f.whens[key] = a
	}
	return a
}

// elsewise: no conditional edge of the node holds.
func (f *flow) elsewise(i int) formula {
	if made, ok := f.others[i]; ok {
		return made
	}
	some := never
	for _, e := range f.doc.siblings[i] {
		if !e.otherwise {
			some = f.or(some, f.and(f.present(e), f.holds(e)))
		}
	}
	f.others[i] = f.orMerged(f.not(some), func() condition {
		id := fields.Quote(f.doc.nodes[i].id)
		return condition{yes: "no condition of " + id + " holds", no: "a condition of " + id + " holds", failing: -1}
	})
	return f.others[i]
}

// present says when the source's port has a value. An edge that must be
// delivered and may not be has an error of its own, and counts as present here.
func (f *flow) present(e *typedEdge) formula {
	if e.required || e.fromPort == plan.DonePort || f.has(f.doc.nodes[e.from], e.fromPort) {
		return always
	}
	key := portKey{e.from, e.fromPort}
	a, ok := f.presence[key]
	if !ok {
		name := e.fromNode + "." + e.fromPort
		a = f.condition(condition{yes: name + " is present", no: name + " is absent", failing: -1})
		f.presence[key] = a
	}
	return a
}

// handled: a target of one of the node's delivered error edges runs.
func (f *flow) handled(i int) formula {
	some := never
	for _, at := range f.doc.out[i] {
		if e := f.doc.edges[at]; e.fromPort == plan.ErrorPort {
			target := always
			if f.doc.nodes[e.to].kind == plan.KindCall {
				target = f.runs[e.to]
			}
			some = f.or(some, f.and(f.delivered(at), target))
		}
	}
	return some
}

// verdict is whether something holds in every run that does not fail.
type verdict int

const (
	certain verdict = iota
	uncertain
	tooMany
)

// certainly decides whether goal holds whenever all failures are handled. For
// uncertain it lists the facts of a counterexample.
func (f *flow) certainly(goal formula) (verdict, []string) {
	assume, done := always, map[int]bool{}
	for grown := true; grown; {
		grown = false
		if goal == unclear || assume == unclear {
			return tooMany, nil
		}
		for _, part := range [2]formula{goal, assume} {
			for _, a := range f.support[part] {
				i := f.conditions[a].failing
				if i < 0 || done[i] {
					continue
				}
				done[i], grown = true, true
				assume = f.and(assume, f.implies(f.and(f.runs[i], f.failing(i)), f.handled(i)))
				if assume == unclear {
					return tooMany, nil
				}
			}
		}
	}
	bad := f.and(assume, f.not(goal))
	if bad == never {
		return certain, nil
	}
	if bad == unclear {
		return tooMany, nil
	}
	for _, a := range f.support[bad] {
		if f.conditions[a].merged {
			return tooMany, nil
		}
	}
	atoms, values := f.example(bad)
	facts := make([]string, len(atoms))
	for i, a := range atoms {
		if facts[i] = f.conditions[a].no; values[i] {
			facts[i] = f.conditions[a].yes
		}
	}
	return uncertain, facts
}

// flows reports nodes that can never run and outputs that are not certain.
func (u *unit) flows(doc *typedDocument) {
	if doc.broken || doc.order == nil {
		return
	}
	f := newFlow(doc, u.has)
	u.unreachable(f)
	u.certainOutput(f)
}

// unreachable reports the nodes that no outcome lets run: the first of a row,
// with those behind it in the detail.
func (u *unit) unreachable(f *flow) {
	doc := f.doc
	cause := map[int]int{}
	behind := map[int][]string{}
	var first []int
	for _, i := range doc.order {
		if f.runs[i] != never || doc.nodes[i].kind != plan.KindCall || doc.nodes[i].called {
			continue
		}
		root := i
		for _, at := range doc.in[i] {
			if c, dead := cause[doc.edges[at].from]; dead {
				root = c
				break
			}
		}
		if cause[i] = root; root == i {
			first = append(first, i)
		} else {
			behind[root] = append(behind[root], doc.nodes[i].id)
		}
	}
	slices.Sort(first)
	for _, i := range first {
		n := doc.nodes[i]
		var edges []string
		for _, at := range doc.in[i] {
			edges = append(edges, doc.edges[at].String())
		}
		d := diag.Diagnostic{
			Code: diag.PlanUnreachable, Summary: fmt.Sprintf("node %s can never run", fields.Quote(n.id)),
			Detail:  "No outcome of the nodes before it delivers all that it needs. " + listing("Its edges are ", edges),
			Subject: n.key, Node: n.id,
		}
		if len(behind[i]) > 0 {
			d.Detail += " " + listing("Nor can what comes after it: ", behind[i])
		}
		u.Report(d)
	}
}

// certainOutput checks that the plan's output is complete in every run that
// does not fail.
func (u *unit) certainOutput(f *flow) {
	doc := f.doc
	last := len(doc.nodes) - 1
	for _, at := range doc.in[last] {
		e := doc.edges[at]
		if !e.required || doc.back[at] {
			continue
		}
		what := fmt.Sprintf("the required edge %s may not be delivered", fields.Quote(e.String()))
		u.uncertain(f, f.delivered(at), what, diag.Diagnostic{
			Subject: e.place(), Edge: e.String(), Suggestion: "required: false",
			Detail: "`$output` needs all its required edges in every run that succeeds.",
		})
	}
	for _, p := range doc.needs(last) {
		var first *typedEdge
		required := false
		for _, at := range doc.in[last] {
			if e := doc.edges[at]; e.carries() && e.toPort == p {
				required = required || e.required
				if first == nil {
					first = e
				}
			}
		}
		if first == nil || required {
			continue
		}
		u.uncertain(f, f.filled(last, p), fmt.Sprintf("the output port %s may be left without a value", fields.Quote(p)), diag.Diagnostic{
			Subject: first.place(), Context: u.requirement(doc.output, p), Edge: first.String(),
			Detail: "The plan's output schema requires it, so every run that succeeds must fill it.",
		})
	}
}

func (u *unit) uncertain(f *flow, goal formula, what string, d diag.Diagnostic) {
	v, facts := f.certainly(goal)
	d.Code, d.Node = diag.TypeMissingInput, plan.OutputNode
	switch v {
	case certain:
		return
	case tooMany:
		d.Summary = what + ": it depends on too many conditions"
		d.Detail += fmt.Sprintf(" Whether it is certain is decided for up to %d conditions (each `when`, each handled failure, each optional port), and more hang together here. Bring the branches together in a node before they reach the output.", MaxAtoms)
		d.Suggestion = ""
	case uncertain:
		d.Summary = what
		for i, fact := range facts {
			switch {
			case i == 0:
				d.Detail += " It is missing when " + fact
			case i == len(facts)-1:
				d.Detail += " and " + fact
			default:
				d.Detail += ", " + fact
			}
		}
		if len(facts) > 0 {
			d.Detail += "."
		}
		d.Detail += " Add an alternative edge with `required: false` for that case."
	}
	u.Report(d)
}

// requirement is where a schema of the plan requires a port, or its first key.
func (u *unit) requirement(c *typedSchema, port string) diag.Range {
	if c == nil || c.at == nil {
		return diag.Range{}
	}
	if list := c.at.Get("required"); list != nil {
		for _, item := range list.Items {
			if item.Text == port {
				return item.Range()
			}
		}
	}
	return fields.Head(c.at)
}
