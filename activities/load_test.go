package activities_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"

	"chimera.ai/engine/activities"
	"chimera.ai/engine/blob"
	"chimera.ai/engine/contract"
	"chimera.ai/engine/diag"
	"chimera.ai/engine/payload"
	"chimera.ai/engine/plan"
)

// loader is an engine whose compiler gives one plan, or findings.
type loader struct {
	engine          *activities.Engine
	store           *memory
	recordingLedger *recordingLedger
	compiled        int
	plan            *plan.Plan
	findings        diag.Diagnostics
	panics          bool
}

func load(p *plan.Plan) *loader {
	l := &loader{plan: p, store: &memory{}, recordingLedger: &recordingLedger{}}
	l.engine = &activities.Engine{
		Plans: l.store, Values: inline{}, Ledger: l.recordingLedger, Attributes: []string{contract.AttributePlan},
		Compile: func(string) (*plan.Plan, diag.Diagnostics) {
			l.compiled++
			if l.panics {
				panic("no such thing")
			}
			return l.plan, l.findings
		},
	}
	return l
}

func (l *loader) start(t *testing.T, start string) (*plan.Loaded, *failure) {
	dir, err := blob.Open(t.TempDir())
	require.NoError(t, err)
	e := environ(t, nil)
	e.env.SetDataConverter(payload.NewConverter(payload.NewPlans(dir, 0), payload.Sealing{}))
	e.env.RegisterActivityWithOptions(l.engine.Load, activity.RegisterOptions{Name: contract.ActivityLoad})
	got, err := e.env.ExecuteActivity(contract.ActivityLoad, contract.LoadRequest{
		Run: contract.Identity{Workflow: "w", Root: "r", Origin: "o"}, Start: json.RawMessage(start),
	})
	if err != nil {
		return nil, read(t, err)
	}
	var loaded *plan.Loaded
	require.NoError(t, got.Get(&loaded))
	return loaded, nil
}

func inputEdge(port, when string) plan.Edge {
	e := from(port, plan.Conditional, when)
	e.From, e.To, e.ToPort = 0, target, "a"
	return e
}

func TestLoad(t *testing.T) {
	s := shape{planInput: `{"type":"object"}`, edges: []plan.Edge{inputEdge("x", "value > 1"), inputEdge("y", "otherwise")}}
	l := load(s.plan(t))
	for _, c := range []struct {
		name, start string
		values      []string
		held        []bool
	}{
		{"an input", `{"source":"s","input":{"x":2.50,"y":1}}`, []string{`2.50`, `1`}, []bool{true, false}},
		{"another", `{"input":{"x":1,"y":1},"source":"s"}`, []string{`1`, `1`}, []bool{false, true}},
		{"none is {}", `{"source":"s"}`, []string{`null`, `null`}, []bool{false, false}},
		{"what says nothing", `{"source":"s","plan":"","grant":null}`, []string{`null`, `null`}, []bool{false, false}},
	} {
		t.Run(c.name, func(t *testing.T) {
			loaded, f := l.start(t, c.start)
			require.Nil(t, f)
			require.Equal(t, c.held, loaded.Head.Input.Held)
			for i, v := range loaded.Head.Input.Values {
				require.Equal(t, c.values[i], string(v))
			}
			b, err := l.plan.Encode()
			require.NoError(t, err)
			require.Equal(t, plan.DigestOf(b), loaded.Head.Digest)
			require.Contains(t, l.store.plans, loaded.Head.Digest)
			require.Equal(t, []string{contract.AttributePlan}, loaded.Head.Attributes)
			require.Equal(t, activities.DefaultContinueAfter, loaded.Head.ContinueAfter)
			require.Nil(t, loaded.Head.Whole, "no expression reads the input")
		})
	}
	require.Equal(t, 1, l.compiled, "one source is compiled once")

	l.engine.ContinueAfter = 7
	loaded, _ := l.start(t, `{"source":"s"}`)
	require.Equal(t, 7, loaded.Head.ContinueAfter)
}

