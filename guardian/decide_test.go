package guardian_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/catalog"
	"chimera.ai/engine/diag"
	"chimera.ai/engine/guardian"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/policy"
)

// operations is the catalog of the tests.
func operations() *catalog.Catalog {
	skill := func(provider, name string, effect plan.EffectClass, input string) catalog.Template {
		return catalog.Template{ProviderType: plan.Skill, Provider: provider, Operation: name, Effect: effect, Trust: plan.AllowAuto, Status: plan.AllowAuto, InputSchema: json.RawMessage(input)}
	}
	files := skill("files", "write", plan.Committing, `{"type":"object","properties":{"path":{"type":"string"},"text":{"type":"string"}},"required":["path","text"],"additionalProperties":false}`)
	files.Fingerprint = "sha256:" + strings.Repeat("a", 64)
	return &catalog.Catalog{Templates: []catalog.Template{
		skill("bank", "transfer", plan.Irreversible, `{"type":"object","properties":{"amount_minor":{"type":"integer","minimum":0,"maximum":1000000000000},"parts":{"type":"integer"},"to":{"type":"string"}},"required":["amount_minor","to"]}`),
		files,
		skill("notes", "stage", plan.Staged, ``),
		skill("text", "count", plan.Pure, ``),
	}}
}

const bundleText = `
apiVersion: chimera/v1
kind: PolicyBundle
version: "1"
thresholds: {max_auto_launch_risk: 0.2, per: [{effects: [irreversible], max_auto_launch_risk: 0.05}, {agents: [agent-42], effects: [irreversible], max_auto_launch_risk: 5e-2}, {agents: [careful, careless], max_auto_launch_risk: 0.3}, {agents: [careful], max_auto_launch_risk: 0.1}]}
approval: {floor: [{operations: [notes/stage], groups: [{role: editor, min: 1}]}], lift: {"policy:large": [cfo], budget_exceeded: [cfo]}}
caps: {invocations_per_run: 3}
allow:
  - {effects: [irreversible], agents: [agent-42], operations: [bank/transfer], unattended: true}
  - {effects: [committing], operations: [files/write], tainted: true}
unmodelled: [files/write]
rules:
  - {id: cap, type: hard, match: 'action.operation == "bank/transfer"', require: 'action.inputs.amount_minor <= 500000', message: "over 5,000.00"}
  - {id: large, type: soft, operations: [bank/transfer], require: 'action.inputs.amount_minor <= 100000', message: "over 1,000.00"}
  - {id: split, type: hard, operations: [bank/transfer], match: 'has(action.inputs.parts)', require: '1000 / action.inputs.parts >= 10'}
  - {id: out, type: hard, operations: [files/write], require: 'action.inputs.path.startsWith("/out/")', message: "outside /out/"}
  - {id: hours, type: hard, operations: [notes/stage], require: 'action.at.hour >= 6 && action.inputs.size < 10'}
`

func parse(t testing.TB, text string) *policy.Bundle {
	t.Helper()
	b, ds := policy.Parse(diag.Source{Name: "policy.yaml", Text: []byte(text)})
	require.Empty(t, errorsOf(ds))
	return b
}

func gate(t testing.TB, text string) *guardian.Gate {
	t.Helper()
	g, ds := guardian.New(parse(t, text), operations())
	require.NotNil(t, g, errorsOf(ds))
	return g
}

// errorsOf writes the findings that are errors.
func errorsOf(ds diag.Diagnostics) string {
	var b strings.Builder
	for _, d := range ds {
		if d.Severity == diag.Error {
			fmt.Fprintln(&b, d.Summary, d.Detail)
		}
	}
	return b.String()
}

// action is a transfer that is approved.
func action(change ...func(*guardian.Action)) *guardian.Action {
	a := &guardian.Action{
		Agent: "agent-42", Plan: "sha256:" + strings.Repeat("0", 64), Node: "pay", Operation: "bank/transfer", Effect: plan.Irreversible,
		Inputs: json.RawMessage(`{"amount_minor": 5000, "to": "x"}`), Run: guardian.Run{Workflow: "w", Origin: "o", Path: "pay"},
	}
	for _, f := range change {
		f(a)
	}
	return a
}

func agent(id string) func(*guardian.Action) {
	return func(a *guardian.Action) { a.Agent = id }
}

func inputs(text string) func(*guardian.Action) {
	return func(a *guardian.Action) { a.Inputs = json.RawMessage(text) }
}

