package compiler

import "chimera.ai/engine/policy"

// judgedDocument is a plan with what its effects and trust amount to.
type judgedDocument struct {
	*typedDocument
	// grants is what the operator's bundle allows the plan's agent.
	grants *grants
	// gates are the barriers that a human approves.
	gates map[string]bool
	// taint is what is tainted of the plan where its input is not.
	taint *taintResult
}

// judged begins the judged graphs of the plans of a file.
func judged(docs []*typedDocument, pol *policy.Bundle) []*judgedDocument {
	out := make([]*judgedDocument, len(docs))
	for i, doc := range docs {
		agent := ""
		if doc.agent != nil {
			agent = doc.agent.Text
		}
		out[i] = &judgedDocument{typedDocument: doc, grants: grantsOf(pol, agent), gates: map[string]bool{}}
		for _, n := range doc.nodes {
			if n.commit != nil && n.commit.barrier != nil && n.commit.asks() {
				out[i].gates[n.commit.barrier.Text] = true
			}
		}
	}
	return out
}
