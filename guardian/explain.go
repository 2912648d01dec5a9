package guardian

import (
	"chimera.ai/engine/expr"
	"chimera.ai/engine/policy"
)

// Explanation says what one rule finds about an action, and why.
type Explanation struct {
	Rule *policy.Rule
	// Other reports that the rule is about other operations only.
	Other bool
	// Result is nil if the rule is not about the action.
	Result *RuleResult
	// Match and Require are the rule's predicates and their parts; Match is empty for a
	// rule without one, and Require for one that is not about the action.
	Match, Require []expr.Part
}

// Explain says what each rule of the bundle, in the order of the bundle, finds about an
// action. Its error is that of a malformed action.
func (g *Gate) Explain(a *Action, facts Facts) ([]Explanation, error) {
	d := &decision{gate: g, action: a, facts: facts}
	if err := d.understand(); err != nil {
		return nil, err
	}
	own := map[string]rule{}
	for _, r := range d.operation.rules {
		own[r.ID] = r
	}
	out := make([]Explanation, len(g.bundle.Rules))
	for i := range g.bundle.Rules {
		x := Explanation{Rule: &g.bundle.Rules[i]}
		r, may := own[x.Rule.ID]
		if x.Other = !may; may {
			if r.match != nil {
				x.Match = r.match.Explain(d.vars)
			}
			if result, about := d.evaluate(r); about {
				x.Result = &result
				x.Require = r.require.Explain(d.vars)
			}
		}
		out[i] = x
	}
	return out, nil
}
