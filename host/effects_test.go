package host_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/internal/lengthy"
	"chimera.ai/engine/internal/stage"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/task"
	"chimera.ai/engine/trust"
)

// TestResetsRepeatNoEffect: a run that is reset, to whatever task, is told what its effect
// did, and so is one whose effect failed, or did nobody knows what.
func TestResetsRepeatNoEffect(t *testing.T) {
	stage.Parallel(t)
	a := act(t, `line=$(cat); echo "$line" >> "$LINES_FILE"
case $line in
*hangs*) sleep 60 ;;
*fails*) echo '{"kind":"tool_error","message":"the page is full"}'; exit 1 ;;
esac
echo '{"ok":true}'`)
	digest := a.publish(t, strings.Replace(actingPlan, "commit_policy", "timeout_ms: 1500, commit_policy", 1))
	for line, want := range map[string]contract.Kind{"works": "", "fails": contract.ToolError, "hangs": contract.OutcomeUnknown} {
		run := a.start(t, line, digest, `{"line":"`+line+`"}`)
		ends := func(run client.WorkflowRun) {
			t.Helper()
			err := stage.Await(t, a.h.Client(), run, nil)
			a.replays(t, run)
			if want == "" {
				require.NoError(t, err, line)
				return
			}
			require.Equal(t, want, failureOf(t, err).Kind, line)
		}
		ends(run)
		tasks := events(t, a.h.Client(), run, enumspb.EVENT_TYPE_WORKFLOW_TASK_COMPLETED)
		require.NotEmpty(t, tasks)
		permits := a.permitted(t, run)
		for _, task := range tasks {
			again := a.reset(t, run, task.GetEventId())
			ends(again)
			permits += a.permitted(t, again)
		}
		require.Equal(t, 1, permits, "%s: it is the same row of the ledger", line)
		calls := 0
		for _, l := range a.written(t) {
			if strings.Contains(l, line) {
				calls++
			}
		}
		require.Equal(t, 1, calls, "%s: the tool was called once", line)
	}

	// A reset that finds no output any more does not call either.
	run := a.h.Client().GetWorkflow(t.Context(), runID(t, "works"), "")
	tasks := events(t, a.h.Client(), run, enumspb.EVENT_TYPE_WORKFLOW_TASK_COMPLETED)
	_, err := a.ledger().Prune(t.Context(), ledger.RunClosed.Class(), time.Now().Add(time.Second), "for the test")
	require.NoError(t, err)
	before := len(a.written(t))
	f := failureOf(t, stage.Await(t, a.h.Client(), a.reset(t, run, tasks[0].GetEventId()), nil))
	require.Equal(t, contract.InvalidOutput, f.Kind, f.Message)
	require.Contains(t, f.Message, "what it answered is no longer kept")
	require.Len(t, a.written(t), before)
}

// permitted counts the permits in the chain of a run.
func (a *acting) permitted(t *testing.T, run client.WorkflowRun) (n int) {
	t.Helper()
	records, err := a.ledger().Chain(t.Context(), ledger.RunChain(run.GetID(), run.GetRunID()), 0, 1000)
	require.NoError(t, err)
	for _, r := range records {
		e, err := ledger.DecodeEntry(r.Bytes)
		require.NoError(t, err)
		if e.Kind == ledger.InvocationPermitted {
			n++
		}
	}
	return n
}