func TestLoadCarriesTheInputWhereItIsRead(t *testing.T) {
	for name, s := range map[string]shape{
		"by a node":      {with: map[string]string{"a": `"${input.x}"`}, reads: true},
		"by a predicate": {edges: []plan.Edge{inputEdge("x", "input.x == 1")}, routes: true},
	} {
		t.Run(name, func(t *testing.T) {
			loaded, f := load(s.plan(t)).start(t, `{"source":"s","input":{"x":1}}`)
			require.Nil(t, f)
			require.JSONEq(t, `{"x":1}`, string(loaded.Head.Whole))
		})
	}
}

func TestLoadRefuses(t *testing.T) {
	s := shape{planInput: `{"type":"object","properties":{"x":{"type":"integer"}}}`, edges: []plan.Edge{inputEdge("x", "value / 0 == 1")}}
	for _, c := range []struct {
		name, start string
		kind        contract.Kind
		want        string
	}{
		{"null", `null`, contract.Contract, "it is not a JSON object"},
		{"a list", `[]`, contract.Contract, "it is not a JSON object"},
		{"a text", `"source"`, contract.Contract, "it is not a JSON object"},
		{"an unknown field", `{"source":"s","sourse":1}`, contract.Contract, `unknown field "sourse"`},
		{"a field in other letters", `{"Source":"s"}`, contract.Contract, `unknown field "Source"`},
		{"a field twice", `{"source":"s","source":"t"}`, contract.Contract, `the field "source" is there twice`},
		{"a long unknown field", `{"` + strings.Repeat("x", 10_000) + `":1}`, contract.Contract, `xxx…"`},
		{"a source that is no text", `{"source":{}}`, contract.Contract, "source: json: cannot unmarshal object"},
		{"neither", `{"input":{}}`, contract.Contract, "exactly one of plan and source"},
		{"both", `{"plan":"p@1","source":"s"}`, contract.Contract, "exactly one of plan and source"},
		{"a grant", `{"source":"s","grant":{"payload":""}}`, contract.Blocked, "no root of trust to verify it by"},
		{"an empty grant", `{"source":"s","grant":{}}`, contract.Blocked, "no root of trust to verify it by"},
		{"a published plan", `{"plan":"p@1"}`, contract.Contract, "no plan is published as p@1"},
		{"an input that does not fit", `{"source":"s","input":{"x":"1"}}`, contract.Contract, "the plan's input does not match its schema: /x: "},
		{"an input that is null", `{"source":"s","input":null}`, contract.Contract, "the plan's input does not match its schema"},
		{"an input that is two", `{"source":"s","input":{"x":1,"x":2}}`, contract.Contract, "the plan's input: at byte "},
		{"an input beyond reading", `{"source":"s","input":` + deep(1000) + `}`, contract.TooLarge, "the plan's input: "},
		{"a predicate over the input", `{"source":"s","input":{"x":1}}`, contract.Expr, "when of $input.x -> target.a: "},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := load(s.plan(t))
			_, f := l.start(t, c.start)
			require.NotNil(t, f)
			require.Equal(t, c.kind, f.kind)
			require.Contains(t, f.message, c.want)
			require.False(t, f.retried)
			require.Less(t, len(f.message), 5000)
		})
	}
}

func TestTheStoreIsDown(t *testing.T) {
	l := load(shape{}.plan(t))
	l.store.put = errors.New("disk\xff full")
	_, f := l.start(t, `{"source":"s"}`)
	require.Equal(t, contract.StoreUnavailable, f.kind)
	require.True(t, f.retried, "Temporal tries again")
	require.Equal(t, "disk\uFFFD full", f.message)

	l.store.put, l.store.get = nil, errors.New("gone")
	_, f = l.start(t, `{"source":"s"}`)
	require.Equal(t, contract.StoreUnavailable, f.kind)
	require.True(t, f.retried)

	l.store.get = nil
	_, f = l.start(t, `{"source":"s"}`)
	require.Nil(t, f)
	require.Equal(t, 3, l.compiled, "what was not stored is not remembered")

	l.engine.Renew = func() activities.Workbench { return activities.Workbench{Away: errors.New("busy")} }
	_, f = l.start(t, `{"source":"s"}`)
	require.NotNil(t, f, "nobody knows whether the source still compiles to the same")
	require.Equal(t, contract.StoreUnavailable, f.kind)
	require.True(t, f.retried)
}

