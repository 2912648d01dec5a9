package activities_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"

	"chimera.ai/engine/activities"
	"chimera.ai/engine/contract"
	"chimera.ai/engine/plan"
)

// from is an edge from a port of the target to a port of $output.
func from(port string, kind plan.EdgeType, when string) plan.Edge {
	e := plan.Edge{From: target, FromPort: port, To: 3, ToPort: "r", Type: kind, When: when}
	if port == plan.DonePort {
		e.ToPort = plan.StartPort
	}
	if when == "otherwise" {
		e.When, e.Otherwise = "", true
	}
	return e
}

func TestOutcome(t *testing.T) {
	for _, c := range []struct {
		name   string
		edges  []plan.Edge
		input  string
		output string
		values []string // "" is an absent port
		held   []bool
	}{
		{"no edges", nil, "", `{"x":1}`, nil, nil},
		{"ports in order", []plan.Edge{from("x", plan.Data, ""), from("$", plan.Data, ""), from("a", plan.Data, "")}, "",
			` {"x":1.50, "a":null} `, []string{`{"a":null,"x":1.50}`, `null`, `1.50`}, []bool{true, true, true}},
		{"an absent port", []plan.Edge{from("x", plan.Data, ""), from("y", plan.Data, "")}, "", `{"y":2}`, []string{"", `2`}, []bool{false, true}},
		{"no object has no ports", []plan.Edge{from("x", plan.Data, ""), from("$", plan.Data, "")}, "", `[1]`, []string{`[1]`, ""}, []bool{false, true}},
		{"control", []plan.Edge{from(plan.DonePort, plan.Control, "")}, "", `1`, nil, []bool{true}},
		{"when", []plan.Edge{from("x", plan.Conditional, "value > 1"), from("x", plan.Conditional, "value > 2")}, "", `{"x":2}`, []string{`2`}, []bool{true, false}},
		{"when over output", []plan.Edge{from("x", plan.Conditional, "output.y == value")}, "", `{"x":2,"y":2}`, []string{`2`}, []bool{true}},
		{"when over input", []plan.Edge{from("x", plan.Conditional, "input.n == value")}, `{"n":2}`, `{"x":2}`, []string{`2`}, []bool{true}},
		{"when of $done", []plan.Edge{from(plan.DonePort, plan.Conditional, "output == 3")}, "", `3`, nil, []bool{true}},
		{"when of an absent port", []plan.Edge{from("x", plan.Conditional, "value.k == 1")}, "", `{}`, []string{""}, []bool{false}},
		{"otherwise: another holds", []plan.Edge{from("x", plan.Conditional, "otherwise"), from("x", plan.Conditional, "value == 1")}, "", `{"x":1}`, []string{`1`}, []bool{false, true}},
		{"otherwise: none holds", []plan.Edge{from("x", plan.Conditional, "otherwise"), from("x", plan.Conditional, "value == 1")}, "", `{"x":2}`, []string{`2`}, []bool{true, false}},
		{"otherwise: the other's port is absent", []plan.Edge{from("y", plan.Conditional, "true"), from(plan.DonePort, plan.Conditional, "otherwise")}, "", `{}`, []string{""}, []bool{false, true}},
		{"otherwise: its own port is absent", []plan.Edge{from("y", plan.Conditional, "otherwise"), from("x", plan.Conditional, "false")}, "", `{"x":1}`, []string{`1`, ""}, []bool{false, false}},
		{"otherwise: data does not count", []plan.Edge{from("x", plan.Data, ""), from("x", plan.Conditional, "false"), from("x", plan.Conditional, "otherwise")}, "", `{"x":1}`, []string{`1`}, []bool{true, false, true}},
		{"a boolean is its own condition", []plan.Edge{from("x", plan.Conditional, ""), from("y", plan.Conditional, ""), from("y", plan.Conditional, "otherwise")}, "",
			`{"x":true,"y":false}`, []string{`true`, `false`}, []bool{true, false, false}},
		{"error edges have no place", []plan.Edge{from(plan.ErrorPort, plan.Error, ""), from("x", plan.Data, ""), from(plan.ErrorPort, plan.Error, "error.kind == 'auth'")}, "", `{"x":1}`, []string{`1`}, []bool{true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := shape{edges: c.edges, routes: c.input != ""}
			out, f := environ(t, s.plan(t)).tool(returns(c.output), contract.Call{Node: target, Input: contract.Value(c.input)})
			require.Nil(t, f)
			require.Empty(t, cmp.Diff(c.held, out.Held))
			require.Len(t, out.Values, len(c.values))
			for i, want := range c.values {
				if want == "" {
					want = "null" // what an absent port is once it has crossed
				}
				require.Equal(t, want, string(out.Values[i]))
			}
		})
	}
}