// TestReleasedEffectsAreTriedAgain: a call that provably did nothing is permitted anew, and
// its money is held anew.
func TestReleasedEffectsAreTriedAgain(t *testing.T) {
	stage.Parallel(t)
	a := act(t, writes)
	program := a.options.Executables["book"]
	program.Dir = filepath.Join(filepath.Dir(a.lines), "folder")
	a.options.Executables["book"] = program
	if a.of != nil {
		require.NoError(t, stage.Pin(a.options.Catalog, a.options.Executables))
		a.Rely(t, a.ledger(), a.options.Catalog, a.options.Policy)
	}
	a.again(t)
	cents := func(n int64) ledger.Money {
		m, err := ledger.Minor(n, "USD")
		require.NoError(t, err)
		return m
	}
	a.state(t, &trust.SetBudget{Agent: "tester", Currency: "USD", Every: ledger.Forever, Limit: cents(250)})
	source := strings.Replace(actingPlan, "template: book/write", "template: book/write, cost_estimate: 1.50, retry_policy: {max_retries: 2, on: [unsent]}", 1)
	source = strings.Replace(source, "agent: tester,", "agent: tester, currency: USD,", 1)
	digest := a.publish(t, source)
	run := a.start(t, "one", digest, `{"line":"a"}`)
	released := func() (n int) {
		tasks, err := a.ledger().ListTasks(t.Context(), task.StateSigned, ledger.Page{})
		require.NoError(t, err)
		return len(tasks)
	}
	require.Eventually(t, func() bool { return released() > 1 }, time.Minute, time.Millisecond, "the tool cannot be started, and is asked for again")
	require.NoError(t, os.Mkdir(program.Dir, 0o755))
	require.NoError(t, stage.Await(t, a.h.Client(), run, nil))
	require.Len(t, a.written(t), 1)
	b, err := a.ledger().Budget(t.Context(), "tester", "USD")
	require.NoError(t, err)
	require.Equal(t, cents(150), b.Posted)
	require.Zero(t, b.Pending.Minor())
	f := failureOf(t, stage.Await(t, a.h.Client(), a.start(t, "two", digest, `{"line":"b"}`), nil))
	require.Equal(t, contract.Budget, f.Kind)
	require.Contains(t, f.Message, "does not fit in the budget of tester")
	require.Len(t, a.written(t), 1)
}

// TestManyEffects: effects of many runs at once each happen once.
func TestManyEffects(t *testing.T) {
	lengthy.Skip(t)
	stage.Parallel(t)
	a := act(t, writes)
	digest := a.publish(t, actingPlan)
	const n = 24
	var all []client.WorkflowRun
	for i := range n {
		all = append(all, a.start(t, fmt.Sprint(i), digest, fmt.Sprintf(`{"line":"%d"}`, i)))
	}
	for _, run := range all {
		require.NoError(t, stage.Await(t, a.h.Client(), run, nil))
	}
	lines := a.written(t)
	slices.Sort(lines)
	require.Len(t, slices.Compact(lines), n)
	require.Len(t, lines, n)
}

// TestEffectsOfARunThatContinuesAsNew: also a run whose history has room for little more
// than a decision gets on, and has each effect once, and no more of them than others.
func TestEffectsOfARunThatContinuesAsNew(t *testing.T) {
	stage.Parallel(t)
	const most = 3
	a := actBy(t, "book", writes, actingCatalog, actingPolicy+fmt.Sprintf("caps: {invocations_per_run: %d}\n", most))
	a.options.ContinueAfter = 8
	a.again(t)
	chain := func(name string, n int) string {
		var nodes, edges []string
		for i := range n {
			nodes = append(nodes, fmt.Sprintf(`{id: w%d, template: book/write, commit_policy: {}, with: {line: "%d"}}`, i, i))
			if i > 0 {
				edges = append(edges, fmt.Sprintf("w%d -> w%d", i-1, i))
			}
		}
		source := strings.Replace(actingPlan, `{id: write, template: book/write, commit_policy: {rollback: {none: "what is written stays"}}}`, strings.Join(nodes, ", "), 1)
		source = strings.Replace(source, "name: acts", "name: "+name, 1)
		return strings.Replace(source, "$input.line -> write.line, write.ok", fmt.Sprintf("$input -> w0, %s, w%d.ok", strings.Join(edges, ", "), n-1), 1)
	}
	continued := func(run client.WorkflowRun, first string) {
		t.Helper()
		about, err := a.h.Client().DescribeWorkflowExecution(t.Context(), run.GetID(), "")
		require.NoError(t, err)
		require.NotEqual(t, first, about.GetWorkflowExecutionInfo().GetExecution().GetRunId(), "it has continued as new")
		require.Len(t, a.written(t), most)
		for i, line := range a.written(t) {
			require.JSONEq(t, fmt.Sprintf(`{"line":"%d"}`, i), line)
		}
	}
	run := a.start(t, "long", a.publish(t, chain("long", most)), `{"line":"x"}`)
	first := run.GetRunID()
	require.NoError(t, stage.Await(t, a.h.Client(), run, nil))
	continued(run, first)

	require.NoError(t, os.Remove(a.lines))
	run = a.start(t, "longer", a.publish(t, chain("longer", most+1)), `{"line":"x"}`)
	first = run.GetRunID()
	f := failureOf(t, stage.Await(t, a.h.Client(), run, nil))
	require.Equal(t, contract.Rejected, f.Kind, f.Message)
	require.Contains(t, f.Message, "cap:invocations_per_run")
	require.Equal(t, fmt.Sprint("w", most), f.Node)
	continued(run, first)
}

