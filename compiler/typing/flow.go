package typing

import (
	"regexp"
	"strings"

	"chimera.ai/engine/compiler/lint"
	"chimera.ai/engine/internal/fields"
	"chimera.ai/engine/plan"
)

// condition is what an atom stands for.
type condition struct {
	// yes and no are the atom in a sentence that lists the facts of an example.
	yes, no string
	// failing is the node whose failure the atom is, else -1.
	failing int
	// merged reports that the atom replaces a formula of too many atoms. It is in
	// no example.
	merged bool
}

// flow says what can run: for every node a formula over the conditions of the plan,
// by the run rule in the documentation of package compiler.
type flow struct {
	doc *Document
	// opposites asks that a condition is known to be the opposite of another: its text is that
	// of the other behind `!`.
	opposites bool
	// has reports whether every output of a node has a port.
	has func(n *Node, port string) bool
	*logic
	conditions []condition
	// runs has a formula for each node. The others are made when needed:
	// delivers by edge, succeeded by node, others ("no condition of the node
	// holds") for nodes with an otherwise edge, and facts for atoms.
	runs      []formula
	delivers  map[int]formula
	succeeded map[int]formula
	others    map[int]formula
	facts     map[fact]formula
}

// fact identifies an atom: what may be so of a node, of one of its ports, or of a
// condition on that.
type fact struct {
	kind       factKind
	node       int
	port, when string
}

type factKind int

const (
	failure factKind = iota
	undoing
	presence
	holding
)

func newFlow(doc *Document, has func(n *Node, port string) bool, opposites bool) *flow {
	f := &flow{
		doc: doc, has: has, opposites: opposites, logic: newLogic(len(doc.Nodes) + len(doc.Edges)),
		runs: make([]formula, len(doc.Nodes)), delivers: map[int]formula{},
		succeeded: map[int]formula{}, others: map[int]formula{}, facts: map[fact]formula{},
	}
	for _, i := range doc.Order {
		f.runs[i] = f.orMerged(f.running(i))
	}
	return f
}

func (f *flow) condition(c condition) formula {
	a := f.atom()
	f.conditions = append(f.conditions, c)
	return a
}

// orMerged replaces an unclear formula by a new atom, which can only make more
// appear possible.
func (f *flow) orMerged(x formula) formula {
	if x != unclear {
		return x
	}
	return f.condition(condition{merged: true, failing: -1})
}

// fact returns the atom of a fact. Start and the rest make a sentence of it.
func (f *flow) fact(key fact, start, yes, no string) formula {
	a, ok := f.facts[key]
	if !ok {
		c := condition{yes: start + yes, no: start + no, failing: -1}
		if key.kind == failure {
			c.failing = key.node
		}
		a = f.condition(c)
		f.facts[key] = a
	}
	return a
}

// running applies the run rule to one node.
func (f *flow) running(i int) formula {
	n := f.doc.Nodes[i]
	runs, anyRequired := always, false
	for _, at := range f.doc.In[i] {
		if e := f.doc.Edges[at]; e.Required && !f.doc.Back[at] {
			anyRequired = true
			runs = f.and(runs, f.delivered(at))
		}
	}
	if n.Kind == plan.KindCall && !anyRequired && len(f.doc.In[i]) > 0 {
		some := never
		for _, at := range f.doc.In[i] {
			if some == always {
				break
			}
			if !f.doc.Back[at] {
				some = f.or(some, f.delivered(at))
			}
		}
		runs = f.and(runs, some)
	}
	// A value that $output lacks is an error of its own, see certainOutput, not
	// a reason to skip it.
	if n.Kind == plan.KindCall && n.Input != nil {
		for _, p := range f.doc.Needs(i) {
			runs = f.and(runs, f.filled(i, p))
		}
	}
	return runs
}

