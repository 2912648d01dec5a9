package compiler

import (
	"fmt"
	"slices"

	"chimera.ai/engine/internal/fields"

	"chimera.ai/engine/diag"
	"chimera.ai/engine/internal/syntax"
	"chimera.ai/engine/plan"
)

// lintPrechecks resolves the nodes that must succeed before an effect, and adds
// the control edges that this means. They follow those of the source, so that
// everything else looks at one sort of edge.
func (u *unit) lintPrechecks(doc *document) {
	for i, n := range doc.nodes {
		c := n.commit
		if c == nil {
			continue
		}
		first := len(doc.edges)
		for _, at := range c.prechecks {
			target, ok := u.named(doc, n, at, "prechecks")
			if ok && target == i {
				u.Report(diag.Diagnostic{
					Code: diag.EffectPrechecks, Summary: "a node cannot check itself before it runs", Subject: at.Range(), Node: n.id,
				})
				ok = false
			}
			if !ok {
				target = -1
			}
			c.checks = append(c.checks, target)
			if target >= 0 && n.id != "" {
				doc.edges = append(doc.edges, precheck(doc, at, target, i))
			}
		}
		slices.SortFunc(doc.edges[first:], func(a, b *edge) int { return a.from - b.from })
	}
}

// precheck is the edge that a precheck makes.
func precheck(doc *document, at *syntax.Value, from, to int) *edge {
	return &edge{
		at: at, from: from, to: to, fromNode: doc.nodes[from].id, fromPort: plan.DonePort, toNode: doc.nodes[to].id, toPort: plan.StartPort,
		fromNodeAt: at.Range(), fromPortAt: at.Range(), toNodeAt: at.Range(), toPortAt: at.Range(),
		kind: plan.Control, kindAt: at.Range(), required: true, implicit: true, shaped: true, sound: true,
	}
}

// lintVerifies resolves the nodes that tell whether an effect happened.
func (u *unit) lintVerifies(doc *document) {
	for _, n := range doc.nodes {
		if n.commit != nil && n.commit.verify != nil && n.commit.verify.node != nil {
			u.lintVerify(doc, n, n.commit.verify)
		}
	}
}

// named finds a node of the plan that a commit policy names.
func (u *unit) named(doc *document, n *node, at *syntax.Value, field string) (int, bool) {
	i, ok := doc.index[at.Text]
	switch {
	case !ok:
		meant := u.Near(at.Text, doc.ids)
		doc.doubt(meant)
		u.Report(diag.Diagnostic{
			Code: diag.PlanUnknownNode, Summary: fmt.Sprintf("there is no node %s", fields.Quote(at.Text)),
			Detail: fmt.Sprintf("`%s` names nodes of this plan.", field), Subject: at.Range(), Node: n.id, Suggestion: meant,
		})
	case doc.nodes[i].kind != plan.KindCall:
		u.Report(diag.Diagnostic{
			Code: diag.PlanUnknownNode, Summary: fmt.Sprintf("%s is not a step", fields.Quote(at.Text)),
			Detail: fmt.Sprintf("`%s` names nodes of this plan.", field), Subject: at.Range(), Node: n.id,
		})
		ok = false
	}
	return i, ok
}

// lintVerify checks the node that tells whether an effect happened: pure, and
// with no edge of its own, since it runs only when it is called.
func (u *unit) lintVerify(doc *document, n *node, v *verify) {
	i, ok := u.named(doc, n, v.node, "verify")
	if !ok {
		return
	}
	v.target = i
	target := doc.nodes[i]
	target.called = true
	bad := func(summary, detail string) {
		u.Report(diag.Diagnostic{
			Code: diag.EffectRollback, Summary: summary, Detail: detail, Subject: v.node.Range(), Context: target.key, Node: n.id,
		})
	}
	const why = "`verify` calls it by itself, perhaps several times, so it is a pure node without edges."
	if target.effect != plan.Pure && target.effect != "" {
		bad(fmt.Sprintf("%s verifies, and is not pure", fields.Quote(target.id)), why)
	}
	if len(doc.in[i])+len(doc.out[i]) > 0 {
		bad(fmt.Sprintf("%s verifies, and has edges", fields.Quote(target.id)), why)
	}
	if v.with != nil && target.input != nil {
		for f := range v.with.Fields {
			if key := v.with.Fields[f].Key; !target.input.takes(key.Text) {
				u.unknownPort(target, key.Text, key.Range(), true, "")
			}
		}
	}
}

