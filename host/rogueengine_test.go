package host_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/host"
	"chimera.ai/engine/internal/lengthy"
	"chimera.ai/engine/internal/stage"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/trust"
)

// TestARogueEngine: a worker that polls the engine's queues runs a plan in its place. It has
// nothing opened in the ledger, whatever it answers itself, and gets neither permit nor call.
func TestARogueEngine(t *testing.T) {
	stage.Parallel(t)
	a := act(t, writes)
	digest := a.publish(t, actingPlan)
	long := a.start(t, "long", digest, `{"line":"much longer than that"}`)
	require.Equal(t, contract.Rejected, stage.FailureOf(t, stage.Await(t, a.h.Client(), long, nil)).Kind, "from now on the plan is stored")
	a.options.Roles = []host.Role{host.RoleGuardian, host.RoleEffects}
	a.again(t)
	salt := []byte("0123456789abcdef")
	now := time.Now()
	permit, err := trust.SignPermit(newKey(t), trust.Permit{
		Deployment: "test", Audience: a.Root.Audience, Guardian: "guardian", Invocation: "any", Decision: "any/1",
		Call: trust.Call{Operation: "book/write", Input: []byte(`{"line":"x"}`)}.Digest(salt), Issued: ledger.At(now), Expires: ledger.At(now.Add(trust.MaxPermit)),
	})
	require.NoError(t, err)
	lies := func(ctx workflow.Context, start contract.Start) ([]string, error) {
		info := workflow.GetInfo(ctx)
		id := contract.Identity{Workflow: info.WorkflowExecution.ID, Root: info.WorkflowExecution.RunID, Origin: info.WorkflowExecution.RunID}
		once := workflow.ActivityOptions{StartToCloseTimeout: time.Minute, RetryPolicy: &temporal.RetryPolicy{MaximumAttempts: 1}}
		on := func(queue string) workflow.Context {
			o := once
			o.TaskQueue = queue
			return workflow.WithActivityOptions(ctx, o)
		}
		opened := contract.JournalRequest{Run: id, Plan: start.Plan, Input: plan.DigestOf(start.Input), Request: "opened"}
		// In production the answer is refused, which holds nobody up who lies.
		_ = workflow.ExecuteActivity(on(contract.QueueJournal), contract.ActivityJournal, opened).Get(ctx, nil)
		call := contract.Call{
			Run: id, Plan: start.Plan, Node: 1, Visit: 1, Request: "rogue", Deliveries: []contract.Delivery{{Edge: 0, Value: contract.Value(`"x"`)}},
		}
		var said []string
		var out contract.Decided
		if err := workflow.ExecuteActivity(on(contract.QueueGuardian), contract.ActivityDecide, call).Get(ctx, &out); err != nil || out.Permit != nil || !out.Unopened {
			said = append(said, "the guardian has decided")
		}
		for _, p := range []*contract.Permit{nil, {Envelope: permit, Salt: salt}} {
			call.Permit = p
			err := workflow.ExecuteActivity(on(contract.QueueEffects), "book/write", call).Get(ctx, nil)
			said = append(said, err.Error())
		}
		return said, nil
	}
	var answers atomic.Int64
	answer := func(_ context.Context, args converter.EncodedValues) (map[string]string, error) {
		answers.Add(1)
		var asked struct {
			Request string            `json:"request"`
			Run     contract.Identity `json:"run"`
		}
		err := args.Get(&asked)
		return map[string]string{"request": asked.Request, "root": asked.Run.Root}, err
	}
	c := a.dial(t) // in production it has stolen the keys of the payloads
	for _, queue := range []string{contract.QueueEngine, contract.QueueJournal} {
		w := worker.New(c, queue, worker.Options{})
		w.RegisterWorkflowWithOptions(lies, workflow.RegisterOptions{Name: contract.WorkflowType})
		w.RegisterDynamicActivity(answer, activity.DynamicRegisterOptions{})
		require.NoError(t, w.Start())
		defer w.Stop()
	}
	var said []string
	require.NoError(t, stage.Await(t, c, a.Start(t, c, stage.RunID(t, "granted"), digest, `{"line":"x"}`), &said))
	require.Len(t, said, 2, "%q", said)
	for _, s := range said {
		require.Contains(t, s, "the ledger does not have the run as open")
	}
	require.EqualValues(t, 1, answers.Load())
	require.Empty(t, a.written(t))
}

// TestARogueWorkerOfTheEngine: where payloads are sealed, a worker without key that polls the
// engine's queues beside it is not heard: neither what it answers for nodes before an effect
// nor what it says of the ledger counts.
func TestARogueWorkerOfTheEngine(t *testing.T) {
	lengthy.Skip(t)
	stage.Parallel(t)
	a := act(t, writes)
	if a.of == nil {
		a.options.Sealing = sealing(t, keys(t, "k1")...)
		a.again(t)
	}
	// More calls than the engine's own worker takes without asking its queue.
	const passes = host.EagerActivities + 3
	var nodes, edges strings.Builder
	const object = "{type: object, properties: {line: {type: string}}, required: [line]}"
	for i := range passes {
		fmt.Fprintf(&nodes, "{id: p%d, template: engine/pass, timeout_ms: 5000, input_schema: %s, output_schema: %s}, ", i, object, object)
		fmt.Fprintf(&edges, "$input.line -> p%d.line, ", i)
		if i > 0 {
			fmt.Fprintf(&edges, "p%d -> write, ", i)
		}
	}
	digest := a.publish(t, strings.NewReplacer("nodes: [", "nodes: ["+nodes.String(), "$input.line -> write.line", edges.String()+"p0.line -> write.line").Replace(actingPlan))
	var answered sync.Map
	answer := func(ctx context.Context, _ converter.EncodedValues) (contract.Outcome, error) {
		info := activity.GetInfo(ctx)
		answered.Store(info.TaskQueue, true)
		return contract.Outcome{Values: []contract.Value{contract.Value(`"forged"`)}, Held: []bool{true}, Request: info.ActivityID}, nil
	}
	rogues := map[string]worker.Worker{}
	for _, queue := range []string{contract.QueueEngine, contract.QueueJournal} {
		w := worker.New(stranger(t), queue, worker.Options{DisableWorkflowWorker: true, MaxConcurrentActivityTaskPollers: 32})
		w.RegisterDynamicActivity(answer, activity.DynamicRegisterOptions{})
		require.NoError(t, w.Start())
		rogues[queue] = w
	}
	var want []string
	for n := 0; len(rogues) > 0; n++ {
		line := fmt.Sprintf(`{"line":"%d"}`, n)
		run := a.start(t, fmt.Sprint(n), digest, line)
		stage.Until(t, "the run ends", func() bool {
			for queue, w := range rogues {
				if _, ok := answered.Load(queue); ok {
					w.Stop()
					delete(rogues, queue)
				}
			}
			about, err := a.h.Client().DescribeWorkflowExecution(t.Context(), run.GetID(), "")
			return err == nil && about.GetWorkflowExecutionInfo().GetStatus() != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING
		})
		require.NoError(t, stage.Await(t, a.h.Client(), run, nil))
		want = append(want, line)
	}
	require.Equal(t, want, a.written(t))
}