func write(a *guardian.Action) {
	a.Operation, a.Effect, a.Inputs, a.Fingerprint = "files/write", plan.Committing, json.RawMessage(`{"path":"/out/a","text":"t"}`), "sha256:"+strings.Repeat("a", 64)
}

func stage(a *guardian.Action) {
	a.Operation, a.Effect, a.Inputs = "notes/stage", plan.Staged, json.RawMessage(`{"size": 1}`)
}

// facts are those of an action that nothing objects to.
func facts(change ...func(*guardian.Facts)) guardian.Facts {
	f := guardian.Facts{
		At: time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC), Calls: 1, Budget: guardian.Budget{State: guardian.NoBudget},
		Simulation: &guardian.Simulation{ID: "s", Model: "m", Risk: "0.01"},
	}
	for _, c := range change {
		c(&f)
	}
	return f
}

// A decision in shadow says so, and is the same otherwise.
func TestShadow(t *testing.T) {
	g := gate(t, bundleText)
	a := action(write)
	enforced, shadow := g.Decide(a, nil, facts()), g.Decide(a, nil, facts(func(f *guardian.Facts) { f.Shadow = true }))
	require.Equal(t, guardian.Enforce, enforced.Mode)
	require.Equal(t, guardian.Shadow, shadow.Mode)
	shadow.Mode = guardian.Enforce
	require.Equal(t, enforced, shadow)
}

func risk(text string) func(*guardian.Facts) {
	return func(f *guardian.Facts) { f.Simulation.Risk = text }
}

func budget(state guardian.BudgetState, hold string) func(*guardian.Facts) {
	return func(f *guardian.Facts) { f.Budget = guardian.Budget{State: state, Hold: hold} }
}

// asked is a plan that asks for approval.
func asked(f *guardian.Facts) { f.Asks = []plan.Group{{Role: "editor", Min: 1}} }

func approved(lifts ...string) func(*guardian.Facts) {
	return func(f *guardian.Facts) { f.Approved, f.Lifted = true, lifts }
}

func unmodelled(f *guardian.Facts) { f.Simulation = nil }

