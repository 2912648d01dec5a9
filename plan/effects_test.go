package plan_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"chimera.ai/engine/plan"
)

// TestCovered: an approval counts for what undoes the effect only if nothing else goes into
// that.
func TestCovered(t *testing.T) {
	for name, c := range map[string]struct {
		change func(p *plan.Plan)
		covers bool
	}{
		"from the output":     {func(*plan.Plan) {}, true},
		"from a constant too": {func(p *plan.Plan) { p.Nodes[6].With = []plan.PortTemplate{{Port: "a", Template: json.RawMessage(`1`)}} }, true},
		"from the plan's input": {func(p *plan.Plan) {
			p.Nodes[6].ReadsInput = true
		}, false},
		"from the failure":    {func(p *plan.Plan) { p.Edges[7].ReadsError = true }, false},
		"without an effect":   {func(p *plan.Plan) { p.Nodes[6].Effect = plan.Pure }, false},
		"and reviewed":        {func(p *plan.Plan) { p.Nodes[6].Trust = plan.ManualReview }, false},
		"that undoes nothing": {func(p *plan.Plan) { p.Nodes[6].Undoes = 0 }, false},
		"after another node of the block": {func(p *plan.Plan) {
			p.Edges = append(p.Edges, plan.Edge{From: 7, FromPort: plan.DonePort, To: 6, ToPort: plan.StartPort, Type: plan.Control})
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			p := effectful()
			c.change(p)
			p.Index()
			require.Equal(t, c.covers, p.Covered(6))
			require.False(t, p.Covered(4), "it undoes nothing")
		})
	}
}

// effectful is a small plan with every part that is about effects and loops:
//
//	$input → check → (head → latch ↺) → pay, mail → $output; pay ⤳ undo; find verifies pay
func effectful() *plan.Plan {
	call := func(id string, effect plan.EffectClass) plan.Node {
		n := plan.Node{
			ID: id, Kind: plan.KindCall, ProviderType: plan.Skill, Provider: "p", Operation: id, Mode: plan.Deter, Effect: effect,
			Trust: plan.AllowAuto, TimeoutMS: 1000, Retry: plan.Retry{MaxAttempts: 1, MultiplierMilli: 1000},
		}
		if effect != plan.Pure {
			n.Taint = new(plan.Taint)
		}
		if effect == plan.Committing || effect == plan.Irreversible {
			n.Commit = &plan.Commit{Barrier: -1}
		}
		return n
	}
	control := func(from, to int) plan.Edge {
		return plan.Edge{From: from, FromPort: plan.DonePort, To: to, ToPort: plan.StartPort, Type: plan.Control, Required: true}
	}
	pay, mail := call("pay", plan.Committing), call("mail", plan.Irreversible)
	pay.IdempotencyPort, pay.Description, pay.Resources, pay.Priority = "key", "pays", []string{"account"}, "high"
	pay.Taint = &plan.Taint{Ports: []string{"amount"}, Decision: true, Accepted: true}
	pay.Estimate, pay.Cost = &plan.Cost{Amount: "1.50", Currency: "EUR"}, &plan.Cost{Expr: "args.amount", Currency: "EUR", FromOutput: true}
	pay.ForEach = &plan.ForEach{Port: "amount", MaxParallel: 2, MaxItems: 10}
	pay.OutPorts = []string{"$"}
	pay.Commit = &plan.Commit{Barrier: 0, Verify: &plan.Verify{Node: 7, With: json.RawMessage(`{}`), Executed: "output.found", Output: json.RawMessage(`"${output}"`)}}
	mail.Commit = &plan.Commit{Barrier: 0, Prechecks: []int{1}, Waived: "sent"}
	undo := call("undo", plan.Committing)
	undo.Undoes = 4
	undo.Commit.Barrier = 1
	find := call("find", plan.Pure)
	find.Called = true
	precheck := control(1, 5)
	precheck.Implicit = true
	return &plan.Plan{
		Format: plan.Format, Name: "p", Version: "1", Agent: "a", Expr: plan.ExprVersion, Limits: plan.Limits{MaxParallel: 4, DeadlineMS: 60_000},
		Nodes: []plan.Node{
			{ID: plan.InputNode, Kind: plan.KindInput, InputSchema: -1},
			call("check", plan.Pure), call("head", plan.Pure), call("latch", plan.Pure), pay, mail, undo, find,
			{ID: plan.OutputNode, Kind: plan.KindOutput, OutputSchema: -1},
		},
		Edges: []plan.Edge{
			control(0, 1), control(1, 2), control(2, 3),
			{From: 3, FromPort: plan.DonePort, To: 2, ToPort: plan.StartPort, Type: plan.Conditional, When: "output.more"},
			control(3, 4), control(3, 5), control(4, 8),
			{From: 4, FromPort: plan.CompensatePort, To: 6, ToPort: "$", Type: plan.Error, Required: true, Transform: json.RawMessage(`"${output}"`), ReadsOutput: true},
			precheck,
		},
		Schemas: pool(`true`),
		Barriers: []plan.Barrier{
			{ID: "release", Members: []int{4, 5}, Groups: []plan.Group{{Role: "cfo", Min: 1}, {Role: "finance", Min: 2}}, ExpiresInMS: 1000, Exclude: []string{"mallory"}},
			{Members: []int{6}, Groups: []plan.Group{{Role: "cfo", Min: 1}}, FollowUp: plan.FollowUp{RemindEveryMS: 60000, EscalateAfterMS: 1000, To: []plan.Group{{Role: "board", Min: 1}}}},
		},
		Loops: []plan.Loop{{Header: 2, Latch: 3, Body: []int{2, 3}, Back: []int{3}, MaxIterations: 5, OnExhausted: plan.Fail}},
	}
}

