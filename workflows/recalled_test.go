package workflows_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/internal/stage"
	"chimera.ai/engine/workflows"
)

// TestARecalledCallThatNobodyTook: Temporal cancels an activity that no worker has taken, and the child that
// scheduled it reports that nothing was sent.
func TestARecalledCallThatNobodyTook(t *testing.T) {
	server := stage.Temporal(t)
	c, err := client.Dial(client.Options{HostPort: server.Address, Namespace: server.Namespace})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	queue := "recalled-" + uuid.NewString()
	runs := func(ctx workflow.Context) (report contract.Report, err error) {
		child := workflow.ExecuteChildWorkflow(ctx, contract.WorkflowCall, contract.ChildCall{
			Call: contract.Call{Request: "request", Permit: new(contract.Permit)}, Activity: "bank/pay", Queue: queue + "/nobody", ActivityID: "pay",
			StartMS: 600_000, TimeoutMS: 600_000, HeartbeatMS: 10_000, Attempts: 1,
		})
		var started workflow.Execution
		if err := child.GetChildWorkflowExecution().Get(ctx, &started); err != nil {
			return report, err
		}
		if err := workflow.SignalExternalWorkflow(ctx, started.ID, started.RunID, contract.SignalRecall, nil).Get(ctx, nil); err != nil {
			return report, err
		}
		return report, child.Get(ctx, &report)
	}
	w := worker.New(c, queue, worker.Options{})
	w.RegisterWorkflowWithOptions(runs, workflow.RegisterOptions{Name: "runs"})
	w.RegisterWorkflowWithOptions(workflows.Call, workflow.RegisterOptions{Name: contract.WorkflowCall})
	require.NoError(t, w.Start())
	t.Cleanup(w.Stop)
	run, err := c.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{TaskQueue: queue}, "runs")
	require.NoError(t, err)
	var report contract.Report
	require.NoError(t, stage.Await(t, c, run, &report))
	require.NotNil(t, report.Failure)
	require.Equal(t, contract.Unsent, report.Failure.Error.Kind)
}
