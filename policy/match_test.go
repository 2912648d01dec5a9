package policy

import (
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/plan"
)

// TestMatch: an entry is about the effects, agents and operations that it names, exactly as it
// writes them; where it names none, about all.
func TestMatch(t *testing.T) {
	both := Match{Effects: []plan.EffectClass{plan.Staged, plan.Irreversible}, Agents: []string{"clerk"}, Operations: []string{"bank/pay", "Bank/Refund"}}
	for name, c := range map[string]struct {
		match            Match
		effect           plan.EffectClass
		agent, operation string
		want             bool
	}{
		"all":                       {Match{}, plan.Committing, "any-agent", "any/thing", true},
		"as it says":                {both, plan.Staged, "clerk", "bank/pay", true},
		"the last of each":          {both, plan.Irreversible, "clerk", "Bank/Refund", true},
		"another effect":            {both, plan.Committing, "clerk", "bank/pay", false},
		"another agent":             {both, plan.Staged, "chief", "bank/pay", false},
		"no agent":                  {both, plan.Staged, "", "bank/pay", false},
		"another operation":         {both, plan.Staged, "clerk", "bank/payout", false},
		"a part of an operation":    {both, plan.Staged, "clerk", "bank", false},
		"an operation in capitals":  {both, plan.Staged, "clerk", "bank/Pay", false},
		"an operation in small":     {both, plan.Staged, "clerk", "bank/refund", false},
		"an agent in capitals":      {both, plan.Staged, "Clerk", "bank/pay", false},
		"an effect in capitals":     {both, "Staged", "clerk", "bank/pay", false},
		"operations of every agent": {Match{Operations: []string{"bank/pay"}}, plan.Pure, "chief", "bank/pay", true},
		"and no others":             {Match{Operations: []string{"bank/pay"}}, plan.Pure, "chief", "BANK/PAY", false},
	} {
		require.Equal(t, c.want, c.match.Has(c.effect, c.agent, c.operation), name)
	}
}