// TestReview: what the plan wants reviewed waits for the bundle's groups, whatever else it
// is; a call without effect needs neither a rule nor a model. The record says who is asked.
func TestReview(t *testing.T) {
	with := gate(t, strings.Replace(bundleText, "approval: {", "approval: {review: [{role: reviewer, min: 2}, {role: editor, min: 1}], ", 1))
	without := gate(t, bundleText)
	count := func(a *guardian.Action) {
		a.Operation, a.Effect, a.Inputs = "text/count", plan.Pure, json.RawMessage(`{}`)
	}
	tainted := func(a *guardian.Action) { a.Taint.Ports = []string{"to"} }
	review := func(f *guardian.Facts) { f.Review = true }
	ruled := gate(t, strings.Replace(bundleText, "approval: {", "approval: {review: [{role: reviewer, min: 1}], ", 1)+`
  - {id: few, type: hard, operations: [text/count], require: 'action.inputs.size() == 0 && action.effect == "pure"'}
`)
	const reviewers, editor = "[{editor 1} {reviewer 2}]", "[{editor 1}]"
	for _, c := range []struct {
		name         string
		gate         *guardian.Gate
		action       *guardian.Action
		facts        guardian.Facts
		want, groups string
	}{
		{"an effect", with, action(), facts(review), "ESCALATE approval_needed", reviewers},
		{"an effect that was reviewed", with, action(), facts(review, approved()), "APPROVE human_approved", reviewers},
		{"an effect that the plan wants approved, too", with, action(), facts(review, asked), "ESCALATE approval_needed", reviewers},
		{"an effect, tainted", with, action(tainted), facts(review), "ESCALATE approval_needed", reviewers},
		{"an effect of which nobody wants a review", with, action(), facts(), "APPROVE policy_clear", "[]"},
		{"an effect, and nobody reviews", without, action(), facts(review), "REJECT no_review", "[]"},
		{"an effect, approved, and nobody reviews", without, action(stage), facts(review, approved()), "REJECT no_review", editor},
		{"an effect that a rule rejects", with, action(inputs(`{"amount_minor": 500001, "to": "x"}`)), facts(review, approved()), "REJECT policy:cap", "[{cfo 1} {editor 1} {reviewer 2}]"},
		{"an effect with a risk", with, action(), facts(review, approved(), risk("0.9")), "ESCALATE causal_risk", reviewers},
		{"a pure call", with, action(count), facts(review, unmodelled), "ESCALATE approval_needed", reviewers},
		{"a pure call that was reviewed", with, action(count), facts(review, unmodelled, approved()), "APPROVE human_approved", reviewers},
		{"a pure call, tainted", with, action(count, tainted), facts(review, unmodelled, approved()), "APPROVE human_approved", reviewers},
		{"a pure call, and nobody reviews", without, action(count), facts(review, unmodelled, approved()), "REJECT no_review", "[]"},
		{"a pure call that a rule is about", ruled, action(count), facts(review, unmodelled, approved()), "APPROVE human_approved", "[{reviewer 1}]"},
		{"a pure call that a rule rejects", ruled, action(count, inputs(`{"a":1}`)), facts(review, unmodelled, approved()), "REJECT policy:few", "[{reviewer 1}]"},
		{"a pure call without a price", with, action(count), facts(review, unmodelled, approved(), budget(guardian.Unpriced, "")), "APPROVE human_approved", reviewers},
		{"a pure call that is too dear", with, action(count), facts(review, unmodelled, approved(), budget(guardian.Exceeded, "")), "ESCALATE budget_exceeded", "[{cfo 1} {editor 1} {reviewer 2}]"},
		{"a pure call too many", with, action(count), facts(review, unmodelled, func(f *guardian.Facts) { f.Calls = 4 }), "REJECT cap:invocations_per_run", reviewers},
		{"a pure call of what has an effect", with, action(func(a *guardian.Action) { a.Effect = plan.Pure }), facts(review), "REJECT malformed_action", reviewers},
		{"an effect of what is pure", with, action(count, func(a *guardian.Action) { a.Effect = plan.Staged }), facts(review), "REJECT malformed_action", "[{editor 1} {reviewer 2}]"},
		{"a pure call of which nobody wants a review", with, action(count), facts(unmodelled, asked, approved()), "REJECT malformed_action", editor},
		{"a pure call of what nobody knows", with, action(count, func(a *guardian.Action) { a.Operation = "text/guess" }), facts(review), "REJECT malformed_action", reviewers},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := c.gate.Decide(c.action, nil, c.facts)
			raw, err := r.Encode()
			require.NoError(t, err)
			require.Equal(t, c.want, string(r.Decision)+" "+r.Reason, string(raw))
			require.Equal(t, c.groups, fmt.Sprint(r.Groups))

			// It is made again from its evidence and its rules alone.
			rules, err := c.gate.Rules(c.action.Operation)
			require.NoError(t, err)
			again, err := guardian.Replay(rules)
			require.NoError(t, err)
			if c.facts.Simulation != nil {
				return // evidence has none yet
			}
			second, err := again.Again(&guardian.Evidence{
				Action: c.action, At: ledger.At(c.facts.At), Calls: c.facts.Calls, Budget: c.facts.Budget, Asks: c.facts.Asks, Review: c.facts.Review,
				Approved: c.facts.Approved, Lifted: c.facts.Lifted,
			})
			require.NoError(t, err)
			other, err := second.Encode()
			require.NoError(t, err)
			require.Equal(t, string(raw), string(other))
		})
	}
}

