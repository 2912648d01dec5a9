package host_test

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/sdk/client"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/host"
	"chimera.ai/engine/internal/lengthy"
	"chimera.ai/engine/internal/stage"
	"chimera.ai/engine/skills"
	"chimera.ai/engine/store"
)

// gates are Go skills that hold a run until a test lets it pass.
type gates map[string]chan struct{}

func (g gates) skills() []skills.Skill {
	var all []skills.Skill
	for name, pass := range g {
		all = append(all, skill(name, func(ctx context.Context, _ json.RawMessage) (json.RawMessage, error) {
			select {
			case <-pass:
				return json.RawMessage(`{"x":"passed"}`), nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}))
	}
	return all
}

// TestFromOneQueueToTwoAndBack: a deployment whose one process has both roles, and
// whose tools share the engine's queue, is split into one process for each role and
// put together again, while runs are under way that began before and in between.
// Every call is made once, by whoever may make it.
func TestFromOneQueueToTwoAndBack(t *testing.T) {
	lengthy.Skip(t)
	t.Parallel()
	for name, sealed := range map[string]bool{"plain": false, "sealed": true} {
		t.Run(name, func(t *testing.T) {
			stage.Parallel(t)
			box := newToolbox(t)
			g := gates{"first": make(chan struct{}), "second": make(chan struct{})}
			o := box.put(host.Options{Store: store.Options{Dir: filepath.Join(t.TempDir(), "store")}, Skills: g.skills()})
			if sealed {
				o.Sealing = sealing(t, keys(t, "k1")...)
			}
			with := func(shared bool, roles ...host.Role) *host.Host {
				o.SharedQueue, o.Roles = shared, roles
				return stage.Host(t, o)
			}
			plain := stranger(t)
			text := source("", []string{"a box/echo 60000", "b test/first 60000", "c box/echo 60000", "d test/second 60000", "e box/echo 60000"}, []string{
				"$input.x -> a.x", "a.x -> b.x", "b.x -> c.x", "c.x -> d.x", "d.x -> e.x", "e.x -> $output.x",
			})
			reaches := func(run client.WorkflowRun, gate string) {
				t.Helper()
				stage.Until(t, run.GetID()+" is at the gate "+gate, func() bool {
					description, err := plain.DescribeWorkflowExecution(t.Context(), run.GetID(), "")
					require.NoError(t, err)
					return slices.ContainsFunc(description.GetPendingActivities(), func(a *workflowpb.PendingActivityInfo) bool {
						return a.GetActivityType().GetName() == "test/"+gate
					})
				})
			}

			one := with(true)
			early := stage.Start(t, plain, text, `{"x":1}`)
			reaches(early, "first")
			require.NoError(t, one.Close())

			engine, tools := with(false, host.RoleEngine), with(false, host.RoleTools)
			late := stage.Start(t, plain, text, `{"x":1}`)
			reaches(late, "first")
			close(g["first"])
			reaches(early, "second")
			reaches(late, "second")
			require.NoError(t, engine.Close())
			require.NoError(t, tools.Close())

			back := with(true)
			close(g["second"])
			require.NoError(t, stage.Await(t, back.Client(), early, nil))
			require.NoError(t, stage.Await(t, back.Client(), late, nil))
			require.Equal(t, 6, box.calls("echo"), "each call was made once")

			asked := map[string][]string{}
			for which, run := range map[string]string{"early": early.GetID(), "late": late.GetID()} {
				for _, e := range events(t, back.Client(), back.Client().GetWorkflow(t.Context(), run, ""), enumspb.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED) {
					if a := e.GetActivityTaskScheduledEventAttributes(); a.GetActivityType().GetName() == "box/echo" {
						asked[which] = append(asked[which], a.GetTaskQueue().GetName())
					}
				}
			}
			const engines, own = contract.QueueEngine, contract.QueueTools
			require.Equal(t, map[string][]string{"early": {engines, engines, own, own}, "late": {own, own, own}}, asked,
				"a run that was sent on once asks there from then on")
		})
	}
}

// TestCallsDoNotHoldUpTheJournal: every place for activities of the engine's queue
// is taken, and a run that needs none of them goes on, and ends.
func TestCallsDoNotHoldUpTheJournal(t *testing.T) {
	lengthy.Skip(t)
	stage.Parallel(t)
	g := gates{"hold": make(chan struct{})}
	h := stage.Host(t, host.Options{Skills: g.skills(), MaxActivities: 2})
	holding := source("", []string{"a test/hold 60000", "b test/hold 60000", "c test/hold 60000"}, []string{"a.x -> $output.x", "b.x -> $output.y", "c.x -> $output.a"})
	held := stage.Start(t, h.Client(), holding, `{}`)
	stage.Until(t, "all places are taken", func() bool {
		description, err := h.Client().DescribeWorkflowExecution(t.Context(), held.GetID(), "")
		require.NoError(t, err)
		started := 0
		for _, a := range description.GetPendingActivities() {
			if a.GetState() == enumspb.PENDING_ACTIVITY_STATE_STARTED {
				started++
			}
		}
		return started == 2
	})
	// So many local nodes that the chain is cut, which the journal does.
	nodes, edges := []string{"n0 engine/pass 500"}, []string{"$input.x -> n0.x"}
	for i := 1; i < 450; i++ {
		nodes = append(nodes, fmt.Sprintf("n%d engine/pass 500", i))
		edges = append(edges, fmt.Sprintf("n%d.x -> n%d.x", i-1, i))
	}
	run := stage.Start(t, h.Client(), source("", nodes, append(edges, "n449.x -> $output.x")), `{"x":"through"}`)
	var result struct{ X string }
	require.NoError(t, stage.Await(t, h.Client(), run, &result))
	require.Equal(t, "through", result.X)
	for _, e := range events(t, h.Client(), run, enumspb.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED) {
		a := e.GetActivityTaskScheduledEventAttributes()
		if strings.HasPrefix(a.GetActivityType().GetName(), "engine/") && a.GetActivityType().GetName() != "engine/pass" {
			require.Equal(t, contract.QueueJournal, a.GetTaskQueue().GetName())
		}
	}
	close(g["hold"])
	require.NoError(t, stage.Await(t, h.Client(), held, nil))
}
