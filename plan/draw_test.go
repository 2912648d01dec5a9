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

func template(t *rapid.T, label string) json.RawMessage {
	raw, err := plan.Canonical(value(2).Draw(t, label))
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// plans draws plans that verify, of every shape that the invariants leave open.
func plans() *rapid.Generator[*plan.Plan] {
	return rapid.Custom(func(t *rapid.T) *plan.Plan {
		calls := rapid.IntRange(0, 6).Draw(t, "calls")
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
		for range rapid.IntRange(0, 3*calls+2).Draw(t, "edges") {
			p.Edges = append(p.Edges, edge(t, p))
		}
		return p
	})
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
	n.Local = n.InProcess && n.Effect == plan.Pure && n.Mode == plan.Deter
	for _, port := range names(t, "with") {
		n.With = append(n.With, plan.PortTemplate{Port: port, Template: template(t, "template")})
	}
	return n
}

func edge(t *rapid.T, p *plan.Plan) plan.Edge {
	e := plan.Edge{
		From: rapid.IntRange(0, len(p.Nodes)-2).Draw(t, "from"), FromPort: rapid.SampledFrom([]string{"$", "", "x", "ä"}).Draw(t, "port"),
		To: rapid.IntRange(1, len(p.Nodes)-1).Draw(t, "to"), ToPort: rapid.SampledFrom([]string{"", "x", "y"}).Draw(t, "into"),
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
		e.FromPort = rapid.SampledFrom([]string{plan.ErrorPort, plan.CompensatePort}).Draw(t, "error port")
	}
	if !e.Carries() {
		return e
	}
	if rapid.Bool().Draw(t, "transformed") {
		e.Transform = template(t, "transform")
		e.ReadsOutput = e.Type != plan.Error && rapid.Bool().Draw(t, "reads")
	}
	n := &p.Nodes[e.From]
	if e.Type != plan.Error {
		n.OutPorts = append(n.OutPorts, e.FromPort)
	}
	if e.ReadsOutput {
		n.OutPorts = append(n.OutPorts, plan.WholePort)
	}
	slices.Sort(n.OutPorts)
	n.OutPorts = slices.Compact(n.OutPorts)
	return e
}