// lintBarriers checks the nodes that share a barrier: they wait for each other,
// so none may come before another, and all belong to the same loop, if any.
func (u *unit) lintBarriers(doc *document) {
	members := map[string][]int{}
	var names []string
	for i, n := range doc.nodes {
		if n.commit == nil || n.commit.barrier == nil {
			continue
		}
		name := n.commit.barrier.Text
		if members[name] == nil {
			names = append(names, name)
		}
		members[name] = append(members[name], i)
	}
	if len(names) > MaxBarriers {
		u.Report(diag.Diagnostic{
			Code: diag.PlanLimits, Summary: fmt.Sprintf("the plan has %d barriers", len(names)),
			Detail:  fmt.Sprintf("A plan has at most %d barriers.", MaxBarriers),
			Subject: doc.nodes[members[names[MaxBarriers]][0]].commit.barrier.Range(),
		})
		names = names[:MaxBarriers]
	}
	for _, name := range names {
		u.lintBarrier(doc, name, members[name])
	}
}

func (u *unit) lintBarrier(doc *document, name string, members []int) {
	first := doc.nodes[members[0]]
	for _, m := range members[1:] {
		n := doc.nodes[m]
		d := diag.Diagnostic{Code: diag.PlanBarrier, Subject: n.commit.barrier.Range(), Context: first.commit.barrier.Range(), Node: n.id}
		switch {
		case doc.loopOf[m] != doc.loopOf[members[0]]:
			d.Summary = fmt.Sprintf("the barrier %s spans a loop", fields.Quote(name))
			d.Detail = fmt.Sprintf("%s and %s do not run equally often. Nodes that share a barrier are all inside one loop, or all outside.", fields.Quote(first.id), fields.Quote(n.id))
		case doc.blockOf[m] != doc.blockOf[members[0]]:
			d.Summary = fmt.Sprintf("the barrier %s spans a compensation", fields.Quote(name))
			d.Detail = fmt.Sprintf("%s and %s never wait at the same time.", fields.Quote(first.id), fields.Quote(n.id))
		default:
			continue
		}
		u.Report(d)
	}
	if len(members) < 2 {
		return
	}
	is := make(map[int]bool, len(members))
	for _, m := range members {
		is[m] = true
	}
	// One search from behind all members finds every member that some other
	// comes before; inside an allowed loop the way stops at its back edges.
	seen := make([]bool, len(doc.nodes))
	came := map[int]int{}
	todo := append([]int(nil), members...)
	g := doc.graph()
	for len(todo) > 0 {
		n := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		from, ok := came[n]
		if !ok {
			from = n
		}
		for _, a := range g.out[n] {
			if seen[a.to] || (a.edge >= 0 && doc.back[a.edge]) {
				continue
			}
			seen[a.to] = true
			if is[a.to] {
				u.Report(diag.Diagnostic{
					Code: diag.PlanBarrier, Summary: fmt.Sprintf("%s and %s share the barrier %s, and one comes before the other", fields.Quote(doc.nodes[from].id), fields.Quote(doc.nodes[a.to].id), fields.Quote(name)),
					Detail:  "The barrier opens when all its nodes wait at it. The later one would wait for the earlier one, and that for the barrier.",
					Subject: doc.nodes[a.to].commit.barrier.Range(), Context: doc.nodes[from].commit.barrier.Range(), Node: doc.nodes[a.to].id,
				})
				continue
			}
			came[a.to] = from
			todo = append(todo, a.to)
		}
	}
}
