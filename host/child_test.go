package host_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/host"
	"chimera.ai/engine/internal/lengthy"
	"chimera.ai/engine/internal/stage"
	"chimera.ai/engine/payload"
	"chimera.ai/engine/skills"
)

// TestALongCallDelaysNothing: a call that takes long is made by a child workflow
// where the run continues as new meanwhile; what is beside it goes on, and its
// result arrives.
func TestALongCallDelaysNothing(t *testing.T) {
	t.Parallel()
	keys, err := payload.ParseKeys([]string{"k:" + strings.Repeat("0123456789abcdef", 4)})
	require.NoError(t, err)
	for name, c := range map[string]struct {
		sealing payload.Sealing
		x       string
	}{
		"small":         {payload.Sealing{}, "1"},
		"large, sealed": {payload.Sealing{Keys: keys}, strings.Repeat("large ", 4<<10)},
		"large":         {payload.Sealing{}, strings.Repeat("large ", 4<<10)},
	} {
		t.Run(name, func(t *testing.T) {
			if name != "small" {
				lengthy.Skip(t)
			}
			stage.Parallel(t)
			gate := make(chan struct{})
			h := stage.Host(t, host.Options{ContinueAfter: 20, Sealing: c.sealing, Skills: []skills.Skill{atGate(gate, c.x)}})
			x, err := json.Marshal(c.x)
			require.NoError(t, err)
			// That many attempts may not fit into one history.
			nodes := []string{"long test/gate 3600000 retry_policy: {max_retries: 40}"}
			edges := []string{"$input.x -> long.x", "$input.x -> n0.x", "long.x -> $output.x"}
			for i := range 40 {
				nodes = append(nodes, fmt.Sprintf("n%d engine/pass 2000", i))
				if i > 0 {
					edges = append(edges, fmt.Sprintf("n%d.x -> n%d.x", i-1, i))
				}
			}
			run := stage.Start(t, h.Client(), source("", nodes, append(edges, "n39 -> $output")), `{"x":`+string(x)+`}`)
			stage.Until(t, "all but the long call have ended", func() bool { return stage.State(t, h.Client(), run).Counts.Succeeded == 40 })
			about, err := h.Client().DescribeWorkflowExecution(t.Context(), run.GetID(), "")
			require.NoError(t, err)
			require.NotEqual(t, run.GetRunID(), about.GetWorkflowExecutionInfo().GetExecution().GetRunId(), "the run has continued as new")
			close(gate)
			var result map[string]string
			require.NoError(t, stage.Await(t, h.Client(), run, &result))
			require.Equal(t, c.x, result["x"])
			require.Empty(t, events(t, h.Client(), run, enumspb.EVENT_TYPE_WORKFLOW_TASK_FAILED))
		})
	}
}

// TestALargeReport: what a child returns by reference is read by the execution that
// has started it, which hears of it by its end.
func TestALargeReport(t *testing.T) {
	lengthy.Skip(t)
	t.Parallel()
	for name, s := range map[string]payload.Sealing{"sealed": sealing(t, keys(t, "k1")...), "plain": {}} {
		t.Run(name, func(t *testing.T) {
			stage.Parallel(t)
			var calls atomic.Int32
			// What is left of as many values is large, too.
			large := map[string]string{"x": letters(30_000)}
			ports, names, edges := "x: {type: string}", "x", []string{"$input.x -> a.x", "a.x -> $output.x", "b -> $output"}
			for i := range 300 {
				port := fmt.Sprintf("p%d", i)
				large[port] = letters(100)
				ports, names = ports+", "+port+": {type: string}", names+", "+port
				edges = append(edges, "a."+port+" -> b."+port)
			}
			h := stage.Host(t, host.Options{ContinueAfter: 50, Sealing: s, Skills: []skills.Skill{
				skill("large", func(context.Context, json.RawMessage) (json.RawMessage, error) {
					calls.Add(1)
					return json.Marshal(large)
				}),
			}})
			nodes := []string{
				"a test/large 60000 retry_policy: {max_retries: 40}, output_schema: {type: object, required: [" + names + "], properties: {" + ports + "}}",
				"b engine/pass 2000 input_schema: {type: object, properties: {" + ports + "}}, output_schema: {type: object}",
			}
			run := stage.Start(t, h.Client(), source("limits: {deadline_ms: 20000}\n", nodes, edges), `{"x":1}`)
			var result map[string]string
			require.NoError(t, stage.Await(t, h.Client(), run, &result))
			require.Equal(t, large["x"], result["x"])
			require.Len(t, events(t, h.Client(), run, enumspb.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_COMPLETED), 1)
			require.EqualValues(t, 1, calls.Load())
		})
	}
}

// TestTheEndOfARunCancelsItsChildren: the call of a child whose run has ended is
// cancelled, and not retried.
func TestTheEndOfARunCancelsItsChildren(t *testing.T) {
	var calls, heard atomic.Int32
	h := stage.Host(t, host.Options{ContinueAfter: 60, Skills: []skills.Skill{
		skill("long", func(ctx context.Context, _ json.RawMessage) (json.RawMessage, error) {
			calls.Add(1)
			<-ctx.Done()
			heard.Add(1)
			return nil, ctx.Err()
		}),
	}})
	c := h.Client()
	run := stage.Start(t, c, source("", []string{"long test/long 60000 retry_policy: {max_retries: 60}"},
		[]string{"$input.x -> long.x", "long.x -> $output.x"}), `{"x":1}`)
	child := ""
	stage.Until(t, "a child makes the call", func() bool {
		for _, w := range stage.State(t, c, run).Waiting {
			if w.Kind == contract.WaitChild {
				child = w.Detail
			}
		}
		return child != "" && calls.Load() > 0
	})
	require.NoError(t, c.CancelWorkflow(t.Context(), run.GetID(), ""))
	require.Error(t, stage.Await(t, c, run, nil))
	stage.Until(t, "the child has ended", func() bool {
		about, err := c.DescribeWorkflowExecution(t.Context(), child, "")
		return err == nil && about.GetWorkflowExecutionInfo().GetStatus() != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING
	})
	require.Len(t, events(t, c, c.GetWorkflow(t.Context(), child, ""), enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_CANCEL_REQUESTED), 1)
	stage.Until(t, "the call hears of it", func() bool { return heard.Load() == 1 })
	require.EqualValues(t, 1, calls.Load())
}

// TestACancelledChildIsAskedForAgain: if somebody cancels the workflow that makes a
// call, the run loses that workflow, and not the node.
func TestACancelledChildIsAskedForAgain(t *testing.T) {
	lengthy.Skip(t)
	stage.Parallel(t)
	gate := make(chan struct{})
	h := stage.Host(t, host.Options{ContinueAfter: 60, Skills: []skills.Skill{atGate(gate, "1")}})
	c := h.Client()
	run, child := longCall(t, h)
	require.NoError(t, c.CancelWorkflow(t.Context(), child, ""))
	stage.Until(t, "the call is made again", func() bool {
		for _, w := range stage.State(t, c, run).Waiting {
			if w.Kind == contract.WaitChild && w.Detail != child {
				return true
			}
		}
		return stage.State(t, c, run).State != contract.RunRunning
	})
	close(gate)
	require.NoError(t, stage.Await(t, c, run, nil))
}