// refused starts so many runs at once, each with another text in a port, and counts those for
// which there is no money.
func (a *acting) refused(t *testing.T, digest, port string, runs int) (refused int) {
	t.Helper()
	var all []client.WorkflowRun
	for i := range runs {
		all = append(all, a.start(t, fmt.Sprint(i), digest, fmt.Sprintf(`{%q:"%d"}`, port, i)))
	}
	for _, run := range all {
		if err := stage.Await(t, a.h.Client(), run, nil); err != nil {
			require.Equal(t, contract.Budget, failureOf(t, err).Kind, err)
			refused++
		}
	}
	return refused
}

// TestEffectsShareABudget: effects of many runs at once spend what there is, and not a unit
// more.
func TestEffectsShareABudget(t *testing.T) {
	stage.Parallel(t)
	a := act(t, writes)
	limit, err := ledger.ParseMoney("1.00", "USD")
	require.NoError(t, err)
	a.state(t, &trust.AddAgent{AgentID: "org", Owner: "ada", Keys: []string{}},
		&trust.SetBudget{Agent: "org", Currency: "USD", Every: ledger.Monthly, Limit: limit},
		&trust.SetBudget{Agent: "tester", Currency: "USD", Every: ledger.Forever, Parent: "org", Limit: limit})
	source := strings.Replace(actingPlan, "template: book/write", "template: book/write, cost_estimate: 0.07", 1)
	digest := a.publish(t, strings.Replace(source, "agent: tester,", "agent: tester, currency: USD,", 1))
	const runs, paid = 64, 14
	require.Equal(t, runs-paid, a.refused(t, digest, "line", runs))
	require.Len(t, a.written(t), paid)
	for _, agent := range []string{"tester", "org"} {
		b, err := a.ledger().Budget(t.Context(), agent, "USD")
		require.NoError(t, err)
		require.Equal(t, "0.98", b.Posted.Amount(), agent)
		require.Zero(t, b.Pending.Minor(), agent)
	}
}

// TestEffectsOutliveTheirWorker: a worker that goes away in the middle of a call leaves an
// effect of which nobody knows whether it happened, and that is not called again.
func TestEffectsOutliveTheirWorker(t *testing.T) {
	stage.Parallel(t)
	a := act(t, `line=$(cat); echo "$line" >> "$LINES_FILE"; sleep 60`)
	a.options.Drain = time.Millisecond
	a.again(t)
	digest := a.publish(t, strings.Replace(actingPlan, "commit_policy", "timeout_ms: 3000, commit_policy", 1))
	run := a.start(t, "lost", digest, `{"line":"lost"}`)
	require.Eventually(t, func() bool { return len(a.written(t)) == 1 }, time.Minute, 10*time.Millisecond)
	a.again(t)
	run = a.h.Client().GetWorkflow(t.Context(), run.GetID(), run.GetRunID())
	f := failureOf(t, stage.Await(t, a.h.Client(), run, nil))
	require.Equal(t, contract.OutcomeUnknown, f.Kind, f.Message)
	require.Len(t, a.written(t), 1)
}

// TestEffects: an effect happens once it was decided on, is recorded with all that it
// rests on, and does not happen where the policy says no.
func TestEffects(t *testing.T) {
	stage.Parallel(t)
	a := act(t, writes)
	digest := a.publish(t, actingPlan)
	run := a.start(t, "yes", digest, `{"line":"hello"}`)
	var out struct{ OK bool }
	require.NoError(t, stage.Await(t, a.h.Client(), run, &out))
	require.True(t, out.OK)
	require.Equal(t, []string{`{"line":"hello"}`}, a.written(t))
	tasks, err := a.ledger().ListTasks(t.Context(), task.StateExecuted, ledger.Page{})
	require.NoError(t, err)
	require.Len(t, tasks, 1)
	d, err := a.ledger().Decision(t.Context(), tasks[0].Base().TaskID)
	require.NoError(t, err)
	require.Equal(t, "policy_clear", d.Reason)
	i, err := a.ledger().Invocation(t.Context(), d.Invocation)
	require.NoError(t, err)
	require.Equal(t, ledger.Settled, i.State)

	run = a.start(t, "no", digest, `{"line":"much longer than that"}`)
	f := failureOf(t, stage.Await(t, a.h.Client(), run, nil))
	require.Equal(t, contract.Rejected, f.Kind)
	require.Contains(t, f.Message, "policy:short: a line is short")
	require.Len(t, a.written(t), 1)
}