func TestDecide(t *testing.T) {
	g := gate(t, bundleText)
	tainted := func(a *guardian.Action) { a.Taint.Ports = []string{"to"} }
	for _, c := range []struct {
		name   string
		action *guardian.Action
		facts  guardian.Facts
		want   string
	}{
		{"clear", action(), facts(), "APPROVE policy_clear"},
		{"a hold", action(), facts(budget(guardian.Held, "h")), "APPROVE policy_clear"},
		{"the cap itself", action(inputs(`{"amount_minor": 100000, "to": "x"}`)), facts(), "APPROVE policy_clear"},
		{"a soft rule", action(inputs(`{"amount_minor": 100001, "to": "x"}`)), facts(), "ESCALATE policy:large"},
		{"a hard rule", action(inputs(`{"amount_minor": 500001, "to": "x"}`)), facts(), "REJECT policy:cap"},
		{"hard before budget", action(inputs(`{"amount_minor": 500001, "to": "x"}`)), facts(budget(guardian.Exceeded, "")), "REJECT policy:cap"},
		{"division by zero", action(inputs(`{"amount_minor": 1, "to": "x", "parts": 0}`)), facts(), "REJECT policy:split"},
		{"a missing attribute", action(stage, inputs(`{}`)), facts(), "REJECT policy:hours"},
		{"a wrong type", action(stage, inputs(`{"size": "1"}`)), facts(), "REJECT policy:hours"},
		{"the time", action(stage), facts(func(f *guardian.Facts) { f.At = time.Date(2026, 11, 23, 7, 0, 0, 0, time.FixedZone("", 2*3600)) }), "REJECT policy:hours"},
		{"by day, with the floor", action(stage), facts(), "ESCALATE approval_needed"},
		{"by day, and approved", action(stage), facts(asked, approved()), "APPROVE human_approved"},
		{"by night, and approved", action(stage), facts(func(f *guardian.Facts) { f.At = time.Date(2026, 11, 23, 5, 0, 0, 0, time.UTC) }, approved()), "REJECT policy:hours"},
		{"what the plan asks for", action(), facts(asked), "ESCALATE approval_needed"},
		{"what the plan asks for, and approved", action(), facts(asked, approved()), "APPROVE human_approved"},
		{"a soft rule that is lifted", action(inputs(`{"amount_minor": 100001, "to": "x"}`)), facts(approved("policy:large")), "APPROVE human_approved"},
		{"approved, and lifts something else", action(inputs(`{"amount_minor": 100001, "to": "x"}`)), facts(approved("budget_exceeded")), "ESCALATE policy:large"},
		{"over budget, and lifted", action(), facts(budget(guardian.Exceeded, ""), approved("budget_exceeded")), "APPROVE human_approved"},
		{"over budget, and lifted, and a hard rule", action(inputs(`{"amount_minor": 500001, "to": "x"}`)), facts(budget(guardian.Exceeded, ""), approved("budget_exceeded", "policy:cap")), "REJECT policy:cap"},
		{"a risk that nobody may lift", action(), facts(risk("0.051"), approved("causal_risk")), "ESCALATE causal_risk"},
		{"not this agent", action(agent("other")), facts(), "REJECT not_allowed"},
		{"tainted", action(tainted), facts(), "REJECT tainted"},
		{"tainted and approved", action(tainted), facts(asked, approved()), "APPROVE human_approved"},
		{"tainted, and people are asked", action(tainted), facts(asked), "ESCALATE approval_needed"},
		{"tainted and accepted", action(write, func(a *guardian.Action) { a.Taint.Decision = true }), facts(unmodelled), "APPROVE policy_clear"},
		{"outside", action(write, inputs(`{"path":"/etc/passwd","text":"t"}`)), facts(unmodelled), "REJECT policy:out"},
		{"too many calls", action(), facts(func(f *guardian.Facts) { f.Calls = 4 }), "REJECT cap:invocations_per_run"},
		{"over budget", action(), facts(budget(guardian.Exceeded, "")), "ESCALATE budget_exceeded"},
		{"no price", action(), facts(budget(guardian.Unpriced, "")), "ESCALATE budget_exceeded"},
		{"nobody asked for the money", action(), facts(budget("", "")), "REJECT budget_error"},
		{"a hold without an id", action(), facts(budget(guardian.Held, "")), "REJECT budget_error"},
		{"risk", action(), facts(risk("0.051")), "ESCALATE causal_risk"},
		{"risk at the threshold", action(), facts(risk("5e-2")), "APPROVE policy_clear"},
		{"the general threshold", action(write), facts(risk("0.2")), "APPROVE policy_clear"},
		{"above the general threshold", action(write), facts(risk("0.20000000000000000001")), "ESCALATE causal_risk"},
		{"an agent's threshold", action(write, agent("careless")), facts(risk("0.3")), "APPROVE policy_clear"},
		{"above an agent's threshold", action(write, agent("careless")), facts(risk("0.31")), "ESCALATE causal_risk"},
		{"the least of an agent's thresholds", action(write, agent("careful")), facts(risk("0.1")), "APPROVE policy_clear"},
		{"above the least of them", action(write, agent("careful")), facts(risk("0.11")), "ESCALATE causal_risk"},
		{"no model", action(), facts(unmodelled), "ESCALATE causal_risk"},
		{"no model, and none needed", action(write), facts(unmodelled), "APPROVE policy_clear"},
		{"a risk of NaN", action(), facts(risk("NaN")), "REJECT simulation_error"},
		{"a risk above 1", action(), facts(risk("1.1")), "REJECT simulation_error"},
		{"no risk", action(), facts(risk("")), "REJECT simulation_error"},
		{"an unknown operation", action(func(a *guardian.Action) { a.Operation = "bank/steal" }), facts(), "REJECT malformed_action"},
		{"a pure operation", action(func(a *guardian.Action) { a.Operation, a.Effect = "text/count", plan.Pure }), facts(), "REJECT malformed_action"},
		{"a weaker effect class", action(func(a *guardian.Action) { a.Effect = plan.Staged }), facts(), "REJECT malformed_action"},
		{"another fingerprint", action(write, func(a *guardian.Action) { a.Fingerprint = "" }), facts(unmodelled), "REJECT malformed_action"},
		{"no run", action(func(a *guardian.Action) { a.Run = guardian.Run{} }), facts(), "REJECT malformed_action"},
		{"inputs that are no JSON", action(inputs(`{"amount_minor": NaN}`)), facts(), "REJECT malformed_action"},
		{"no inputs", action(inputs(``)), facts(), "REJECT malformed_action"},
		{"inputs that do not fit", action(inputs(`{"amount_minor": 1.5, "to": "x"}`)), facts(), "REJECT malformed_action"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := g.Decide(c.action, []byte("salt"), c.facts)
			raw, err := r.Encode()
			require.NoError(t, err)
			require.Equal(t, c.want, string(r.Decision)+" "+r.Reason, string(raw))
			require.Equal(t, r.Decision == guardian.Approve, len(r.Objections) == 0)
			require.Equal(t, r.Reason == guardian.HumanApproved, len(r.Lifted) > 0 && r.Decision == guardian.Approve)
		})
	}
}