func finding(line int, severity diag.Severity) diag.Diagnostic {
	at := diag.Pos{Line: line, Column: 1, Byte: 100 * line}
	return diag.Diagnostic{Code: diag.PlanSchema, Severity: severity, Summary: fmt.Sprintf("finding %d", line), Subject: diag.Range{File: "plan.yaml", Start: at, End: at}}
}

func TestDiagnostics(t *testing.T) {
	l := load(nil)
	for _, line := range []int{9, 3, 7, 5} {
		l.findings.Add(finding(line, diag.Error))
	}
	l.findings.Add(finding(1, diag.Warning))
	_, f := l.start(t, `{"source":"s"}`)
	require.Equal(t, contract.Contract, f.kind)
	require.False(t, f.retried)
	require.Equal(t, "the plan does not compile (4 errors):\n3:1 plan/schema: finding 3\n5:1 plan/schema: finding 5\n7:1 plan/schema: finding 7\nand 1 more", f.message)
	var list []struct {
		Code, Severity, Summary string
		Line                    int
	}
	require.NoError(t, json.Unmarshal(f.diagnosed, &list))
	require.Len(t, list, 5)
	require.Equal(t, "finding 1", list[0].Summary)
	require.Equal(t, 9, list[4].Line)
}

// TestManyDiagnostics: the list is bounded, and an error is never lost behind
// warnings.
func TestManyDiagnostics(t *testing.T) {
	l := load(nil)
	for i := range 200 {
		l.findings.Add(finding(i+1, diag.Warning))
	}
	bad := finding(1000, diag.Error)
	bad.Summary = strings.Repeat("ä", 10_000)
	l.findings.Add(bad)
	_, f := l.start(t, `{"source":"s"}`)
	var list []struct{ Severity string }
	require.NoError(t, json.Unmarshal(f.diagnosed, &list))
	require.Len(t, list, 50)
	require.Equal(t, "error", list[0].Severity)
	require.Contains(t, f.message, "(1 errors)")
	require.LessOrEqual(t, len(f.message), 4<<10+len("…"))
	require.True(t, utf8.ValidString(f.message))
}

// TestLargeDiagnostics: whatever the compiler says, a client without the engine's
// store reads it.
func TestLargeDiagnostics(t *testing.T) {
	for name, detail := range map[string]int{"many": 20 << 10, "one is enough": 300 << 10} {
		t.Run(name, func(t *testing.T) {
			l := load(nil)
			for i := range 30 {
				d := finding(i+1, diag.Warning)
				d.Detail = strings.Repeat("x", detail)
				l.findings.Add(d)
			}
			bad := finding(1000, diag.Error)
			bad.Detail = strings.Repeat("x", detail)
			l.findings.Add(bad)
			_, f := l.start(t, `{"source":"s"}`)
			var list []struct {
				Severity, Summary string
				Line              int
			}
			require.NoError(t, json.Unmarshal(f.diagnosed, &list))
			require.LessOrEqual(t, len(f.diagnosed), 128<<10)
			require.NotEmpty(t, list)
			require.Equal(t, "error", list[0].Severity)
			require.Equal(t, "finding 1000", list[0].Summary)
			require.Equal(t, 1000, list[0].Line)
		})
	}
}

// TestErrorsForbidThePlan: errors refuse the plan, whatever else the compiler
// returns.
func TestErrorsForbidThePlan(t *testing.T) {
	l := load(shape{}.plan(t))
	l.findings.Add(finding(1, diag.Error))
	_, f := l.start(t, `{"source":"s"}`)
	require.Equal(t, contract.Contract, f.kind)
	require.Empty(t, l.store.plans)

	l.findings = diag.Diagnostics{finding(1, diag.Warning)}
	_, f = l.start(t, `{"source":"s"}`)
	require.Nil(t, f)
}

