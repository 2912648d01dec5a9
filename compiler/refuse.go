package compiler

import (
	"chimera.ai/engine/compiler/judge"
	"chimera.ai/engine/compiler/typing"
	"chimera.ai/engine/diag"
	"chimera.ai/engine/internal/fields"
	"chimera.ai/engine/plan"
)

// refuse reports what the language has but the engine cannot run yet, once for each
// place.
func (c *compilation) refuse() {
	for _, doc := range c.judged.Documents {
		for _, n := range doc.Nodes {
			if n.Kind == plan.KindCall {
				c.refuseNode(n)
			}
			if n.Commit != nil {
				c.refuseCommit(doc, n)
			}
		}
		for _, l := range doc.Loops {
			e := doc.Edges[l.Back[0]]
			c.unsupported("loops", e.Place(), doc.Nodes[l.Header].ID, e.String())
		}
	}
}

func (c *compilation) refuseNode(n *typing.Node) {
	if n.Subplan() {
		c.unsupported("sub-plans", n.OperationRange(), n.ID, "")
	}
	if n.ForEach != nil {
		c.unsupported("`for_each`", fields.KeyOf(n.At, "for_each"), n.ID, "")
	}
	if n.Called && (n.Cost != nil || n.Template != nil && n.Template.Cost != nil) {
		c.unsupported("a cost of what verifies an effect", n.OperationRange(), n.ID, "")
	}
	if t := n.Template; t != nil && t.Fingerprint != "" && t.ProviderType != plan.MCP {
		c.unsupported("skills with a pinned fingerprint in the catalog", n.OperationRange(), n.ID, "")
	}
}

// refuseCommit refuses prechecks that cost something: they are called again once people have
// approved the effect.
func (c *compilation) refuseCommit(doc *judge.Document, n *typing.Node) {
	for at, i := range n.Commit.Checks {
		if i < 0 {
			continue // it was reported
		}
		if check := doc.Nodes[i]; check.Cost != nil || check.Template != nil && check.Template.Cost != nil {
			c.unsupported("a cost of a precheck", n.Commit.Prechecks[at].Range(), n.ID, "")
		}
	}
}

func (c *compilation) unsupported(what string, at diag.Range, node, edge string) {
	c.Report(diag.Diagnostic{
		Code: diag.PlanNotSupported, Summary: "not supported yet: " + what,
		Detail:  "It is part of the language, and this version of the engine cannot run it.",
		Subject: at, Node: node, Edge: edge,
	})
}
