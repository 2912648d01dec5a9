package lint

import (
	"fmt"
	"slices"
	"strings"

	"chimera.ai/engine/diag"
	"chimera.ai/engine/internal/fields"
	"chimera.ai/engine/plan"
)

// maxPathNames bounds the nodes that a message about a cycle lists.
const maxPathNames = 12

// lintCycles finds the loops of the plan, refuses those that its policy does
// not allow, and orders the nodes.
//
// A loop is allowed if the plan has a `cycles` policy and the loop is natural:
// one node that edges from outside enter (the header); all edges inside it that
// go to the header (the back edges) are conditional, not required, and leave
// one node (the latch); and without them it has no cycle.
func (l *linter) lintCycles(doc *Document) {
	errs := l.Errors
	doc.Back = map[int]bool{}
	doc.LoopOf = make([]int, len(doc.Nodes))
	for i := range doc.LoopOf {
		doc.LoopOf[i] = -1
	}
	g := doc.graph()
	if doc.Order = g.topological(func(int) bool { return true }); doc.Order != nil {
		return
	}
	for _, comp := range g.components(func(int) bool { return true }) {
		if doc.Cycles == nil {
			l.reportCycle(doc, g, comp)
			continue
		}
		l.natural(doc, g, comp)
	}
	if l.Errors == errs {
		doc.Order = g.topological(func(edge int) bool { return !doc.Back[edge] })
	}
}

// reportCycle reports a component with one shortest cycle through it.
func (l *linter) reportCycle(doc *Document, g *digraph, comp []int) {
	path, closing := g.round(comp)
	d := diag.Diagnostic{
		Code: diag.PlanCycle, Summary: "the plan goes round: " + doc.path(path),
		Detail: "No node of it could ever start, since each waits for the one before. A loop needs a `cycles` policy, and a conditional edge with `required: false` back to its first node.",
		Node:   doc.Nodes[path[0]].ID, Subject: doc.Nodes[path[0]].Key,
	}
	if refs := doc.referring(g, path); refs != "" {
		d.Detail = refs + " None of them could ever start. What a node takes is there before it runs; a loop needs a `cycles` policy, and an edge back to its first node, such as `{edge: \"last.x -> first.y\", when: …, required: false}`."
	}
	if len(comp) > len(path) {
		d.Detail += fmt.Sprintf(" %d nodes hang together in this way.", len(comp))
	}
	if closing >= 0 {
		e := doc.Edges[closing]
		d.Subject, d.Edge = e.Place(), e.String()
		if e.Implicit {
			d.Detail += " A precheck goes before the node that names it."
		}
	}
	l.Report(d)
}

// referring says by which references a cycle goes round, or "" if by others than references.
func (d *Document) referring(g *digraph, path []int) string {
	var parts []string
	for i, n := range path[:min(len(path), maxPathNames)] {
		next := path[(i+1)%len(path)]
		for _, a := range g.out[n] {
			if a.to != next || a.edge < 0 {
				continue
			}
			e := d.Edges[a.edge]
			if e.Reference == "" {
				return ""
			}
			parts = append(parts, fmt.Sprintf("%s reads `%s`", fields.Quote(e.ToNode), e.Reference))
			break
		}
	}
	if len(parts) != len(path) {
		return ""
	}
	return strings.Join(parts, ", and ") + "."
}

// path formats a path through the plan.
func (d *Document) path(nodes []int) string {
	names := make([]string, 0, min(len(nodes), maxPathNames)+1)
	if named := slices.DeleteFunc(slices.Clone(nodes), func(n int) bool { return d.Nodes[n].Made }); len(named) > 0 {
		nodes = named
	}
	for i, n := range nodes {
		if i == maxPathNames-2 && len(nodes) > maxPathNames {
			names = append(names, "…")
			n = nodes[len(nodes)-1]
			names = append(names, d.Nodes[n].ID)
			break
		}
		names = append(names, d.Nodes[n].ID)
	}
	names = append(names, d.Nodes[nodes[0]].ID)
	return strings.Join(names, " → ")
}

