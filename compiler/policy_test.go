package compiler

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/diag"
	"chimera.ai/engine/plan"
)

func TestParsePolicy(t *testing.T) {
	p := testPolicy(t)
	require.Equal(t, "2026-11-01", p.Version)
	require.Len(t, p.Thresholds, 2)
	require.EqualValues(t, "0.05", p.Thresholds[1].MaxAutoLaunchRisk)
	require.Equal(t, []Group{{"finance", 2}}, p.Floor[0].Groups)
	require.Equal(t, []string{"cfo", "risk"}, p.Lift[2].Roles)
	require.EqualValues(t, 100000, p.Caps.InvocationsPerRun)
	require.Equal(t, &Money{"50.00", "USD"}, p.Caps.ProbCostPerRun)
	require.Equal(t, `action.inputs.amount_minor <= 500000`, p.Rules[0].Require)
	require.False(t, p.Rules[0].Soft)
	require.True(t, p.Allow[1].Tainted)
}

func TestGrants(t *testing.T) {
	p := &Policy{Allow: []Allow{
		{Match: Match{Effects: []plan.EffectClass{plan.Irreversible}, Agents: []string{"a"}, Operations: []string{"x/y"}}},
		{Match: Match{Agents: []string{"b"}}, Tainted: true},
	}}
	require.True(t, p.grantsOf("a").allows(plan.Irreversible, "x/y"))
	require.False(t, p.grantsOf("a").allows(plan.Irreversible, "x/z"))
	require.False(t, p.grantsOf("a").allows(plan.Committing, "x/y"))
	require.False(t, p.grantsOf("a").allowsTainted(plan.Irreversible, "x/y"))
	require.True(t, p.grantsOf("b").allowsTainted(plan.Committing, "any/thing"))
	require.False(t, p.grantsOf("").allows(plan.Irreversible, "x/y"))
	require.False(t, (*Policy)(nil).grantsOf("a").allows(plan.Irreversible, "x/y"))
}

func TestMergePolicies(t *testing.T) {
	none, ds := MergePolicies(nil, nil)
	require.Nil(t, none)
	require.Empty(t, ds)
	one := testPolicy(t)
	same, ds := MergePolicies(nil, one)
	require.Empty(t, ds)
	require.Equal(t, one, same)
	merged, ds := MergePolicies(one, &Policy{Version: one.Version, Rules: []Rule{{ID: "other"}}})
	require.Empty(t, ds)
	require.Len(t, merged.Rules, 3)
	none, ds = MergePolicies(one, one)
	require.Nil(t, none)
	require.Len(t, ds, 8, show(ds))
	_, ds = MergePolicies(one, &Policy{Version: "2"})
	require.Equal(t, diag.PlanSchema, ds[0].Code)
}

// TestLift: who may lift the escalation of a rule needs that rule, in any file of
// the bundle.
func TestLift(t *testing.T) {
	lifts := func(reason string) *Policy {
		return &Policy{Version: "1", Lift: []Lift{{Reason: reason, Roles: []string{"cfo"}}}}
	}
	rules := &Policy{Version: "1", Rules: []Rule{{ID: "large", Soft: true}, {ID: "cap"}}}
	for _, reason := range []string{"budget_exceeded", "causal_risk", "policy:large"} {
		merged, ds := MergePolicies(lifts(reason), rules)
		require.Empty(t, ds, reason)
		require.NotNil(t, merged, reason)
	}
	merged, ds := MergePolicies(lifts("policy:larg"), rules)
	require.Nil(t, merged)
	require.Equal(t, diag.EffectOperator, ds[0].Code)
	require.Equal(t, "policy:large", ds[0].Suggestion)
	merged, ds = MergePolicies(lifts("policy:cap"), rules)
	require.NotNil(t, merged)
	require.Equal(t, diag.Warning, ds[0].Severity)
	require.Contains(t, ds[0].Summary, "is hard")
	// One file of several may name a rule of another.
	p, ds := ParsePolicy(Source{Name: "p", Text: []byte("{apiVersion: chimera/v1, kind: PolicyBundle, version: '1', approval: {lift: {'policy:else': [a]}}}")})
	require.Empty(t, ds)
	require.NotNil(t, p)
}

// TestPolicyDigest: two workers whose bundles say different things show it, and
// where the files lie does not matter.
func TestPolicyDigest(t *testing.T) {
	p := testPolicy(t)
	require.Regexp(t, `^sha256:[0-9a-f]{64}$`, p.Digest())
	require.Empty(t, (*Policy)(nil).Digest())
	text, err := os.ReadFile("testdata/policy.yaml")
	require.NoError(t, err)
	same, ds := ParsePolicy(Source{Name: "elsewhere.yaml", Text: append([]byte("# a comment\n\n"), text...)})
	require.Empty(t, ds)
	require.Equal(t, p.Digest(), same.Digest())
	require.True(t, p.Range.IsValid(), "the policy itself is not changed")
	seen := map[string]bool{p.Digest(): true}
	for name, change := range map[string]func(*Policy){
		"version":    func(p *Policy) { p.Version = "2" },
		"threshold":  func(p *Policy) { p.Thresholds[0].MaxAutoLaunchRisk = "0.3" },
		"floor":      func(p *Policy) { p.Floor[0].Groups[0].Min = 1 },
		"lift":       func(p *Policy) { p.Lift[0].Roles = []string{"other"} },
		"cap":        func(p *Policy) { p.Caps.InvocationsPerRun = 1 },
		"allow":      func(p *Policy) { p.Allow[0].Tainted = true },
		"unmodelled": func(p *Policy) { p.Unmodelled = nil },
		"rule":       func(p *Policy) { p.Rules[0].Soft = true },
	} {
		changed := testPolicy(t)
		change(changed)
		require.False(t, seen[changed.Digest()], name)
		seen[changed.Digest()] = true
	}
}

// TestPolicyHostile: wrong input of every kind is refused, and nothing panics.
func TestPolicyHostile(t *testing.T) {
	for _, text := range []string{"", "[]", "null", "a", "{", "kind: PolicyBundle", "thresholds: []", "rules: [1, null, {match: 1}]", "allow: [null]",
		"approval: {floor: [{groups: [null, {role: 1}]}], lift: {causal_risk: [1]}}", "caps: {invocations_per_run: 1e999999999}", "---\n---\n"} {
		p, ds := ParsePolicy(Source{Name: "p", Text: []byte(text)})
		require.Nil(t, p, text)
		require.True(t, ds.HasErrors(), text)
	}
}
