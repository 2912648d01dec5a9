package policy

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/diag"
)

func TestParsePolicy(t *testing.T) {
	p := example(t)
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

func TestMergePolicies(t *testing.T) {
	none, ds := Merge(nil, nil)
	require.Nil(t, none)
	require.Empty(t, ds)
	one := example(t)
	same, ds := Merge(nil, one)
	require.Empty(t, ds)
	require.Equal(t, one, same)
	merged, ds := Merge(one, &Bundle{Version: one.Version, Rules: []Rule{{ID: "other"}}})
	require.Empty(t, ds)
	require.Len(t, merged.Rules, 3)
	none, ds = Merge(one, one)
	require.Nil(t, none)
	require.Len(t, ds, 8, text(ds))
	_, ds = Merge(one, &Bundle{Version: "2"})
	require.Equal(t, diag.PlanSchema, ds[0].Code)
}

// TestLift: who may lift the escalation of a rule needs that rule, in any file of
// the bundle.
func TestLift(t *testing.T) {
	lifts := func(reason string) *Bundle {
		return &Bundle{Version: "1", Lift: []Lift{{Reason: reason, Roles: []string{"cfo"}}}}
	}
	rules := &Bundle{Version: "1", Rules: []Rule{{ID: "large", Soft: true}, {ID: "cap"}}}
	for _, reason := range []string{"budget_exceeded", "causal_risk", "policy:large"} {
		merged, ds := Merge(lifts(reason), rules)
		require.Empty(t, ds, reason)
		require.NotNil(t, merged, reason)
	}
	merged, ds := Merge(lifts("policy:larg"), rules)
	require.Nil(t, merged)
	require.Equal(t, diag.EffectOperator, ds[0].Code)
	require.Equal(t, "policy:large", ds[0].Suggestion)
	merged, ds = Merge(lifts("policy:cap"), rules)
	require.NotNil(t, merged)
	require.Equal(t, diag.Warning, ds[0].Severity)
	require.Contains(t, ds[0].Summary, "is hard")
	// One file of several may name a rule of another.
	p, ds := Parse(diag.Source{Name: "p", Text: []byte("{apiVersion: chimera/v1, kind: PolicyBundle, version: '1', approval: {lift: {'policy:else': [a]}}}")})
	require.Empty(t, ds)
	require.NotNil(t, p)
}

// TestPolicyDigest: two workers whose bundles say different things show it, and
// where the files lie does not matter.
func TestPolicyDigest(t *testing.T) {
	p := example(t)
	require.Regexp(t, `^sha256:[0-9a-f]{64}$`, p.Digest())
	require.Empty(t, (*Bundle)(nil).Digest())
	text, err := os.ReadFile("../compiler/testdata/policy.yaml")
	require.NoError(t, err)
	same, ds := Parse(diag.Source{Name: "elsewhere.yaml", Text: append([]byte("# a comment\n\n"), text...)})
	require.Empty(t, ds)
	require.Equal(t, p.Digest(), same.Digest())
	require.True(t, p.Range.IsValid(), "the policy itself is not changed")
	seen := map[string]bool{p.Digest(): true}
	for name, change := range map[string]func(*Bundle){
		"version":    func(p *Bundle) { p.Version = "2" },
		"threshold":  func(p *Bundle) { p.Thresholds[0].MaxAutoLaunchRisk = "0.3" },
		"floor":      func(p *Bundle) { p.Floor[0].Groups[0].Min = 1 },
		"lift":       func(p *Bundle) { p.Lift[0].Roles = []string{"other"} },
		"cap":        func(p *Bundle) { p.Caps.InvocationsPerRun = 1 },
		"allow":      func(p *Bundle) { p.Allow[0].Tainted = true },
		"unattended": func(p *Bundle) { p.Allow[0].Unattended = true },
		"unmodelled": func(p *Bundle) { p.Unmodelled = nil },
		"rule":       func(p *Bundle) { p.Rules[0].Soft = true },
	} {
		changed := example(t)
		change(changed)
		require.False(t, seen[changed.Digest()], name)
		seen[changed.Digest()] = true
	}
}

// TestPolicyHostile: wrong input of every kind is refused, and nothing panics.
func TestPolicyHostile(t *testing.T) {
	for _, text := range []string{"", "[]", "null", "a", "{", "kind: PolicyBundle", "thresholds: []", "rules: [1, null, {match: 1}]", "allow: [null]",
		"approval: {floor: [{groups: [null, {role: 1}]}], lift: {causal_risk: [1]}}", "caps: {invocations_per_run: 1e999999999}", "---\n---\n"} {
		p, ds := Parse(diag.Source{Name: "p", Text: []byte(text)})
		require.Nil(t, p, text)
		require.True(t, ds.HasErrors(), text)
	}
}

// example is a bundle that has everything.
func example(t testing.TB) *Bundle {
	t.Helper()
	b, err := os.ReadFile("../compiler/testdata/policy.yaml")
	require.NoError(t, err)
	p, ds := Parse(diag.Source{Name: "policy.yaml", Text: b})
	require.Empty(t, text(ds))
	return p
}

// text writes findings for people.
func text(ds diag.Diagnostics) string {
	var b strings.Builder
	_ = ds.WriteText(&b, nil, false)
	return b.String()
}
