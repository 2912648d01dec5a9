package workflows

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/plan"
)

// inRun does something with a run whose only node is in flight.
func inRun(t *testing.T, retry plan.Retry, do func(r *run)) {
	p := &plan.Plan{
		Nodes: []plan.Node{{ID: plan.InputNode, Kind: plan.KindInput}, {ID: "node", Kind: plan.KindCall, Retry: retry}, {ID: plan.OutputNode, Kind: plan.KindOutput}},
	}
	p.Index()
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestWorkflowEnvironment()
	env.SetTestTimeout(time.Minute) // of real time; the default of 3 s is short on a busy machine
	env.RegisterDynamicActivity(func(context.Context, converter.EncodedValues) error { return nil }, activity.DynamicRegisterOptions{})
	env.ExecuteWorkflow(func(ctx workflow.Context) error {
		r := newRun(ctx, &plan.Loaded{Plan: p}, new(view))
		r.begin()
		require.Equal(t, 1, r.next().node)
		do(r)
		return nil
	})
	require.NoError(t, env.GetWorkflowError())
}

// TestACallThatStallsIsLaunchedAnew: a request that a child made in vain is made
// again in the way that fits by then.
func TestACallThatStallsIsLaunchedAnew(t *testing.T) {
	inRun(t, plan.Retry{MaxAttempts: 1}, func(r *run) {
		r.failedCall(&wait{kind: waitChild, node: 1, child: new(contract.Child)}, failed(contract.StoreUnavailable, "away"))
		require.Len(t, r.stalled, 1)
		require.Equal(t, waitCall, r.stalled[0].kind)
	})
}

// TestAStoreThatIsSlowHasMoreTime: a request whose values were not read and written
// in time has longer the next time.
func TestAStoreThatIsSlowHasMoreTime(t *testing.T) {
	inRun(t, plan.Retry{MaxAttempts: 1}, func(r *run) {
		require.Equal(t, graceTimeout, r.options(&wait{node: 1}).StartToCloseTimeout)
		for _, w := range []*wait{{node: 1, patient: true}, {node: 1, tries: tries{waits: 1}}, {node: 1, patient: true, probe: true}} {
			o := r.options(w)
			require.Equal(t, journalTimeout, o.StartToCloseTimeout)
		}
	})
}

// TestWaitsForAChildToStart: a run that is about to continue as new waits only for
// the last child to start.
func TestWaitsForAChildToStart(t *testing.T) {
	inRun(t, plan.Retry{MaxAttempts: 1}, func(r *run) {
		never, _ := workflow.NewFuture(r.ctx)
		started, start := workflow.NewFuture(r.ctx)
		r.deadline, r.draining = never, true
		r.flights = []*wait{{kind: waitChild, node: 1, child: &contract.Child{Workflow: "child"}, future: never, started: started, due: r.now().Add(time.Hour)}}
		require.False(t, r.due())
		workflow.Go(r.ctx, func(workflow.Context) { start.SetValue(workflow.Execution{ID: "child", RunID: "r"}) })
		r.await()
		require.True(t, r.due())
		require.Equal(t, "r", r.flights[0].child.Run)
	})
}

// TestAttemptsAreUsedUp: a failure that does not name its attempt counts as that of
// the next one.
func TestAttemptsAreUsedUp(t *testing.T) {
	inRun(t, plan.Retry{MaxAttempts: 3, On: []contract.Kind{contract.ServerError}}, func(r *run) {
		w := &wait{kind: waitCall, node: 1, tries: tries{spent: 1}}
		r.failedCall(w, failed(contract.ServerError, "no"))
		require.Equal(t, 2, w.spent)
		r.failedCall(w, failed(contract.ServerError, "no"))
		require.Equal(t, plan.NodeFailed, r.progress.Node(1))
		require.EqualValues(t, 3, r.attempts[1])
	})
}

// TestLostWorkersMayHaveActed: no error edge sees that all workers of an effect were lost as a
// failure of which nothing is to be undone.
func TestLostWorkersMayHaveActed(t *testing.T) {
	for effect, want := range map[plan.EffectClass]contract.Kind{
		plan.Pure: contract.WorkerLost, plan.Staged: contract.WorkerLost, plan.Committing: contract.OutcomeUnknown, plan.Irreversible: contract.OutcomeUnknown,
	} {
		inRun(t, plan.Retry{MaxAttempts: 1}, func(r *run) {
			r.plan.Nodes[1].Effect = effect
			r.failedCall(&wait{kind: waitCall, node: 1, tries: tries{lost: maxLost - 1}}, failed(contract.WorkerLost, "lost"))
			require.Equal(t, plan.NodeFailed, r.progress.Node(1))
			require.Equal(t, want, r.errors[1].Kind)
		})
	}
	// Guardians call nothing.
	for called, want := range map[bool]contract.Kind{false: contract.WorkerLost, true: contract.OutcomeUnknown} {
		inRun(t, plan.Retry{MaxAttempts: 1}, func(r *run) {
			r.plan.Nodes[1].Effect = plan.Committing
			r.failedCall(&wait{kind: waitGuardian, node: 1, tries: tries{lost: maxLost - 1, called: called}}, failed(contract.WorkerLost, "lost"))
			require.Equal(t, want, r.errors[1].Kind)
		})
	}
}

