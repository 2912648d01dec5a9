package activities

import (
	"fmt"
	"slices"

	"chimera.ai/engine/internal/excerpt"
	"chimera.ai/engine/plan"
)

// beyond names the first thing in a plan that runs cannot do yet, or returns "".
// The compiler refuses such plans too; this does not depend on what compiled them.
func beyond(p *plan.Plan) string {
	for i := range p.Nodes {
		n := &p.Nodes[i]
		what := ""
		switch {
		case n.Kind != plan.KindCall:
		case slices.ContainsFunc(n.Prechecks(), func(i int) bool { return p.Nodes[i].Paid() }):
			what = "a cost of a precheck"
		case n.Trust == plan.Block:
			what = fmt.Sprintf("the trust requirement %s", n.Trust)
		case n.Plan != "":
			what = "a sub-plan"
		case n.ForEach != nil:
			what = "for_each"
		case n.Paid() && n.Called:
			what = "a cost of what verifies an effect"
		case n.Fingerprint != "" && n.ProviderType != plan.MCP:
			what = "a pinned fingerprint of a skill"
		}
		if what != "" {
			return fmt.Sprintf("%s (node %s)", what, excerpt.Bytes(n.ID, 100))
		}
	}
	if len(p.Loops) > 0 {
		return "loops"
	}
	return ""
}
