package activities_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/host"
	"chimera.ai/engine/internal/stage"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/task"
	"chimera.ai/engine/trust"
)

// effectsCatalog has a tool that finds, too.
const effectsCatalog = stage.ActingCatalog + `
  - {provider_type: skill, provider_name: book, operation: find, mode: deter, effect_class: pure, timeout_ms: 60000, retry_policy: {max_retries: 1},
     input_schema: {type: object, properties: {line: {type: string}}, required: [line]}, output_schema: {type: object, properties: {found: {type: boolean}}, required: [found]},
     trust_requirement: allow_auto, status: allow_auto}
`

// closes ends a run in the ledger, as the host does for one that Temporal has terminated.
func closes(t *testing.T, l ledger.Store, run client.WorkflowRun) {
	t.Helper()
	r, err := l.Run(t.Context(), run.GetID(), run.GetRunID())
	require.NoError(t, err)
	r.State = ledger.RunTerminated
	_, stood, err := l.CloseRun(t.Context(), r, nil)
	require.NoError(t, err)
	require.False(t, stood)
}

// TestTheSweeper: holds of permits that are not used expire, and what a run that was terminated
// has called is unknown.
func TestTheSweeper(t *testing.T) {
	t.Parallel()
	a := stage.Act(t, stage.Writes)
	a.Budget(t, "1.00")
	digest := a.Publish(t, strings.Replace(strings.Replace(stage.ActingPlan, "commit_policy", "cost_estimate: 1.00, commit_policy", 1), "agent: tester,", "agent: tester, currency: USD,", 1))
	a.Options.Roles = []host.Role{host.RoleEngine, host.RoleTools, host.RoleGuardian}
	a.Options.SweepEvery = 20 * time.Millisecond
	a.Again(t)
	l := a.Ledger()
	cost, err := ledger.ParseMoney("1.00", "USD")
	require.NoError(t, err)
	_, err = l.OpenHold(t.Context(), ledger.Hold{ID: "unused", Agent: "tester", Amount: cost, ExpiresAt: ledger.At(time.Now())})
	require.NoError(t, err)
	stage.Until(t, "the hold has expired", func() bool {
		h, err := l.Hold(t.Context(), "unused")
		return err == nil && h.Status == ledger.TxExpired
	})

	// A worker has begun the call, and is lost.
	run := a.Start(t, "ended", digest, `{"line":"x"}`)
	var id, decision string
	stage.Until(t, "the call is permitted", func() bool {
		tasks, err := l.ListTasks(t.Context(), task.StateSigned, ledger.Page{})
		require.NoError(t, err)
		if len(tasks) == 0 {
			return false
		}
		decision = tasks[0].Base().TaskID
		id, _, _ = strings.Cut(decision, "/")
		return true
	})
	_, err = l.Claim(t.Context(), id, decision, "lost", time.Millisecond)
	require.NoError(t, err)
	closes(t, l, run)
	stage.Until(t, "the call is unknown", func() bool {
		i, err := l.Invocation(t.Context(), id)
		return err == nil && i.State == ledger.Unknown
	})
	require.Equal(t, "1.00 0.00", a.Spent(t), "it may be spent")
}

// TestAResetWithoutOutputs: a reset run whose effect has an output that is no longer kept does
// not call either.
func TestAResetWithoutOutputs(t *testing.T) {
	t.Parallel()
	a := stage.Act(t, stage.Writes)
	run := a.Start(t, "works", a.Publish(t, stage.ActingPlan), `{"line":"a"}`)
	require.NoError(t, a.Await(t, run, nil))
	_, err := a.Ledger().Prune(t.Context(), ledger.RunClosed.Class(), time.Now().Add(time.Second), "for the test")
	require.NoError(t, err)
	f := a.Fails(t, stage.Reset(t, a.Client(), run))
	require.Equal(t, contract.InvalidOutput, f.Kind, f.Message)
	require.Contains(t, f.Message, "what it answered is no longer kept")
	require.Len(t, a.Written(t), 1)
}

// TestReleasedEffectsAreTriedAgain: a call that provably did nothing is permitted anew, and
// its money is held anew.
func TestReleasedEffectsAreTriedAgain(t *testing.T) {
	t.Parallel()
	a := stage.Act(t, stage.Writes)
	program := a.Options.Executables["book"]
	program.Dir = filepath.Join(filepath.Dir(a.Lines), "folder")
	a.Options.Executables["book"] = program
	a.Again(t)
	a.Budget(t, "2.50")
	source := strings.Replace(stage.ActingPlan, "template: book/write", "template: book/write, cost_estimate: 1.50, retry_policy: {max_retries: 2, on: [unsent]}", 1)
	source = strings.Replace(source, "agent: tester,", "agent: tester, currency: USD,", 1)
	digest := a.Publish(t, source)
	run := a.Start(t, "one", digest, `{"line":"a"}`)
	released := func() (n int) {
		tasks, err := a.Ledger().ListTasks(t.Context(), task.StateSigned, ledger.Page{})
		require.NoError(t, err)
		return len(tasks)
	}
	stage.Until(t, "the tool cannot be started, and is asked for again", func() bool { return released() > 1 })
	require.NoError(t, os.Mkdir(program.Dir, 0o755))
	require.NoError(t, stage.Await(t, a.Client(), run, nil))
	require.Len(t, a.Written(t), 1)
	require.Equal(t, "0.00 1.50", a.Spent(t))
	f := stage.FailureOf(t, stage.Await(t, a.Client(), a.Start(t, "two", digest, `{"line":"b"}`), nil))
	require.Equal(t, contract.Budget, f.Kind)
	require.Contains(t, f.Message, "does not fit in the budget of tester")
	require.Len(t, a.Written(t), 1)
}

