package plan_test

import (
	"encoding/json"
	"fmt"
	"slices"

	"pgregory.net/rapid"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/plan"
)

// valid is a small plan that has something of everything.
func valid() *plan.Plan {
	schemas := pool(`true`, `{"type":"object"}`)
	return &plan.Plan{
		Format: plan.Format, Name: "p", Version: "1.0.0", Agent: "a", Expr: plan.ExprVersion,
		Limits: plan.Limits{MaxParallel: 4, DeadlineMS: 60_000},
		Nodes: []plan.Node{
			{ID: plan.InputNode, Kind: plan.KindInput, InputSchema: -1, OutputSchema: 1, OutPorts: []string{"$", "x", "y"}, RoutesOnInput: true},
			{
				ID: "first", Kind: plan.KindCall, ProviderType: plan.Skill, Provider: "engine", Operation: "pass",
				Mode: plan.Deter, Effect: plan.Pure, Trust: plan.AllowAuto, TimeoutMS: 1000,
				Retry: plan.Retry{
					MaxAttempts: 3, On: []contract.Kind{contract.ToolError, contract.Transport}, InitialMS: 500, MultiplierMilli: 2000, MaxMS: 60_000,
				},
				InProcess: true, Local: true, InputSchema: 1, OutputSchema: 0,
				With:          []plan.PortTemplate{{Port: "a", Template: json.RawMessage(`"${input.x}"`)}, {Port: "b", Template: json.RawMessage(`null`)}},
				RequiredPorts: []string{"a", "x"}, OutPorts: []string{"$", "x"}, ReadsInput: true,
			},
			{
				ID: "second", Kind: plan.KindCall, ProviderType: plan.MCP, Provider: "files", Operation: "read",
				Mode: plan.Prob, Effect: plan.Staged, Trust: plan.ManualReview, TimeoutMS: 5000,
				Retry:       plan.Retry{MaxAttempts: 1, MultiplierMilli: 1000},
				Fingerprint: "sha256:00", InputSchema: 0, OutputSchema: 1, RequiredPorts: []string{"$"}, OutPorts: []string{"$"},
				Taint: &plan.Taint{},
			},
			{ID: plan.OutputNode, Kind: plan.KindOutput, InputSchema: 1, OutputSchema: -1, RequiredPorts: []string{"x"}},
		},
		Edges: []plan.Edge{
			{From: 0, FromPort: "x", To: 1, ToPort: "x", Type: plan.Data, Required: true, Transform: json.RawMessage(`null`)},
			{From: 0, FromPort: "y", To: 2, ToPort: "$", Type: plan.Conditional, When: "value > 1 && input.x"},
			{From: 0, FromPort: plan.DonePort, To: 2, ToPort: plan.StartPort, Type: plan.Conditional, Otherwise: true},
			{From: 1, FromPort: plan.DonePort, To: 2, ToPort: plan.StartPort, Type: plan.Control, Required: true},
			{From: 1, FromPort: "x", To: 3, ToPort: "x", Type: plan.Data, Transform: json.RawMessage(`{"n":"${output.n}"}`), ReadsOutput: true},
			{From: 1, FromPort: plan.ErrorPort, To: 3, ToPort: "x", Type: plan.Error, When: "error.kind == 'timeout'", Transform: json.RawMessage(`"${value}"`)},
			{From: 2, FromPort: "$", To: 3, ToPort: "x", Type: plan.Data},
		},
		Schemas: schemas,
	}
}

func pool(texts ...string) []plan.Schema {
	var out []plan.Schema
	for _, s := range texts {
		out = append(out, plan.Schema{Digest: plan.DigestOf([]byte(s)), Schema: json.RawMessage(s)})
	}
	slices.SortFunc(out, func(a, b plan.Schema) int {
		if a.Digest < b.Digest {
			return -1
		}
		return 1
	})
	return out
}

// names draws sorted, distinct port names.
func names(t *rapid.T, label string) []string {
	out := rapid.SliceOfNDistinct(rapid.OneOf(rapid.SampledFrom([]string{"", "a", "b", "c", "<&>"}), rapid.String()), 0, 4, rapid.ID[string]).Draw(t, label)
	out = slices.DeleteFunc(out, func(s string) bool { return len(s) > 0 && s[0] == '$' })
	slices.Sort(out)
	if len(out) == 0 {
		return nil
	}
	return out
}