func TestTheCompilerPanics(t *testing.T) {
	l := load(nil)
	l.panics = true
	_, f := l.start(t, `{"source":"s"}`)
	require.Equal(t, contract.Contract, f.kind)
	require.False(t, f.retried)
	require.Contains(t, f.message, "the compiler panicked: no such thing")
}

// FuzzStart: whatever a client sends, the answer is a plan or a failure of a
// known kind that Temporal can carry.
func FuzzStart(f *testing.F) {
	for _, seed := range []string{
		`{"source":"s","input":{"x":1}}`, `{"plan":"p@1"}`, `{"source":"s","grant":{}}`, `{"source":"s"}{}`, `{"source":`, `null`,
		`{"sourc\u0065":"s"}`, "{\"source\":\"\xff\"}", `{"source":"s","input":{"a":1,"a":2}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		e := environ(t, nil)
		l := load(shape{}.plan(t))
		e.env.RegisterActivityWithOptions(func(ctx context.Context) error {
			_, err := l.engine.Load(ctx, contract.LoadRequest{Start: raw})
			return err
		}, activity.RegisterOptions{Name: contract.ActivityLoad})
		_, err := e.env.ExecuteActivity(contract.ActivityLoad)
		if failure := read(t, err); failure != nil {
			require.True(t, failure.kind.Valid())
			require.True(t, utf8.ValidString(failure.message))
			require.False(t, failure.retried)
			return
		}
		var start contract.Start
		require.NoError(t, json.Unmarshal(raw, &start))
		require.NotEmpty(t, start.Source)
		require.Empty(t, start.Plan)
	})
}

// TestLoadNamesTheBundle: the answer that is kept in the history says with which
// bundle and which catalog the plan was compiled.
func TestLoadNamesTheBundle(t *testing.T) {
	l := load(shape{}.plan(t))
	loaded, f := l.start(t, `{"source":"s"}`)
	require.Nil(t, f)
	require.Empty(t, loaded.Head.Policy)
	require.Empty(t, loaded.Head.Catalog)
	l.engine.Policy, l.engine.Catalog = plan.DigestOf([]byte("bundle")), plan.DigestOf([]byte("catalog"))
	loaded, f = l.start(t, `{"source":"s"}`)
	require.Nil(t, f)
	require.Equal(t, l.engine.Policy, loaded.Head.Policy)
	require.Equal(t, l.engine.Catalog, loaded.Head.Catalog)
}

// TestLoadRefusesWhatCannotRun: whatever compiled it, no run begins with a plan
// that holds what runs cannot do.
func TestLoadRefusesWhatCannotRun(t *testing.T) {
	for _, c := range []struct {
		want  string
		wreck func(*plan.Plan)
	}{
		{"a cost of a precheck (node target)", func(p *plan.Plan) {
			p.Nodes[target-1].Estimate, p.Nodes[target].Commit = new(plan.Cost), &plan.Commit{Prechecks: []int{target - 1}}
		}},
		{"the trust requirement block (node target)", func(p *plan.Plan) { p.Nodes[target].Trust = plan.Block }},
		{"a sub-plan (node target)", func(p *plan.Plan) { p.Nodes[target].Plan = plan.DigestOf(nil) }},
		{"for_each (node target)", func(p *plan.Plan) { p.Nodes[target].ForEach = new(plan.ForEach) }},
		{"a cost of what verifies an effect (node target)", func(p *plan.Plan) { p.Nodes[target].Called, p.Nodes[target].Estimate = true, new(plan.Cost) }},
		{"a pinned fingerprint of a skill (node target)", func(p *plan.Plan) { p.Nodes[target].Fingerprint = plan.DigestOf(nil) }},
		{"loops", func(p *plan.Plan) { p.Loops = make([]plan.Loop, 1) }},
	} {
		p := shape{edges: []plan.Edge{from("x", plan.Data, "")}}.plan(t)
		c.wreck(p)
		l := load(p)
		_, f := l.start(t, `{"source":"s","grant":{}}`)
		require.NotNil(t, f, c.want)
		require.Equal(t, contract.Contract, f.kind, c.want)
		require.Equal(t, "not supported yet: "+c.want, f.message)
	}
}
