package guardian

import (
	"fmt"
	"slices"

	"chimera.ai/engine/catalog"
	"chimera.ai/engine/diag"
	"chimera.ai/engine/expr"
	"chimera.ai/engine/internal/fields"
	"chimera.ai/engine/internal/syntax"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/policy"
	"chimera.ai/engine/schemas"
)

// Foresee warns of the operations of a plan that have effects, and of which each call will be refused:
// it is proved that no rule is about them, or nothing is known of their risk and nobody may lift that.
// Of the plan's source only the places of nodes are taken. Nothing is foreseen by a bundle that
// [New] refuses, nor of a plan without an agent, whose runs do not start.
func Foresee(b *policy.Bundle, cat *catalog.Catalog, p *plan.Plan, src diag.Source) diag.Diagnostics {
	if p.Agent == "" || !slices.ContainsFunc(p.Nodes, func(n plan.Node) bool { return n.Effect.Acts() }) {
		return nil
	}
	g, _ := gate(b, cat, true)
	if g == nil {
		return nil
	}
	c := &checker{gate: g, work: maxWork}
	var places map[string]diag.Range
	seen := map[string]bool{}
	for i := range p.Nodes {
		n := &p.Nodes[i]
		name := catalog.OperationName(n.Provider, n.Operation)
		o := g.operations[name]
		if o == nil || !n.Effect.Acts() || seen[name+" "+string(n.Effect)] {
			continue
		}
		seen[name+" "+string(n.Effect)] = true
		warn := func(summary, detail, suggestion string) {
			if places == nil {
				places = placesOf(src)
			}
			c.found.Add(diag.Diagnostic{
				Severity: diag.Warning, Code: diag.EffectRefused, Summary: fmt.Sprintf(summary, fields.Quote(name)),
				Detail: detail, Subject: places[n.ID], Node: n.ID, Suggestion: suggestion,
			})
		}
		if !c.about(o, p.Agent, n.Effect) {
			warn("no rule of the policy is about %s", "So each call is rejected: `"+NoRule+"`. A call that has an effect needs a rule that says when it may happen.",
				fmt.Sprintf("rules: [{id: RULE, type: hard, operations: [%q], require: EXPRESSION}]", name))
		}
		if !g.unmodelled[name] && g.models[name] == nil && len(g.Lifters(CausalRisk)) == 0 {
			warn("no causal model is about %s, and the policy does not list it under `unmodelled`", "So each call is escalated, and nobody may lift that: `"+CausalRisk+"`.",
				fmt.Sprintf("unmodelled: [%q]", name))
		}
	}
	c.found.Sort()
	return c.found
}

// about reports whether a rule may be about calls of an operation by an agent.
func (c *checker) about(o *operation, agent string, effect plan.EffectClass) bool {
	if len(o.rules) == 0 {
		return false
	}
	of := func(value string) *schemas.Schema { return schemas.Make(schemas.Keywords{Const: []any{value}}) }
	// The plan's effect class may be stricter than that of the catalog, which typeOf gives.
	action := schemas.Make(schemas.Keywords{All: []*schemas.Schema{typeOf(nil, o.input), schemas.Make(schemas.Keywords{
		Properties: map[string]*schemas.Schema{"agent": of(agent), "operation": of(o.template.Name()), "effect": of(string(effect))},
	})}})
	for _, r := range o.rules {
		if r.match == nil || !c.none(r.match.Narrow(expr.Typing{Types: expr.Types{"action": action}, Work: &c.work}, true)) {
			return true
		}
	}
	return false
}

// placesOf finds the nodes of the first plan in a source, by id.
func placesOf(src diag.Source) map[string]diag.Range {
	places := map[string]diag.Range{}
	docs, _ := syntax.Parse(src.Name, src.Text, fields.Limits)
	if len(docs) == 0 {
		return places
	}
	if nodes := docs[0].Root.Get("nodes"); nodes != nil {
		for _, n := range nodes.Items {
			id := n.Get("id")
			if id == nil {
				continue
			}
			places[id.Text] = id.Range()
			for _, key := range []string{"operation", "template"} {
				if v := n.Get(key); v != nil {
					places[id.Text] = v.Range()
				}
			}
		}
	}
	return places
}
