package compiler

import (
	"fmt"

	"chimera.ai/engine/diag"
	"chimera.ai/engine/internal/fields"
	"chimera.ai/engine/plan"
)

// refuse reports what the language has and the engine cannot run yet, once for
// each place. Everything else of it has been checked before.
func (u *unit) refuse() {
	for _, doc := range u.graph {
		for _, n := range doc.nodes {
			if n.kind == plan.KindCall {
				u.refuseNode(n)
			}
		}
		for _, e := range doc.edges {
			if e.fromPort == plan.CompensatePort {
				u.unsupported("compensation", e.fromPortAt, "", e.String())
			}
		}
		for _, l := range doc.loops {
			e := doc.edges[l.back[0]]
			u.unsupported("loops", e.place(), doc.nodes[l.header].id, e.String())
		}
	}
}

func (u *unit) refuseNode(n *typedNode) {
	if n.effect != "" && n.effect != plan.Pure {
		u.unsupported(fmt.Sprintf("the effect class `%s`", n.effect), n.effectRange(), n.id, "")
	}
	if n.trust == plan.ManualReview {
		u.unsupported("waiting for a human review (`manual_review`)", n.trustRange(), n.id, "")
	}
	if n.subplan() {
		u.unsupported("sub-plans", n.operationRange(), n.id, "")
	}
	if n.forEach != nil {
		u.unsupported("`for_each`", fields.KeyOf(n.at, "for_each"), n.id, "")
	}
	switch {
	case n.cost != nil:
		u.unsupported("budgets (`cost_estimate`)", n.cost.Range(), n.id, "")
	case n.template != nil && n.template.Cost != nil && n.effect == plan.Pure:
		u.unsupported("budgets (the operation has a `cost` in the catalog)", n.operationRange(), n.id, "")
	}
	if n.template != nil && n.template.Fingerprint != "" {
		u.unsupported("operations with a pinned fingerprint in the catalog", n.operationRange(), n.id, "")
	}
}

func (u *unit) unsupported(what string, at diag.Range, node, edge string) {
	u.Report(diag.Diagnostic{
		Code: diag.PlanNotSupported, Summary: "not supported yet: " + what,
		Detail:  "It is part of the language, and this version of the engine cannot run it.",
		Subject: at, Node: node, Edge: edge,
	})
}