// TestEffectsOfARunThatContinuesAsNew: also a run whose history has room for little more
// than a decision gets on, and has each effect once, and no more of them than others.
func TestEffectsOfARunThatContinuesAsNew(t *testing.T) {
	t.Parallel()
	const most = 3
	a := stage.ActBy(t, "book", stage.Writes, stage.ActingCatalog, stage.ActingPolicy+fmt.Sprintf("caps: {invocations_per_run: %d}\n", most))
	a.Options.ContinueAfter = 24
	a.Again(t)
	chain := func(name string, n int) string {
		var nodes, edges []string
		for i := range n {
			nodes = append(nodes, fmt.Sprintf(`{id: w%d, template: book/write, commit_policy: {}, with: {line: "%d"}}`, i, i))
			if i > 0 {
				edges = append(edges, fmt.Sprintf("w%d -> w%d", i-1, i))
			}
		}
		source := strings.Replace(stage.ActingPlan, `{id: write, template: book/write, commit_policy: {rollback: {none: "what is written stays"}}}`, strings.Join(nodes, ", "), 1)
		source = strings.Replace(source, "name: acts", "name: "+name, 1)
		return strings.Replace(source, "$input.line -> write.line, write.ok", fmt.Sprintf("$input -> w0, %s, w%d.ok", strings.Join(edges, ", "), n-1), 1)
	}
	continued := func(run client.WorkflowRun) {
		t.Helper()
		require.Greater(t, stage.State(t, a.Client(), run).Executions, 1)
		require.Len(t, a.Written(t), most)
		for i, line := range a.Written(t) {
			require.JSONEq(t, fmt.Sprintf(`{"line":"%d"}`, i), line)
		}
	}
	run := a.Start(t, "long", a.Publish(t, chain("long", most)), `{"line":"x"}`)
	require.NoError(t, stage.Await(t, a.Client(), run, nil))
	continued(run)

	require.NoError(t, os.Remove(a.Lines))
	run = a.Start(t, "longer", a.Publish(t, chain("longer", most+1)), `{"line":"x"}`)
	f := stage.FailureOf(t, stage.Await(t, a.Client(), run, nil))
	require.Equal(t, contract.Rejected, f.Kind, f.Message)
	require.Contains(t, f.Message, "cap:invocations_per_run")
	require.Equal(t, fmt.Sprint("w", most), f.Node)
	continued(run)
}

// TestEffectsShareABudget: effects of many runs at once spend what there is, and not a unit
// more.
func TestEffectsShareABudget(t *testing.T) {
	t.Parallel()
	a := stage.Act(t, stage.Writes)
	limit, err := ledger.ParseMoney("1.00", "USD")
	require.NoError(t, err)
	a.State(t, &trust.AddAgent{AgentID: "org", Owner: "ada", Keys: []string{}},
		&trust.SetBudget{Agent: "org", Currency: "USD", Every: ledger.Monthly, Limit: limit},
		&trust.SetBudget{Agent: "tester", Currency: "USD", Every: ledger.Forever, Parent: "org", Limit: limit})
	source := strings.Replace(stage.ActingPlan, "template: book/write", "template: book/write, cost_estimate: 0.07", 1)
	digest := a.Publish(t, strings.Replace(source, "agent: tester,", "agent: tester, currency: USD,", 1))
	const runs, paid = 64, 14
	require.Equal(t, runs-paid, a.Refused(t, digest, "line", runs))
	require.Len(t, a.Written(t), paid)
	for _, agent := range []string{"tester", "org"} {
		b, err := a.Ledger().Budget(t.Context(), agent, "USD")
		require.NoError(t, err)
		require.Equal(t, "0.98", b.Posted.Amount(), agent)
		require.Zero(t, b.Pending.Minor(), agent)
	}
}

// TestOutcomesStandBeforeTheDecision: what a decision relies on is in the ledger before it, whether
// a worker called it or the engine itself.
func TestOutcomesStandBeforeTheDecision(t *testing.T) {
	t.Parallel()
	a := stage.ActBy(t, "book", `case $1 in find) echo '{"found":true}';; *) `+stage.Writes+`;; esac`, effectsCatalog, stage.ActingPolicy)
	const text = "{type: object, properties: {line: {type: string}}, required: [line]}"
	run := a.Start(t, "relies", a.Publish(t, `{apiVersion: chimera/v1, kind: Plan, name: relies, version: "1", agent: tester, allow: [pure, committing],
  input_schema: `+text+`, output_schema: {type: object},
  nodes: [
    {id: local, template: engine/pass, timeout_ms: 900, input_schema: `+text+`, output_schema: `+text+`},
    {id: called, template: book/find},
    {id: write, template: book/write, commit_policy: {rollback: {none: "what is written stays"}}}],
  edges: [$input.line -> local.line, local.line -> called.line, called -> write, local.line -> write.line]}`), `{"line":"one"}`)
	require.NoError(t, stage.Await(t, a.Client(), run, nil))
	records, err := a.Ledger().Chain(t.Context(), ledger.RunChain(run.GetID(), run.GetRunID()), 0, 100)
	require.NoError(t, err)
	var told []string
	for _, r := range records {
		e, err := ledger.DecodeEntry(r.Bytes)
		require.NoError(t, err)
		if e.Kind == ledger.NodeSucceeded || e.Kind == ledger.DecisionMade {
			told = append(told, string(e.Kind)+" "+e.Node)
		}
	}
	require.Equal(t, []string{"node.succeeded local", "node.succeeded called", "decision.made ", "node.succeeded write"}, told)
}