// TestRulesEnd: a rule that takes too many steps rejects, also if it is soft and people have
// approved.
func TestRulesEnd(t *testing.T) {
	endless := strings.ReplaceAll("?.all(a, ?.all(b, ?.all(c, ?.all(d, ?.all(e, ?.all(f, action.inputs.size > 0))))))", "?", "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]")
	for name, rule := range map[string]string{
		"a hard rule": "type: hard, require: '" + endless + "'",
		"a soft rule": "type: soft, require: '" + endless + "'",
		"a match":     "type: soft, match: '" + endless + "', require: 'true'",
	} {
		t.Run(name, func(t *testing.T) {
			g := gate(t, bundleText+"  - {id: endless, operations: [notes/stage], "+rule+"}\n")
			r := g.Decide(action(stage), nil, facts(approved()))
			require.Equal(t, "REJECT policy:endless", string(r.Decision)+" "+r.Reason)
			require.Contains(t, r.Objections[0].Detail, "more than 2000000 steps")
		})
	}
}

// TestAttended: an irreversible effect needs at least one person's approval, whoever is asked,
// unless the bundle says otherwise.
func TestAttended(t *testing.T) {
	const unattended = ", unattended: true"
	g := gate(t, strings.Replace(bundleText, unattended, "", 1))
	reviewed := gate(t, strings.Replace(strings.Replace(bundleText, unattended, "", 1), "approval: {", "approval: {review: [{role: reviewer, min: 1}], ", 1))
	floored := gate(t, strings.Replace(strings.Replace(bundleText, unattended, "", 1), "floor: [", "floor: [{effects: [irreversible], groups: [{role: cfo, min: 1}]}, ", 1))
	another := gate(t, strings.Replace(bundleText, "agents: [agent-42], operations: [bank/transfer]"+unattended, "operations: [bank/transfer]}\n  - {effects: [irreversible], agents: [agent-7]"+unattended, 1))
	large := inputs(`{"amount_minor": 100001, "to": "x"}`)
	review := func(f *guardian.Facts) { f.Review = true }
	for _, c := range []struct {
		name     string
		gate     *guardian.Gate
		action   *guardian.Action
		facts    guardian.Facts
		want     string
		attended bool
	}{
		{"nobody is asked", g, action(), facts(), "REJECT no_approval", true},
		{"nobody is asked, with a hold", g, action(), facts(budget(guardian.Held, "h")), "REJECT no_approval", true},
		{"the bundle lets it go", gate(t, bundleText), action(), facts(), "APPROVE policy_clear", false},
		{"the bundle lets another agent's go", another, action(), facts(), "REJECT no_approval", true},
		{"the bundle lets that agent's go", another, action(agent("agent-7")), facts(), "APPROVE policy_clear", false},
		{"the plan asks", g, action(), facts(asked), "ESCALATE approval_needed", true},
		{"the plan asks, and people have approved", g, action(), facts(asked, approved()), "APPROVE human_approved", true},
		{"the floor asks", floored, action(), facts(), "ESCALATE approval_needed", true},
		{"a review", reviewed, action(), facts(review), "ESCALATE approval_needed", true},
		{"a review of which nobody has asked", reviewed, action(), facts(), "REJECT no_approval", true},
		{"a lift", g, action(large), facts(), "ESCALATE policy:large", true},
		{"a lift, and people have lifted", g, action(large), facts(approved("policy:large")), "APPROVE human_approved", true},
		{"people have lifted what is objected no more", g, action(), facts(budget(guardian.Held, "h"), approved("budget_exceeded")), "APPROVE policy_clear", true},
		{"what escalates, and nobody may lift", g, action(), facts(risk("0.9")), "ESCALATE causal_risk", true},
		{"not allowed", g, action(agent("other")), facts(), "REJECT not_allowed", true},
		{"what can be undone", g, action(write), facts(unmodelled), "APPROVE policy_clear", false},
		{"what could be undone, but for the plan", g, action(write, func(a *guardian.Action) { a.Effect = plan.Irreversible }), facts(unmodelled), "REJECT not_allowed", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := c.gate.Decide(c.action, nil, c.facts)
			require.Equal(t, c.want, string(r.Decision)+" "+r.Reason)
			require.Equal(t, c.attended, c.gate.Attended(c.action))
			require.Equal(t, c.want == "REJECT no_approval", !r.Awaits && r.Reason == guardian.NoApproval)
		})
	}
}

