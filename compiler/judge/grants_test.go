package judge

import (
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/plan"
	"chimera.ai/engine/policy"
)

func TestGrants(t *testing.T) {
	p := &policy.Bundle{Allow: []policy.Allow{
		{Match: policy.Match{Effects: []plan.EffectClass{plan.Irreversible}, Agents: []string{"a"}, Operations: []string{"x/y"}}},
		{Match: policy.Match{Agents: []string{"b"}}, Tainted: true},
		{Match: policy.Match{Effects: []plan.EffectClass{plan.Irreversible}, Agents: []string{"c"}}, Unattended: true},
	}}
	require.True(t, grantsOf(p, "a").allows(plan.Irreversible, "x/y"))
	require.False(t, grantsOf(p, "a").allows(plan.Irreversible, "x/z"))
	require.False(t, grantsOf(p, "a").allows(plan.Committing, "x/y"))
	require.False(t, grantsOf(p, "a").AllowsTainted(plan.Irreversible, "x/y"))
	require.True(t, grantsOf(p, "b").AllowsTainted(plan.Committing, "any/thing"))
	require.False(t, grantsOf(p, "b").allowsUnattended(plan.Irreversible, "any/thing"))
	require.True(t, grantsOf(p, "c").allowsUnattended(plan.Irreversible, "any/thing"))
	require.False(t, grantsOf(p, "").allows(plan.Irreversible, "x/y"))
	require.False(t, grantsOf(nil, "a").allows(plan.Irreversible, "x/y"))
}
