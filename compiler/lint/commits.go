package lint

import (
	"fmt"
	"slices"

	"chimera.ai/engine/diag"
	"chimera.ai/engine/internal/fields"
	"chimera.ai/engine/internal/syntax"
	"chimera.ai/engine/plan"
)

// lintPrechecks resolves the nodes that must succeed before an effect, and appends
// the control edges that prechecks stand for, so that later steps see one kind of
// edge.
func (l *linter) lintPrechecks(doc *Document) {
	for i, n := range doc.Nodes {
		c := n.Commit
		if c == nil {
			continue
		}
		first := len(doc.Edges)
		for _, at := range c.Prechecks {
			target, ok := l.named(doc, n, at, "prechecks")
			if ok && target == i {
				l.Report(diag.Diagnostic{
					Code: diag.EffectPrechecks, Summary: "a node cannot check itself before it runs", Subject: at.Range(), Node: n.ID,
				})
				ok = false
			}
			if !ok {
				target = -1
			}
			c.Checks = append(c.Checks, target)
			if target >= 0 && n.ID != "" {
				doc.Edges = append(doc.Edges, precheck(doc, at, target, i))
			}
		}
		slices.SortFunc(doc.Edges[first:], func(a, b *Edge) int { return a.From - b.From })
	}
}

// precheck is the control edge that a precheck stands for.
func precheck(doc *Document, at *syntax.Value, from, to int) *Edge {
	return &Edge{
		At: at, From: from, To: to, FromNode: doc.Nodes[from].ID, FromPort: plan.DonePort, ToNode: doc.Nodes[to].ID, ToPort: plan.StartPort,
		fromNodeAt: at.Range(), FromPortAt: at.Range(), toNodeAt: at.Range(), ToPortAt: at.Range(),
		Kind: plan.Control, kindAt: at.Range(), Required: true, Implicit: true, Shaped: true, Sound: true,
	}
}

// lintVerifies resolves the nodes that tell whether an effect happened.
func (l *linter) lintVerifies(doc *Document) {
	for _, n := range doc.Nodes {
		if n.Commit == nil || n.Commit.Verify == nil {
			continue
		}
		v := n.Commit.Verify
		if v.Node != nil {
			l.lintVerify(doc, n, v)
		}
		if v.Target > 0 {
			l.lintVerifyInput(doc.Nodes[v.Target], v)
		}
	}
}

// Place is where the node is named that is called, or other where the template names its
// operation.
func (v *Verify) Place(other diag.Range) diag.Range {
	if v.Node == nil {
		return other
	}
	return v.Node.Range()
}

// named resolves the name of a node in a commit policy.
func (l *linter) named(doc *Document, n *Node, at *syntax.Value, field string) (int, bool) {
	i, ok := doc.Index[at.Text]
	switch {
	case !ok:
		meant := l.Near(at.Text, doc.ids)
		doc.doubt(meant)
		l.Report(diag.Diagnostic{
			Code: diag.PlanUnknownNode, Summary: fmt.Sprintf("there is no node %s", fields.Quote(at.Text)), Edits: l.Replace(at.Range(), meant),
			Detail: fmt.Sprintf("`%s` names nodes of this plan.", field), Subject: at.Range(), Node: n.ID, Suggestion: meant,
		})
	case doc.Nodes[i].Kind != plan.KindCall:
		l.Report(diag.Diagnostic{
			Code: diag.PlanUnknownNode, Summary: fmt.Sprintf("%s is not a step", fields.Quote(at.Text)),
			Detail: fmt.Sprintf("`%s` names nodes of this plan.", field), Subject: at.Range(), Node: n.ID,
		})
		ok = false
	}
	return i, ok
}

// lintVerify checks the node that tells whether an effect happened: it is pure, and
// has no edges, since it runs only when it is called.
func (l *linter) lintVerify(doc *Document, n *Node, v *Verify) {
	i, ok := l.named(doc, n, v.Node, "verify")
	if !ok {
		return
	}
	v.Target = i
	target := doc.Nodes[i]
	target.Called = true
	bad := func(summary, detail string) {
		l.Report(diag.Diagnostic{
			Code: diag.EffectRollback, Summary: summary, Detail: detail, Subject: v.Node.Range(), Context: target.Key, Node: n.ID,
		})
	}
	const why = "`verify` calls it by itself, perhaps several times, so it is a pure node without edges."
	if target.Effect != plan.Pure && target.Effect != "" {
		bad(fmt.Sprintf("%s verifies, and is not pure", fields.Quote(target.ID)), why)
	}
	if len(doc.In[i])+len(doc.Out[i]) > 0 {
		bad(fmt.Sprintf("%s verifies, and has edges", fields.Quote(target.ID)), why)
	}
}

// lintVerifyInput checks the ports of the node that is called.
func (l *linter) lintVerifyInput(target *Node, v *Verify) {
	if v.With == nil || target.Input == nil {
		return
	}
	for f := range v.With.Fields {
		if key := v.With.Fields[f].Key; !target.Input.Takes(key.Text) {
			l.unknownPort(target, key.Text, key.Range(), true, nil)
		}
	}
}

