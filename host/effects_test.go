package host_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/internal/stage"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/task"
)

// TestResetsRepeatNoEffect: a run that is reset, to whatever task, is told what its effect
// did, and so is one whose effect failed, or may have done anything.
func TestResetsRepeatNoEffect(t *testing.T) {
	stage.Parallel(t)
	a := act(t, `line=$(cat); echo "$line" >> "$LINES_FILE"
case $line in
*dies*) kill -9 $$ ;;
*fails*) echo '{"kind":"tool_error","message":"the page is full"}'; exit 1 ;;
esac
echo '{"ok":true}'`)
	digest := a.publish(t, actingPlan)
	for line, want := range map[string]contract.Kind{"works": "", "fails": contract.ToolError, "dies": contract.OutcomeUnknown} {
		run := a.start(t, line, digest, `{"line":"`+line+`"}`)
		ends := func(run client.WorkflowRun) {
			t.Helper()
			err := stage.Await(t, a.h.Client(), run, nil)
			a.replays(t, run)
			if want == "" {
				require.NoError(t, err, line)
				return
			}
			require.Equal(t, want, stage.FailureOf(t, err).Kind, line)
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
	f := stage.FailureOf(t, stage.Await(t, a.h.Client(), run, nil))
	require.Equal(t, contract.Rejected, f.Kind)
	require.Contains(t, f.Message, "policy:short: a line is short")
	require.Len(t, a.written(t), 1)
}
