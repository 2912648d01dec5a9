package judge

import (
	"slices"

	"chimera.ai/engine/plan"
	"chimera.ai/engine/policy"
)

// grants is a policy's allow list for one agent.
type grants struct{ plain, tainted map[grant]bool }

// grant is an effect class and an operation, or "" for all operations.
type grant struct {
	effect    plan.EffectClass
	operation string
}

// grantsOf indexes the allow list for one agent. Entries that name no agent match
// every agent, also "".
func grantsOf(p *policy.Bundle, agent string) *grants {
	g := &grants{map[grant]bool{}, map[grant]bool{}}
	if p == nil {
		return g
	}
	for i := range p.Allow {
		a := &p.Allow[i]
		if len(a.Agents) > 0 && !slices.Contains(a.Agents, agent) {
			continue
		}
		effects, ops := a.Effects, a.Operations
		if len(effects) == 0 {
			effects = []plan.EffectClass{plan.Pure, plan.Staged, plan.Committing, plan.Irreversible}
		}
		if len(ops) == 0 {
			ops = []string{""}
		}
		for _, effect := range effects {
			for _, op := range ops {
				g.plain[grant{effect, op}] = true
				if a.Tainted {
					g.tainted[grant{effect, op}] = true
				}
			}
		}
	}
	return g
}

// allows reports whether an entry matches the effect.
func (g *grants) allows(effect plan.EffectClass, operation string) bool {
	return g.plain[grant{effect, operation}] || g.plain[grant{effect, ""}]
}

// AllowsTainted reports whether an entry that accepts taint matches it.
func (g *grants) AllowsTainted(effect plan.EffectClass, operation string) bool {
	return g.tainted[grant{effect, operation}] || g.tainted[grant{effect, ""}]
}
