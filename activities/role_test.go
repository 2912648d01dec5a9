package activities_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"

	"chimera.ai/engine/activities"
	"chimera.ai/engine/contract"
	"chimera.ai/engine/plan"
)

// TestRolesAreApart: who may call a node that is in-process, and one that is not.
func TestRolesAreApart(t *testing.T) {
	called := ""
	who := func(name string) activities.Caller {
		return caller(func(context.Context, json.RawMessage) ([]json.RawMessage, error) {
			called = name
			return []json.RawMessage{json.RawMessage(`1`)}, nil
		})
	}
	p := shape{}.plan(t)
	for i := range p.Nodes { // the source is the engine's own, the target a tool
		p.Nodes[i].InProcess = i == source
	}
	e := environ(t, p)
	engine := &activities.Engine{Plans: e.store, Values: inline{}, Skills: who("skill")}
	both := &activities.Engine{Plans: e.store, Values: inline{}, Skills: who("skill"), Tools: who("tool")}
	tools := &activities.Tools{Plans: e.store, Values: inline{}, Caller: who("tool")}
	type node = func(context.Context, contract.Call) (contract.Outcome, error)
	for name, c := range map[string]struct {
		by             node
		source, target string
	}{
		"engine":            {engine.Node, "skill", contract.WrongQueue},
		"engine with tools": {both.Node, "skill", "tool"},
		"local":             {engine.Local, "skill", string(contract.Contract)},
		"local with tools":  {both.Local, "skill", string(contract.Contract)},
		"tools":             {tools.Node, string(contract.Contract), "tool"},
	} {
		for i, want := range map[int]string{source: c.source, target: c.target} {
			t.Run(name+" "+p.Nodes[i].ID, func(t *testing.T) {
				called = ""
				env := environ(t, p).env
				env.RegisterActivityWithOptions(c.by, activity.RegisterOptions{Name: "test/node"})
				value, err := env.ExecuteActivity("test/node", contract.Call{Plan: e.digest, Node: i, Request: "the request"})
				if want == "skill" || want == "tool" {
					require.NoError(t, err)
					require.Equal(t, want, called)
					var out contract.Outcome
					require.NoError(t, value.Get(&out))
					require.Equal(t, "the request", out.Request)
					return
				}
				require.Empty(t, called)
				var e *temporal.ApplicationError
				require.ErrorAs(t, err, &e)
				require.Equal(t, want, e.Type())
				require.True(t, e.NonRetryable())
				var details contract.ErrorDetails
				require.NoError(t, e.Details(&details))
				require.Equal(t, contract.ErrorDetails{Attempts: 1, Request: "the request"}, details)
			})
		}
	}
	e.env.RegisterActivityWithOptions(engine.Local, activity.RegisterOptions{Name: "test/output"})
	_, err := e.env.ExecuteActivity("test/output", contract.Call{Plan: e.digest, Node: len(p.Nodes) - 1})
	require.NoError(t, err, "the engine assembles the output")
}

