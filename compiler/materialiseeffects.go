package compiler

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"chimera.ai/engine/catalog"
	"chimera.ai/engine/compiler/lint"
	"chimera.ai/engine/compiler/typing"
	"chimera.ai/engine/internal/fields"
	"chimera.ai/engine/plan"
)

// effect writes what a call says of its effect, its price and its place outside
// the usual order, but for its commit policy.
func (m *maker) effect(out *plan.Node, i int) {
	doc, n := m.doc, m.doc.Nodes[i]
	if n.Subplan() {
		out.Plan = m.digests[n.Operation]
	}
	out.Called = n.Called
	if owner := doc.BlockOf[i]; owner >= 0 {
		out.Undoes = owner
	}
	if t := n.Template; t != nil && t.Cost != nil {
		out.Cost = &plan.Cost{Expr: n.Price, Currency: t.Cost.Currency, FromOutput: t.Cost.FromOutput}
	}
	if n.Cost != nil {
		out.Estimate = typing.EstimateOf(n)
	}
	if f := n.ForEach; f != nil {
		out.ForEach = &plan.ForEach{Port: f.Port.Text, MaxParallel: int(f.Parallel), MaxItems: int(f.Items)}
		if f.Parallel == 0 {
			out.ForEach.MaxParallel = doc.Limits.MaxParallel
		}
	}
	out.IdempotencyPort = n.KeyPort()
	if !out.Guarded() {
		return
	}
	out.Description, out.Priority, out.Resources = n.Description, n.Priority, n.Resources
	out.Taint = m.tainted(i)
}

// tainted says what of a call nobody vouches for.
func (m *maker) tainted(i int) *plan.Taint {
	t := &plan.Taint{Decision: m.doc.Taint.Node(i).Decision, Ports: m.doc.Taint.Ports(i)}
	if d := m.doc.Distrusted; d != nil {
		t.InputDecision = !t.Decision && d.Node(i).Decision
		for _, port := range d.Ports(i) {
			if !slices.Contains(t.Ports, port) {
				t.InputPorts = append(t.InputPorts, port)
			}
		}
	}
	n := m.doc.Nodes[i]
	t.Accepted = t.Any() && m.doc.Grants.AllowsTainted(n.Effect, catalog.OperationName(n.Provider, n.Operation))
	return t
}

// relied marks the calls whose answers count as untainted by the word of the operator, and
// from which an effect can be reached; and prechecks.
func (m *maker) relied(p *plan.Plan) {
	into := make([][]int, len(p.Nodes))
	for i := range p.Edges {
		into[p.Edges[i].To] = append(into[p.Edges[i].To], p.Edges[i].From)
	}
	before := make([]bool, len(p.Nodes))
	var todo []int
	for i := range p.Nodes {
		if p.Nodes[i].Effect.Acts() {
			todo = append(todo, i)
		}
	}
	for len(todo) > 0 {
		i := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, from := range into[i] {
			if !before[from] {
				before[from] = true
				todo = append(todo, from)
			}
		}
	}
	checks := map[int]bool{}
	for _, n := range m.doc.Nodes {
		if n.Commit != nil {
			for _, i := range n.Commit.Checks {
				checks[i] = true
			}
		}
	}
	for i, n := range m.doc.Nodes {
		t, out := n.Template, &p.Nodes[i]
		vouched := before[i] && t != nil && (t.TrustedOutput || t.Endorses) && !out.InProcess
		if (checks[i] || vouched) && !out.Guarded() && !n.Subplan() {
			out.Relied, out.Local = true, false
		}
	}
}

