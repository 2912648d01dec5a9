package host_test

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/internal/stage"
)

const checkedPlan = `{apiVersion: chimera/v1, kind: Plan, name: checked, version: "1", agent: tester, allow: [pure, committing],
  input_schema: {type: object, properties: {line: {type: string}}, required: [line]}, output_schema: {type: object},
  nodes: [
    {id: write, template: book/write, with: {line: x}, commit_policy: {prechecks: [check], rollback: {none: "what is written stays"}}},
    {id: check, template: book/find}],
  edges: [$input.line -> check.line]}`

// checks fails for a line that is "bad", and waits with one that is "slow".
const checks = `in=$(cat)
case "$1" in
find)
  case "$in" in *bad*) exit 1;; *slow*) while ! test -e "$LINES_FILE.go"; do sleep 0.05; done;; esac
  echo '{"found":true}';;
write)
  echo "$in" >> "$LINES_FILE"; echo '{"ok":true}';;
esac`

// rogueDecide asks the guardian in place of a run.
func rogueDecide(ctx workflow.Context, call contract.Call) (contract.Decided, error) {
	var out contract.Decided
	err := workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue: contract.QueueGuardian, StartToCloseTimeout: time.Minute, RetryPolicy: &temporal.RetryPolicy{MaximumAttempts: 1},
	}), contract.ActivityDecide, call).Get(ctx, &out)
	return out, err
}

// TestPrechecks: an effect happens only after its prechecks have succeeded, which the
// guardian finds in the ledger, whatever it is told.
func TestPrechecks(t *testing.T) {
	stage.Parallel(t)
	a := actBy(t, "book", checks, findCatalog, actingPolicy)
	digest := a.publish(t, checkedPlan)

	bad := a.start(t, "bad", digest, `{"line":"bad"}`)
	f := failureOf(t, stage.Await(t, a.h.Client(), bad, nil))
	require.Equal(t, contract.ToolError, f.Kind, f.Message)
	require.Equal(t, "check", f.Node)
	require.Empty(t, a.written(t))

	// Whoever asks the guardian before the check has succeeded is told no.
	slow := a.start(t, "slow", digest, `{"line":"slow"}`)
	rogue := worker.New(a.h.Client(), "rogue", worker.Options{})
	rogue.RegisterWorkflow(rogueDecide)
	require.NoError(t, rogue.Start())
	defer rogue.Stop()
	require.Eventually(t, func() bool {
		s := stage.State(t, a.h.Client(), slow)
		return len(s.Waiting) > 0 && s.Waiting[0].Kind == contract.WaitCall
	}, time.Minute, 10*time.Millisecond)
	ask := func(run client.WorkflowRun) (d contract.Decided, err error) {
		call := contract.Call{Run: contract.Identity{Workflow: run.GetID(), Root: run.GetRunID(), Origin: run.GetRunID()}, Plan: digest, Node: 1, Visit: 1, Request: "rogue"}
		asked, err := a.h.Client().ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: "rogue prechecks " + run.GetID(), TaskQueue: "rogue"}, rogueDecide, call)
		require.NoError(t, err)
		return d, stage.Await(t, a.h.Client(), asked, &d)
	}
	_, err := ask(slow)
	var application *temporal.ApplicationError
	require.ErrorAs(t, err, &application)
	require.Equal(t, contract.Blocked, kindOf(application), application.Message())
	ended, err := ask(bad)
	require.NoError(t, err)
	require.Equal(t, contract.Decided{Request: "rogue", Unopened: true}, ended, "nothing is permitted in a run that has ended")
	require.Empty(t, a.written(t))
	require.NoError(t, os.WriteFile(a.lines+".go", nil, 0o600))
	require.NoError(t, stage.Await(t, a.h.Client(), slow, nil))
	require.Equal(t, []string{`{"line":"x"}`}, a.written(t))
	scheduled := a.scheduled(t, slow)
	require.Equal(t, []string{"book/find", "book/write"}, scheduled[contract.QueueEffects])
	require.Empty(t, scheduled[contract.QueueTools], "a worker of tools is not asked, and cannot lie")

	// Reset to any task, the check stands or is made again, and the effect does not happen
	// twice.
	tasks := events(t, a.h.Client(), slow, enumspb.EVENT_TYPE_WORKFLOW_TASK_COMPLETED)
	for _, task := range tasks[:len(tasks)-1] {
		e := task.EventId
		again := a.reset(t, slow, e)
		require.NoError(t, stage.Await(t, a.h.Client(), again, nil), "reset to %d", e)
		require.Len(t, a.written(t), 1)
	}
}
