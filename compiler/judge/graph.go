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

// approved reports whether a human approves the effect: its commit policy names
// a group, or that of a node behind the same barrier does, whose rules are one.
func (d *Document) approved(n *typing.Node) bool {
	if n.Commit == nil {
		return false
	}
	if n.Commit.Asks() {
		return true
	}
	return n.Commit.Barrier != nil && d.gates[n.Commit.Barrier.Text]
}