// TestEveryAnswerNamesItsRequest: so does every failure.
func TestEveryAnswerNamesItsRequest(t *testing.T) {
	const request = "the request"
	good := shape{retry: plan.Retry{On: []contract.Kind{contract.ToolError}}}.plan(t)
	for name, c := range map[string]struct {
		caller activities.Caller
		call   contract.Call
		get    error
	}{
		"answered":         {caller: returns(`1`), call: contract.Call{Node: target}},
		"failed":           {caller: fails(errors.New("no")), call: contract.Call{Node: target}},
		"kind":             {caller: fails(contract.Errorf(contract.Auth, "no")), call: contract.Call{Node: target}},
		"panicked":         {caller: caller(func(context.Context, json.RawMessage) ([]json.RawMessage, error) { panic("no") }), call: contract.Call{Node: target}},
		"no such node":     {caller: returns(`1`), call: contract.Call{Node: 40}},
		"no plan":          {caller: returns(`1`), call: contract.Call{Node: target}, get: errors.New("gone")},
		"a bad answer":     {caller: returns(`{`), call: contract.Call{Node: target}},
		"a bad assembly":   {caller: returns(`1`), call: contract.Call{Node: target, Deliveries: []contract.Delivery{value(7, "1")}}},
		"no answer at all": {caller: returns(), call: contract.Call{Node: target}},
	} {
		t.Run(name, func(t *testing.T) {
			e := environ(t, good)
			e.store.get = c.get
			c.call.Plan, c.call.Request = e.digest, request
			tools := &activities.Tools{Plans: e.store, Values: inline{}, Caller: c.caller}
			e.env.RegisterActivityWithOptions(tools.Node, activity.RegisterOptions{Name: "test/target"})
			answered, err := e.env.ExecuteActivity("test/target", c.call)
			if err != nil {
				require.Equal(t, request, requestOf(t, err))
				return
			}
			var out contract.Outcome
			require.NoError(t, answered.Get(&out))
			require.Equal(t, request, out.Request)
		})
	}
	t.Run("route", func(t *testing.T) {
		e := environ(t, good)
		engine := &activities.Engine{Plans: e.store, Values: inline{}}
		e.env.RegisterActivityWithOptions(engine.Route, activity.RegisterOptions{Name: contract.ActivityRoute})
		answered, err := e.env.ExecuteActivity(contract.ActivityRoute, contract.RouteRequest{Plan: e.digest, Node: target, Request: request})
		require.NoError(t, err)
		var result contract.RouteResult
		require.NoError(t, answered.Get(&result))
		require.Equal(t, request, result.Request)
		_, err = e.env.ExecuteActivity(contract.ActivityRoute, contract.RouteRequest{Plan: e.digest, Node: 40, Request: request})
		require.Equal(t, request, requestOf(t, err))
	})
	t.Run("heartbeat", func(t *testing.T) {
		e := environ(t, good)
		var beats []contract.Beat
		e.env.SetOnActivityHeartbeatListener(func(_ *activity.Info, details converter.EncodedValues) {
			var b contract.Beat
			require.NoError(t, details.Get(&b))
			beats = append(beats, b)
		})
		_, failed := e.tool(returns(`1`), contract.Call{Node: target, Spent: 2, Request: request})
		require.Nil(t, failed)
		require.Equal(t, []contract.Beat{{Spent: 2, Request: request}}, beats)
	})
}

// requests notes what it is asked for.
type requests []activities.Request

func (r *requests) Call(_ context.Context, got activities.Request) (activities.Answer, error) {
	*r = append(*r, got)
	return activities.Answer{Forms: []json.RawMessage{json.RawMessage(`1`)}}, nil
}

// TestWhomACallIsFor: a call names the plan's agent, and the run's origin.
func TestWhomACallIsFor(t *testing.T) {
	p := shape{}.plan(t)
	p.Agent = "clerk"
	var got requests
	_, failed := environ(t, p).tool(&got, contract.Call{Run: contract.Identity{Workflow: "w", Root: "after a reset", Origin: "first"}, Node: target})
	require.Nil(t, failed)
	require.Len(t, got, 1)
	require.Equal(t, "clerk", got[0].Agent)
	require.Equal(t, "first", got[0].Run)
	require.Equal(t, target, slices.IndexFunc(p.Nodes, func(n plan.Node) bool { return n.ID == got[0].Node.ID }))
}

func requestOf(t *testing.T, err error) string {
	t.Helper()
	var application *temporal.ApplicationError
	require.ErrorAs(t, err, &application)
	var details contract.ErrorDetails
	require.NoError(t, application.Details(&details))
	return details.Request
}

func TestLoadNamesTheQueueOfTools(t *testing.T) {
	for _, queue := range []string{"", contract.QueueEngine} {
		l := load(shape{}.plan(t))
		l.engine.ToolsQueue = queue
		loaded, f := l.start(t, `{"source":"s"}`)
		require.Nil(t, f)
		require.Equal(t, queue, loaded.Head.ToolsQueue)
	}
}
