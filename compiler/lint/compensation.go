package lint

import (
	"fmt"

	"chimera.ai/engine/diag"
	"chimera.ai/engine/internal/fields"
	"chimera.ai/engine/plan"
)

// lintCompensation finds the block of every node that has compensate edges: the
// nodes reachable only through these. It refuses edges that enter or leave a block,
// and the compensation of a node without an effect.
func (l *linter) lintCompensation(doc *Document) {
	doc.BlockOf = make([]int, len(doc.Nodes))
	for i := range doc.BlockOf {
		doc.BlockOf[i] = -1
	}
	for i, n := range doc.Nodes {
		var first *Edge
		for _, at := range doc.Out[i] {
			if e := doc.Edges[at]; e.FromPort == plan.CompensatePort {
				first = e
				break
			}
		}
		if first == nil {
			continue
		}
		if n.Effect == plan.Pure {
			l.Report(diag.Diagnostic{
				Code: diag.PlanCompensation, Summary: fmt.Sprintf("node %s is pure, so there is nothing to undo", fields.Quote(n.ID)),
				Detail:  "Only a staged, committing or irreversible call has an effect. A failure is handled by an edge from `$error`.",
				Subject: first.FromRange(), Context: n.Key, Node: n.ID, Edge: first.String(), Suggestion: plan.ErrorPort, Edits: l.Replace(first.FromPortAt, plan.ErrorPort),
			})
			continue
		}
		n.Undoable = true
		l.growBlock(doc, i)
	}
	for i, owner := range doc.BlockOf {
		if owner < 0 {
			continue
		}
		for _, at := range doc.Out[i] {
			if e := doc.Edges[at]; e.FromPort == plan.CompensatePort {
				l.Report(diag.Diagnostic{
					Code: diag.PlanCompensation, Summary: fmt.Sprintf("%s undoes %s, and is undone itself", fields.Quote(doc.Nodes[i].ID), fields.Quote(doc.Nodes[owner].ID)),
					Detail:  "What undoes an effect stands. If it fails, that is reported; nothing follows from it.",
					Subject: e.FromRange(), Context: doc.Nodes[i].Key, Node: doc.Nodes[i].ID, Edge: e.String(),
				})
			}
		}
	}
}

// growBlock adds nodes to the block of owner, each once all its incoming edges come
// from the block, and reports the nodes that the block reaches but cannot hold.
func (l *linter) growBlock(doc *Document, owner int) {
	entered := map[int]int{}
	var reached []int
	enter := func(to int) bool {
		if entered[to] == 0 {
			reached = append(reached, to)
		}
		entered[to]++
		return entered[to] == len(doc.In[to]) && doc.Nodes[to].Kind == plan.KindCall && to != owner
	}
	var todo []int
	for _, at := range doc.Out[owner] {
		if e := doc.Edges[at]; e.FromPort == plan.CompensatePort && enter(e.To) {
			todo = append(todo, e.To)
		}
	}
	for len(todo) > 0 {
		n := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		doc.BlockOf[n] = owner
		for _, at := range doc.Out[n] {
			if e := doc.Edges[at]; e.FromPort != plan.CompensatePort && enter(e.To) {
				todo = append(todo, e.To)
			}
		}
	}
	effects := 0
	for _, n := range reached {
		if doc.BlockOf[n] != owner {
			l.reportBlock(doc, owner, n)
		} else if doc.Nodes[n].Effect.Acts() {
			effects++
		}
	}
	if effects > MaxUndo {
		l.Report(diag.Diagnostic{
			Code: diag.PlanLimits, Summary: fmt.Sprintf("%d effects undo %s, more than %d", effects, fields.Quote(doc.Nodes[owner].ID), MaxUndo),
			Detail: "The ledger names all of them beside the effect.", Subject: doc.Nodes[owner].Key, Node: doc.Nodes[owner].ID,
		})
	}
}

func (l *linter) reportBlock(doc *Document, owner, n int) {
	var ours, foreign *Edge
	for _, at := range doc.In[n] {
		e := doc.Edges[at]
		mine := doc.BlockOf[e.From] == owner || (e.From == owner && e.FromPort == plan.CompensatePort)
		if mine && ours == nil {
			ours = e
		} else if !mine && foreign == nil {
			foreign = e
		}
	}
	d := diag.Diagnostic{
		Code: diag.PlanCompensation, Subject: ours.ToRange(), Node: doc.Nodes[owner].ID, Edge: ours.String(),
		Detail: "The nodes that undo an effect run on their own, when the effect is undone: no arrow goes in from elsewhere, and none leads out.",
	}
	switch {
	case doc.Nodes[n].Kind == plan.KindOutput:
		d.Summary = fmt.Sprintf("the compensation of %s reaches `$output`", fields.Quote(doc.Nodes[owner].ID))
		d.Detail += " What they return is no output of the run."
	case n == owner:
		d.Summary = fmt.Sprintf("the compensation of %s comes back to it", fields.Quote(doc.Nodes[owner].ID))
	default:
		d.Summary = fmt.Sprintf("the compensation of %s reaches %s, which other edges enter too", fields.Quote(doc.Nodes[owner].ID), fields.Quote(doc.Nodes[n].ID))
		if foreign != nil {
			d.Context = foreign.Place()
			if foreign.FromPort == plan.CompensatePort {
				d.Detail = fmt.Sprintf("It undoes %s as well. Each effect needs nodes of its own that undo it: add one.", fields.Quote(foreign.FromNode))
			}
		}
	}
	l.Report(d)
}