func TestEffectful(t *testing.T) {
	p := effectful()
	require.NoError(t, p.Verify())
	b := encode(t, p)
	back, err := plan.Decode(b)
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(p, back, same))
	require.Equal(t, string(b), string(encode(t, back)))
	require.Contains(t, string(b), `"barriers":[{"id":"release","members":[4,5],"groups":[{"role":"cfo","min":1},{"role":"finance","min":2}],"expires_in_ms":1000,"exclude":["mallory"]},{"members":[6],"groups":[{"role":"cfo","min":1}],"follow_up":{"remind_every_ms":60000,"escalate_after_ms":1000,"to":[{"role":"board","min":1}]}}]`)
	require.Contains(t, string(b), `"loops":[{"header":2,"latch":3,"body":[2,3],"back":[3],"max_iterations":5,"on_exhausted":"fail"}]`)
}

// TestMarksAreNoBytes: what is only for pictures does not change a digest.
func TestMarksAreNoBytes(t *testing.T) {
	p := effectful()
	before := string(encode(t, p))
	p.Marks = &plan.Marks{Nodes: make([]plan.Mark, len(p.Nodes)), Edges: make([]plan.Mark, len(p.Edges))}
	require.NoError(t, p.Verify())
	require.Equal(t, before, string(encode(t, p)))
	p.Marks.Edges = nil
	require.ErrorContains(t, p.Verify(), "marks")
}

