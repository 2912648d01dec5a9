package activities_test

import (
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/internal/stage"
)

const paidCatalog = `
apiVersion: chimera/v1
kind: Catalog
templates:
  - {provider_type: skill, provider_name: mind, operation: think, mode: prob, effect_class: pure, timeout_ms: 60000, retry_policy: {max_retries: 0},
     input_schema: {type: object, properties: {about: {type: string}}, required: [about]},
     output_schema: {type: object, properties: {cost: {type: number, minimum: 0, maximum: 100, multipleOf: 0.01}}, required: [cost]},
     trust_requirement: allow_auto, status: allow_auto, cost: {expr: "output.cost", currency: USD, from_output: true}}
  - {provider_type: skill, provider_name: mind, operation: recall, mode: deter, effect_class: pure, timeout_ms: 60000, retry_policy: {max_retries: 2, on: [tool_error], initial_ms: 1},
     input_schema: {type: object, properties: {about: {type: string}}, required: [about]}, output_schema: {type: object},
     trust_requirement: allow_auto, status: allow_auto, cost: {expr: "0.05", currency: USD}}
`

const paidPolicy = `
apiVersion: chimera/v1
kind: PolicyBundle
version: "1"
caps: {prob_cost_per_run: "0.50 USD"}
rules: []
`

// thinks is a plan of nodes that call an operation one after the other, with its estimate.
func thinks(name, operation, estimate string, nodes int, more string) string {
	var list, edges []string
	for i := range nodes {
		cost := ""
		if estimate != "" {
			cost = ", cost_estimate: " + estimate
		}
		list = append(list, fmt.Sprintf("{id: n%d, template: mind/%s%s%s}", i, operation, cost, more))
		edges = append(edges, fmt.Sprintf("$input.about -> n%d.about", i))
		if i > 0 {
			edges = append(edges, fmt.Sprintf("n%d -> n%d", i-1, i))
		}
	}
	return fmt.Sprintf(`{apiVersion: chimera/v1, kind: Plan, name: %s, version: "1", agent: tester, currency: USD,
  input_schema: {type: object, properties: {about: {type: string}}, required: [about]}, output_schema: {type: object},
  nodes: [%s], edges: [%s]}`, name, strings.Join(list, ", "), strings.Join(edges, ", "))
}

// TestCallsArePaid: a call without effect is made with a hold for what it may cost, and what
// it has cost is posted: by its output where the operator attests that, else the whole hold.
func TestCallsArePaid(t *testing.T) {
	t.Parallel()
	a := stage.ActBy(t, "mind", `cat >> "$LINES_FILE"; echo >> "$LINES_FILE"; grep -q broken "$LINES_FILE" && exit 1; echo '{"cost": 0.03}'`, paidCatalog, paidPolicy)
	input := `{"about":"x"}`

	// Without a budget the cap of the run counts all the same: four calls of 0.13 with 0.03
	// each before them fit in 0.50, and sixteen do not.
	a.Start(t, "one", a.Publish(t, thinks("one", "think", "0.13", 1, "")), input)
	free := a.Start(t, "free", a.Publish(t, thinks("free", "think", "0.13", 13, "")), input)
	require.NoError(t, stage.Await(t, a.Client(), free, nil))
	capped := a.Start(t, "capped", a.Publish(t, thinks("capped", "think", "0.13", 16, "")), input)
	f := stage.FailureOf(t, stage.Await(t, a.Client(), capped, nil))
	require.Equal(t, contract.Budget, f.Kind, f.Message)
	require.Contains(t, f.Message, "prob_cost_per_run")
	require.Equal(t, "n13", f.Node)

	a.Budget(t, "1.00")
	require.NoError(t, stage.Await(t, a.Client(), a.Start(t, "attested", a.Publish(t, thinks("attested", "think", "0.30", 3, "")), input), nil))
	require.Equal(t, "0.00 0.09", a.Spent(t))
	require.NoError(t, stage.Await(t, a.Client(), a.Start(t, "fixed", a.Publish(t, thinks("fixed", "recall", "", 3, "")), input), nil))
	require.Equal(t, "0.00 0.24", a.Spent(t))

	// Each attempt is paid.
	tries := a.Start(t, "tries", a.Publish(t, thinks("tries", "recall", "", 1, "")), `{"about":"broken"}`)
	f = stage.FailureOf(t, stage.Await(t, a.Client(), tries, nil))
	require.Equal(t, contract.ToolError, f.Kind, f.Message)
	require.Equal(t, "0.00 0.39", a.Spent(t))

	// What does not fit is not called.
	before := len(a.Written(t))
	large := a.Start(t, "large", a.Publish(t, thinks("large", "recall", "0.62", 1, "")), input)
	f = stage.FailureOf(t, stage.Await(t, a.Client(), large, nil))
	require.Equal(t, contract.Budget, f.Kind, f.Message)
	require.Len(t, a.Written(t), before)

	// A run without a grant pays for nothing.
	ungranted := stage.Start(t, a.Client(), thinks("none", "recall", "", 1, ""), input)
	f = stage.FailureOf(t, stage.Await(t, a.Client(), ungranted, nil))
	require.Equal(t, contract.Blocked, f.Kind, f.Message)
}