// TestVerifyHasItsTime: what finds out what an earlier call did has as long as the node has that
// verifies it, with its retries.
func TestVerifyHasItsTime(t *testing.T) {
	inRun(t, plan.Retry{MaxAttempts: 2, InitialMS: 500}, func(r *run) {
		n := &r.plan.Nodes[1]
		n.Effect, n.TimeoutMS = plan.Committing, 1000
		require.Zero(t, r.verifying(n))
		n.Commit = &plan.Commit{Barrier: -1, Verify: &plan.Verify{Node: 2}}
		r.plan.Nodes[2].TimeoutMS, r.plan.Nodes[2].Retry = 20_000, plan.Retry{MaxAttempts: 2, InitialMS: 500}
		o := r.options(&wait{node: 1, decided: true})
		require.Equal(t, 42*time.Second+graceTimeout, o.StartToCloseTimeout)
		for _, w := range []*wait{{kind: waitCall, node: 1, decided: true}, {kind: waitUndo, node: 1}} {
			r.flights = []*wait{w}
			n, short := r.activities()
			require.Equal(t, 1, n)
			require.False(t, short)
		}
		r.flights = nil
		require.Equal(t, heartbeatTimeout, o.HeartbeatTimeout)
		o = r.options(&wait{node: 1, decided: true, permit: new(contract.Permit)})
		require.Equal(t, time.Second+graceTimeout, o.StartToCloseTimeout)
		require.Zero(t, o.HeartbeatTimeout)
		r.plan.Nodes[2].TimeoutMS, r.plan.Nodes[2].Retry = 1<<40, plan.Retry{MaxAttempts: 1 << 30}
		require.Equal(t, maxWait, r.verifying(n))
	})
}

// TestALostChildIsAskedAbout: the run asks long before the child should have ended,
// even about a child that the server should report, since it does not after a
// reset.
func TestALostChildIsAskedAbout(t *testing.T) {
	inRun(t, plan.Retry{MaxAttempts: 1}, func(r *run) {
		never, _ := workflow.NewFuture(r.ctx)
		r.plan.Nodes[1].TimeoutMS = 24 * time.Hour.Milliseconds()
		w := &wait{kind: waitChild, node: 1, child: new(contract.Child), since: r.now(), future: never}
		w.due = r.asked(w)
		require.Equal(t, r.now().Add(askEvery), w.due)
		require.False(t, w.overdue(r.now()))
		require.True(t, w.overdue(w.due))
		w.asking = true
		require.False(t, w.overdue(w.due))
		r.plan.Nodes[1].TimeoutMS = 11_000
		require.Equal(t, r.now().Add(startTimeout+drainTime+21*time.Second), r.asked(w))
		w.since = r.now().Add(-time.Hour)
		require.Equal(t, r.now().Add(maxBackoff), r.asked(w))
	})
}

// TestAChildThatCannotBeStarted: a run that learns this late neither asks about a
// child that never existed, nor carries one into the next execution.
func TestAChildThatCannotBeStarted(t *testing.T) {
	inRun(t, plan.Retry{MaxAttempts: 1}, func(r *run) {
		ended, end := workflow.NewFuture(r.ctx)
		started, start := workflow.NewFuture(r.ctx)
		w := &wait{kind: waitChild, node: 1, child: &contract.Child{Workflow: "child"}, since: r.now(), due: r.now(), future: ended, started: started}
		r.flights = []*wait{w}
		r.wake()
		require.False(t, w.asking)
		require.True(t, w.due.After(r.now()))
		w.due = r.now()
		end.SetError(errOther)
		start.SetError(errOther)
		r.wake()
		require.False(t, w.asking)
		r.landAll()
		require.Empty(t, r.flights)
		require.Equal(t, waitCall, r.sleeping[0].kind)
	})
}

// TestAProbeThatFailsWaits: a probe that is answered with an unavailable store is
// not repeated at once.
func TestAProbeThatFailsWaits(t *testing.T) {
	inRun(t, plan.Retry{MaxAttempts: 1}, func(r *run) {
		away := failed(contract.StoreUnavailable, "away")
		r.failedCall(&wait{kind: waitCall, node: 1}, away)
		var last time.Time
		for range 8 {
			w := r.stalled[0]
			r.stalled = r.stalled[1:]
			w.patient, r.outage.probing = true, true
			r.failedCall(w, away)
			require.False(t, r.outage.probing)
			require.True(t, r.outage.next.After(r.now()))
			require.False(t, r.outage.next.Before(last))
			last = r.outage.next
		}
		require.Equal(t, r.now().Add(maxBackoff), last)
	})
}