// filled says when a port has a value. A port that nothing fills is reported
// elsewhere and counts as filled.
func (f *flow) filled(i int, port string) formula {
	if f.doc.Nodes[i].WithPort(port) != nil {
		return always
	}
	value, sources := never, 0
	for _, at := range f.doc.In[i] {
		e := f.doc.Edges[at]
		if !e.Carries() || e.ToPort != port {
			continue
		}
		sources++
		if e.Required && f.doc.Nodes[i].Kind == plan.KindCall {
			// The node does not run without this edge anyway.
			return always
		}
		if !f.doc.Back[at] {
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
	d, ok := f.delivers[at]
	if !ok {
		d = f.delivery(at)
		f.delivers[at] = d
	}
	return d
}

func (f *flow) delivery(at int) formula {
	e := f.doc.Edges[at]
	switch {
	case e.FromPort == plan.CompensatePort:
		return f.fact(fact{kind: undoing, node: e.From}, fields.Quote(e.FromNode), " is undone", " is not undone")
	case e.Kind == plan.Error:
		d := f.and(f.runs[e.From], f.failing(e.From))
		if e.When != nil {
			d = f.and(d, f.holds(e))
		}
		return d
	}
	d := f.succeeds(e.From)
	switch {
	case e.Otherwise:
		d = f.and(f.and(d, f.present(e)), f.noneHolds(e.From))
	case e.Kind == plan.Conditional:
		d = f.and(f.and(d, f.present(e)), f.holds(e))
	case e.Kind == plan.Data:
		d = f.and(d, f.present(e))
	}
	return d
}

// succeeds says when a node succeeds. If a node without error edges fails, the run
// ends, so that case does not matter.
func (f *flow) succeeds(i int) formula {
	s, ok := f.succeeded[i]
	if !ok {
		s = f.runs[i]
		for _, at := range f.doc.Out[i] {
			if f.doc.Edges[at].FromPort == plan.ErrorPort {
				s = f.and(s, f.not(f.failing(i)))
				break
			}
		}
		f.succeeded[i] = s
	}
	return s
}

func (f *flow) failing(i int) formula {
	return f.fact(fact{kind: failure, node: i}, fields.Quote(f.doc.Nodes[i].ID), " fails", " does not fail")
}

// holds says when the condition of an edge holds. Edges of a node with the same
// condition on the same port share an atom.
func (f *flow) holds(e *Edge) formula {
	if f.opposites {
		if other := f.doc.opposite(e); other != nil {
			return f.not(f.holds(other))
		}
	}
	key := fact{kind: holding, node: e.From, port: e.FromPort}
	if e.When == nil {
		return f.fact(key, "the value of "+e.FromNode+"."+e.FromPort, " is true", " is false")
	}
	key.when = e.When.Text
	what := fields.Quote(lint.Authored(e.When, e.When.Text)) + " of " + e.String()
	if e.Form == lint.FormWhen {
		what = "`when` of " + fields.Quote(e.ToNode)
	}
	return f.fact(key, what, " holds", " does not hold")
}

// opposite returns the conditional edge from the same port of which the condition of an edge is the
// opposite, or nil.
func (d *Document) opposite(e *Edge) *Edge {
	if e.When == nil || e.Kind != plan.Conditional {
		return nil
	}
	inner, ok := strings.CutPrefix(strings.TrimSpace(e.When.Text), "!")
	if !ok {
		return nil
	}
	siblings := d.Siblings[e.From]
	for _, x := range siblings[:min(len(siblings), maxSiblings)] {
		if x == e || x.Otherwise || x.FromPort != e.FromPort {
			continue
		}
		text := "value"
		if x.When != nil {
			text = strings.TrimSpace(x.When.Text)
		}
		if inner == "("+text+")" || inner == text && simpleCondition.MatchString(text) {
			return x
		}
	}
	return nil
}

// simpleCondition matches a condition that `!` denies without parentheses.
var simpleCondition = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.]*$`)

// noneHolds says when no conditional edge of the node holds.
func (f *flow) noneHolds(i int) formula {
	if made, ok := f.others[i]; ok {
		return made
	}
	some := never
	for _, e := range f.doc.Siblings[i] {
		if !e.Otherwise {
			some = f.or(some, f.and(f.present(e), f.holds(e)))
		}
	}
	f.others[i] = f.orMerged(f.not(some))
	return f.others[i]
}

// present says when the source's port has a value. The port of a required edge
// counts as present; if it may be absent, that is reported elsewhere.
func (f *flow) present(e *Edge) formula {
	if e.Required || e.FromPort == plan.DonePort || f.has(f.doc.Nodes[e.From], e.FromPort) {
		return always
	}
	return f.fact(fact{kind: presence, node: e.From, port: e.FromPort}, e.FromNode+"."+e.FromPort, " is present", " is absent")
}

// handled says when a target of one of the node's delivered error edges runs.
func (f *flow) handled(i int) formula {
	some := never
	for _, at := range f.doc.Out[i] {
		if e := f.doc.Edges[at]; e.FromPort == plan.ErrorPort {
			target := always
			if f.doc.Nodes[e.To].Kind == plan.KindCall {
				target = f.runs[e.To]
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

// certainly decides whether goal holds whenever all failures are handled. If it
// does not, it returns the facts of a counterexample.
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
				assume = f.and(assume, f.or(f.not(f.and(f.runs[i], f.failing(i))), f.handled(i)))
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
