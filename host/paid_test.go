package host_test

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/internal/lengthy"
	"chimera.ai/engine/internal/stage"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/trust"
)

const paidCatalog = `
apiVersion: chimera/v1
kind: Catalog
templates:
  - {provider_type: skill, provider_name: mind, operation: think, mode: prob, effect_class: pure, timeout_ms: 30000, retry_policy: {max_retries: 0},
     input_schema: {type: object, properties: {about: {type: string}}, required: [about]},
     output_schema: {type: object, properties: {cost: {type: number, minimum: 0, maximum: 100, multipleOf: 0.01}}, required: [cost]},
     trust_requirement: allow_auto, status: allow_auto, cost: {expr: "output.cost", currency: USD, from_output: true}}
  - {provider_type: skill, provider_name: mind, operation: recall, mode: deter, effect_class: pure, timeout_ms: 30000, retry_policy: {max_retries: 2, on: [tool_error], initial_ms: 1},
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

// TestCallsArePaid: a call without effect is made with a hold for what it may cost, and what
// it has cost is posted: by its output where the operator attests that, else the whole hold.
func TestCallsArePaid(t *testing.T) {
	stage.Parallel(t)
	a := actBy(t, "mind", `cat >> "$LINES_FILE"; echo >> "$LINES_FILE"; grep -q broken "$LINES_FILE" && exit 1; echo '{"cost": 0.03}'`, paidCatalog, paidPolicy)
	input := `{"about":"x"}`

	// Without a budget the cap of the run counts all the same: four calls of 0.13 with 0.03
	// each before them fit in 0.50, and sixteen do not.
	a.start(t, "one", a.publish(t, thinks("one", "think", "0.13", 1, "")), input)
	free := a.start(t, "free", a.publish(t, thinks("free", "think", "0.13", 13, "")), input)
	require.NoError(t, stage.Await(t, a.h.Client(), free, nil))
	capped := a.start(t, "capped", a.publish(t, thinks("capped", "think", "0.13", 16, "")), input)
	f := failureOf(t, stage.Await(t, a.h.Client(), capped, nil))
	require.Equal(t, contract.Budget, f.Kind, f.Message)
	require.Contains(t, f.Message, "prob_cost_per_run")
	require.Equal(t, "n13", f.Node)
	a.replays(t, capped)

	a.budget(t, "1.00")
	require.NoError(t, stage.Await(t, a.h.Client(), a.start(t, "attested", a.publish(t, thinks("attested", "think", "0.30", 3, "")), input), nil))
	require.Equal(t, "0.00 0.09", a.spent(t))
	require.NoError(t, stage.Await(t, a.h.Client(), a.start(t, "fixed", a.publish(t, thinks("fixed", "recall", "", 3, "")), input), nil))
	require.Equal(t, "0.00 0.24", a.spent(t))

	// Each attempt is paid.
	tries := a.start(t, "tries", a.publish(t, thinks("tries", "recall", "", 1, "")), `{"about":"broken"}`)
	f = failureOf(t, stage.Await(t, a.h.Client(), tries, nil))
	require.Equal(t, contract.ToolError, f.Kind, f.Message)
	require.Equal(t, "0.00 0.39", a.spent(t))

	// What does not fit is not called.
	before := len(a.written(t))
	large := a.start(t, "large", a.publish(t, thinks("large", "recall", "0.62", 1, "")), input)
	f = failureOf(t, stage.Await(t, a.h.Client(), large, nil))
	require.Equal(t, contract.Budget, f.Kind, f.Message)
	require.Len(t, a.written(t), before)

	// Nobody pays for a run that nobody has granted.
	ungranted := stage.Start(t, a.h.Client(), thinks("none", "recall", "", 1, ""), input)
	f = failureOf(t, stage.Await(t, a.h.Client(), ungranted, nil))
	require.Equal(t, contract.Blocked, f.Kind, f.Message)
}

// TestCallsShareABudget: many runs at once spend what there is, and no more.
func TestCallsShareABudget(t *testing.T) {
	stage.Parallel(t)
	a := actBy(t, "mind", `cat >> "$LINES_FILE"; echo >> "$LINES_FILE"; echo '{}'`, paidCatalog, paidPolicy)
	a.budget(t, "1.00")
	digest := a.publish(t, thinks("many", "recall", "0.07", 1, ""))
	const runs, paid = 64, 14
	require.Equal(t, runs-paid, a.refused(t, digest, "about", runs))
	require.Len(t, a.written(t), paid)
	require.Equal(t, "0.00 0.98", a.spent(t))
}

// TestHoldsOfRunsThatEnd: a run that ends posts the holds of its calls in flight, and of one
// that is terminated the sweeper does. A run that is reset pays for what it calls again.
func TestHoldsOfRunsThatEnd(t *testing.T) {
	stage.Parallel(t)
	a := actBy(t, "mind", `line=$(cat); echo "$line" >> "$LINES_FILE"; case "$line" in *slow*) sleep 60;; esac; echo '{"cost": 0.01}'`, paidCatalog, paidPolicy)
	a.options.SweepEvery, a.options.EndsEvery = 50*time.Millisecond, 50*time.Millisecond
	a.again(t)
	a.budget(t, "10.00")
	slow := a.publish(t, thinks("slow", "think", "0.20", 1, ""))
	run := a.start(t, "cancelled", slow, `{"about":"slow"}`)
	called := func(n int) func() bool { return func() bool { return len(a.written(t)) == n } }
	require.Eventually(t, called(1), time.Minute, 10*time.Millisecond)
	require.Equal(t, "0.20 0.00", a.spent(t))
	require.NoError(t, a.h.Client().CancelWorkflow(t.Context(), run.GetID(), ""))
	require.Error(t, stage.Await(t, a.h.Client(), run, nil))
	require.Equal(t, "0.00 0.20", a.spent(t))

	run = a.start(t, "terminated", slow, `{"about":"slow"}`)
	require.Eventually(t, called(2), time.Minute, 10*time.Millisecond)
	require.NoError(t, a.h.Client().TerminateWorkflow(t.Context(), run.GetID(), "", "for the test"))
	stage.Until(t, "the ledger knows that it has ended", func() bool {
		r, err := a.ledger().Run(t.Context(), run.GetID(), run.GetRunID())
		return err == nil && r.State == ledger.RunTerminated
	})
	require.Equal(t, "0.20 0.20", a.spent(t), "the call may be on its way")
	a.expire(t)
	stage.Until(t, "the sweeper has posted it", func() bool { return a.spent(t) == "0.00 0.40" })

	// The run goes on twice: its call is paid twice.
	quick := a.publish(t, thinks("quick", "think", "0.20", 2, ""))
	run = a.start(t, "reset", quick, `{"about":"x"}`)
	require.NoError(t, stage.Await(t, a.h.Client(), run, nil))
	require.Equal(t, "0.00 0.42", a.spent(t))
	ends := events(t, a.h.Client(), run, enumspb.EVENT_TYPE_WORKFLOW_TASK_COMPLETED)
	posted := 42
	for _, e := range ends[:len(ends)-1] {
		again := a.reset(t, run, e.EventId)
		before := len(a.written(t))
		require.NoError(t, stage.Await(t, a.h.Client(), again, nil))
		posted += len(a.written(t)) - before
		require.GreaterOrEqual(t, a.spent(t), fmt.Sprintf("0.00 0.%02d", posted), "reset to %d", e.EventId)
		a.replays(t, again)
	}
}

// expire lets the time of all holds pass.
func (a *acting) expire(t *testing.T) {
	t.Helper()
	if a.of != nil {
		conn, err := pgx.Connect(t.Context(), a.of.Store.URL)
		require.NoError(t, err)
		defer func() { require.NoError(t, conn.Close(t.Context())) }()
		_, err = conn.Exec(t.Context(), "UPDATE holds SET expires_at = 0")
		require.NoError(t, err)
		return
	}
	db, err := sql.Open("sqlite", filepath.Join(a.options.Store.Dir, "ledger.db"))
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	_, err = db.ExecContext(t.Context(), "PRAGMA busy_timeout = 60000; UPDATE holds SET expires_at = 0")
	require.NoError(t, err)
}

// TestManyPaidCalls: many calls beside each other, in child workflows and over many
// executions of the run, are each paid once.
func TestManyPaidCalls(t *testing.T) {
	lengthy.Skip(t)
	stage.Parallel(t)
	a := actBy(t, "mind", `cat > /dev/null; echo '{"cost": 0.01}'`, paidCatalog, strings.Replace(paidPolicy, "0.50", "500.00", 1))
	a.options.ContinueAfter = 60
	a.again(t)
	a.budget(t, "100.00")
	const nodes = 120
	var list, edges []string
	for i := range nodes {
		// Every third may outlive an execution of its run.
		list = append(list, fmt.Sprintf("{id: n%d, template: mind/think, cost_estimate: 0.05, timeout_ms: %d}", i, []int{5000, 9000, 20000}[i%3]))
		edges = append(edges, fmt.Sprintf("$input.about -> n%d.about", i))
	}
	source := fmt.Sprintf(`{apiVersion: chimera/v1, kind: Plan, name: wide, version: "1", agent: tester, currency: USD, limits: {max_parallel: 1000},
  input_schema: {type: object, properties: {about: {type: string}}, required: [about]}, output_schema: {type: object},
  nodes: [%s], edges: [%s]}`, strings.Join(list, ", "), strings.Join(edges, ", "))
	run := a.start(t, "wide", a.publish(t, source), `{"about":"x"}`)
	require.NoError(t, stage.Await(t, a.h.Client(), run, nil))
	require.Equal(t, "0.00 1.20", a.spent(t))
}
