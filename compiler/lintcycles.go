package compiler

import (
	"fmt"
	"slices"
	"strings"

	"chimera.ai/engine/internal/fields"

	"chimera.ai/engine/diag"
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
func (u *unit) lintCycles(doc *document) {
	errs := u.Errors
	doc.back = map[int]bool{}
	doc.loopOf = make([]int, len(doc.nodes))
	for i := range doc.loopOf {
		doc.loopOf[i] = -1
	}
	g := doc.graph()
	if doc.order = g.topological(func(int) bool { return true }); doc.order != nil {
		return
	}
	for _, comp := range g.components(func(int) bool { return true }) {
		if doc.cycles == nil {
			u.reportCycle(doc, g, comp)
			continue
		}
		u.natural(doc, g, comp)
	}
	if u.Errors == errs {
		doc.order = g.topological(func(edge int) bool { return !doc.back[edge] })
	}
}

// reportCycle shows one shortest way round a component.
func (u *unit) reportCycle(doc *document, g *digraph, comp []int) {
	path, closing := g.round(comp)
	d := diag.Diagnostic{
		Code: diag.PlanCycle, Summary: "the plan goes round: " + doc.path(path),
		Detail: "No node of it could ever start, since each waits for the one before. A loop needs a `cycles` policy, and a conditional edge with `required: false` back to its first node.",
		Node:   doc.nodes[path[0]].id, Subject: doc.nodes[path[0]].key,
	}
	if len(comp) > len(path) {
		d.Detail += fmt.Sprintf(" %d nodes hang together in this way.", len(comp))
	}
	if closing >= 0 {
		e := doc.edges[closing]
		d.Subject, d.Edge = e.place(), e.String()
		if e.implicit {
			d.Detail += " A precheck goes before the node that names it."
		}
	}
	u.Report(d)
}

// path writes a way through the plan.
func (d *document) path(nodes []int) string {
	names := make([]string, 0, min(len(nodes), maxPathNames)+1)
	for i, n := range nodes {
		if i == maxPathNames-2 && len(nodes) > maxPathNames {
			names = append(names, "…")
			n = nodes[len(nodes)-1]
			names = append(names, d.nodes[n].id)
			break
		}
		names = append(names, d.nodes[n].id)
	}
	names = append(names, d.nodes[nodes[0]].id)
	return strings.Join(names, " → ")
}

// natural checks one component against the rules for loops and records it.
func (u *unit) natural(doc *document, g *digraph, comp []int) {
	id := len(doc.loops)
	inside := make(map[int]bool, len(comp))
	for _, n := range comp {
		inside[n] = true
		doc.loopOf[n] = id
	}
	bad := func(e *edge, at diag.Range, summary, detail string) {
		d := diag.Diagnostic{Code: diag.PlanCycle, Summary: summary, Detail: detail, Subject: at}
		if e != nil {
			d.Edge = e.String()
		}
		u.Report(d)
	}
	var headers []int
	var entries []*edge
	for _, n := range comp {
		for _, at := range doc.in[n] {
			if e := doc.edges[at]; !inside[e.from] {
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
		bad(nil, doc.nodes[path[0]].key, "no edge enters the loop "+loopName, "A loop starts at one node, its header, that an edge from outside enters.")
		return
	case len(headers) > 1:
		bad(entries[1], entries[1].place(), fmt.Sprintf("the loop %s has %d entries: %s and %s", loopName, len(headers), fields.Quote(doc.nodes[headers[0]].id), fields.Quote(doc.nodes[headers[1]].id)),
			"Edges from outside may enter a loop at one node only. Other nodes of it take the plan's input in a transform, or a value that the header passes on.")
		return
	}
	l := loop{header: headers[0], latch: -1}
	ok := true
	for _, n := range comp {
		for _, at := range doc.out[n] {
			e := doc.edges[at]
			if e.to != l.header {
				continue
			}
			l.back = append(l.back, at)
			switch {
			case l.latch >= 0 && l.latch != n:
				bad(e, e.place(), fmt.Sprintf("back edges of one loop leave %s and %s", fields.Quote(doc.nodes[l.latch].id), fields.Quote(doc.nodes[n].id)),
					"All back edges leave one node, the latch, so that it is clear when a visit ends.")
				ok = false
			case e.implicit:
				bad(e, e.place(), "a precheck closes the loop "+loopName, "A loop goes back by conditional edges; a precheck must succeed before the node that names it.")
				ok = false
			case e.kind != plan.Conditional:
				bad(e, e.place(), fmt.Sprintf("the back edge to %s is not conditional", fields.Quote(doc.nodes[l.header].id)),
					"A back edge says by its condition whether there is another visit.")
				ok = false
			case e.required:
				bad(e, e.requiredAt, "a back edge cannot be required", "It is skipped on the first visit, so its target would never run.")
				ok = false
			}
			l.latch = n
		}
	}
	if !ok {
		return
	}
	slices.Sort(l.back)
	for _, at := range l.back {
		doc.back[at] = true
	}
	inner := g.componentsWithin(comp, func(edge int) bool { return edge < 0 || !doc.back[edge] })
	if len(inner) > 0 {
		nested, at := g.round(inner[0])
		subject := doc.nodes[nested[0]].key
		if at >= 0 {
			subject = doc.edges[at].place()
		}
		bad(nil, subject, fmt.Sprintf("the loop %s lies inside another", doc.path(nested)), "Loops are not nested. Put the inner one into a sub-plan.")
		return
	}
	doc.loops = append(doc.loops, l)
}