func TestOutcomeFails(t *testing.T) {
	for _, c := range []struct {
		name   string
		edge   plan.Edge
		output string
		want   string
	}{
		{"a string as condition", from("x", plan.Conditional, ""), `{"x":"true"}`, "must be true or false"},
		{"a null as condition", from("x", plan.Conditional, ""), `{"x":null}`, "must be true or false"},
		{"a predicate", from("x", plan.Conditional, "value.k"), `{"x":{}}`, "when of target.x -> $output.r: "},
		{"a predicate that is no boolean", from("x", plan.Conditional, "value"), `{"x":1}`, "when of target.x -> $output.r: "},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, f := call(t, shape{edges: []plan.Edge{c.edge}}, returns(c.output))
			require.NotNil(t, f)
			require.Equal(t, contract.Expr, f.kind)
			require.Contains(t, f.message, c.want)
			require.False(t, f.retried)
		})
	}
}

func TestForms(t *testing.T) {
	const number = `{"type":"object","properties":{"x":{"type":"number"}},"required":["x"]}`
	s := func() shape { return shape{output: number, edges: []plan.Edge{from("x", plan.Data, "")}} }
	for _, c := range []struct {
		name  string
		forms []string
		want  string
	}{
		{"one", []string{`{"x":1}`}, `1`},
		{"the first that matches", []string{`{"content":[]}`, `{"x":2}`, `{"x":3}`}, `2`},
		{"the first of several", []string{`{"x":1}`, `{"x":2}`}, `1`},
		{"not what is no JSON", []string{`{`, `{"x":2}`}, `2`},
	} {
		t.Run(c.name, func(t *testing.T) {
			out, f := call(t, s(), returns(c.forms...))
			require.Nil(t, f)
			require.Equal(t, c.want, string(out.Values[0]))
		})
	}
	for _, c := range []struct {
		name  string
		forms []string
		kind  contract.Kind
		want  string
	}{
		{"nothing", nil, contract.InvalidOutput, "target returned nothing"},
		{"none matches: the best one is named", []string{`{"x":"s"}`, `[]`}, contract.InvalidOutput, "the output of target does not match its schema: /x: "},
		{"no JSON", []string{`nope`}, contract.InvalidOutput, "the output of target: at byte "},
		{"an empty text", []string{``}, contract.InvalidOutput, "the output of target: at byte 0"},
		{"two values in one text", []string{`{"x":1,"x":2}`}, contract.InvalidOutput, "the output of target: at byte "},
		{"too deep", []string{deep(1000)}, contract.TooLarge, "the output of target: "},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := s()
			x.retry.On = []contract.Kind{contract.InvalidOutput}
			_, f := call(t, x, returns(c.forms...))
			require.NotNil(t, f)
			require.Equal(t, c.kind, f.kind)
			require.Contains(t, f.message, c.want)
			require.Equal(t, c.kind == contract.InvalidOutput, f.retried)
		})
	}
}

func deep(n int) string {
	b := make([]byte, 0, 2*n)
	for range n {
		b = append(b, '[')
	}
	for range n {
		b = append(b, ']')
	}
	return string(b)
}

