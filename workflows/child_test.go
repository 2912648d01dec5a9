package workflows

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/plan"
)

// TestAChildIsAskedForAgain: where a run has continued as new while it asked about a
// child, the next execution asks again, whatever else sleeps meanwhile.
func TestAChildIsAskedForAgain(t *testing.T) {
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestWorkflowEnvironment()
	env.SetTestTimeout(time.Minute) // of real time; the default of 3 s is short on a busy machine
	p := &plan.Plan{Nodes: make([]plan.Node, 4)}
	p.Index()
	rung := false
	env.ExecuteWorkflow(func(ctx workflow.Context) error {
		r := newRun(ctx, &plan.Loaded{Plan: p}, new(view))
		r.progress.Begin(contract.Outcome{})
		for range 2 {
			r.progress.Next()
		}
		later := r.now().Add(time.Hour)
		if !r.restoreWait(&contract.CarriedWait{Kind: byte(waitCall), Node: 1, DueMS: later.UnixMilli()}) ||
			!r.restoreWait(&contract.CarriedWait{Kind: byte(waitChild), Node: 2, Child: &contract.Child{Workflow: "w", Run: "r"}}) {
			return errCarried
		}
		r.arm()
		rung = workflow.Await(ctx, r.alarm.rung) == nil && r.now().Before(later)
		return nil
	})
	require.True(t, env.IsWorkflowCompleted())
	require.NoError(t, env.GetWorkflowError())
	require.True(t, rung)
}

// TestWhatIsAhead: what settles as a run begins is not ahead of it, and neither is what
// settled in an execution before.
func TestWhatIsAhead(t *testing.T) {
	inRun(t, plan.Retry{MaxAttempts: 1}, func(r *run) {
		r.release()
		want := weight(&r.plan.Nodes[1]) + weight(&r.plan.Nodes[2])
		require.Equal(t, want, r.ahead)
		var c contract.Carried
		r.progress.Carry(&c)
		c.Times = r.packTimes()
		next := newRun(r.ctx, &plan.Loaded{Plan: r.plan}, new(view))
		require.NoError(t, next.restore(&c))
		require.Equal(t, want, next.ahead)
	})
}

// TestDetailsAreForgotten: once the targets of its error edges have settled, a run does
// not carry the details of a failure on.
func TestDetailsAreForgotten(t *testing.T) {
	p := &plan.Plan{Nodes: make([]plan.Node, 2), Edges: []plan.Edge{{From: 0, To: 1, Type: plan.Error}}}
	p.Index()
	s := newScope(p)
	told := &contract.ErrorPayload{Message: "no", Details: []byte(`{}`)}
	s.errors[0] = told
	s.consume(0)
	require.Nil(t, s.errors[0].Details)
	require.Equal(t, "no", s.errors[0].Message)
	require.NotNil(t, told.Details)
}

// TestAnswersOfChildren: a child brings more than one answer until it is known to run,
// and while it is asked about.
func TestAnswersOfChildren(t *testing.T) {
	inRun(t, plan.Retry{MaxAttempts: 1}, func(r *run) {
		started, start := workflow.NewFuture(r.ctx)
		w := &wait{kind: waitChild, node: 1, child: new(contract.Child), started: started}
		none := r.answers()
		r.flights = []*wait{w, {kind: waitCall, node: 1, local: true}}
		require.Equal(t, none+2, r.answers())
		start.SetValue(workflow.Execution{})
		require.Equal(t, none+1, r.answers())
		w.asking = true
		require.Equal(t, none+2, r.answers())
	})
}
