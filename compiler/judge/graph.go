package judge

import (
	"chimera.ai/engine/compiler/internal/proof"
	"chimera.ai/engine/compiler/typing"
	"chimera.ai/engine/internal/fields"
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