// TestOutput: $output is assembled and validated, and calls nothing.
func TestOutput(t *testing.T) {
	s := shape{input: `{"type":"object","required":["r"]}`, edges: []plan.Edge{from("x", plan.Data, "")}}
	e := environ(t, s.plan(t))
	engine := &activities.Engine{Plans: e.store, Values: inline{}}
	e.env.RegisterActivityWithOptions(engine.Local, activity.RegisterOptions{Name: contract.ActivityLocal})
	got, err := e.env.ExecuteActivity(contract.ActivityLocal, contract.Call{Plan: e.digest, Node: 3, Deliveries: []contract.Delivery{value(0, `1`)}})
	require.NoError(t, err)
	var out contract.Outcome
	require.NoError(t, got.Get(&out))
	require.Empty(t, cmp.Diff(contract.Outcome{
		Values: []contract.Value{json.RawMessage(`{"r":1}`)}, Output: plan.DigestOf([]byte(`{"r":1}`)),
	}, out))

	_, err = e.env.ExecuteActivity(contract.ActivityLocal, contract.Call{Plan: e.digest, Node: 3})
	f := read(t, err)
	require.Equal(t, contract.Contract, f.kind)
	require.Contains(t, f.message, "the input of $output does not match its schema")
}

func TestRoute(t *testing.T) {
	late := contract.ErrorPayload{Kind: contract.Timeout, Message: "late", Node: "target", Attempts: 2, Details: json.RawMessage(`{"code":5}`)}
	for _, c := range []struct {
		name  string
		edges []plan.Edge
		input string
		error contract.ErrorPayload
		held  []bool
		want  string
	}{
		{"none", []plan.Edge{from("x", plan.Data, "")}, "", late, nil, ""},
		{"all", []plan.Edge{from(plan.ErrorPort, plan.Error, ""), from("x", plan.Data, ""), from(plan.ErrorPort, plan.Error, "")}, "", late, []bool{true, true}, ""},
		{"by kind", []plan.Edge{from(plan.ErrorPort, plan.Error, "error.kind == 'timeout'"), from(plan.ErrorPort, plan.Error, "error.kind == 'auth'")}, "", late, []bool{true, false}, ""},
		{"by details", []plan.Edge{from(plan.ErrorPort, plan.Error, "error.details.code > 4 && error.attempts == 2 && error.node == 'target'")}, "", late, []bool{true}, ""},
		{"by input", []plan.Edge{from(plan.ErrorPort, plan.Error, "input.strict")}, `{"strict":false}`, late, []bool{false}, ""},
		{"a predicate that fails", []plan.Edge{from(plan.ErrorPort, plan.Error, "error.details.no == 1")}, "", late, nil, "when of target.$error -> $output.r: "},
		{"a name that is out of scope", []plan.Edge{from(plan.ErrorPort, plan.Error, "value == 1")}, "", late, nil, "cannot be prepared"},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := environ(t, shape{edges: c.edges, routes: c.input != ""}.plan(t))
			engine := &activities.Engine{Plans: e.store, Values: inline{}}
			e.env.RegisterActivityWithOptions(engine.Route, activity.RegisterOptions{Name: contract.ActivityRoute})
			got, err := e.env.ExecuteActivity(contract.ActivityRoute, contract.RouteRequest{Plan: e.digest, Node: target, Error: c.error, Input: contract.Value(c.input)})
			if c.want != "" {
				f := read(t, err)
				require.Contains(t, f.message, c.want)
				require.Contains(t, []contract.Kind{contract.Expr, contract.Contract}, f.kind)
				require.False(t, f.retried)
				return
			}
			require.NoError(t, err)
			var result contract.RouteResult
			require.NoError(t, got.Get(&result))
			require.Empty(t, cmp.Diff(contract.RouteResult{Held: c.held}, result))
		})
	}
}