// TestNothingIsSilence: without a bundle, a catalog or a rule nothing is approved.
func TestNothingIsSilence(t *testing.T) {
	for name, g := range map[string]*guardian.Gate{
		"no bundle": first(guardian.New(nil, operations())), "no catalog": first(guardian.New(nil, nil)),
		"no rule": gate(t, `{apiVersion: chimera/v1, kind: PolicyBundle, version: "1", allow: [{}], unmodelled: ["bank/transfer"]}`),
	} {
		r := g.Decide(action(), nil, facts())
		require.Equal(t, guardian.Reject, r.Decision, name)
	}
	r := gate(t, `{apiVersion: chimera/v1, kind: PolicyBundle, version: "1", allow: [{}]}`).Decide(action(), nil, facts())
	require.Equal(t, guardian.NoRule, r.Reason)
}

func first(g *guardian.Gate, _ diag.Diagnostics) *guardian.Gate { return g }

// TestAllStepsAreRecorded: the first objection decides, and the record has them all.
func TestAllStepsAreRecorded(t *testing.T) {
	g := gate(t, bundleText)
	r := g.Decide(action(inputs(`{"amount_minor": 900000, "to": "x"}`), agent("other")), nil, facts(budget(guardian.Exceeded, ""), risk("0.9")))
	var reasons []string
	for _, o := range r.Objections {
		reasons = append(reasons, o.Reason)
	}
	require.Equal(t, []string{"policy:cap", "not_allowed", "policy:large", "budget_exceeded", "causal_risk"}, reasons)
	require.Equal(t, "over 5,000.00", r.Objections[0].Detail)
	require.Equal(t, []guardian.RuleResult{{ID: "cap"}, {ID: "large", Soft: true}}, r.Rules)
	require.Equal(t, "0.05", r.Threshold)
	r = g.Decide(action(stage), nil, facts())
	require.Equal(t, []plan.Group{{Role: "editor", Min: 1}}, r.Groups)
	require.True(t, r.Awaits)
	r = g.Decide(action(stage), nil, facts(func(f *guardian.Facts) { f.Asks = []plan.Group{{Role: "cfo", Min: 1}, {Role: "editor", Min: 2}} }))
	require.Equal(t, []plan.Group{{Role: "cfo", Min: 1}, {Role: "editor", Min: 2}}, r.Groups, "plan and floor, the larger number of each")
	r = g.Decide(action(), nil, facts(risk("0.051"), asked))
	require.False(t, r.Awaits, "nobody may lift the risk")
}

