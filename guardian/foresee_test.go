package guardian_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/diag"
	"chimera.ai/engine/guardian"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/policy"
)

// TestForesee: what is foreseen of the operations of a plan is what is then decided of their calls.
func TestForesee(t *testing.T) {
	const head = "apiVersion: chimera/v1\nkind: PolicyBundle\nversion: \"1\"\n"
	source := diag.Source{Name: "plan.yaml", Text: []byte("nodes:\n  - {id: write, template: files/write}\n")}
	for _, c := range []struct {
		name, bundle string
		effect       plan.EffectClass
		want         []string
	}{
		{name: "no rule", bundle: "unmodelled: [files/write]", want: []string{guardian.NoRule}},
		{name: "nothing", want: []string{guardian.NoRule, guardian.CausalRisk}},
		{name: "not unmodelled", bundle: "rules: [{id: x, type: hard, operations: [files/write], require: 'true'}]", want: []string{guardian.CausalRisk}},
		{name: "somebody may lift it", bundle: "approval: {lift: {causal_risk: [risk]}}\nrules: [{id: x, type: hard, operations: [files/write], require: 'true'}]"},
		{name: "both", bundle: "unmodelled: [files/write]\nrules: [{id: x, type: hard, operations: [files/write], require: 'false'}]"},
		{name: "a rule about others", bundle: "unmodelled: [files/write]\nrules: [{id: x, type: hard, operations: [bank/transfer], require: 'true'}]", want: []string{guardian.NoRule}},
		{name: "a rule about all", bundle: "unmodelled: [files/write]\nrules: [{id: x, type: soft, match: 'true', require: 'true'}]"},
		{name: "all others", bundle: "unmodelled: [files/write]\nrules: [{id: x, type: hard, match: 'action.operation != \"files/write\"', require: 'true'}]", want: []string{guardian.NoRule}},
		{name: "another agent", bundle: "unmodelled: [files/write]\nrules: [{id: x, type: hard, operations: [files/write], match: 'action.agent == \"b\"', require: 'true'}]", want: []string{guardian.NoRule}},
		{name: "the agent", bundle: "unmodelled: [files/write]\nrules: [{id: x, type: hard, operations: [files/write], match: 'action.agent == \"a\"', require: 'true'}]"},
		{name: "another effect", bundle: "unmodelled: [files/write]\nrules: [{id: x, type: hard, match: 'action.effect == \"irreversible\"', require: 'true'}]", want: []string{guardian.NoRule}},
		{name: "the plan's effect", effect: plan.Irreversible, bundle: "unmodelled: [files/write]\nrules: [{id: x, type: hard, match: 'action.effect == \"irreversible\"', require: 'true'}]"},
		{name: "some inputs", bundle: "unmodelled: [files/write]\nrules: [{id: x, type: hard, operations: [files/write], match: 'action.inputs.path == \"/a\"', require: 'true'}]"},
		{name: "without effect", effect: plan.Pure},
	} {
		t.Run(c.name, func(t *testing.T) {
			b, ds := policy.Parse(diag.Source{Name: "policy.yaml", Text: []byte(head + c.bundle + "\n")})
			require.Empty(t, errorsOf(ds))
			g, ds := guardian.New(b, operations())
			require.NotNil(t, g, errorsOf(ds))
			if c.effect == "" {
				c.effect = plan.Committing
			}
			n := plan.Node{ID: "write", Provider: "files", Operation: "write", Effect: c.effect}
			found := guardian.Foresee(b, operations(), &plan.Plan{Agent: "a", Nodes: []plan.Node{n, n}}, source)
			require.Len(t, found, len(c.want))
			for i, d := range found {
				require.Equal(t, diag.Warning, d.Severity)
				require.Equal(t, diag.EffectRefused, d.Code)
				require.Equal(t, diag.Pos{Line: 2, Column: 27, Byte: 33}, d.Subject.Start)
				require.Contains(t, d.Detail, c.want[i])
			}
			if c.effect != plan.Committing {
				return
			}
			r := g.Decide(action(func(a *guardian.Action) {
				a.Agent, a.Node, a.Operation, a.Effect = "a", "write", "files/write", c.effect
				a.Inputs, a.Fingerprint = []byte(`{"path": "/a", "text": "x"}`), operations().Templates[1].Fingerprint
			}), nil, guardian.Facts{Calls: 1, Budget: guardian.Budget{State: guardian.NoBudget}})
			var objected []string
			for _, o := range r.Objections {
				if o.Reason == guardian.NoRule || o.Reason == guardian.CausalRisk && !r.Awaits {
					objected = append(objected, o.Reason)
				}
			}
			require.Equal(t, c.want, objected)
		})
	}
}
