package activities_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"

	"chimera.ai/engine/activities"
	"chimera.ai/engine/contract"
	"chimera.ai/engine/plan"
)

// memory is a store of plans.
type memory struct {
	plans    map[string]*plan.Plan
	get, put error
}

func (m *memory) Put(_ context.Context, p *plan.Plan) (string, error) {
	if m.put != nil {
		return "", m.put
	}
	b, err := p.Encode()
	if err != nil {
		return "", err
	}
	if m.plans == nil {
		m.plans = map[string]*plan.Plan{}
	}
	m.plans[plan.DigestOf(b)] = p
	return plan.DigestOf(b), nil
}

func (m *memory) Check(context.Context) error { return nil }

func (m *memory) Get(_ context.Context, digest string) (*plan.Plan, error) {
	if m.get != nil {
		return nil, m.get
	}
	p, ok := m.plans[digest]
	if !ok {
		return nil, errors.New("no such plan")
	}
	return p, nil
}

func (m *memory) Prepared(ctx context.Context, digest string, prepare func(*plan.Plan, func(int)) any) (any, error) {
	p, err := m.Get(ctx, digest)
	if err != nil {
		return nil, err
	}
	return prepare(p, func(int) {}), nil
}

// inline stores no value elsewhere.
type inline struct{}

func (inline) Keep(context.Context, string, []contract.Value, bool) error { return nil }
func (inline) Give(context.Context, string, ...*contract.Value) error     { return nil }

// caller is an operation, made by hand.
type caller func(ctx context.Context, input json.RawMessage) ([]json.RawMessage, error)

func (c caller) Call(ctx context.Context, r activities.Request) (activities.Answer, error) {
	forms, err := c(ctx, r.Input)
	return activities.Answer{Forms: forms}, err
}

// returns gives the forms of an output, whatever the input.
func returns(forms ...string) caller {
	return func(context.Context, json.RawMessage) ([]json.RawMessage, error) {
		var out []json.RawMessage
		for _, f := range forms {
			out = append(out, json.RawMessage(f))
		}
		return out, nil
	}
}

func fails(err error) caller {
	return func(context.Context, json.RawMessage) ([]json.RawMessage, error) { return nil, err }
}

// echo returns its input and records it.
func echo(seen *string) caller {
	return func(_ context.Context, input json.RawMessage) ([]json.RawMessage, error) {
		*seen = string(input)
		return []json.RawMessage{input}, nil
	}
}

// Places in the plans of these tests.
const (
	source = 1
	target = 2
)

// shape is what a test says of its plan: $input, the node "source", the node
// "target" and $output, with the schemas of the node that is looked at.
type shape struct {
	input, output string
	edges         []plan.Edge
	with          map[string]string
	reads, routes bool
	timeout       int64
	retry         plan.Retry
	planInput     string
	effect        plan.EffectClass
}