// TestSeveralFilesNameARole: of a role that several files of a bundle name, the largest number
// counts, as everywhere, whatever people are asked.
func TestSeveralFilesNameARole(t *testing.T) {
	groups := func(list string) *policy.Bundle {
		return parse(t, "apiVersion: chimera/v1\nkind: PolicyBundle\nversion: \"1\"\napproval: {review: ["+list+"], outcome: ["+list+"]}\n")
	}
	whole, ds := policy.Merge(parse(t, bundleText), groups("{role: operator, min: 2}, {role: boss, min: 1}"), groups("{role: operator, min: 1}"))
	require.Empty(t, errorsOf(ds))
	g, ds := guardian.New(whole, operations())
	require.NotNil(t, g, errorsOf(ds))
	want := []plan.Group{{Role: "boss", Min: 1}, {Role: "operator", Min: 2}}
	require.Equal(t, want, g.Outcome())
	require.Equal(t, want, g.Decide(action(), nil, facts(func(f *guardian.Facts) { f.Review = true })).Groups)
}

// checks gives an action prechecks: nodes and digests in turn.
func checks(all ...string) func(*guardian.Action) {
	return func(a *guardian.Action) {
		a.Prechecks = nil
		for i := 0; i < len(all); i += 2 {
			a.Prechecks = append(a.Prechecks, guardian.Precheck{Node: all[i], Output: all[i+1]})
		}
	}
}

// TestPrechecks: rules read what prechecks have returned, and a malformed list of them is
// rejected.
func TestPrechecks(t *testing.T) {
	g := gate(t, strings.Replace(bundleText, "rules:\n", "rules:\n  - {id: checked, type: hard, match: 'has(action.prechecks)', require: 'action.prechecks.exists(c, c.node == \"balance\" && c.output != \"\")'}\n", 1))
	for want, a := range map[string]*guardian.Action{
		"APPROVE policy_clear":    action(checks("balance", "a")),
		"REJECT policy:checked":   action(checks("limit", "a")),
		"REJECT malformed_action": action(checks("limit", "a", "balance", "a")),
	} {
		r := g.Decide(a, nil, facts())
		require.Equal(t, want, string(r.Decision)+" "+r.Reason)
	}
	for _, bad := range []*guardian.Action{action(checks("a", "")), action(checks("", "a")), action(checks("a", "b", "a", "b"))} {
		require.Equal(t, guardian.MalformedAction, g.Decide(bad, nil, facts()).Reason)
	}
}

// TestActionDigest: whatever is changed in an action, its digest changes.
func TestActionDigest(t *testing.T) {
	digest := func(salt string, change ...func(*guardian.Action)) string {
		d, err := action(change...).Digest([]byte(salt))
		require.NoError(t, err)
		return d
	}
	require.Regexp(t, `^sha256:[0-9a-f]{64}$`, digest(""))
	require.Equal(t, digest("s"), digest("s", inputs(`{"to":"x","amount_minor":5000}`)), "the order of keys means nothing")
	money, err := ledger.Minor(1, "USD")
	require.NoError(t, err)
	seen := map[string]string{digest(""): "the action itself"}
	for name, d := range map[string]string{
		"salt":        digest("s"),
		"agent":       digest("", func(a *guardian.Action) { a.Agent = "b" }),
		"plan":        digest("", func(a *guardian.Action) { a.Plan = "b" }),
		"node":        digest("", func(a *guardian.Action) { a.Node = "b" }),
		"operation":   digest("", func(a *guardian.Action) { a.Operation = "b" }),
		"fingerprint": digest("", func(a *guardian.Action) { a.Fingerprint = "b" }),
		"effect":      digest("", func(a *guardian.Action) { a.Effect = plan.Staged }),
		"inputs":      digest("", inputs(`{"amount_minor": 5001, "to": "x"}`)),
		"cost":        digest("", func(a *guardian.Action) { a.Cost = &money }),
		"decision":    digest("", func(a *guardian.Action) { a.Taint.Decision = true }),
		"ports":       digest("", func(a *guardian.Action) { a.Taint.Ports = []string{"to"} }),
		"precheck":    digest("", checks("balance", "a")),
		"its output":  digest("", checks("balance", "b")),
		"another":     digest("", checks("balance", "a", "limit", "a")),
		"deployment":  digest("", func(a *guardian.Action) { a.Run.Deployment = "b" }),
		"namespace":   digest("", func(a *guardian.Action) { a.Run.Namespace = "b" }),
		"workflow":    digest("", func(a *guardian.Action) { a.Run.Workflow = "b" }),
		"origin":      digest("", func(a *guardian.Action) { a.Run.Origin = "b" }),
		"path":        digest("", func(a *guardian.Action) { a.Run.Path = "b" }),
		"epoch":       digest("", func(a *guardian.Action) { a.Run.Epoch = 1 }),
	} {
		require.Empty(t, seen[d], "%s has the digest of %s", name, seen[d])
		seen[d] = name
	}
}