// TestAStoreThatIsBack: calls that were in flight while it was unavailable, perhaps
// for hours more, do not hold up the run.
func TestAStoreThatIsBack(t *testing.T) {
	inRun(t, plan.Retry{MaxAttempts: 1}, func(r *run) {
		r.plan.Limits.MaxParallel = maxPending
		never, _ := workflow.NewFuture(r.ctx)
		for range 10 {
			r.flights = append(r.flights, &wait{kind: waitCall, future: never})
		}
		r.failedCall(&wait{kind: waitCall, node: 1}, failed(contract.StoreUnavailable, "away"))
		r.outage.probing = true
		r.returned(&wait{kind: waitCall, node: 1, patient: true})
		for range 2 {
			require.True(t, r.room())
			r.flights = append(r.flights, &wait{kind: waitCall, future: never})
		}
		require.False(t, r.room())
	})
}

// TestAnswersOfTheRunBefore: an answer to the run before a reset, good or bad, is
// not one to this run.
func TestAnswersOfTheRunBefore(t *testing.T) {
	of := func(root string, kind contract.Kind) error {
		return temporal.NewNonRetryableApplicationError("no", string(kind), nil, contract.ErrorDetails{Request: "request", Root: root})
	}
	for name, c := range map[string]struct {
		receipt                     *contract.JournalReceipt
		err                         error
		took                        time.Duration
		unwritten, elsewhere, again int
		fails                       bool
	}{
		"written":              {receipt: &contract.JournalReceipt{Request: "request", Root: "own"}},
		"written for another":  {receipt: &contract.JournalReceipt{Request: "request", Root: "another"}, elsewhere: 1},
		"another request":      {receipt: &contract.JournalReceipt{Request: "other", Root: "own"}, unwritten: 1},
		"refused":              {err: of("own", contract.Conflict), unwritten: 1, fails: true},
		"refused of another":   {err: of("another", contract.Conflict), unwritten: 1},
		"refused, who says so": {err: of("", contract.Conflict), unwritten: 1},
		"refused at last":      {err: of("own", contract.Conflict), took: time.Hour, unwritten: 1, fails: true},
		"away":                 {err: of("own", contract.StoreUnavailable), unwritten: 1},
		"away for an hour":     {err: of("own", contract.StoreUnavailable), took: time.Hour, again: 1},
	} {
		t.Run(name, func(t *testing.T) {
			inRun(t, plan.Retry{MaxAttempts: 1}, func(r *run) {
				r.root = "own"
				r.journal.writing, r.journal.sent = true, []contract.JournalEntry{{Node: 1}}
				answer, give := workflow.NewFuture(r.ctx)
				give.Set(c.receipt, c.err)
				r.landBatch(&wait{kind: waitJournal, request: "request", since: r.now().Add(-c.took), future: answer})
				require.Len(t, r.journal.entries, c.again)
				require.Len(t, r.journal.unwritten, c.unwritten)
				require.Len(t, r.journal.elsewhere, c.elsewhere)
				require.Equal(t, c.fails, r.end.State == contract.RunFailed)
			})
		})
	}
}

// TestTheEndTellsWhatWasWrittenElsewhere: outcomes that were written for the run
// before a reset go with the end, at no further request. What the history may not
// have yet comes last.
func TestTheEndTellsWhatWasWrittenElsewhere(t *testing.T) {
	for name, c := range map[string]struct {
		root string
		want int
	}{"this run": {"own", 700}, "the run before": {"another", 1700}} {
		t.Run(name, func(t *testing.T) {
			var suite testsuite.WorkflowTestSuite
			env := suite.NewTestWorkflowEnvironment()
			env.SetTestTimeout(time.Minute) // of real time; the default of 3 s is short on a busy machine
			env.RegisterActivityWithOptions(func(_ context.Context, request contract.JournalRequest) (contract.JournalReceipt, error) {
				return contract.JournalReceipt{Request: request.Request, Root: c.root}, nil
			}, activity.RegisterOptions{Name: contract.ActivityJournal})
			told, fresh, batches := 0, 0, 0
			env.SetOnActivityStartedListener(func(*activity.Info, context.Context, converter.EncodedValues) { batches++ })
			env.RegisterActivityWithOptions(func(_ context.Context, request contract.CloseRequest) (contract.Closed, error) {
				told = len(request.Entries)
				fresh = slices.IndexFunc(request.Entries, func(e contract.JournalEntry) bool { return e.Node == 1 })
				return contract.Closed{Root: request.Run.Root}, nil
			}, activity.RegisterOptions{Name: contract.ActivityClose})
			env.ExecuteWorkflow(func(ctx workflow.Context) error {
				_, refused := (teller{ctx: ctx, view: new(view)}).conclude("tag", contract.CloseRequest{
					Run:     contract.Identity{Root: "own"},
					Entries: append(make([]contract.JournalEntry, contract.MaxEntries), slices.Repeat([]contract.JournalEntry{{Node: 1}}, 200)...),
				}, make([]contract.JournalEntry, 500))
				require.Nil(t, refused)
				return nil
			})
			require.NoError(t, env.GetWorkflowError())
			require.Equal(t, c.want, told)
			require.Equal(t, told-200, fresh)
			require.Equal(t, 1, batches)
		})
	}
}

