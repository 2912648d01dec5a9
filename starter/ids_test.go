package main

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/payload"
)

// TestWorkflowIDs compares what docs/operate.md says of a start under an id in use
// with the real server.
func TestWorkflowIDs(t *testing.T) {
	c := stand(t, payload.Sealing{})
	start := func(o client.StartWorkflowOptions) (string, error) {
		o.ID, o.TaskQueue, o.WorkflowExecutionErrorWhenAlreadyStarted = "r", contract.QueueEngine, true
		run, err := c.ExecuteWorkflow(t.Context(), o, contract.WorkflowType, contract.Start{Plan: "p"})
		if err != nil {
			return "", err
		}
		return run.GetRunID(), nil
	}
	var taken *serviceerror.WorkflowExecutionAlreadyStarted
	first, err := start(client.StartWorkflowOptions{})
	require.NoError(t, err)
	_, err = start(client.StartWorkflowOptions{})
	require.ErrorAs(t, err, &taken, "the default refuses")
	require.Equal(t, first, taken.RunId)
	same, err := start(client.StartWorkflowOptions{WorkflowIDConflictPolicy: enums.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING})
	require.NoError(t, err, "and this one does not say so")
	require.Equal(t, first, same)
	second, err := start(client.StartWorkflowOptions{WorkflowIDConflictPolicy: enums.WORKFLOW_ID_CONFLICT_POLICY_TERMINATE_EXISTING})
	require.NoError(t, err)
	require.NotEqual(t, first, second)
	d, err := c.DescribeWorkflowExecution(t.Context(), "r", first)
	require.NoError(t, err)
	require.Equal(t, enums.WORKFLOW_EXECUTION_STATUS_TERMINATED, d.GetWorkflowExecutionInfo().GetStatus())

	const plan = "plan.json"
	require.NoError(t, os.WriteFile(plan, []byte(`{"apiVersion":"chimera/v1","kind":"Plan","name":"p","version":"1","agent":"a","input_schema":{"type":"object"},"output_schema":{"type":"object"},
		"nodes":[{"id":"a","template":"engine/pass"}],"edges":["a.$ -> $output.$"]}`), 0o600))
	_, said, code := cli("start", plan, "--id", "r")
	require.Equal(t, exitNegative, code)
	require.Contains(t, said, "the run r is running already, and no other was started")
	require.NoError(t, c.TerminateWorkflow(t.Context(), "r", second, ""))
	_, said, code = cli("start", plan, "--id", "r")
	require.Equal(t, exitNegative, code)
	require.Contains(t, said, "the run r was terminated already, and no other was started")
	_, err = start(client.StartWorkflowOptions{WorkflowIDReusePolicy: enums.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE})
	require.ErrorAs(t, err, &taken)
	third, err := start(client.StartWorkflowOptions{})
	require.NoError(t, err, "the default gives the id again")
	require.NotEqual(t, second, third)
}
