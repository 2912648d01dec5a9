package workflows

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/workflow"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/plan"
)

// Places in the plan of [withEffect].
const (
	payNode = 1 + iota
	refundNode
	handleNode
	firstCheck
	secondCheck
)

// withEffect runs a function within a run of a plan with an effect that is about to be
// attempted. Two prechecks come before the effect, one node undoes it, and another handles its
// failure.
func withEffect(t *testing.T, do func(r *run)) {
	inRun(t, plan.Retry{MaxAttempts: 1}, func(r *run) {
		call := func(id string, effect plan.EffectClass) plan.Node {
			return plan.Node{ID: id, Kind: plan.KindCall, Effect: effect, TimeoutMS: 1000, Retry: plan.Retry{MaxAttempts: 3, On: []contract.Kind{contract.Unsent}}}
		}
		p := &plan.Plan{Limits: plan.Limits{MaxParallel: 9, DeadlineMS: 60_000}, Nodes: []plan.Node{
			{ID: plan.InputNode, Kind: plan.KindInput}, call("pay", plan.Committing), call("refund", plan.Committing), call("handle", plan.Pure),
			call("a", plan.Pure), call("b", plan.Pure), {ID: plan.OutputNode, Kind: plan.KindOutput},
		}}
		p.Nodes[payNode].Commit = &plan.Commit{Barrier: -1, Prechecks: []int{firstCheck, secondCheck}}
		p.Nodes[refundNode].Undoes = payNode
		p.Edges = []plan.Edge{
			{From: payNode, FromPort: plan.CompensatePort, To: refundNode, ToPort: plan.StartPort, Type: plan.Error, Required: true},
			{From: payNode, FromPort: plan.ErrorPort, To: handleNode, ToPort: plan.StartPort, Type: plan.Error, Required: true},
			{From: firstCheck, FromPort: plan.DonePort, To: payNode, ToPort: plan.StartPort, Type: plan.Control, Required: true},
			{From: secondCheck, FromPort: plan.DonePort, To: payNode, ToPort: plan.StartPort, Type: plan.Control, Required: true},
		}
		p.Index()
		r.scope = newScope(p)
		r.undo = plan.NewUndoing(r.progress)
		r.progress.Begin(contract.Outcome{})
		for _, check := range []int{firstCheck, secondCheck} {
			require.Equal(t, check, r.next().node)
			r.progress.Succeed(check, contract.Outcome{Held: []bool{true}})
		}
		require.Equal(t, payNode, r.next().node)
		do(r)
	})
}

// answered is a future with an answer.
func answered(r *run, answer any) workflow.Future {
	future, give := workflow.NewFuture(r.ctx)
	give.Set(answer, nil)
	return future
}

// TestAPermitIsForOneAttempt: Temporal does not repeat a call that has a permit or a hold,
// whatever was lost or away before.
func TestAPermitIsForOneAttempt(t *testing.T) {
	withEffect(t, func(r *run) {
		for name, w := range map[string]*wait{
			"at first":                   {},
			"after workers were lost":    {tries: tries{lost: 3, waits: 3}},
			"after the store was away":   {patient: true},
			"that were spent in part":    {tries: tries{spent: 1}},
			"of a call without a permit": {node: handleNode, hold: "hold", tries: tries{lost: 1}},
		} {
			if w.node == 0 {
				w.node, w.decided, w.permit = payNode, true, new(contract.Permit)
			}
			require.EqualValues(t, 1, r.policy(w).MaximumAttempts, name)
		}
	})
}

// TestAPauseWithholdsPermits: a paused run makes no call by a permit that was given before. The
// guardian is asked again once the run goes on.
func TestAPauseWithholdsPermits(t *testing.T) {
	withEffect(t, func(r *run) {
		r.steering.paused = &contract.Pause{By: "ada"}
		r.again = []*wait{{kind: waitCall, node: payNode, decided: true, permit: new(contract.Permit)}, {kind: waitRoute, node: handleNode}}
		r.dispatch()
		require.Len(t, r.again, 2)
		require.Equal(t, payNode, r.again[0].node)
		require.Nil(t, r.again[0].permit)
		require.True(t, r.again[0].undecided(&r.plan.Nodes[payNode]))
		require.Equal(t, waitRoute, r.again[1].kind)
		for _, w := range r.flights {
			require.Equal(t, waitJournal, w.kind)
		}
	})
}

