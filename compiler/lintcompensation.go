package compiler

import (
	"fmt"

	"chimera.ai/engine/internal/fields"

	"chimera.ai/engine/diag"
	"chimera.ai/engine/plan"
)

// lintCompensation finds the block of every node that has compensate edges: the
// nodes that are reachable only from these. It refuses arrows into a block from
// elsewhere, arrows from a block to elsewhere, and a compensation of a node
// that has no effect.
func (u *unit) lintCompensation(doc *document) {
	doc.blockOf = make([]int, len(doc.nodes))
	for i := range doc.blockOf {
		doc.blockOf[i] = -1
	}
	for i, n := range doc.nodes {
		var first *edge
		for _, at := range doc.out[i] {
			if e := doc.edges[at]; e.fromPort == plan.CompensatePort {
				first = e
				break
			}
		}
		if first == nil {
			continue
		}
		if n.effect == plan.Pure {
			u.Report(diag.Diagnostic{
				Code: diag.PlanCompensation, Summary: fmt.Sprintf("node %s is pure, so there is nothing to undo", fields.Quote(n.id)),
				Detail:  "Only a staged, committing or irreversible call has an effect. A failure is handled by an edge from `$error`.",
				Subject: first.fromRange(), Context: n.key, Node: n.id, Edge: first.String(), Suggestion: plan.ErrorPort,
			})
			continue
		}
		u.growBlock(doc, i)
	}
	for i, owner := range doc.blockOf {
		if owner < 0 {
			continue
		}
		for _, at := range doc.out[i] {
			if e := doc.edges[at]; e.fromPort == plan.CompensatePort {
				u.Report(diag.Diagnostic{
					Code: diag.PlanCompensation, Summary: fmt.Sprintf("%s undoes %s, and is undone itself", fields.Quote(doc.nodes[i].id), fields.Quote(doc.nodes[owner].id)),
					Detail:  "What undoes an effect stands. If it fails, that is reported; nothing follows from it.",
					Subject: e.fromRange(), Context: doc.nodes[i].key, Node: doc.nodes[i].id, Edge: e.String(),
				})
			}
		}
	}
}

// growBlock adds a node to the block of owner once all its incoming edges come
// from there, and reports the nodes that are reached but cannot join.
func (u *unit) growBlock(doc *document, owner int) {
	entered := map[int]int{}
	var reached []int
	enter := func(to int) bool {
		if entered[to] == 0 {
			reached = append(reached, to)
		}
		entered[to]++
		return entered[to] == len(doc.in[to]) && doc.nodes[to].kind == plan.KindCall && to != owner
	}
	var todo []int
	for _, at := range doc.out[owner] {
		if e := doc.edges[at]; e.fromPort == plan.CompensatePort && enter(e.to) {
			todo = append(todo, e.to)
		}
	}
	for len(todo) > 0 {
		n := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		doc.blockOf[n] = owner
		for _, at := range doc.out[n] {
			if e := doc.edges[at]; e.fromPort != plan.CompensatePort && enter(e.to) {
				todo = append(todo, e.to)
			}
		}
	}
	for _, n := range reached {
		if doc.blockOf[n] == owner {
			continue
		}
		u.reportBlock(doc, owner, n)
	}
}

func (u *unit) reportBlock(doc *document, owner, n int) {
	var ours, foreign *edge
	for _, at := range doc.in[n] {
		e := doc.edges[at]
		mine := doc.blockOf[e.from] == owner || (e.from == owner && e.fromPort == plan.CompensatePort)
		if mine && ours == nil {
			ours = e
		} else if !mine && foreign == nil {
			foreign = e
		}
	}
	d := diag.Diagnostic{
		Code: diag.PlanCompensation, Subject: ours.toRange(), Node: doc.nodes[owner].id, Edge: ours.String(),
		Detail: "The nodes that undo an effect run on their own, after the run has failed: no arrow goes in from elsewhere, and none leads out.",
	}
	switch {
	case doc.nodes[n].kind == plan.KindOutput:
		d.Summary = fmt.Sprintf("the compensation of %s reaches `$output`", fields.Quote(doc.nodes[owner].id))
		d.Detail += " A run that compensates has no output."
	case n == owner:
		d.Summary = fmt.Sprintf("the compensation of %s comes back to it", fields.Quote(doc.nodes[owner].id))
	default:
		d.Summary = fmt.Sprintf("the compensation of %s reaches %s, which other edges enter too", fields.Quote(doc.nodes[owner].id), fields.Quote(doc.nodes[n].id))
		if foreign != nil {
			d.Context = foreign.place()
		}
	}
	u.Report(d)
}