// TestCallsShareABudget: many runs at once spend what there is, and no more.
func TestCallsShareABudget(t *testing.T) {
	t.Parallel()
	a := stage.ActBy(t, "mind", `cat >> "$LINES_FILE"; echo >> "$LINES_FILE"; echo '{}'`, paidCatalog, paidPolicy)
	a.Budget(t, "1.00")
	digest := a.Publish(t, thinks("many", "recall", "0.07", 1, ""))
	const runs, paid = 64, 14
	require.Equal(t, runs-paid, a.Refused(t, digest, "about", runs))
	require.Len(t, a.Written(t), paid)
	require.Equal(t, "0.00 0.98", a.Spent(t))
}

// TestHoldsOfRunsThatEnd: a run that ends posts the holds of its calls in flight, and of one
// that is terminated the sweeper does. A run that is reset pays for what it calls again.
func TestHoldsOfRunsThatEnd(t *testing.T) {
	t.Parallel()
	a := stage.ActBy(t, "mind", `line=$(cat); echo "$line" >> "$LINES_FILE"; case "$line" in *slow*) while [ ! -e "$LINES_FILE-go" ]; do sleep 0.01; done;; esac; echo '{"cost": 0.01}'`, paidCatalog, paidPolicy)
	t.Cleanup(func() { require.NoError(t, os.WriteFile(a.Lines+"-go", nil, 0o600)) })
	a.Options.SweepEvery = 20 * time.Millisecond
	a.Again(t)
	a.Budget(t, "10.00")
	slow := a.Publish(t, thinks("slow", "think", "0.20", 1, ""))
	run := a.Start(t, "cancelled", slow, `{"about":"slow"}`)
	called := func(n int) func() bool { return func() bool { return len(a.Written(t)) == n } }
	stage.Until(t, "the call is made", called(1))
	require.Equal(t, "0.20 0.00", a.Spent(t))
	require.NoError(t, a.Client().CancelWorkflow(t.Context(), run.GetID(), ""))
	require.Error(t, stage.Await(t, a.Client(), run, nil))
	require.Equal(t, "0.00 0.20", a.Spent(t))

	run = a.Start(t, "terminated", slow, `{"about":"slow"}`)
	stage.Until(t, "the call is made", called(2))
	closes(t, a.Ledger(), run)
	require.Equal(t, "0.20 0.20", a.Spent(t), "the call may be on its way")
	db, err := sql.Open("sqlite", filepath.Join(a.Options.Store.Dir, "ledger.db"))
	require.NoError(t, err)
	_, err = db.ExecContext(t.Context(), "PRAGMA busy_timeout = 60000; UPDATE holds SET expires_at = 0")
	require.NoError(t, err)
	require.NoError(t, db.Close())
	stage.Until(t, "the sweeper has posted it", func() bool { return a.Spent(t) == "0.00 0.40" })

	quick := a.Publish(t, thinks("quick", "think", "0.20", 2, ""))
	run = a.Start(t, "reset", quick, `{"about":"x"}`)
	require.NoError(t, stage.Await(t, a.Client(), run, nil))
	require.Equal(t, "0.00 0.42", a.Spent(t))
	require.NoError(t, stage.Await(t, a.Client(), stage.Reset(t, a.Client(), run), nil))
	require.Equal(t, "0.00 0.44", a.Spent(t))
}