// TestPrechecksFollowAnApproval: once people have approved an effect, each of its prechecks is
// called once more, and only then the guardian is asked.
func TestPrechecksFollowAnApproval(t *testing.T) {
	withEffect(t, func(r *run) {
		r.confirm(&wait{kind: waitCall, node: payNode}, "barrier")
		for n, check := range []int{firstCheck, secondCheck} {
			require.Len(t, r.again, 1)
			w := r.again[0]
			r.again = nil
			require.Equal(t, waitCheck, w.kind)
			require.Equal(t, "barrier", w.recheck)
			require.Equal(t, n, w.checked)
			require.Equal(t, check, r.plan.Nodes[payNode].Prechecks()[w.checked])
			w.request, w.future = "request", answered(r, contract.Outcome{Request: "request"})
			r.landCheck(w)
		}
		require.Len(t, r.again, 1)
		require.Equal(t, waitCall, r.again[0].kind)
		require.True(t, r.again[0].approved)
		require.Empty(t, r.again[0].recheck)
	})
}

// TestAnUnknownEffectIsUndoneFirst: an effect of unknown outcome whose failure is handled is
// undone before that; any other failure is handled at once.
func TestAnUnknownEffectIsUndoneFirst(t *testing.T) {
	for kind, undone := range map[contract.Kind]bool{contract.OutcomeUnknown: true, contract.Rejected: false, contract.ToolError: false} {
		withEffect(t, func(r *run) {
			r.unsuccessful(payNode, contract.ErrorPayload{Kind: kind, Message: "no", Attempts: 1}, nil)
			require.Equal(t, undone, r.undo.Recovering(), kind)
			if undone {
				require.Equal(t, plan.NodeRunning, r.progress.Node(payNode))
				require.Nil(t, r.next(), "nothing follows yet")
				return
			}
			require.Equal(t, plan.NodeFailed, r.progress.Node(payNode))
			require.Equal(t, handleNode, r.next().node)
		})
	}
}

// TestAnEffectIsArmedBeforeItIsAttempted: what a run may have to undo is known before the
// guardian is asked for a permit.
func TestAnEffectIsArmedBeforeItIsAttempted(t *testing.T) {
	withEffect(t, func(r *run) {
		require.False(t, r.undo.Left())
		r.launch(&wait{kind: waitCall, node: payNode})
		require.Equal(t, waitGuardian, r.flights[len(r.flights)-1].kind)
		require.True(t, r.undo.Left())
		require.Equal(t, plan.UndoAsk, r.undo.Next())
		require.Equal(t, payNode, r.undo.Node())
	})
}

// TestTheEndSaysWhatWasUndone: an effect is undone if the ledger says so after the nodes that
// undo it have run, and the failure of the run says which effects were, and which were not.
func TestTheEndSaysWhatWasUndone(t *testing.T) {
	for gone, want := range map[bool][2][]string{true: {{"pay"}, {}}, false: {{}, {"pay"}}} {
		withEffect(t, func(r *run) {
			require.True(t, r.restoreUndo(&contract.Carried{Unwinding: &contract.Unwinding{
				End:     contract.RunEnd{State: contract.RunFailed, Failure: &contract.Failure{Kind: contract.FailedKind}},
				Undoing: contract.Undoing{Node: payNode, Stage: byte(plan.UndoVerifying)},
			}}))
			require.False(t, r.undone())
			r.landUndo(&wait{kind: waitUndo, node: payNode, request: "request", future: answered(r, contract.Outcome{Request: "request", Held: []bool{gone}})})
			require.True(t, r.undone())
			require.ElementsMatch(t, want[0], r.end.Failure.Compensated)
			require.ElementsMatch(t, want[1], r.end.Failure.NotCompensated)
		})
	}
}
