package activities_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/schemas"
)

func TestAssembly(t *testing.T) {
	type d = []contract.Delivery
	for _, c := range []struct {
		name       string
		shape      shape
		input      string
		deliveries d
		want       string
	}{
		{"nothing", shape{}, "", nil, `{}`},
		{"ports", shape{edges: []plan.Edge{into("b"), into("a")}}, "", d{value(0, `2`), value(1, `[1.50]`)}, `{"a":[1.50],"b":2}`},
		{"null is a value", shape{edges: []plan.Edge{into("a")}, with: map[string]string{"a": `1`}}, "", d{value(0, `null`)}, `{"a":null}`},
		{"alternatives: what was delivered", shape{edges: []plan.Edge{into("a"), into("a"), into("a")}}, "", d{value(2, `3`)}, `{"a":3}`},
		{"with", shape{with: map[string]string{"a": `{"k":[1.0,null]}`, "b": `"x"`}}, "", nil, `{"a":{"k":[1.0,null]},"b":"x"}`},
		{"with is the default", shape{edges: []plan.Edge{into("a")}, with: map[string]string{"a": `1`, "b": `2`}}, "", d{value(0, `3`)}, `{"a":3,"b":2}`},
		{"with stands in", shape{edges: []plan.Edge{into("a")}, with: map[string]string{"a": `1`}}, "", nil, `{"a":1}`},
		{"with over input", shape{with: map[string]string{"a": `"${input.n}"`, "b": `"n=${input.n}"`}, reads: true}, `{"n":7}`, nil, `{"a":7,"b":"n=7"}`},
		{"$ is the payload", shape{edges: []plan.Edge{into("$")}}, "", d{value(0, `[1]`)}, `[1]`},
		{"$ of with", shape{with: map[string]string{"$": `"all"`}}, "", nil, `"all"`},
		{"$ of with is the default", shape{edges: []plan.Edge{into("$")}, with: map[string]string{"$": `"all"`}}, "", d{value(0, `5`)}, `5`},
		{"a transform", shape{edges: []plan.Edge{into("a", through(`{"v":"${value}","s":"<${value.k}>"}`))}}, "", d{value(0, `{"k":1}`)}, `{"a":{"s":"<1>","v":{"k":1}}}`},
		{"a transform over output", shape{edges: []plan.Edge{into("a", through(`"${output.y}"`), readsOutput)}}, "",
			d{{Edge: 0, Value: contract.Value(`1`), Output: contract.Value(`{"x":1,"y":2}`)}}, `{"a":2}`},
		{"a transform over input", shape{edges: []plan.Edge{into("a", through(`"${input.n}"`))}, reads: true}, `{"n":7}`, d{value(0, `1`)}, `{"a":7}`},
		{"a constant transform", shape{edges: []plan.Edge{into("a", through(`null`))}}, "", d{value(0, `1`)}, `{"a":null}`},
		{"big numbers", shape{edges: []plan.Edge{into("a"), into("b", through(`"${value}"`))}}, "",
			d{value(0, `9007199254740993`), value(1, `9007199254740993`)}, `{"a":9007199254740993,"b":9007199254740993}`},
		{"keys are sorted", shape{edges: []plan.Edge{into("$")}}, "", d{value(0, ` {"b":1, "a":2} `)}, `{"a":2,"b":1}`},
		{"an error", shape{edges: []plan.Edge{into("$", onError)}}, "", d{failed()}, `{"attempts":2,"details":{"code":1},"kind":"timeout","message":"late","node":"source"}`},
		{"an error without details", shape{edges: []plan.Edge{into("$", onError)}}, "",
			d{{Edge: 0, Error: &contract.ErrorPayload{Kind: contract.Auth, Node: "source", Attempts: 1}}}, `{"attempts":1,"details":null,"kind":"auth","message":"","node":"source"}`},
		{"a transform of an error", shape{edges: []plan.Edge{into("a", onError, through(`["${error.kind}","${value.details.code}"]`))}}, "", d{failed()}, `{"a":["timeout",1]}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			var seen string
			_, f := environ(t, c.shape.plan(t)).tool(echo(&seen), contract.Call{Node: target, Deliveries: c.deliveries, Input: contract.Value(c.input)})
			require.Nil(t, f)
			require.Equal(t, c.want, seen)
		})
	}
}

func onError(e *plan.Edge) { e.Type, e.FromPort = plan.Error, plan.ErrorPort }

func failed() contract.Delivery {
	return contract.Delivery{Edge: 0, Error: &contract.ErrorPayload{
		Kind: contract.Timeout, Message: "late", Node: "source", Attempts: 2, Details: json.RawMessage(`{"code":1}`),
	}}
}

// TestAssemblyFails: none of these calls an operation, and none is retried.
func TestAssemblyFails(t *testing.T) {
	const object = `{"properties":{"a":{"type":"string"}},"required":["a"],"type":"object"}`
	half := `"` + strings.Repeat("x", schemas.MaxBytes/2) + `"`
	type d = []contract.Delivery
	for _, c := range []struct {
		name       string
		shape      shape
		input      string
		deliveries d
		kind       contract.Kind
		want       string
	}{
		{"a transform", shape{edges: []plan.Edge{into("a", through(`"${value.k}"`))}}, "", d{value(0, `{}`)}, contract.Expr, "transform of source.x -> target.a: "},
		{"a transform of an error", shape{edges: []plan.Edge{into("a", onError, through(`"${error.details.no}"`))}}, "", d{failed()}, contract.Expr, "transform of source.$error -> target.a: "},
		{"with", shape{with: map[string]string{"a": `"${input.k}"`}, reads: true}, `{}`, nil, contract.Expr, "with.a: "},
		{"with without the plan's input", shape{with: map[string]string{"a": `"${input.k}"`}, reads: true}, ``, nil, contract.Contract, "the plan's input"},
		{"an expression that does not compile", shape{edges: []plan.Edge{into("a", through(`"${value +}"`))}}, "", d{value(0, `1`)}, contract.Contract, "node target cannot be prepared: "},
		{"a name that is out of scope", shape{with: map[string]string{"a": `"${value}"`}}, "", nil, contract.Contract, "node target cannot be prepared: "},
		{"a schema that does not compile", shape{input: `{"type":"strange"}`}, "", nil, contract.Contract, "node target cannot be prepared: "},
		{"the input", shape{input: object, edges: []plan.Edge{into("a")}}, "", d{value(0, `1`)}, contract.Contract, "the input of target does not match its schema: /a: "},
		{"a missing port", shape{input: object}, "", nil, contract.Contract, "the input of target does not match its schema: "},
		{"$ against the schema", shape{input: object, edges: []plan.Edge{into("$")}}, "", d{value(0, `[]`)}, contract.Contract, "the input of target"},
		{"too much together", shape{input: object, edges: []plan.Edge{into("a"), into("b")}}, "", d{value(0, half), value(1, half)}, contract.TooLarge, "the input of target: "},
		{"no JSON", shape{edges: []plan.Edge{into("a")}}, "", d{{Edge: 0}}, contract.Contract, "the value of source.x -> target.a: at byte 0"},
		{"two values of one port", shape{edges: []plan.Edge{into("a"), into("a")}}, "", d{value(0, `1`), value(1, `2`)}, contract.Contract, "edge 1 brings a second value to port a of target"},
		{"no output for the transform", shape{edges: []plan.Edge{into("a", through(`"${output.y}"`), readsOutput)}}, "", d{value(0, `1`)}, contract.Contract, "the output behind source.x -> target.a"},
		{"two values in one text", shape{edges: []plan.Edge{into("a")}}, "", d{value(0, `{"k":1,"k":2}`)}, contract.Contract, "the value of source.x -> target.a"},
		{"an edge to another node", shape{edges: []plan.Edge{into("a"), {From: source, FromPort: "x", To: 3, ToPort: "x", Type: plan.Data}}}, "", d{value(1, `1`)}, contract.Contract, "edge 1 brings no value to target"},
		{"an edge that is not there", shape{}, "", d{value(9, `1`)}, contract.Contract, "edge 9 brings no value to target"},
		{"a negative edge", shape{}, "", d{value(-1, `1`)}, contract.Contract, "edge -1 brings no value"},
		{"an edge without a value", shape{edges: []plan.Edge{{From: source, FromPort: plan.DonePort, To: target, ToPort: plan.StartPort, Type: plan.Control}}}, "", d{value(0, `1`)}, contract.Contract, "edge 0 brings no value"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.shape.retry.On = []contract.Kind{contract.Timeout, contract.ToolError, contract.Transport}
			called := ""
			_, f := environ(t, c.shape.plan(t)).tool(echo(&called), contract.Call{Node: target, Deliveries: c.deliveries, Input: contract.Value(c.input)})
			require.NotNil(t, f)
			require.Empty(t, called)
			require.Equal(t, c.kind, f.kind, f.message)
			require.Contains(t, f.message, c.want)
			require.False(t, f.retried)
			require.Equal(t, 1, f.attempts)
		})
	}
}

// causes are the details of a failed validation.
type causes struct {
	Causes []struct{ Instance, Keyword, Message string }
	More   int
}

func TestInputCauses(t *testing.T) {
	s := shape{input: `{"properties":{"a":{"type":"string"},"b":{"minimum":5}},"type":"object"}`, edges: []plan.Edge{into("a"), into("b")}}
	_, f := call(t, s, returns(), value(0, `1`), value(1, `2`))
	require.Equal(t, contract.Contract, f.kind)
	var got causes
	require.NoError(t, json.Unmarshal([]byte(f.details), &got))
	require.Len(t, got.Causes, 2)
	require.Equal(t, "/a", got.Causes[0].Instance)
	require.Equal(t, "/properties/a/type", got.Causes[0].Keyword)
	require.Equal(t, "/b", got.Causes[1].Instance)
	require.Equal(t, "must be >= 5, but is 2", got.Causes[1].Message)
	require.Zero(t, got.More)
}

// TestManyCauses: causes that do not fit are counted, and the others are still
// listed.
func TestManyCauses(t *testing.T) {
	object, properties := map[string]int{}, map[string]any{}
	for i := range 60 {
		name := strings.Repeat(string(rune('A'+i)), 250)
		object[name], properties[name] = i, map[string]string{"type": "string"}
	}
	raw, err := json.Marshal(object)
	require.NoError(t, err)
	schema, err := json.Marshal(map[string]any{"properties": properties})
	require.NoError(t, err)
	s := shape{input: string(schema), edges: []plan.Edge{into("$")}}
	_, f := call(t, s, returns(), value(0, string(raw)))
	require.Equal(t, contract.Contract, f.kind)
	var got causes
	require.NoError(t, json.Unmarshal([]byte(f.details), &got))
	require.NotEmpty(t, got.Causes)
	require.Equal(t, 60, len(got.Causes)+got.More)
	require.LessOrEqual(t, len(f.details), 16<<10)
}