// lintBarriers checks the nodes that share a barrier. They wait for each other, so
// none may precede another, and all belong to the same loop, if any.
func (l *linter) lintBarriers(doc *Document) {
	members := map[string][]int{}
	var names []string
	for i, n := range doc.Nodes {
		if n.Commit == nil {
			continue
		}
		if n.Commit.Barrier == nil {
			l.lintEscalation(doc, []int{i})
			continue
		}
		name := n.Commit.Barrier.Text
		if members[name] == nil {
			names = append(names, name)
		}
		members[name] = append(members[name], i)
	}
	if len(names) > MaxBarriers {
		l.Report(diag.Diagnostic{
			Code: diag.PlanLimits, Summary: fmt.Sprintf("the plan has %d barriers", len(names)),
			Detail:  fmt.Sprintf("A plan has at most %d barriers.", MaxBarriers),
			Subject: doc.Nodes[members[names[MaxBarriers]][0]].Commit.Barrier.Range(),
		})
		names = names[:MaxBarriers]
	}
	for _, name := range names {
		if at := members[name]; len(at) > MaxMembers {
			l.Report(diag.Diagnostic{
				Code: diag.PlanLimits, Summary: fmt.Sprintf("%d nodes share the barrier %s", len(at), fields.Quote(name)),
				Detail:  fmt.Sprintf("One barrier is for at most %d nodes: people see, and sign, all that they do.", MaxMembers),
				Subject: doc.Nodes[at[MaxMembers]].Commit.Barrier.Range(),
			})
		}
		l.lintBarrier(doc, name, members[name])
	}
}

// lintEscalation checks that people are still asked when more groups are, by the earliest
// times of all who wait at a barrier.
func (l *linter) lintEscalation(doc *Document, members []int) {
	var n *Node
	var after, expires int64
	for _, m := range members {
		c := doc.Nodes[m].Commit
		if at := c.expires; at > 0 && (expires == 0 || at < expires) {
			expires = at
		}
		if at := c.FollowUp.EscalateAfterMS; at > 0 && (after == 0 || at < after) {
			n, after = doc.Nodes[m], at
		}
	}
	if expires == 0 {
		expires = plan.DefaultExpiresInMS
	}
	expires = min(expires, doc.Limits.DeadlineMS)
	if n == nil || after < expires {
		return
	}
	l.Report(diag.Diagnostic{
		Code: diag.EffectPolicy, Summary: fmt.Sprintf("%s escalates when nobody is asked any more", fields.Quote(n.ID)), Node: n.ID,
		Detail:  fmt.Sprintf("People are asked for at most %d milliseconds, by `expires_in_ms` and the `deadline_ms` of the plan.", expires),
		Subject: n.Commit.Approval.Get("escalate_after_ms").Range(),
	})
}

func (l *linter) lintBarrier(doc *Document, name string, members []int) {
	l.lintEscalation(doc, members)
	first := doc.Nodes[members[0]]
	for _, m := range members[1:] {
		n := doc.Nodes[m]
		d := diag.Diagnostic{Code: diag.PlanBarrier, Subject: n.Commit.Barrier.Range(), Context: first.Commit.Barrier.Range(), Node: n.ID}
		switch {
		case doc.LoopOf[m] != doc.LoopOf[members[0]]:
			d.Summary = fmt.Sprintf("the barrier %s spans a loop", fields.Quote(name))
			d.Detail = fmt.Sprintf("%s and %s do not run equally often. Nodes that share a barrier are all inside one loop, or all outside.", fields.Quote(first.ID), fields.Quote(n.ID))
		case doc.BlockOf[m] != doc.BlockOf[members[0]]:
			d.Summary = fmt.Sprintf("the barrier %s spans a compensation", fields.Quote(name))
			d.Detail = fmt.Sprintf("%s and %s never wait at the same time.", fields.Quote(first.ID), fields.Quote(n.ID))
		default:
			continue
		}
		l.Report(d)
	}
	if len(members) < 2 {
		return
	}
	is := make(map[int]bool, len(members))
	for _, m := range members {
		is[m] = true
	}
	// One search from the successors of all members finds every member that
	// another precedes. Inside an allowed loop it stops at the back edges.
	seen := make([]bool, len(doc.Nodes))
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
			if seen[a.to] || (a.edge >= 0 && doc.Back[a.edge]) {
				continue
			}
			seen[a.to] = true
			if is[a.to] {
				l.Report(diag.Diagnostic{
					Code: diag.PlanBarrier, Summary: fmt.Sprintf("%s and %s share the barrier %s, and one comes before the other", fields.Quote(doc.Nodes[from].ID), fields.Quote(doc.Nodes[a.to].ID), fields.Quote(name)),
					Detail:  "The barrier opens when all its nodes wait at it. The later one would wait for the earlier one, and that for the barrier.",
					Subject: doc.Nodes[a.to].Commit.Barrier.Range(), Context: doc.Nodes[from].Commit.Barrier.Range(), Node: doc.Nodes[a.to].ID,
				})
				continue
			}
			came[a.to] = from
			todo = append(todo, a.to)
		}
	}
}