// TestOutcomesStandBeforeTheDecision: what a decision relies on is in the ledger before it, whether
// a worker called it or the engine itself.
func TestOutcomesStandBeforeTheDecision(t *testing.T) {
	stage.Parallel(t)
	a := actBy(t, "book", `case $1 in find) echo '{"found":true}';; *) `+writes+`;; esac`, findCatalog, actingPolicy)
	const text = "{type: object, properties: {line: {type: string}}, required: [line]}"
	run := a.start(t, "relies", a.publish(t, `{apiVersion: chimera/v1, kind: Plan, name: relies, version: "1", agent: tester, allow: [pure, committing],
  input_schema: `+text+`, output_schema: {type: object},
  nodes: [
    {id: local, template: engine/pass, timeout_ms: 900, input_schema: `+text+`, output_schema: `+text+`},
    {id: called, template: book/find},
    {id: write, template: book/write, commit_policy: {rollback: {none: "what is written stays"}}}],
  edges: [$input.line -> local.line, local.line -> called.line, called -> write, local.line -> write.line]}`), `{"line":"one"}`)
	require.NoError(t, stage.Await(t, a.h.Client(), run, nil))
	records, err := a.ledger().Chain(t.Context(), ledger.RunChain(run.GetID(), run.GetRunID()), 0, 100)
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

// TestTheSweeper: holds of permits that nobody uses expire, and what a run that was
// terminated has called is unknown.
func TestTheSweeper(t *testing.T) {
	stage.Parallel(t)
	a := act(t, `cat >> "$LINES_FILE"; echo >> "$LINES_FILE"; sleep 60`)
	a.options.SweepEvery, a.options.Drain = 20*time.Millisecond, time.Millisecond
	a.again(t)
	cost, err := ledger.Minor(100, "USD")
	require.NoError(t, err)
	a.state(t, &trust.SetBudget{Agent: "tester", Currency: "USD", Every: ledger.Forever, Limit: cost})
	store := a.ledger()
	_, err = store.OpenHold(t.Context(), ledger.Hold{ID: "unused", Agent: "tester", Amount: cost, ExpiresAt: ledger.At(time.Now())})
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		h, err := store.Hold(t.Context(), "unused")
		return err == nil && h.Status == ledger.TxExpired
	}, time.Minute, 10*time.Millisecond)

	source := strings.Replace(actingPlan, "commit_policy", "timeout_ms: 2000, cost_estimate: 1.00, commit_policy", 1)
	digest := a.publish(t, strings.Replace(source, "agent: tester,", "agent: tester, currency: USD,", 1))
	run := a.start(t, "ended", digest, `{"line":"x"}`)
	require.Eventually(t, func() bool { return len(a.written(t)) == 1 }, time.Minute, 10*time.Millisecond)
	require.NoError(t, a.h.Client().TerminateWorkflow(t.Context(), run.GetID(), run.GetRunID(), "for the test"))
	a.options.EndsEvery = 20 * time.Millisecond
	a.again(t) // who calls is gone, too
	store = a.ledger()
	require.Eventually(t, func() bool {
		tasks, err := store.ListTasks(t.Context(), task.StateSigned, ledger.Page{})
		require.NoError(t, err)
		require.Len(t, tasks, 1)
		id, _, _ := strings.Cut(tasks[0].Base().TaskID, "/")
		i, err := store.Invocation(t.Context(), id)
		return err == nil && i.State == ledger.Unknown
	}, time.Minute, 10*time.Millisecond)
	b, err := store.Budget(t.Context(), "tester", "USD")
	require.NoError(t, err)
	require.Equal(t, cost, b.Pending, "nobody knows whether it is spent")
	require.Len(t, a.written(t), 1)
}
