// Package judge says what a typed graph may do: whether its effects are allowed, who
// approves them, what nobody vouches for on its way to them, and whether the
// operator's catalog trusts each operation. The result is the judged graph.
package judge

import (
	"chimera.ai/engine/compiler/internal/proof"
	"chimera.ai/engine/compiler/typing"
	"chimera.ai/engine/internal/fields"
	"chimera.ai/engine/policy"
)

// Graph is the judged graph of each plan of a file.
type Graph struct {
	*typing.Graph
	Documents []*Document
}

// Document is a plan with what its effects and trust amount to.
type Document struct {
	*typing.Document
	// Grants is what the operator's bundle allows the plan's agent.
	Grants *grants
	// gates are the barriers that a human approves.
	gates map[string]bool
	// Taint is what is tainted of the plan where its input is not.
	Taint *Taint
}

// judge judges the plans of a file.
type judge struct {
	*fields.Reader
	prover *proof.Prover
	pol    *policy.Bundle
	*Graph
}

// Check checks what the plans of a file do, and whom that trusts.
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