func (s shape) plan(t require.TestingT) *plan.Plan {
	texts := []string{"true"}
	schema := func(text string) string {
		if text == "" {
			return "true"
		}
		if !slices.Contains(texts, text) {
			texts = append(texts, text)
		}
		return text
	}
	for _, text := range []string{s.input, s.output, s.planInput} {
		schema(text)
	}
	p := &plan.Plan{Format: plan.Format, Name: "p", Version: "1", Expr: plan.ExprVersion, Limits: plan.Limits{MaxParallel: 1, DeadlineMS: 1000}}
	for _, text := range texts {
		p.Schemas = append(p.Schemas, plan.Schema{Digest: plan.DigestOf([]byte(text)), Schema: json.RawMessage(text)})
	}
	slices.SortFunc(p.Schemas, func(a, b plan.Schema) int {
		if a.Digest < b.Digest {
			return -1
		}
		return 1
	})
	at := func(text string) int {
		return slices.IndexFunc(p.Schemas, func(x plan.Schema) bool { return string(x.Schema) == schema(text) })
	}
	retry := s.retry
	if retry.MaxAttempts == 0 {
		retry = plan.Retry{MaxAttempts: 3, MultiplierMilli: 1000, On: retry.On}
	}
	node := func(id string) plan.Node {
		return plan.Node{
			ID: id, Kind: plan.KindCall, ProviderType: plan.Skill, Provider: "test", Operation: id,
			Mode: plan.Deter, Effect: plan.Pure, Trust: plan.AllowAuto, TimeoutMS: 60_000, Retry: retry,
			InputSchema: at(s.input), OutputSchema: at(s.output), ReadsInput: s.reads, RoutesOnInput: s.routes,
		}
	}
	p.Nodes = []plan.Node{
		{ID: plan.InputNode, Kind: plan.KindInput, InputSchema: -1, OutputSchema: at(s.planInput), RoutesOnInput: s.routes},
		node("source"), node("target"),
		{ID: plan.OutputNode, Kind: plan.KindOutput, InputSchema: at(s.input), OutputSchema: -1},
	}
	if s.timeout > 0 {
		p.Nodes[target].TimeoutMS = s.timeout
	}
	if s.effect != "" {
		p.Nodes[target].Effect, p.Nodes[target].Taint = s.effect, new(plan.Taint)
		if s.effect != plan.Staged {
			p.Nodes[target].Commit = &plan.Commit{Barrier: -1, Prechecks: []int{target - 1}, Waived: "sent"}
		}
	}
	for port, template := range s.with {
		p.Nodes[target].With = append(p.Nodes[target].With, plan.PortTemplate{Port: port, Template: json.RawMessage(template)})
	}
	slices.SortFunc(p.Nodes[target].With, func(a, b plan.PortTemplate) int {
		if a.Port < b.Port {
			return -1
		}
		return 1
	})
	p.Edges = s.edges
	if p.Nodes[target].Commit != nil {
		p.Edges = append(p.Edges, plan.Edge{From: target - 1, FromPort: plan.DonePort, To: target, ToPort: plan.StartPort, Type: plan.Control, Required: true, Implicit: true})
	}
	for i := range p.Edges {
		e := &p.Edges[i]
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
	require.NoError(t, p.Verify())
	p.Index()
	return p
}

// into is an edge from a port of the source to a port of the target.
func into(port string, more ...func(*plan.Edge)) plan.Edge {
	e := plan.Edge{From: source, FromPort: "x", To: target, ToPort: port, Type: plan.Data}
	for _, f := range more {
		f(&e)
	}
	return e
}

func through(template string) func(*plan.Edge) {
	return func(e *plan.Edge) { e.Transform = json.RawMessage(template) }
}

func readsOutput(e *plan.Edge) { e.ReadsOutput = true }

// failure is what Temporal carries of an activity that has failed.
type failure struct {
	kind    contract.Kind
	message string
	retried bool
	// wait is what Temporal is told, and later what the interpreter is told.
	wait, later time.Duration
	attempts    int
	details     string
	diagnosed   json.RawMessage
	benign      bool
}

func read(t require.TestingT, err error) *failure {
	if err == nil {
		return nil
	}
	var application *temporal.ApplicationError
	require.ErrorAs(t, err, &application)
	f := &failure{
		kind: contract.Kind(application.Type()), message: application.Message(),
		retried: !application.NonRetryable(), wait: application.NextRetryDelay(),
		benign: application.Category() == temporal.ApplicationErrorCategoryBenign,
	}
	if application.HasDetails() {
		var details contract.ErrorDetails
		require.NoError(t, application.Details(&details))
		f.attempts, f.details, f.diagnosed = details.Attempts, string(details.Details), details.Diagnostics
		f.later = time.Duration(details.WaitMS) * time.Millisecond
	}
	return f
}

// environment runs activities as a worker does. Its store has the plan.
type environment struct {
	t      testing.TB
	env    *testsuite.TestActivityEnvironment
	store  *memory
	digest string
}

func environ(t testing.TB, p *plan.Plan) *environment {
	var suite testsuite.WorkflowTestSuite
	e := &environment{t: t, env: suite.NewTestActivityEnvironment(), store: &memory{}}
	if p != nil {
		var err error
		e.digest, err = e.store.Put(t.Context(), p)
		require.NoError(t, err)
	}
	return e
}

func (e *environment) tool(c activities.Caller, call contract.Call) (contract.Outcome, *failure) {
	tools := &activities.Tools{Plans: e.store, Values: inline{}, Caller: c}
	e.env.RegisterActivityWithOptions(tools.Node, activity.RegisterOptions{Name: "test/target"})
	if call.Plan == "" {
		call.Plan = e.digest
	}
	var out contract.Outcome
	value, err := e.env.ExecuteActivity("test/target", call)
	if err == nil {
		require.NoError(e.t, value.Get(&out))
	}
	return out, read(e.t, err)
}

// call runs the target with these deliveries.
func call(t testing.TB, s shape, c activities.Caller, deliveries ...contract.Delivery) (contract.Outcome, *failure) {
	return environ(t, s.plan(t)).tool(c, contract.Call{Node: target, Deliveries: deliveries})
}

func value(edge int, v string) contract.Delivery {
	return contract.Delivery{Edge: edge, Value: contract.Value(v)}
}