// persons draws a sorted list of ids of persons.
func persons(t *rapid.T) []string {
	out := rapid.SliceOfNDistinct(rapid.StringMatching(`[a-z0-9._@-]{1,9}`), 0, 4, rapid.ID[string]).Draw(t, "exclude")
	slices.Sort(out)
	if len(out) == 0 {
		return nil
	}
	return out
}

func template(t *rapid.T, label string) json.RawMessage {
	raw, err := plan.Canonical(value(2).Draw(t, label))
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// role is what a drawn node is there for.
type role int

const (
	plain role = iota
	header
	latch
	undo
	called
)

// plans draws plans that verify, of every shape that the invariants leave open.
// Edges lead to nodes further down, so that there is no cycle but the loop.
func plans() *rapid.Generator[*plan.Plan] {
	return rapid.Custom(func(t *rapid.T) *plan.Plan {
		calls := rapid.IntRange(0, 7).Draw(t, "calls")
		p := &plan.Plan{
			Format: plan.Format, Name: rapid.String().Draw(t, "name"), Version: rapid.String().Draw(t, "version"),
			Agent: rapid.String().Draw(t, "agent"), Expr: plan.ExprVersion,
			Limits:  plan.Limits{MaxParallel: rapid.IntRange(1, 1000).Draw(t, "parallel"), DeadlineMS: rapid.Int64Range(1, 1e12).Draw(t, "deadline")},
			Nodes:   make([]plan.Node, calls+2),
			Edges:   []plan.Edge{},
			Schemas: pool([]string{`true`, `{"a":"<&>\u2028"}`, `{"b":1.50}`}[:rapid.IntRange(1, 3).Draw(t, "schemas")]...),
		}
		schema := rapid.IntRange(0, len(p.Schemas)-1)
		for i := range p.Nodes {
			p.Nodes[i] = node(t, i, calls, schema)
		}
		roles := make([]role, len(p.Nodes))
		drawLoop(t, p, roles)
		drawUndo(t, p, roles)
		for range rapid.IntRange(0, 3*calls+2).Draw(t, "edges") {
			edge(t, p, roles)
		}
		drawCommits(t, p, roles)
		return p
	})
}

// drawLoop makes the first node, or the first two, a loop.
func drawLoop(t *rapid.T, p *plan.Plan, roles []role) {
	size := rapid.IntRange(0, min(2, len(p.Nodes)-2)).Draw(t, "loop")
	if size == 0 {
		return
	}
	p.Loops = []plan.Loop{{
		Header: 1, Latch: size, Body: []int{1, 2}[:size], Back: []int{size},
		MaxIterations: rapid.IntRange(1, 1000).Draw(t, "visits"),
		OnExhausted:   rapid.SampledFrom([]plan.Exhausted{plan.Fail, plan.Continue}).Draw(t, "exhausted"),
	}}
	for to := range size {
		p.Edges = append(p.Edges, plan.Edge{From: to, FromPort: plan.DonePort, To: to + 1, ToPort: plan.StartPort, Type: plan.Control, Required: true})
		roles[to+1] = header
	}
	if size == 2 {
		roles[2] = latch
	}
	p.Edges = append(p.Edges, plan.Edge{From: size, FromPort: plan.DonePort, To: 1, ToPort: plan.StartPort, Type: plan.Conditional, When: "output.more"})
}

// drawUndo makes the last call undo an earlier one, if that has an effect.
func drawUndo(t *rapid.T, p *plan.Plan, roles []role) {
	last := len(p.Nodes) - 2
	if last < 2 || roles[last] != plain || !rapid.Bool().Draw(t, "undo") {
		return
	}
	owner := rapid.IntRange(1, last-1).Draw(t, "undone")
	if p.Nodes[owner].Effect == plan.Pure {
		return
	}
	e := plan.Edge{From: owner, FromPort: plan.CompensatePort, To: last, ToPort: "x", Type: plan.Error, Required: true}
	e.Transform = template(t, "transform")
	e.ReadsOutput = rapid.Bool().Draw(t, "reads")
	keep(p, &e)
	p.Edges = append(p.Edges, e)
	p.Nodes[last].Undoes = owner
	roles[last] = undo
}

// drawCommits gives effects their commit policies.
func drawCommits(t *rapid.T, p *plan.Plan, roles []role) {
	var shared []int
	for i := range p.Nodes {
		n := &p.Nodes[i]
		if n.Effect != plan.Committing && n.Effect != plan.Irreversible {
			continue
		}
		c := &plan.Commit{Barrier: -1}
		n.Commit = c
		if roles[i] == plain || roles[i] == header {
			for at := 1; at < i; at++ {
				if roles[at] != undo && !p.Nodes[at].Guarded() && roles[at] != called && !inLoop(p, i, at) && rapid.Bool().Draw(t, "precheck") {
					c.Prechecks = append(c.Prechecks, at)
					p.Edges = append(p.Edges, plan.Edge{From: at, FromPort: plan.DonePort, To: i, ToPort: plan.StartPort, Type: plan.Control, Required: true, Implicit: true})
				}
			}
		}
		if idle := i + 1; idle < len(p.Nodes)-1 && free(p, roles, idle) && rapid.Bool().Draw(t, "verify") {
			c.Verify = &plan.Verify{Node: idle, With: template(t, "with"), Executed: rapid.StringN(1, 9, -1).Draw(t, "executed")}
			if rapid.Bool().Draw(t, "gives") {
				c.Verify.Output = template(t, "output")
			}
			p.Nodes[idle].Called = true
			roles[idle] = called
		}
		if rapid.Bool().Draw(t, "waived") {
			c.Waived = rapid.StringN(1, 9, -1).Draw(t, "reason")
		}
		if n.Effect == plan.Irreversible && (c.Prechecks == nil || c.Verify == nil && c.Waived == "") {
			n.Effect = plan.Committing
		}
		switch rapid.SampledFrom([]string{"none", "own", "named", "shared"}).Draw(t, "barrier") {
		case "own":
			c.Barrier = len(p.Barriers)
			p.Barriers = append(p.Barriers, barrier(t, "", i))
		case "named":
			c.Barrier = len(p.Barriers)
			p.Barriers = append(p.Barriers, barrier(t, fmt.Sprintf("b%d", i), i))
		case "shared":
			if roles[i] != plain {
				break
			}
			if at := slices.IndexFunc(p.Barriers, func(b plan.Barrier) bool { return b.ID == "all" }); at >= 0 {
				if !leads(p, shared, i) {
					c.Barrier = at
					p.Barriers[at].Members = append(p.Barriers[at].Members, i)
					shared = append(shared, i)
				}
				break
			}
			c.Barrier = len(p.Barriers)
			p.Barriers = append(p.Barriers, barrier(t, "all", i))
			shared = append(shared, i)
		}
	}
}

// inLoop reports whether a precheck would go back to the header of a loop.
func inLoop(p *plan.Plan, i, check int) bool {
	return len(p.Loops) > 0 && slices.Contains(p.Loops[0].Body, i) && slices.Contains(p.Loops[0].Body, check)
}

// free reports whether a node that needs no permit has no edge.
func free(p *plan.Plan, roles []role, i int) bool {
	return roles[i] == plain && !p.Nodes[i].Guarded() && p.Nodes[i].ForEach == nil &&
		!slices.ContainsFunc(p.Edges, func(e plan.Edge) bool { return e.From == i || e.To == i })
}

// leads reports whether some way leads from one of the nodes to another one, all
// of whose ways go down the list.
func leads(p *plan.Plan, from []int, to int) bool {
	reached := make([]bool, len(p.Nodes))
	for _, n := range from {
		reached[n] = true
	}
	for n := range p.Nodes {
		for _, e := range p.Edges {
			if e.To == n && e.From < n && reached[e.From] {
				reached[n] = true
			}
		}
	}
	return reached[to]
}

func barrier(t *rapid.T, id string, member int) plan.Barrier {
	b := plan.Barrier{ID: id, Members: []int{member}, ExpiresInMS: rapid.Int64Range(1, 1e9).Draw(t, "expires"), Exclude: persons(t)}
	for _, r := range names(t, "roles") {
		if r != "" {
			b.Groups = append(b.Groups, plan.Group{Role: r, Min: rapid.IntRange(1, 9).Draw(t, "min")})
		}
	}
	if len(b.Groups) > 0 && rapid.Bool().Draw(t, "escalates") {
		b.FollowUp = plan.FollowUp{RemindEveryMS: rapid.Int64Range(0, 1e9).Draw(t, "remind"), EscalateAfterMS: rapid.Int64Range(1, 1e9).Draw(t, "escalate"), To: b.Groups}
	}
	return b
}

// effects draws what a call says of its effect, but for its commit policy.
func effects(t *rapid.T, n *plan.Node) {
	if n.Effect != plan.Pure {
		n.IdempotencyPort = rapid.String().Draw(t, "key")
	}
	if n.Guarded() {
		n.Taint = &plan.Taint{Ports: names(t, "tainted"), Decision: rapid.Bool().Draw(t, "decision")}
		n.Taint.Accepted = n.Taint.Any() && rapid.Bool().Draw(t, "accepted")
		n.Description = rapid.String().Draw(t, "description")
		n.Resources = names(t, "resources")
		n.Priority = rapid.SampledFrom([]string{"", "low", "medium", "high"}).Draw(t, "priority")
	}
	cost := func(label string) *plan.Cost {
		c := &plan.Cost{Currency: rapid.SampledFrom([]string{"USD", "EUR"}).Draw(t, "currency")}
		switch rapid.IntRange(0, 2).Draw(t, label) {
		case 0:
			return nil
		case 1:
			c.Amount = rapid.SampledFrom([]string{"0", "1.50", "2e3"}).Draw(t, "amount")
		case 2:
			c.Expr = rapid.StringN(1, 9, -1).Draw(t, "expr")
			c.FromOutput = rapid.Bool().Draw(t, "from output")
		}
		return c
	}
	n.Estimate, n.Cost = cost("estimate"), cost("cost")
	if rapid.Bool().Draw(t, "each") {
		n.ForEach = &plan.ForEach{Port: rapid.String().Draw(t, "over"), MaxParallel: rapid.IntRange(1, 9).Draw(t, "at once"), MaxItems: rapid.IntRange(1, 9).Draw(t, "items")}
	}
	if n.Effect == plan.Pure && n.ProviderType == plan.Skill && rapid.Bool().Draw(t, "subplan") {
		n.Plan = plan.DigestOf([]byte(n.ID))
	}
}

func node(t *rapid.T, i, calls int, schema *rapid.Generator[int]) plan.Node {
	if i == 0 {
		return plan.Node{ID: plan.InputNode, Kind: plan.KindInput, InputSchema: -1, OutputSchema: schema.Draw(t, "schema"), RoutesOnInput: rapid.Bool().Draw(t, "routes")}
	}
	n := plan.Node{
		InputSchema: schema.Draw(t, "input"), RequiredPorts: names(t, "required"), ReadsInput: rapid.Bool().Draw(t, "reads"),
	}
	if i == calls+1 {
		n.ID, n.Kind, n.OutputSchema = plan.OutputNode, plan.KindOutput, -1
		return n
	}
	n.ID, n.Kind = fmt.Sprintf("n%d", i), plan.KindCall
	n.OutputSchema = schema.Draw(t, "output")
	n.ProviderType = rapid.SampledFrom([]plan.ProviderType{plan.Skill, plan.MCP}).Draw(t, "type")
	n.Provider, n.Operation = "p", rapid.StringN(1, 9, -1).Draw(t, "operation")
	n.Mode = rapid.SampledFrom([]plan.Mode{plan.Prob, plan.Deter}).Draw(t, "mode")
	n.Effect = rapid.SampledFrom([]plan.EffectClass{plan.Pure, plan.Staged, plan.Committing, plan.Irreversible}).Draw(t, "effect")
	n.Trust = rapid.SampledFrom([]plan.Trust{plan.AllowAuto, plan.ManualReview, plan.Block}).Draw(t, "trust")
	n.TimeoutMS = rapid.Int64Range(1, 1e9).Draw(t, "timeout")
	n.Retry = plan.Retry{
		MaxAttempts: rapid.IntRange(1, 100).Draw(t, "attempts"), InitialMS: rapid.Int64Range(0, 1e9).Draw(t, "initial"),
		MultiplierMilli: rapid.Int64Range(1000, 100_000).Draw(t, "multiplier"), MaxMS: rapid.Int64Range(0, 1e9).Draw(t, "max"),
	}
	if on := rapid.SliceOfNDistinct(rapid.SampledFrom(contract.Kinds()), 0, 4, rapid.ID[contract.Kind]).Draw(t, "on"); len(on) > 0 {
		slices.Sort(on)
		n.Retry.On = on
	}
	n.RoutesOnInput = rapid.Bool().Draw(t, "routes")
	n.InProcess = n.ProviderType == plan.Skill && rapid.Bool().Draw(t, "in process")
	n.Local = n.InProcess && !n.Guarded() && n.Mode == plan.Deter
	if !n.InProcess {
		n.Endpoints = names(t, "endpoints")
	}
	if n.ProviderType == plan.MCP {
		n.Instructions = rapid.SampledFrom([]string{"", "sha256:03"}).Draw(t, "instructions")
		n.Structured = rapid.Bool().Draw(t, "structured")
	}
	for _, port := range names(t, "with") {
		n.With = append(n.With, plan.PortTemplate{Port: port, Template: template(t, "template")})
	}
	effects(t, &n)
	return n
}

// edge adds an edge where the roles of both ends allow one.
func edge(t *rapid.T, p *plan.Plan, roles []role) {
	from := rapid.IntRange(0, len(p.Nodes)-2).Draw(t, "from")
	e := plan.Edge{
		From: from, FromPort: rapid.SampledFrom([]string{"$", "", "x", "ä"}).Draw(t, "port"),
		To: rapid.IntRange(from+1, len(p.Nodes)-1).Draw(t, "to"), ToPort: rapid.SampledFrom([]string{"", "x", "y"}).Draw(t, "into"),
		Type:     rapid.SampledFrom([]plan.EdgeType{plan.Data, plan.Control, plan.Conditional, plan.Error}).Draw(t, "type"),
		Required: rapid.Bool().Draw(t, "required"),
	}
	if e.Type == plan.Error && e.From == 0 {
		e.Type = plan.Data
	}
	switch e.Type {
	case plan.Data:
	case plan.Control:
		e.FromPort, e.ToPort = plan.DonePort, plan.StartPort
	case plan.Conditional:
		if rapid.Bool().Draw(t, "otherwise") {
			e.Otherwise = true
		} else {
			e.When = rapid.StringN(1, 9, -1).Draw(t, "when")
		}
		if rapid.Bool().Draw(t, "done") {
			e.FromPort, e.ToPort = plan.DonePort, plan.StartPort
		}
	case plan.Error:
		e.FromPort = plan.ErrorPort
	}
	switch {
	case roles[e.From] == undo || roles[e.To] == undo, roles[e.To] == latch && roles[e.From] != header:
		return
	case !e.Carries():
	case rapid.Bool().Draw(t, "transformed"):
		e.Transform = template(t, "transform")
		e.ReadsOutput = e.Type != plan.Error && rapid.Bool().Draw(t, "reads")
	}
	keep(p, &e)
	p.Edges = append(p.Edges, e)
}

// keep names what the edge takes along among its source's out_ports.
func keep(p *plan.Plan, e *plan.Edge) {
	n := &p.Nodes[e.From]
	if e.Type != plan.Error && e.Carries() {
		n.OutPorts = append(n.OutPorts, e.FromPort)
	}
	if e.ReadsOutput {
		n.OutPorts = append(n.OutPorts, plan.WholePort)
	}
	slices.Sort(n.OutPorts)
	n.OutPorts = slices.Compact(n.OutPorts)
}
