package compiler

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"

	"chimera.ai/engine/catalog"
	"chimera.ai/engine/internal/fields"
	"chimera.ai/engine/plan"
)

// effect writes what a call says of its effect, its price and its place outside
// the usual order, but for its commit policy.
func (m *maker) effect(out *plan.Node, i int) {
	doc, n := m.doc, m.doc.nodes[i]
	if n.subplan() {
		out.Plan = m.digests[n.operation]
	}
	out.Called = n.called
	if owner := doc.blockOf[i]; owner >= 0 {
		out.Undoes = owner
	}
	if t := n.template; t != nil && t.Cost != nil {
		out.Cost = &plan.Cost{Expr: n.price, Currency: t.Cost.Currency, FromOutput: t.Cost.FromOutput}
	}
	if n.cost != nil {
		out.Estimate = estimateOf(n)
	}
	if f := n.forEach; f != nil {
		out.ForEach = &plan.ForEach{Port: f.port.Text, MaxParallel: int(f.parallel), MaxItems: int(f.items)}
		if f.parallel == 0 {
			out.ForEach.MaxParallel = doc.limits.MaxParallel
		}
	}
	if n.effect != plan.Pure || n.trust == plan.ManualReview {
		out.Description, out.Priority = n.description, n.priority
		out.Resources = n.resources
	}
	if n.effect == plan.Pure {
		return
	}
	if n.template != nil {
		out.IdempotencyPort = n.template.IdempotencyPort
	}
	out.Taint = m.tainted(i)
}

// tainted says what of a call nobody vouches for.
func (m *maker) tainted(i int) *plan.Taint {
	f, came := &m.taint.g.nodes[i], m.taint.came
	t := &plan.Taint{Decision: came[f.runs] >= 0}
	for _, port := range slices.Sorted(maps.Keys(f.ins)) {
		if came[f.ins[port]] >= 0 {
			t.Ports = append(t.Ports, port)
		}
	}
	if t.Ports == nil && came[f.in] >= 0 {
		t.Ports = []string{plan.WholePort}
	}
	n := m.doc.nodes[i]
	t.Accepted = t.Any() && m.doc.grants.allowsTainted(n.effect, catalog.OperationName(n.provider, n.operation))
	return t
}

// commits writes the commit policies and the barriers of the plan.
func (m *maker) commits(p *plan.Plan) {
	named := map[string]int{}
	for i, n := range m.doc.nodes {
		c := n.commit
		if c == nil {
			continue
		}
		out := &plan.Commit{Barrier: -1, Prechecks: slices.Sorted(slices.Values(c.checks))}
		p.Nodes[i].Commit = out
		if c.waived {
			out.Waived = c.rollback.Get("none").Text
		}
		if v := n.verify; v != nil {
			out.Verify = &plan.Verify{Node: v.target, With: json.RawMessage("{}"), Executed: v.condition}
			if v.args != nil {
				out.Verify.With = v.args.Raw
				p.Nodes[v.target].ReadsInput = p.Nodes[v.target].ReadsInput || v.args.Reads("input")
			}
			if v.result != nil {
				out.Verify.Output = v.result.Raw
			}
		}
		rule := c.rule()
		switch {
		case c.barrier != nil:
			at, shared := named[c.barrier.Text]
			if !shared {
				at = len(p.Barriers)
				named[c.barrier.Text] = at
				p.Barriers = append(p.Barriers, plan.Barrier{ID: c.barrier.Text})
			}
			out.Barrier = at
			unite(&p.Barriers[at], rule)
		case len(rule.Groups) > 0 || rule.ExpiresInMS > 0 || len(rule.Exclude) > 0:
			out.Barrier = len(p.Barriers)
			p.Barriers = append(p.Barriers, rule)
		default:
			continue
		}
		b := &p.Barriers[out.Barrier]
		b.Members = append(b.Members, i)
	}
}

// rule is what a commit policy asks of people.
func (c *commitPolicy) rule() plan.Barrier {
	var b plan.Barrier
	if c.approval == nil {
		return b
	}
	if list := c.approval.Get("groups"); list != nil {
		for _, g := range list.Items {
			least := fields.Number(g.Get("min"))
			b.Groups = append(b.Groups, plan.Group{Role: g.Get("role").Text, Min: int(least.Num().Int64())})
		}
	}
	if v := c.approval.Get("expires_in_ms"); v != nil {
		b.ExpiresInMS = fields.Number(v).Num().Int64()
	}
	if list := c.approval.Get("exclude"); list != nil {
		for _, x := range list.Items {
			b.Exclude = append(b.Exclude, x.Text)
		}
	}
	slices.SortFunc(b.Groups, func(a, b plan.Group) int { return cmp.Compare(a.Role, b.Role) })
	slices.Sort(b.Exclude)
	return b
}

// unite adds a member's rule to a barrier: the most signatures that any asks
// for, the shortest time, and everyone who is excluded by some.
func unite(b *plan.Barrier, rule plan.Barrier) {
	most := map[string]int{}
	for _, g := range append(b.Groups, rule.Groups...) {
		most[g.Role] = max(most[g.Role], g.Min)
	}
	b.Groups = nil
	for _, role := range slices.Sorted(maps.Keys(most)) {
		b.Groups = append(b.Groups, plan.Group{Role: role, Min: most[role]})
	}
	if b.ExpiresInMS == 0 || rule.ExpiresInMS > 0 && rule.ExpiresInMS < b.ExpiresInMS {
		b.ExpiresInMS = rule.ExpiresInMS
	}
	b.Exclude = append(b.Exclude, rule.Exclude...)
	slices.Sort(b.Exclude)
	b.Exclude = slices.Compact(b.Exclude)
}

// loops writes the loops of the plan.
func (m *maker) loops(p *plan.Plan) {
	doc := m.doc
	if len(doc.loops) == 0 {
		return
	}
	p.Loops = make([]plan.Loop, len(doc.loops))
	for i, l := range doc.loops {
		p.Loops[i] = plan.Loop{
			Header: l.header, Latch: l.latch, Back: slices.Clone(l.back), MaxIterations: int(doc.cycles.maxIterations), OnExhausted: plan.Fail,
		}
		if doc.cycles.carryOn {
			p.Loops[i].OnExhausted = plan.Continue
		}
	}
	for n, l := range doc.loopOf {
		if l >= 0 {
			p.Loops[l].Body = append(p.Loops[l].Body, n)
		}
	}
}

// marks writes what is tainted, for pictures.
func (m *maker) marks(p *plan.Plan) {
	t := m.taint
	p.Marks = &plan.Marks{Nodes: make([]plan.Mark, len(p.Nodes)), Edges: make([]plan.Mark, len(p.Edges))}
	for i := range p.Nodes {
		f := &t.g.nodes[i]
		p.Marks.Nodes[i] = plan.Mark{Value: t.came[f.out] >= 0, Decision: t.came[f.runs] >= 0}
		if p.Nodes[i].Kind == plan.KindOutput {
			p.Marks.Nodes[i].Value = t.output
		}
	}
	for i := range p.Edges {
		f := t.g.edges[i]
		p.Marks.Edges[i] = plan.Mark{Value: p.Edges[i].Carries() && t.came[f.value] >= 0, Decision: t.came[f.decided] >= 0}
	}
}
