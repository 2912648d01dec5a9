package main

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	sdk "go.temporal.io/sdk/client"
	"go.temporal.io/sdk/workflow"

	"chimera.ai/engine/client"
	"chimera.ai/engine/contract"
	"chimera.ai/engine/payload"
)

// TestAContinuedRun: a run that continued as new started when its first execution
// did, in every answer; and what it waits for is shown.
func TestAContinuedRun(t *testing.T) {
	c := stand(t, payload.Sealing{})
	imitate(t, c, func(ctx workflow.Context, s contract.Start) (json.RawMessage, error) {
		state := contract.State{
			Plan: "p@1", State: contract.RunRunning, Executions: 3, Counts: contract.Counts{Running: 2},
			Nodes: []contract.NodeStatus{
				{ID: "a", Operation: "x/y", State: contract.Succeeded, Attempts: 2, StartedAt: "2026-01-02T15:04:05Z", EndedAt: "2026-01-02T15:04:07.5Z"},
				{ID: "b", Operation: "x/z", State: contract.Running, StartedAt: "2026-01-02T15:04:08Z"},
			},
			Waiting: []contract.Wait{
				{Kind: contract.WaitRetry, Node: "b", Since: "2026-01-02T15:04:09Z", Until: "2026-01-02T15:05:09Z", Detail: "transport"},
				{Kind: contract.WaitStore},
			},
		}
		if err := workflow.SetQueryHandler(ctx, contract.QueryState, func() (contract.State, error) { return state, nil }); err != nil {
			return nil, err
		}
		switch {
		case s.Plan == "once":
		case len(s.Plan) < 3:
			s.Plan += "x"
			return nil, workflow.NewContinueAsNewError(ctx, contract.WorkflowType, s)
		}
		workflow.GetSignalChannel(ctx, "end").Receive(ctx, nil)
		return json.RawMessage(`{}`), nil
	})
	start := func(id, plan string) string {
		run, err := c.ExecuteWorkflow(t.Context(), sdk.StartWorkflowOptions{ID: id, TaskQueue: contract.QueueEngine}, contract.WorkflowType, contract.Start{Plan: plan})
		require.NoError(t, err)
		return run.GetRunID()
	}
	started := func(id, run string) time.Time {
		d, err := c.DescribeWorkflowExecution(t.Context(), id, run)
		require.NoError(t, err)
		return d.GetWorkflowExecutionInfo().GetStartTime().AsTime()
	}
	// An id may be given again, and its quotes are no part of a query.
	const long = "it's long"
	start(long, "once")
	require.NoError(t, c.SignalWorkflow(t.Context(), long, "", "end", nil))
	require.NoError(t, c.GetWorkflow(t.Context(), long, "").Get(t.Context(), nil))
	first, once := start(long, ""), start("short", "once")

	status := func() (r client.Status) {
		out, said, code := cli("status", long, "--format", "json")
		require.Equal(t, exitDone, code, said)
		require.NoError(t, json.Unmarshal([]byte(out), &r))
		return r
	}
	require.Eventually(t, func() bool {
		r := status()
		return r.Detail != nil && r.RunID != first && r.Executions == 3 && r.State == contract.RunRunning
	}, 5*time.Minute, 50*time.Millisecond)
	require.Eventually(t, func() bool { // the third execution is the last
		d, err := c.DescribeWorkflowExecution(t.Context(), long, "")
		return err == nil && d.GetWorkflowExecutionInfo().GetHistoryLength() > 3
	}, 5*time.Minute, 50*time.Millisecond)
	require.True(t, started(long, first).Equal(status().StartTime))
	out, _, _ := cli("status", long)
	local := func(s string) string {
		at, ok := moment(s)
		require.True(t, ok)
		return at.Local().Format(time.DateTime)
	}
	require.Regexp(t, `(?m)^executions +3$`, out)
	require.Contains(t, out, "a  x/y  2 attempts  "+local("2026-01-02T15:04:05Z")+" for 2.5s\n")
	require.Contains(t, out, "b  x/z  since "+local("2026-01-02T15:04:08Z")+"\n")
	require.Contains(t, out, "\nwaits for\n  retry     b  since "+local("2026-01-02T15:04:09Z")+"  until "+local("2026-01-02T15:05:09Z")+"  transport\n  store\n")

	for _, end := range []bool{false, true} {
		if end {
			require.NoError(t, c.SignalWorkflow(t.Context(), long, "", "end", nil))
			require.NoError(t, c.GetWorkflow(t.Context(), long, "").Get(t.Context(), nil))
		}
		// The list follows what happens after a moment.
		require.Eventually(t, func() bool {
			out, _, code := cli("runs", "--format", "json")
			require.Equal(t, exitDone, code)
			var answer struct{ Runs []client.Listed }
			require.NoError(t, json.Unmarshal([]byte(out), &answer))
			if len(answer.Runs) != 3 {
				return false
			}
			right := 0
			for _, r := range answer.Runs {
				switch {
				case r.Run == "short" && r.StartTime.Truncate(time.Millisecond).Equal(started("short", once).Truncate(time.Millisecond)),
					r.Run == long && r.RunID == status().RunID && r.StartTime.Equal(started(long, first)) && (r.CloseTime != nil) == end,
					r.Run == long && r.RunID != status().RunID && r.StartTime.Before(started(long, first)):
					right++
				}
			}
			return right == 3
		}, 5*time.Minute, 100*time.Millisecond)
	}
	r := status()
	require.True(t, started(long, first).Equal(r.StartTime))
	out, _, _ = cli("status", long)
	require.Contains(t, out, "after "+r.CloseTime.Sub(r.StartTime).Round(time.Millisecond).String())

	// A run that has ended does nothing more, whatever it reports.
	require.Regexp(t, `dropped +b  x/z`, out)
	require.NotContains(t, out, "waits for")
	require.NoError(t, c.TerminateWorkflow(t.Context(), "short", "", "enough"))
	out, _, code := cli("status", "short")
	require.Equal(t, exitNegative, code)
	require.Regexp(t, `(?m)^state +terminated$`, out)
	require.Regexp(t, `dropped +b  x/z`, out)
	require.NotContains(t, out, "waits for")
}
