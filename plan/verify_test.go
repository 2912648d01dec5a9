package plan_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/plan"
)

// TestVerifyRefuses breaks one invariant after the other.
func TestVerifyRefuses(t *testing.T) {
	require.NoError(t, valid().Verify())
	type p = plan.Plan
	first := func(f func(*plan.Node)) func(*p) { return func(x *p) { f(&x.Nodes[1]) } }
	second := func(f func(*plan.Node)) func(*p) { return func(x *p) { f(&x.Nodes[2]) } }
	input := func(f func(*plan.Node)) func(*p) { return func(x *p) { f(&x.Nodes[0]) } }
	output := func(f func(*plan.Node)) func(*p) { return func(x *p) { f(&x.Nodes[3]) } }
	edge := func(i int, f func(*plan.Edge)) func(*p) { return func(x *p) { f(&x.Edges[i]) } }
	const (
		data, conditional, otherwise, control, reads, failure = 0, 1, 2, 3, 4, 5
	)
	for _, c := range []struct {
		name  string
		wreck func(*p)
		want  string
	}{
		{"no format", func(x *p) { x.Format = "" }, "format"},
		{"expressions of the past", func(x *p) { x.Expr = 0 }, "expressions of version 0"},
		{"no parallelism", func(x *p) { x.Limits.MaxParallel = 0 }, "limits"},
		{"no time", func(x *p) { x.Limits.DeadlineMS = 0 }, "limits"},
		{"time beyond durations", func(x *p) { x.Limits.DeadlineMS = 1 << 62 }, "limits"},

		{"no nodes", func(x *p) { x.Nodes = nil }, "$input is not first"},
		{"one node", func(x *p) { x.Nodes = x.Nodes[:1] }, "$input is not first"},
		{"no $input", func(x *p) { x.Nodes = x.Nodes[1:] }, "$input is not first"},
		{"no $output", func(x *p) { x.Nodes = x.Nodes[:3] }, "$output not last"},
		{"$input by another name", input(func(n *plan.Node) { n.ID = "input" }), "does not have its name"},
		{"$output by another name", output(func(n *plan.Node) { n.ID = "output" }), "does not have its name"},
		{"a second $input", second(func(n *plan.Node) { n.Kind = plan.KindInput }), "is out of place"},
		{"a second $output", first(func(n *plan.Node) { n.Kind = plan.KindOutput }), "is out of place"},
		{"an unknown kind", first(func(n *plan.Node) { n.Kind = "barrier" }), `kind "barrier" is out of place`},
		{"no kind", first(func(n *plan.Node) { n.Kind = "" }), `kind "" is out of place`},
		{"one id twice", second(func(n *plan.Node) { n.ID = "first" }), `node "first" is there twice`},
		{"a reserved id twice", second(func(n *plan.Node) { n.ID = "$input" }), "is there twice"},
		{"a reserved id", second(func(n *plan.Node) { n.ID = "$error" }), "empty or reserved"},
		{"no id", second(func(n *plan.Node) { n.ID = "" }), "empty or reserved"},

		{"an input schema that is not there", first(func(n *plan.Node) { n.InputSchema = 2 }), "schema out of range"},
		{"an output schema that is not there", first(func(n *plan.Node) { n.OutputSchema = 2 }), "schema out of range"},
		{"no input schema", first(func(n *plan.Node) { n.InputSchema = -1 }), "schema out of range"},
		{"no output schema", first(func(n *plan.Node) { n.OutputSchema = -1 }), "schema out of range"},
		{"a negative schema", input(func(n *plan.Node) { n.OutputSchema = -2 }), "schema out of range"},
		{"$input with an input schema", input(func(n *plan.Node) { n.InputSchema = 0 }), "$input takes no input"},
		{"$input with required ports", input(func(n *plan.Node) { n.RequiredPorts = []string{"x"} }), "$input takes no input"},
		{"$input that evaluates", input(func(n *plan.Node) { n.ReadsInput = true }), "$input takes no input"},
		{"$output with an output schema", output(func(n *plan.Node) { n.OutputSchema = 0 }), "$output has no output"},
		{"$output with ports", output(func(n *plan.Node) { n.OutPorts = []string{"x"} }), "$output has no output"},
		{"$output that routes", output(func(n *plan.Node) { n.RoutesOnInput = true }), "$output has no output"},
		{"$input that calls", input(func(n *plan.Node) { n.Provider = "engine" }), "calls nothing"},
		{"$input with a timeout", input(func(n *plan.Node) { n.TimeoutMS = 1 }), "calls nothing"},
		{"$output with with", output(func(n *plan.Node) { n.With = []plan.PortTemplate{{Port: "x", Template: json.RawMessage("1")}} }), "calls nothing"},
		{"$output with a retry policy", output(func(n *plan.Node) { n.Retry.MaxAttempts = 1 }), "calls nothing"},
		{"$output that is local", output(func(n *plan.Node) { n.Local = true }), "calls nothing"},

		{"no provider type", first(func(n *plan.Node) { n.ProviderType = "" }), "unknown provider type"},
		{"an unknown provider type", first(func(n *plan.Node) { n.ProviderType = "http" }), `unknown provider type "http"`},
		{"no provider", first(func(n *plan.Node) { n.Provider = "" }), "no operation"},
		{"no operation", first(func(n *plan.Node) { n.Operation = "" }), "no operation"},
		{"an unknown mode", first(func(n *plan.Node) { n.Mode = "maybe" }), `unknown mode "maybe"`},
		{"an unknown effect", first(func(n *plan.Node) { n.Effect = "harmless" }), `unknown effect class "harmless"`},
		{"an unknown trust", first(func(n *plan.Node) { n.Trust = "allow" }), `unknown trust requirement "allow"`},
		{"no timeout", first(func(n *plan.Node) { n.TimeoutMS = 0 }), "timeout out of range"},
		{"a timeout beyond durations", first(func(n *plan.Node) { n.TimeoutMS = 1 << 60 }), "timeout out of range"},
		{"endpoints in disorder", second(func(n *plan.Node) { n.Endpoints = []string{"sha256:02", "sha256:01"} }), "the endpoints are not sorted"},
		{"one endpoint twice", second(func(n *plan.Node) { n.Endpoints = []string{"sha256:01", "sha256:01"} }), "the endpoints are not sorted"},
		{"an endpoint in process", first(func(n *plan.Node) { n.Endpoints = []string{"sha256:01"} }), "does not have"},
		{"a structured skill", first(func(n *plan.Node) { n.Structured = true }), "not a tool"},
		{"instructions of a skill", first(func(n *plan.Node) { n.Instructions = "sha256:01" }), "does not have"},
		{"$input with endpoints", input(func(n *plan.Node) { n.Endpoints = []string{"sha256:01"} }), "calls nothing"},
		{"$output with instructions", output(func(n *plan.Node) { n.Instructions = "sha256:01" }), "calls nothing"},
		{"a tool in process", second(func(n *plan.Node) { n.InProcess = true }), "not a skill"},
		{"local, not in process", first(func(n *plan.Node) { n.InProcess = false }), "marked local"},
		{"local, with an effect", first(func(n *plan.Node) { n.Effect = plan.Staged }), "marked local"},
		{"local, and reviewed", first(func(n *plan.Node) { n.Trust = plan.ManualReview }), "marked local"},
		{"local, not deterministic", first(func(n *plan.Node) { n.Mode = plan.Prob }), "marked local"},
		{"with out of order", first(func(n *plan.Node) { n.With[0].Port = "z" }), "with is not a sorted list"},
		{"with twice", first(func(n *plan.Node) { n.With[0].Port = "b" }), "with is not a sorted list"},
		{"with without a template", first(func(n *plan.Node) { n.With[1].Template = nil }), "with is not a sorted list"},
		{"required ports out of order", first(func(n *plan.Node) { n.RequiredPorts = []string{"x", "a"} }), "required_ports"},
		{"a required port twice", output(func(n *plan.Node) { n.RequiredPorts = []string{"x", "x"} }), "required_ports"},
		{"out ports out of order", first(func(n *plan.Node) { n.OutPorts = []string{"x", "$"} }), "out_ports"},
		{"an out port twice", input(func(n *plan.Node) { n.OutPorts = []string{"$", "x", "x", "y"} }), "out_ports"},

		{"no attempt", first(func(n *plan.Node) { n.Retry.MaxAttempts = 0 }), "retry policy out of range"},
		{"attempts that Temporal would read as no bound", first(func(n *plan.Node) { n.Retry.MaxAttempts = 1 << 32 }), "retry policy out of range"},
		{"a shrinking wait", first(func(n *plan.Node) { n.Retry.MultiplierMilli = 999 }), "retry policy out of range"},
		{"an exploding wait", first(func(n *plan.Node) { n.Retry.MultiplierMilli = 1 << 40 }), "retry policy out of range"},
		{"a negative wait", first(func(n *plan.Node) { n.Retry.InitialMS = -1 }), "retry policy out of range"},
		{"a negative longest wait", first(func(n *plan.Node) { n.Retry.MaxMS = -1 }), "retry policy out of range"},
		{"a wait beyond durations", first(func(n *plan.Node) { n.Retry.MaxMS = 1 << 60 }), "retry policy out of range"},
		{"an unknown kind of error", first(func(n *plan.Node) { n.Retry.On = []contract.Kind{"oops"} }), `unknown error kind "oops"`},
		{"kinds out of order", first(func(n *plan.Node) { n.Retry.On = []contract.Kind{contract.Transport, contract.ToolError} }), "not sorted"},
		{"a kind twice", first(func(n *plan.Node) { n.Retry.On = []contract.Kind{contract.Auth, contract.Auth} }), "not sorted"},

		{"an edge from nowhere", edge(data, func(e *plan.Edge) { e.From = -1 }), "edge 0: node out of range"},
		{"an edge from $output", edge(data, func(e *plan.Edge) { e.From = 3 }), "node out of range"},
		{"an edge to nowhere", edge(data, func(e *plan.Edge) { e.To = 4 }), "node out of range"},
		{"an edge to $input", edge(data, func(e *plan.Edge) { e.To = 0 }), "node out of range"},
		{"an edge without a type", edge(data, func(e *plan.Edge) { e.Type = "" }), `unknown type ""`},
		{"an edge of an unknown type", edge(data, func(e *plan.Edge) { e.Type = "stream" }), `unknown type "stream"`},
		{"from $start", edge(data, func(e *plan.Edge) { e.FromPort = plan.StartPort }), "reserved port"},
		{"to $done", edge(control, func(e *plan.Edge) { e.ToPort = plan.DonePort }), "reserved port"},
		{"to $error", edge(data, func(e *plan.Edge) { e.ToPort = plan.ErrorPort }), "reserved port"},
		{"to $compensate", edge(failure, func(e *plan.Edge) { e.ToPort = plan.CompensatePort }), "reserved port"},
		{"data from $error", edge(data, func(e *plan.Edge) { e.FromPort = plan.ErrorPort }), "they alone"},
		{"conditional from $compensate", edge(conditional, func(e *plan.Edge) { e.FromPort = plan.CompensatePort }), "they alone"},
		{"an error edge from a port", edge(failure, func(e *plan.Edge) { e.FromPort = "x" }), "they alone"},
		{"data from $done", edge(data, func(e *plan.Edge) { e.FromPort = plan.DonePort }), "a data edge"},
		{"data to $start", edge(data, func(e *plan.Edge) { e.ToPort = plan.StartPort }), "a data edge"},
		{"data on a condition", edge(data, func(e *plan.Edge) { e.When = "true" }), "a data edge"},
		{"data otherwise", edge(data, func(e *plan.Edge) { e.Otherwise = true }), "a data edge"},
		{"control from a port", edge(control, func(e *plan.Edge) { e.FromPort = "x" }), "a control edge"},
		{"control to a port", edge(control, func(e *plan.Edge) { e.ToPort = "x" }), "a control edge"},
		{"control on a condition", edge(control, func(e *plan.Edge) { e.When = "true" }), "a control edge"},
		{"a condition twice", edge(conditional, func(e *plan.Edge) { e.Otherwise = true }), "both a predicate and otherwise"},
		{"$done as a value", edge(otherwise, func(e *plan.Edge) { e.ToPort = "$" }), "a conditional edge from $done"},
		{"$done as its own condition", edge(otherwise, func(e *plan.Edge) { e.Otherwise = false }), "a conditional edge from $done"},
		{"$input that fails", edge(failure, func(e *plan.Edge) { e.From = 0 }), "an error edge"},
		{"an error otherwise", edge(failure, func(e *plan.Edge) { e.When, e.Otherwise = "", true }), "an error edge"},
		{"a transform of nothing", edge(control, func(e *plan.Edge) { e.Transform = json.RawMessage("1") }), "a transform without a value"},
		{"reading the output for nothing", edge(control, func(e *plan.Edge) { e.ReadsOutput = true }), "a transform without a value"},
		{"reading the output without a transform", edge(reads, func(e *plan.Edge) { e.Transform = nil }), "without a transform"},
		{"reading the output of a failure", edge(failure, func(e *plan.Edge) { e.ReadsOutput = true }), "without a transform that could"},
		{"a value that is not kept", input(func(n *plan.Node) { n.OutPorts = []string{"$", "y"} }), `edge 0: the port "x" is not among`},
		{"an output that is not kept", first(func(n *plan.Node) { n.OutPorts = []string{"x"} }), "the whole output is not among"},
		{"a whole value that is not kept", second(func(n *plan.Node) { n.OutPorts = nil }), `the port "$" is not among`},

		{"$ beside an edge", edge(data, func(e *plan.Edge) { e.To = 2 }), `node "second": "$" beside another payload`},
		{"$ beside with", edge(data, func(e *plan.Edge) { e.ToPort = "$" }), `node "first": "$" beside another payload`},
		{"$ in with beside an edge", second(func(n *plan.Node) { n.With = []plan.PortTemplate{{Port: "a", Template: json.RawMessage("1")}} }), `"$" beside`},

		{"a schema with another digest", func(x *p) { x.Schemas[0].Digest = "sha256:" }, "schema 0 does not have its digest"},
		{"a schema with another text", func(x *p) { x.Schemas[1].Schema = json.RawMessage(`false`) }, "schema 1 does not have its digest"},
		{"schemas out of order", func(x *p) { x.Schemas[0], x.Schemas[1] = x.Schemas[1], x.Schemas[0] }, "not sorted"},
		{"a schema twice", func(x *p) { x.Schemas[1] = x.Schemas[0] }, "not sorted"},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := valid()
			c.wreck(x)
			require.ErrorContains(t, x.Verify(), c.want)
		})
	}
}

// TestVerifyAllows has plans that are unusual, but valid.
func TestVerifyAllows(t *testing.T) {
	x := valid()
	x.Nodes[1].OutPorts = []string{"", "$", "x"}
	x.Edges[4].FromPort = ""
	x.Nodes[3].RequiredPorts = []string{"", "x"}
	x.Edges[1].When = ""
	x.Edges[1].ToPort = plan.StartPort
	x.Nodes[2].With = []plan.PortTemplate{{Port: "$", Template: json.RawMessage(`{}`)}}
	require.NoError(t, x.Verify())
}