func TestVerifyRefusesEffects(t *testing.T) {
	type p = plan.Plan
	node := func(i int, change func(*plan.Node)) func(*p) { return func(x *p) { change(&x.Nodes[i]) } }
	edge := func(i int, change func(*plan.Edge)) func(*p) { return func(x *p) { change(&x.Edges[i]) } }
	loop := func(change func(*plan.Loop)) func(*p) { return func(x *p) { change(&x.Loops[0]) } }
	barrier := func(i int, change func(*plan.Barrier)) func(*p) { return func(x *p) { change(&x.Barriers[i]) } }
	const check, head, pay, mail, undo, find = 1, 2, 4, 5, 6, 7
	for _, c := range []struct {
		name  string
		wreck func(*p)
		want  string
	}{
		{"an effect without a policy", node(pay, func(n *plan.Node) { n.Commit = nil }), "commit is given"},
		{"a policy without an effect", node(check, func(n *plan.Node) { n.Commit = new(plan.Commit) }), "commit is given"},
		{"an effect without facts of taint", node(pay, func(n *plan.Node) { n.Taint = nil }), "taint is given"},
		{"taint of a pure node", node(check, func(n *plan.Node) { n.Taint = new(plan.Taint) }), "taint is given"},
		{"a review without facts of taint", node(check, func(n *plan.Node) { n.Trust = plan.ManualReview }), "taint is given"},
		{"tainted ports out of order", node(pay, func(n *plan.Node) { n.Taint.Ports = []string{"b", "a"} }), "tainted ports"},
		{"nothing to accept", node(mail, func(n *plan.Node) { n.Taint.Accepted = true }), "where there is none"},
		{"a key of a pure node", node(check, func(n *plan.Node) { n.IdempotencyPort = "k" }), "idempotency"},
		{"a plan by name", node(check, func(n *plan.Node) { n.Plan = "child@1" }), "called by no digest"},
		{"a plan with an effect", node(mail, func(n *plan.Node) { n.Plan = plan.DigestOf(nil) }), "with an effect"},
		{"a tool that is a plan", node(check, func(n *plan.Node) { n.ProviderType, n.Plan = plan.MCP, plan.DigestOf(nil) }), "called by no digest"},
		{"words for nobody", node(check, func(n *plan.Node) { n.Description = "x" }), "nobody waits"},
		{"an unknown priority", node(pay, func(n *plan.Node) { n.Priority = "urgent" }), "unknown priority"},
		{"a cost of nothing", node(pay, func(n *plan.Node) { n.Estimate = new(plan.Cost) }), "an amount or an expression"},
		{"a cost twice", node(pay, func(n *plan.Node) { n.Estimate.Expr = "1" }), "an amount or an expression"},
		{"a gain", node(pay, func(n *plan.Node) { n.Estimate.Amount = "-1" }), "from 0 on"},
		{"no number", node(pay, func(n *plan.Node) { n.Estimate.Amount = "one" }), "from 0 on"},
		{"a currency in words", node(pay, func(n *plan.Node) { n.Cost.Currency = "Euro" }), "three capital letters"},
		{"no element", node(pay, func(n *plan.Node) { n.ForEach.MaxItems = 0 }), "for_each"},
		{"no parallelism", node(pay, func(n *plan.Node) { n.ForEach.MaxParallel = 0 }), "for_each"},
		{"a virtual node with an effect", node(0, func(n *plan.Node) { n.Commit = new(plan.Commit) }), "calls nothing"},
		{"a virtual node that undoes", node(8, func(n *plan.Node) { n.Undoes = pay }), "calls nothing"},

		{"a barrier out of range", node(pay, func(n *plan.Node) { n.Commit.Barrier = 2 }), "barrier out of range"},
		{"a barrier far below", node(pay, func(n *plan.Node) { n.Commit.Barrier = -2 }), "barrier out of range"},
		{"a member that does not wait", node(mail, func(n *plan.Node) { n.Commit.Barrier = -1 }), "its members are not the nodes that wait"},
		{"a member elsewhere", node(mail, func(n *plan.Node) { n.Commit.Barrier = 1 }), "no member of its barrier"},
		{"a member out of range", barrier(0, func(b *plan.Barrier) { b.Members[1] = 99 }), "no member of its barrier"},
		{"a member twice", barrier(0, func(b *plan.Barrier) { b.Members = []int{4, 4, 5} }), "no member of its barrier"},
		{"a barrier of nobody", func(x *p) { x.Barriers = append(x.Barriers, plan.Barrier{ID: "x"}) }, "its members are not the nodes"},
		{"a shared barrier without a name", barrier(0, func(b *plan.Barrier) { b.ID = "" }), "it has no name"},
		{"a barrier that asks for nothing", barrier(1, func(b *plan.Barrier) { b.Groups, b.FollowUp = nil, plan.FollowUp{} }), "it has no name"},
		{"an escalation to nobody", barrier(1, func(b *plan.Barrier) { b.FollowUp.To = nil }), "an escalation without groups"},
		{"groups that are never asked", barrier(1, func(b *plan.Barrier) { b.FollowUp.EscalateAfterMS = 0 }), "groups without an escalation"},
		{"an escalation before anybody is asked", barrier(1, func(b *plan.Barrier) { b.FollowUp.EscalateAfterMS = -1 }), "out of range"},
		{"a reminder before anybody is asked", barrier(1, func(b *plan.Barrier) { b.FollowUp.RemindEveryMS = -1 }), "out of range"},
		{"an escalation to a role twice", barrier(1, func(b *plan.Barrier) { b.FollowUp.To = append(b.FollowUp.To, b.FollowUp.To...) }), "not a sorted list of roles"},
		{"an escalation to fewer than one", barrier(1, func(b *plan.Barrier) { b.FollowUp.To[0].Min = 0 }), "not a sorted list of roles"},
		{"a name twice", barrier(1, func(b *plan.Barrier) { b.ID = "release" }), "its name is taken"},
		{"barriers out of order", func(x *p) {
			x.Barriers[0], x.Barriers[1] = x.Barriers[1], x.Barriers[0]
			for _, n := range []int{pay, mail, undo} {
				x.Nodes[n].Commit.Barrier = 1 - x.Nodes[n].Commit.Barrier
			}
		}, "in the order of their first members"},
		{"groups out of order", barrier(0, func(b *plan.Barrier) { b.Groups[1].Role = "board" }), "sorted list of roles"},
		{"a group of nobody", barrier(0, func(b *plan.Barrier) { b.Groups[0].Min = 0 }), "sorted list of roles"},
		{"a group without a role", barrier(1, func(b *plan.Barrier) { b.Groups[0].Role = "" }), "sorted list of roles"},
		{"an expiry in the past", barrier(0, func(b *plan.Barrier) { b.ExpiresInMS = -1 }), "expiry"},
		{"excluded twice", barrier(0, func(b *plan.Barrier) { b.Exclude = []string{"a", "a"} }), "exclude"},
		{"members in order", edge(6, func(e *plan.Edge) { e.To = mail }), "comes before another"},
		{"members of a run and of an undo", func(x *p) {
			x.Nodes[undo].Commit.Barrier = 0
			x.Barriers = x.Barriers[:1]
			x.Barriers[0].Members = []int{4, 5, 6}
		}, "equally often"},

		{"a precheck without an edge", func(x *p) { x.Edges = x.Edges[:8] }, "without its implicit edge"},
		{"an edge without a precheck", node(mail, func(n *plan.Node) { n.Commit.Prechecks = nil }), "without a precheck"},
		{"another's precheck", edge(8, func(e *plan.Edge) { e.From = head }), "without its implicit edge"},
		{"an implicit edge among the others", edge(0, func(e *plan.Edge) { e.Implicit = true }), "implicit edges that no precheck makes"},
		{"an implicit edge with a choice", edge(8, func(e *plan.Edge) { e.Required = false }), "a required control edge"},
		{"a precheck with an effect", func(x *p) { x.Nodes[mail].Commit.Prechecks[0], x.Edges[8].From = pay, pay }, "sorted pure nodes"},
		{"a precheck that people review", node(check, func(n *plan.Node) { n.Trust, n.Taint = plan.ManualReview, new(plan.Taint) }), "that nobody reviews"},
		{"a precheck of itself", node(mail, func(n *plan.Node) { n.Commit.Prechecks[0] = mail }), "sorted pure nodes"},
		{"a precheck out of range", node(mail, func(n *plan.Node) { n.Commit.Prechecks[0] = 99 }), "sorted pure nodes"},
		{"irreversible, and nothing is said", node(mail, func(n *plan.Node) { n.Commit.Waived = "" }), "neither verified nor waived"},
		{"a verify of nothing", node(pay, func(n *plan.Node) { n.Commit.Verify.Node = 8 }), "verify is not complete"},
		{"a verify without a predicate", node(pay, func(n *plan.Node) { n.Commit.Verify.Executed = "" }), "verify is not complete"},
		{"a verify without arguments", node(pay, func(n *plan.Node) { n.Commit.Verify.With = nil }), "verify is not complete"},
		{"called, and nobody calls", node(pay, func(n *plan.Node) { n.Commit.Verify = nil }), "called is marked wrongly"},
		{"called without a mark", node(find, func(n *plan.Node) { n.Called = false }), "called is marked wrongly"},
		{"called, with an effect", node(find, func(n *plan.Node) { n.Effect, n.Taint = plan.Staged, new(plan.Taint) }), "called to verify, and not pure"},
		{"called, and reviewed", node(find, func(n *plan.Node) { n.Trust, n.Taint = plan.ManualReview, new(plan.Taint) }), "called to verify, and not pure"},
		{"called, with an edge", edge(6, func(e *plan.Edge) { e.To = find }), "touches a node that is called"},
		{"called, and undoes", node(find, func(n *plan.Node) { n.Undoes = pay }), "part of a compensation"},

		{"into a compensation", edge(6, func(e *plan.Edge) { e.To = undo }), "into a compensation, or out of one"},
		{"an edge that reads no failure", edge(6, func(e *plan.Edge) { e.ReadsError = true }), "marked to read the failure"},
		{"out of a compensation", edge(6, func(e *plan.Edge) { e.From = undo }), "into a compensation, or out of one"},
		{"an undo of another node", node(undo, func(n *plan.Node) { n.Undoes = mail }), "does not undo its source"},
		{"an undo of nothing", func(x *p) { x.Edges = append(x.Edges[:7], x.Edges[8:]...) }, "it undoes nothing"},
		{"an undo out of range", node(undo, func(n *plan.Node) { n.Undoes = 99 }), "does not undo its source"},
		{"an undo of a pure node", edge(7, func(e *plan.Edge) { e.From, e.ReadsOutput = head, false }), "without an effect"},
		{"an undo without arguments", edge(7, func(e *plan.Edge) { e.Transform, e.ReadsOutput = nil, false }), "always"},
		{"an undo on a condition", edge(7, func(e *plan.Edge) { e.When = "true" }), "always"},
		{"an output that is not kept", node(pay, func(n *plan.Node) { n.OutPorts = nil }), "not among the source's out_ports"},

		{"a cycle", func(x *p) { x.Loops = nil }, "a cycle that is no loop"},
		{"a cycle of others", edge(0, func(e *plan.Edge) { e.From = mail }), "a cycle that is no loop"},
		{"a header elsewhere", loop(func(l *plan.Loop) { l.Header = 1 }), "not in its body"},
		{"a latch elsewhere", loop(func(l *plan.Loop) { l.Latch = 4 }), "not in its body"},
		{"a latch that is none", loop(func(l *plan.Loop) { l.Latch = 2 }), "not an optional conditional edge from latch"},
		{"a body out of order", loop(func(l *plan.Loop) { l.Body = []int{3, 2} }), "not in its body"},
		{"a body with $input", loop(func(l *plan.Loop) { l.Body = []int{0, 2, 3} }), "not a sorted list of nodes"},
		{"a body with $output", loop(func(l *plan.Loop) { l.Body = []int{2, 3, 8} }), "not a sorted list of nodes"},
		{"a body with more", loop(func(l *plan.Loop) { l.Body = []int{1, 2, 3} }), "enters it beside its header"},
		{"no way back", loop(func(l *plan.Loop) { l.Back = nil }), "not a sorted list of edges"},
		{"a way back out of range", loop(func(l *plan.Loop) { l.Back = []int{99} }), "not a sorted list of edges"},
		{"a way back that is none", loop(func(l *plan.Loop) { l.Back = []int{2, 3} }), "from latch to header"},
		{"a way back that must be", edge(3, func(e *plan.Edge) { e.Required = true }), "from latch to header"},
		{"no visit", loop(func(l *plan.Loop) { l.MaxIterations = 0 }), "iterations"},
		{"an unknown end", loop(func(l *plan.Loop) { l.OnExhausted = "stop" }), "on_exhausted"},
		{"a second way in", edge(4, func(e *plan.Edge) { e.From, e.To = 1, 3 }), "enters it beside its header"},
		{"no way in", edge(1, func(e *plan.Edge) { e.To = 4 }), "no edge enters it"},
		{"a loop twice", func(x *p) { x.Loops = append(x.Loops, x.Loops[0]) }, "in the order of their first nodes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := effectful()
			c.wreck(x)
			require.ErrorContains(t, x.Verify(), c.want)
		})
	}
}