// commits writes the commit policies and the barriers of the plan.
func (m *maker) commits(p *plan.Plan) {
	named := map[string]int{}
	for i, n := range m.doc.Nodes {
		c := n.Commit
		if c == nil {
			continue
		}
		out := &plan.Commit{Barrier: -1, Prechecks: slices.Sorted(slices.Values(c.Checks)), Waived: c.Waived}
		p.Nodes[i].Commit = out
		if v := n.Verify; v != nil {
			out.Verify = &plan.Verify{Node: v.Target, With: json.RawMessage("{}"), Executed: v.Condition}
			if v.Args != nil {
				out.Verify.With = v.Args.Raw
			}
			if v.Result != nil {
				out.Verify.Output = v.Result.Raw
			}
			// Whoever calls the effect evaluates them; a name that only looks like it is no harm.
			reads := v.Args != nil && v.Args.Reads("input") || v.Result != nil && v.Result.Reads("input") || strings.Contains(v.Condition, "input")
			p.Nodes[i].ReadsInput = p.Nodes[i].ReadsInput || reads
		}
		rule := ruleOf(c)
		switch {
		case c.Barrier != nil:
			at, shared := named[c.Barrier.Text]
			if !shared {
				at = len(p.Barriers)
				named[c.Barrier.Text] = at
				p.Barriers = append(p.Barriers, plan.Barrier{ID: c.Barrier.Text})
			}
			out.Barrier = at
			unite(&p.Barriers[at], rule)
		case len(rule.Groups) > 0 || rule.ExpiresInMS > 0 || len(rule.Exclude) > 0 || !rule.FollowUp.IsZero():
			out.Barrier = len(p.Barriers)
			p.Barriers = append(p.Barriers, rule)
		default:
			continue
		}
		b := &p.Barriers[out.Barrier]
		b.Members = append(b.Members, i)
	}
}

// ruleOf returns the signatures that a commit policy asks for.
func ruleOf(c *lint.CommitPolicy) plan.Barrier {
	var b plan.Barrier
	if c.Approval == nil {
		return b
	}
	b.FollowUp = c.FollowUp
	if list := c.Approval.Get("groups"); list != nil {
		for _, g := range list.Items {
			least := fields.Number(g.Get("min"))
			b.Groups = append(b.Groups, plan.Group{Role: g.Get("role").Text, Min: int(least.Num().Int64())})
		}
	}
	if v := c.Approval.Get("expires_in_ms"); v != nil {
		b.ExpiresInMS = fields.Number(v).Num().Int64()
	}
	if list := c.Approval.Get("exclude"); list != nil {
		for _, x := range list.Items {
			b.Exclude = append(b.Exclude, x.Text)
		}
	}
	slices.SortFunc(b.Groups, func(a, b plan.Group) int { return cmp.Compare(a.Role, b.Role) })
	slices.Sort(b.Exclude)
	return b
}

// unite adds a member's rule to a barrier, which has the largest number of
// signatures, the shortest times and all the exclusions of its members.
func unite(b *plan.Barrier, rule plan.Barrier) {
	b.Groups, b.FollowUp = plan.Most(b.Groups, rule.Groups), b.FollowUp.Join(rule.FollowUp)
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
	if len(doc.Loops) == 0 {
		return
	}
	p.Loops = make([]plan.Loop, len(doc.Loops))
	for i, l := range doc.Loops {
		p.Loops[i] = plan.Loop{
			Header: l.Header, Latch: l.Latch, Back: slices.Clone(l.Back), MaxIterations: int(doc.Cycles.MaxIterations), OnExhausted: plan.Fail,
		}
		if doc.Cycles.CarryOn {
			p.Loops[i].OnExhausted = plan.Continue
		}
	}
	for n, l := range doc.LoopOf {
		if l >= 0 {
			p.Loops[l].Body = append(p.Loops[l].Body, n)
		}
	}
}

// marks writes what is tainted, for drawings of the plan.
func (m *maker) marks(p *plan.Plan) {
	t := m.doc.Taint
	p.Marks = &plan.Marks{Nodes: make([]plan.Mark, len(p.Nodes)), Edges: make([]plan.Mark, len(p.Edges))}
	for i := range p.Nodes {
		p.Marks.Nodes[i] = t.Node(i)
	}
	for i := range p.Edges {
		p.Marks.Edges[i] = t.Edge(i)
	}
}
