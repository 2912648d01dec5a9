package host_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/internal/lengthy"
	"chimera.ai/engine/internal/stage"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/trust"
)

// budget gives the agent a budget.
func (a *acting) budget(t *testing.T, limit string) {
	t.Helper()
	m, err := ledger.ParseMoney(limit, "USD")
	require.NoError(t, err)
	a.state(t, &trust.SetBudget{Agent: "tester", Currency: "USD", Every: ledger.Forever, Limit: m})
}

// spent is what of the agent's budget is pending and posted.
func (a *acting) spent(t *testing.T) string {
	t.Helper()
	b, err := a.ledger().Budget(t.Context(), "tester", "USD")
	require.NoError(t, err)
	return b.Pending.Amount() + " " + b.Posted.Amount()
}

const manyCatalog = `
apiVersion: chimera/v1
kind: Catalog
templates:
  - {provider_type: skill, provider_name: mind, operation: think, mode: prob, effect_class: pure, timeout_ms: 60000, retry_policy: {max_retries: 0},
     input_schema: {type: object, properties: {about: {type: string}}, required: [about]},
     output_schema: {type: object, properties: {cost: {type: number, minimum: 0, maximum: 100, multipleOf: 0.01}}, required: [cost]},
     trust_requirement: allow_auto, status: allow_auto, cost: {expr: "output.cost", currency: USD, from_output: true}}
`

const manyPolicy = `
apiVersion: chimera/v1
kind: PolicyBundle
version: "1"
rules: []
`

// TestManyPaidCalls: many calls beside each other, in child workflows and over many
// executions of the run, are each paid once.
func TestManyPaidCalls(t *testing.T) {
	lengthy.Skip(t)
	stage.Parallel(t)
	a := actBy(t, "mind", `cat > /dev/null; echo '{"cost": 0.01}'`, manyCatalog, manyPolicy)
	a.options.ContinueAfter = 60
	a.again(t)
	a.budget(t, "100.00")
	const nodes = 120
	var list, edges []string
	for i := range nodes {
		// Every third may outlive an execution of its run.
		list = append(list, fmt.Sprintf("{id: n%d, template: mind/think, cost_estimate: 0.05, timeout_ms: %d}", i, []int{9000, 10000, 60000}[i%3]))
		edges = append(edges, fmt.Sprintf("$input.about -> n%d.about", i))
	}
	source := fmt.Sprintf(`{apiVersion: chimera/v1, kind: Plan, name: wide, version: "1", agent: tester, currency: USD, limits: {max_parallel: 1000},
  input_schema: {type: object, properties: {about: {type: string}}, required: [about]}, output_schema: {type: object},
  nodes: [%s], edges: [%s]}`, strings.Join(list, ", "), strings.Join(edges, ", "))
	run := a.start(t, "wide", a.publish(t, source), `{"about":"x"}`)
	require.NoError(t, stage.Await(t, a.h.Client(), run, nil))
	require.Equal(t, "0.00 1.20", a.spent(t))
}