// parent is a plan that runs another one.
func parent(t *testing.T) (*plan.Plan, *plan.Plan) {
	child := valid()
	p := valid()
	for _, x := range []*plan.Plan{p, child} {
		n := &x.Nodes[2]
		n.Effect, n.Trust, n.Taint = plan.Pure, plan.AllowAuto, nil
	}
	p.Nodes[1].Plan = plan.DigestOf(encode(t, child))
	p.Nodes[1].InProcess, p.Nodes[1].Local = false, false
	p.Children = []plan.Child{{Digest: p.Nodes[1].Plan, Plan: child}}
	return p, child
}

// TestChildren: a plan has one digest, alone and as a part of another.
func TestChildren(t *testing.T) {
	p, child := parent(t)
	require.NoError(t, p.Verify())
	b := encode(t, p)
	require.NotContains(t, string(b), "children")
	back, err := plan.Decode(b)
	require.NoError(t, err)
	require.Nil(t, back.Children)
	require.Equal(t, string(b), string(encode(t, back)))
	child.Name = "other"
	require.ErrorContains(t, p.Verify(), "does not have its digest")
	for _, c := range []struct {
		want  string
		wreck func(p, child *plan.Plan)
	}{
		{"is missing", func(p, _ *plan.Plan) { p.Nodes[1].Plan = plan.DigestOf(nil) }},
		{"nobody runs", func(p, _ *plan.Plan) { p.Nodes[1].Plan = "" }},
		{"not a sorted list", func(p, _ *plan.Plan) { p.Children = append(p.Children, p.Children[0]) }},
		{"not a sorted list", func(p, _ *plan.Plan) { p.Children[0].Plan = nil }},
		{"format is", func(_, child *plan.Plan) { child.Format = "" }},
		{"has no effect", func(p, child *plan.Plan) {
			child.Nodes[2].Effect, child.Nodes[2].Taint = plan.Staged, new(plan.Taint)
			p.Nodes[1].Plan = plan.DigestOf(encode(t, child))
			p.Children[0].Digest = p.Nodes[1].Plan
		}},
	} {
		p, child := parent(t)
		c.wreck(p, child)
		require.ErrorContains(t, p.Verify(), c.want)
	}
}
