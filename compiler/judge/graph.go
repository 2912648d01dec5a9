package judge

import (
	"slices"

	"chimera.ai/engine/compiler/internal/proof"
	"chimera.ai/engine/compiler/typing"
	"chimera.ai/engine/internal/fields"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/policy"
)

// Graph holds the judged graph of each plan of a file.
type Graph struct {
	*typing.Graph
	Documents []*Document
}

// Document is a plan with what is allowed and tainted.
type Document struct {
	*typing.Document
	// Grants is what the operator's bundle allows the plan's agent to do.
	Grants *grants
	// gates holds the barriers that a human approves.
	gates map[string]bool
	// Taint is what is tainted in the plan if its input is not.
	Taint *Taint
	// Distrusted is what is tainted if the plan's input is; nil in a plan of which no call needs
	// a permit.
	Distrusted *Taint
}

// judge builds a Graph.
type judge struct {
	*fields.Reader
	prover *proof.Prover
	pol    *policy.Bundle
	*Graph
}

// approved reports whether a human approves the effect: the commit policy of the
// node, or of another behind the same barrier, names a group.
func (d *Document) approved(n *typing.Node) bool {
	if n.Commit == nil {
		return false
	}
	if n.Commit.Asks() {
		return true
	}
	return n.Commit.Barrier != nil && d.gates[n.Commit.Barrier.Text]
}

// grants is a policy's allow list for one agent.
type grants struct{ plain, tainted, unattended map[grant]bool }

// grant is an effect class and an operation, or "" for all operations.
type grant struct {
	effect    plan.EffectClass
	operation string
}

// grantsOf indexes the allow list for one agent. Entries that name no agent match
// every agent, also "".
func grantsOf(p *policy.Bundle, agent string) *grants {
	g := &grants{map[grant]bool{}, map[grant]bool{}, map[grant]bool{}}
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
				if a.Unattended {
					g.unattended[grant{effect, op}] = true
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

// allowsUnattended reports whether an entry that asks for nobody's approval matches it.
func (g *grants) allowsUnattended(effect plan.EffectClass, operation string) bool {
	return g.unattended[grant{effect, operation}] || g.unattended[grant{effect, ""}]
}