// natural checks one component against the rules for loops, and records it as a
// loop.
func (l *linter) natural(doc *Document, g *digraph, comp []int) {
	id := len(doc.Loops)
	inside := make(map[int]bool, len(comp))
	for _, n := range comp {
		inside[n] = true
		doc.LoopOf[n] = id
	}
	bad := func(e *Edge, at diag.Range, summary, detail string) {
		d := diag.Diagnostic{Code: diag.PlanCycle, Summary: summary, Detail: detail, Subject: at}
		if e != nil {
			d.Edge = e.String()
		}
		l.Report(d)
	}
	var headers []int
	var entries []*Edge
	for _, n := range comp {
		for _, at := range doc.In[n] {
			if e := doc.Edges[at]; !inside[e.From] {
				headers = append(headers, n)
				entries = append(entries, e)
				break
			}
		}
	}
	path, _ := g.round(comp)
	loopName := doc.path(path)
	switch {
	case len(headers) == 0:
		detail := "A loop starts at one node, its header, that an edge from outside enters."
		if refs := doc.referring(g, path); refs != "" {
			detail = refs + " " + detail + " It goes back by an edge with a condition, such as `{edge: \"last.x -> first.y\", when: …, required: false}`, not by a reference."
		}
		bad(nil, doc.Nodes[path[0]].Key, "no edge enters the loop "+loopName, detail)
		return
	case len(headers) > 1 && slices.ContainsFunc(entries, func(e *Edge) bool { return e.Form == FormDefault }):
		e := entries[slices.IndexFunc(entries, func(e *Edge) bool { return e.Form == FormDefault })]
		bad(e, e.Place(), fmt.Sprintf("%s would run outside of the loop %s", fields.Quote(e.ToNode), loopName),
			fmt.Sprintf("With the default behind `??` it runs in any case, and so not only where the loop does. `after: [%s]` in %s makes it wait for the loop.", doc.Nodes[path[0]].ID, fields.Quote(e.ToNode)))
		return
	case len(headers) > 1:
		bad(entries[1], entries[1].Place(), fmt.Sprintf("the loop %s has %d entries: %s and %s", loopName, len(headers), fields.Quote(doc.Nodes[headers[0]].ID), fields.Quote(doc.Nodes[headers[1]].ID)),
			"Edges from outside may enter a loop at one node only. Other nodes of it take the plan's input in a transform, or a value that the header passes on.")
		return
	}
	natural := loop{Header: headers[0], Latch: -1}
	ok := true
	for _, n := range comp {
		for _, at := range doc.Out[n] {
			e := doc.Edges[at]
			if e.To != natural.Header {
				continue
			}
			natural.Back = append(natural.Back, at)
			switch {
			case natural.Latch >= 0 && natural.Latch != n:
				bad(e, e.Place(), fmt.Sprintf("back edges of one loop leave %s and %s", fields.Quote(doc.Nodes[natural.Latch].ID), fields.Quote(doc.Nodes[n].ID)),
					"All back edges leave one node, the latch, so that it is clear when a visit ends.")
				ok = false
			case e.Implicit:
				bad(e, e.Place(), "a precheck closes the loop "+loopName, "A loop goes back by conditional edges; a precheck must succeed before the node that names it.")
				ok = false
			case e.Kind != plan.Conditional:
				detail := "A back edge says by its condition whether there is another visit."
				if e.Reference != "" {
					suggestion := e.arrow("when: …, required: false")
					detail = fmt.Sprintf("%s reads `%s`, of a later node of the loop, which has not run when the loop begins. Take it by an edge in the place of the reference: `%s`. `with` then gives what the first visit takes.", fields.Quote(e.ToNode), e.Reference, suggestion)
				}
				bad(e, e.Place(), fmt.Sprintf("the back edge to %s is not conditional", fields.Quote(doc.Nodes[natural.Header].ID)), detail)
				ok = false
			case e.Required:
				bad(e, e.RequiredAt, "a back edge cannot be required", "It is skipped on the first visit, so its target would never run.")
				ok = false
			}
			natural.Latch = n
		}
	}
	if !ok {
		return
	}
	slices.Sort(natural.Back)
	for _, at := range natural.Back {
		doc.Back[at] = true
	}
	inner := g.componentsWithin(comp, func(edge int) bool { return edge < 0 || !doc.Back[edge] })
	if len(inner) > 0 {
		nested, at := g.round(inner[0])
		subject := doc.Nodes[nested[0]].Key
		if at >= 0 {
			subject = doc.Edges[at].Place()
		}
		bad(nil, subject, fmt.Sprintf("the loop %s lies inside another", doc.path(nested)), "Loops are not nested. Put the inner one into a sub-plan.")
		return
	}
	doc.Loops = append(doc.Loops, natural)
}