// TestAnEndSaysWhyItWaits: a run whose end cannot be recorded says why.
func TestAnEndSaysWhyItWaits(t *testing.T) {
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestWorkflowEnvironment()
	env.SetTestTimeout(time.Minute) // of real time; the default of 3 s is short on a busy machine
	v, asked, said := new(view), 0, ""
	env.SetOnActivityStartedListener(func(*activity.Info, context.Context, converter.EncodedValues) { said = v.waiting[0].Detail })
	env.RegisterActivityWithOptions(func(_ context.Context, request contract.CloseRequest) (contract.Closed, error) {
		if asked++; asked == 1 {
			return contract.Closed{}, temporal.NewNonRetryableApplicationError("a value is gone", string(contract.StoreUnavailable), nil)
		}
		return contract.Closed{Root: request.Run.Root}, nil
	}, activity.RegisterOptions{Name: contract.ActivityClose})
	env.ExecuteWorkflow(func(ctx workflow.Context) error {
		_, refused := (teller{ctx: ctx, view: v}).conclude("tag", contract.CloseRequest{Run: contract.Identity{Root: "own"}}, nil)
		require.Nil(t, refused)
		return nil
	})
	require.NoError(t, env.GetWorkflowError())
	require.Equal(t, "the run's end, on its way to the ledger: a value is gone", said)
}

// TestAStoreThatIsSaidToBeAway: a run waits for its store before it continues as new,
// but does not grow for ever where somebody only says that the store is away.
func TestAStoreThatIsSaidToBeAway(t *testing.T) {
	inRun(t, plan.Retry{MaxAttempts: 1}, func(r *run) {
		r.failedCall(&wait{kind: waitCall, node: 1}, failed(contract.StoreUnavailable, "away"))
		r.draining, r.head.ContinueAfter = true, 1000
		require.False(t, r.due())
		r.head.ContinueAfter = 0 // now the history is longer than all of its bounds
		require.True(t, r.due())
	})
}

// TestMoreWaitsThanAreListed: a state says that there are more waits only if there
// are.
func TestMoreWaitsThanAreListed(t *testing.T) {
	inRun(t, plan.Retry{MaxAttempts: 1}, func(r *run) {
		for range stateWaits {
			r.flights = append(r.flights, &wait{kind: waitCall, node: 1})
		}
		all, more := r.waiting()
		require.Len(t, all, stateWaits)
		require.False(t, more)
		r.stalled = []*wait{{kind: waitCall, node: 1}}
		all, more = r.waiting()
		require.Len(t, all, stateWaits)
		require.True(t, more)
		require.Equal(t, contract.WaitStore, all[0].Kind)
	})
}

// TestSinceWhenNobodyTakesACall: a call that no worker has taken waits since it was first made, however often
// it was made since, until one takes it.
func TestSinceWhenNobodyTakesACall(t *testing.T) {
	inRun(t, plan.Retry{MaxAttempts: 1}, func(r *run) {
		first := r.now().Add(-2 * startTimeout)
		w := &wait{kind: waitGuardian, node: 1, since: first}
		waits := func(kind contract.WaitKind) string {
			all, _ := r.waiting()
			require.NotEmpty(t, all)
			require.Equal(t, kind, all[0].Kind)
			return all[0].Since
		}
		r.flights = nil
		for range 2 {
			r.failedCall(w, failure{unstarted: true})
			require.Len(t, r.sleeping, 1)
			require.Equal(t, instant(first), waits(contract.WaitQueue))
			w, r.sleeping = r.sleeping[0], nil
			r.launch(w)
			require.Equal(t, instant(first), waits(contract.WaitCall))
			require.Equal(t, r.now(), w.since)
			r.flights = nil
		}
		r.launch(w)
		require.Equal(t, instant(r.now()), waits(contract.WaitCall))
	})
}