// envShuffled names a file for what a gate with shuffled rules decides.
const envShuffled = "CHIMERA_TEST_SHUFFLED"

// TestEqualInputsGiveEqualBytes: random actions are decided twice, the second time in another
// process, by a gate whose rules and lists are in another order.
func TestEqualInputsGiveEqualBytes(t *testing.T) {
	b := parse(t, bundleText)
	if file := os.Getenv(envShuffled); file != "" {
		shuffle(b)
		require.NoError(t, os.WriteFile(file, decideMany(t, b), 0o600))
		return
	}
	file := filepath.Join(t.TempDir(), "records")
	other := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
	other.Env = append(os.Environ(), envShuffled+"="+file)
	out, err := other.CombinedOutput()
	require.NoError(t, err, string(out))
	raw, err := os.ReadFile(file)
	require.NoError(t, err)
	theirs, ours := bytes.Split(raw, []byte("\n")), bytes.Split(decideMany(t, b), []byte("\n"))
	require.Len(t, theirs, len(ours))
	for i := range ours {
		require.Equal(t, string(ours[i]), string(theirs[i]))
	}
}

// shuffle puts the rules and lists of a bundle in another order, always the same one.
func shuffle(b *policy.Bundle) {
	rnd := rand.New(rand.NewPCG(3, 4))
	rnd.Shuffle(len(b.Rules), func(i, j int) { b.Rules[i], b.Rules[j] = b.Rules[j], b.Rules[i] })
	slices.Reverse(b.Thresholds)
	slices.Reverse(b.Allow)
	slices.Reverse(b.Lift)
}

// decideMany returns the records of 10,000 random actions, a line each.
func decideMany(t *testing.T, b *policy.Bundle) []byte {
	g, ds := guardian.New(b, operations())
	require.NotNil(t, g, errorsOf(ds))
	rnd := rand.New(rand.NewPCG(1, 2))
	var lines bytes.Buffer
	decisions := map[string]int{}
	for range 10_000 {
		x, f := random(rnd)
		r := g.Decide(x, []byte("salt"), f)
		raw, err := r.Encode()
		require.NoError(t, err)
		lines.Write(append(raw, '\n'))
		decisions[string(r.Decision)+" "+r.Reason]++
	}
	require.Greater(t, len(decisions), 12, "the actions are of many kinds: %v", decisions)
	return lines.Bytes()
}

// random is an action, and what is known of it.
func random(rnd *rand.Rand) (*guardian.Action, guardian.Facts) {
	pick := func(list ...string) string { return list[rnd.IntN(len(list))] }
	a := action()
	switch rnd.IntN(4) {
	case 0:
		write(a)
		a.Inputs = json.RawMessage(fmt.Sprintf(`{"path":%q,"text":%q}`, pick("/out/x", "/etc", "", "\u202e"), pick("", "é", "<")))
	case 1:
		stage(a)
		a.Inputs = json.RawMessage(pick(`{"size":9}`, `{"size":10}`, `{}`, `[]`, `null`, `{"size":1e400}`, `{"size":"x"}`))
	default:
		a.Inputs = json.RawMessage(fmt.Sprintf(`{"amount_minor":%d,"to":"x"%s}`, rnd.Int64N(1_000_000), pick("", "", `,"parts":0`, `,"parts":50`, `,"parts":200`)))
	}
	a.Agent = pick("agent-42", "agent-42", "other", "")
	if rnd.IntN(8) == 0 {
		a.Taint.Ports = []string{"to"}
	}
	f := facts(risk(pick("0", "0.01", "0.1", "0.3", "1", "-1", "x")), budget(guardian.BudgetState(pick("none", "none", "held", "exceeded", "unpriced", "")), pick("", "h")))
	f.Calls = rnd.Int64N(5)
	if rnd.IntN(3) == 0 {
		f.Simulation = nil
	}
	return a, f
}
