package workflows

import (
	"testing"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/plan"
)

// TestABatchThatLandsBesideEffects: while a run whose end is known waits for an effect, a batch
// for the ledger and one for the guardian may end, and what undoes effects needs both again.
func TestABatchThatLandsBesideEffects(t *testing.T) {
	inRun(t, plan.Retry{MaxAttempts: 1}, func(r *run) {
		landed := func(answer any) workflow.Future {
			future, give := workflow.NewFuture(r.ctx)
			give.Set(answer, nil)
			return future
		}
		r.journal.entries = []contract.JournalEntry{{Node: 1}}
		r.journal.noted, r.journal.writing, r.meter.cutting = 1, true, true
		r.journal.sent, r.journal.entries = r.journal.entries, nil
		r.payments.posting, r.payments.noted, r.payments.sent = true, 1, []contract.Post{{Hold: "hold"}}
		r.flights = []*wait{
			{kind: waitCall, node: 1, decided: true, request: "effect", future: landed(contract.Outcome{Request: "effect"})},
			{kind: waitJournal, request: "batch", since: r.now(), future: landed(contract.JournalReceipt{Request: "batch", Root: r.root})},
			{kind: waitPost, request: "costs", since: r.now(), future: landed(contract.Posted{Request: "costs"})},
		}
		r.phase = unwinding
		r.awaitEffects()
		r.letGo()
		require.Empty(t, r.flights)
		require.False(t, r.journal.writing)
		require.False(t, r.meter.cutting)
		require.Equal(t, 1, r.journal.done)
		require.False(t, r.payments.posting)
		require.Equal(t, 1, r.payments.done)
		require.True(t, r.idle())
	})
}

// TestAReportThatComesLate: people are not asked about the call of a child that ends once the
// run's end is known.
func TestAReportThatComesLate(t *testing.T) {
	inRun(t, plan.Retry{MaxAttempts: 1}, func(r *run) {
		r.phase = unwinding
		report := &contract.Report{Request: "request", Outcome: &contract.Outcome{Request: "request", Unknown: "decision"}}
		r.takeReport(&wait{kind: waitChild, node: 1, request: "request", decided: true, child: new(contract.Child)}, report)
		require.Len(t, r.parked, 1)
		r.letGo()
		require.Empty(t, r.parked)
	})
}

// TestAReportThatComesAsTheRunContinues: while effects are undone, what a child has reported is
// handled before the run continues as new, since the next execution does not receive it.
func TestAReportThatComesAsTheRunContinues(t *testing.T) {
	inRun(t, plan.Retry{MaxAttempts: 1}, func(r *run) {
		require.True(t, r.restoreUndo(&contract.Carried{Unwinding: &contract.Unwinding{
			End: contract.RunEnd{State: contract.RunFailed, Failure: new(contract.Failure)}, Undoing: contract.Undoing{Node: 1},
		}}))
		w := &wait{kind: waitChild, node: 1, since: r.now(), child: &contract.Child{Workflow: "child", Run: "run"}}
		w.request = r.requestOf(w)
		reports := workflow.NewBufferedChannel(r.ctx, 1)
		reports.Send(r.ctx, contract.Report{Request: w.request, Child: *w.child, Outcome: &contract.Outcome{Request: w.request}})
		r.flights, r.reports = []*wait{w}, reports
		_, err := r.loop()
		require.True(t, workflow.IsContinueAsNewError(err), "%v", err)
		require.False(t, r.reported())
		require.NotContains(t, r.flights, w)
		require.Equal(t, plan.NodeSucceeded, r.progress.Node(1))
	})
}

// TestWhatOpensIsClosed: nodes that undo an effect are stopped while a barrier for one of them
// is being opened. It is closed once it is open.
func TestWhatOpensIsClosed(t *testing.T) {
	inRun(t, plan.Retry{MaxAttempts: 1}, func(r *run) {
		answer, give := workflow.NewFuture(r.ctx)
		r.phase, r.released = unwinding, true
		r.parked = []*wait{{kind: waitBarrier, node: 1, decision: "decision"}}
		r.barriers = []*barrier{{name: "node/node", since: r.now()}}
		r.opening, r.flights = 1, []*wait{{kind: waitOpen, barrier: "node/node", request: "open", future: answer}}
		r.undoStep(plan.UndoStop)
		give.Set(contract.Opened{Request: "open", Barrier: contract.Barrier{ID: "barrier", State: contract.BarrierOpen, ExpiresMS: r.now().UnixMilli() + 1000}}, nil)
		r.landAll()
		require.Empty(t, r.flights)
		require.Len(t, r.barriers, 1)
		require.Len(t, r.parked, 1)
	})
}

// TestAnUndoingThatProbesTheStore: the answer to what is asked of an effect that is undone shows
// that the store is back, or has to be asked for once more.
func TestAnUndoingThatProbesTheStore(t *testing.T) {
	for name, c := range map[string]struct {
		answer contract.Outcome
		err    error
		away   bool
	}{
		"answered":   {contract.Outcome{Request: "request", Held: []bool{false}}, nil, false},
		"away still": {contract.Outcome{}, contract.Errorf(contract.StoreUnavailable, "away"), true},
		"refused":    {contract.Outcome{}, contract.Errorf(contract.Blocked, "no"), false},
	} {
		t.Run(name, func(t *testing.T) {
			inRun(t, plan.Retry{MaxAttempts: 1}, func(r *run) {
				r.phase, r.released = unwinding, true
				r.plan.Nodes[1].TimeoutMS = 1000
				r.outage.away, r.outage.probing = true, true
				answer, give := workflow.NewFuture(r.ctx)
				give.Set(c.answer, c.err)
				r.land(&wait{kind: waitUndo, node: 1, request: "request", patient: true, since: r.now(), future: answer})
				require.Equal(t, c.away, r.outage.away)
				require.False(t, r.outage.probing)
			})
		})
	}
}

// TestAnUndoingThatLosesWorkers: what loses every worker that is asked about an effect cannot be
// undone; what is to be asked again later is.
func TestAnUndoingThatLosesWorkers(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		ends bool
	}{
		"lost":  {temporal.NewTimeoutError(enumspb.TIMEOUT_TYPE_HEARTBEAT, nil), true},
		"later": {contract.Errorf(contract.WorkerLost, "the effect is calling by another call"), false},
		"queue": {temporal.NewTimeoutError(enumspb.TIMEOUT_TYPE_SCHEDULE_TO_START, nil), false},
	} {
		t.Run(name, func(t *testing.T) {
			inRun(t, plan.Retry{MaxAttempts: 1}, func(r *run) {
				r.plan.Nodes[1].TimeoutMS = 1000
				r.phase, r.released = unwinding, true
				require.True(t, r.undo.Restore(&contract.Carried{Armed: []int{1}}))
				require.Equal(t, plan.UndoAsk, r.undo.Next())
				w := &wait{kind: waitUndo, node: 1, request: "request", since: r.now()}
				for range maxLost {
					require.Equal(t, 1, r.undo.Node())
					answer, give := workflow.NewFuture(r.ctx)
					give.Set(nil, c.err)
					w.future, r.again, r.sleeping = answer, nil, nil
					r.landUndo(w)
				}
				require.Equal(t, c.ends, r.undo.Node() == 0)
				require.Equal(t, c.ends, len(r.undo.NotCompensated()) == 1)
				require.Equal(t, !c.ends, len(r.again)+len(r.sleeping) > 0)
			})
		})
	}
}
