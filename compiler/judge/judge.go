// Package judge decides what a typed graph may do: whether its effects are allowed
// and approved, whether tainted values or decisions reach them, and whether the
// operator's catalog trusts each operation. The result is the judged graph.
package judge

import (
	"chimera.ai/engine/compiler/internal/proof"
	"chimera.ai/engine/compiler/typing"
	"chimera.ai/engine/internal/fields"
	"chimera.ai/engine/policy"
)

// Check judges the effects of the plans of a file, and the operations that they
// trust.
func Check(rep *fields.Reader, prover *proof.Prover, typed *typing.Graph, pol *policy.Bundle) *Graph {
	j := &judge{Reader: rep, prover: prover, pol: pol, Graph: &Graph{Graph: typed}}
	for _, doc := range typed.Documents {
		agent := ""
		if doc.Agent != nil {
			agent = doc.Agent.Text
		}
		d := &Document{Document: doc, Grants: grantsOf(pol, agent), gates: map[string]bool{}}
		for _, n := range doc.Nodes {
			if n.Commit != nil && n.Commit.Barrier != nil && n.Commit.Asks() {
				d.gates[n.Commit.Barrier.Text] = true
			}
		}
		j.Documents = append(j.Documents, d)
	}
	j.effects()
	j.trust()
	return j.Graph
}
