package model_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/ledger"
)

// undoLife is a life in which the approval of m covers what undoes it, u, up to the use of the
// approval for that.
func undoLife() []fact {
	m := func(kind ledger.Kind) fact {
		d := ledger.AttemptData{ID: "m", Attempt: 1}
		if t := at(5); kind == ledger.InvocationCalling {
			d.DecisionID, d.CallNotAfter = "m/2", &t
		}
		if kind == ledger.InvocationSettled {
			d.OutputDigest = sum("o")
		}
		return fact{kind: kind, chain: chain, key: string(kind) + "/m/1", data: d}
	}
	approve := with(waiting("m/2"), func(d *ledger.Decision) { d.Decision = ledger.Approve })
	approve.key = "decision.made/m/2"
	undo := with(waiting("u/1"), func(d *ledger.Decision) { d.Decision, d.Invocation, d.ActionDigest = ledger.Approve, "u", sum("u") })
	undo.key = "decision.made/u/1"
	return []fact{
		{kind: ledger.RunOpened, chain: chain, key: "run.opened", data: aRun()},
		waiting("m/1"), about(ledger.TaskDrafted, chain, "m/1", aDraft("m/1")),
		about(ledger.BarrierOpened, chain, "b/1", ledger.Barrier{ID: "b/1", Name: "b", Actions: []ledger.Awaited{{Invocation: "m", Action: sum("a"), Decision: "m/1", Undo: []string{"u"}}},
			Request: json.RawMessage(`{}`), OpenedAt: at(0), ExpiresAt: at(60), State: ledger.BarrierOpen, Workflow: "w", Root: "r"}),
		about(ledger.ApprovalAccepted, chain, "v", ledger.Approval{ID: "v", Barrier: "b/1", Signer: "s", Accepted: true, Actions: []string{sum("a")}, Envelope: json.RawMessage(`{}`), ReceivedAt: at(0)}),
		about(ledger.BarrierClosed, chain, "b/1", ledger.BarrierData{ID: "b/1", State: ledger.BarrierApproved}),
		approve,
		about(ledger.ApprovalConsumed, chain, "m/2", ledger.ConsumedData{Decision: "m/2", Invocation: "m", Action: sum("a"), Approvals: []string{"v"}}),
		about(ledger.TaskSigned, chain, "m/1", aSigned("m/1")),
		about(ledger.InvocationPermitted, chain, "m/2", ledger.Invocation{ID: "m", Origin: "r", ActionDigest: sum("a"), DecisionID: "m/2", TaskID: "m/1", Permit: json.RawMessage(`{}`),
			PermitUntil: at(60), Unused: true, State: ledger.Permitted}),
		m(ledger.InvocationCalling),
		about(ledger.TaskExecuted, chain, "m/1", ledger.ExecutedData{TaskID: "m/1", ExecutedAt: at(6), Result: json.RawMessage(`{}`)}),
		m(ledger.InvocationSettled),
		undo,
		about(ledger.ApprovalConsumed, chain, "u/1", ledger.ConsumedData{Decision: "u/1", Invocation: "u", Action: sum("u"), Approvals: []string{"v"}}),
	}
}

// An approval counts for what undoes its action, once that was done with it.
func TestUndoIsCovered(t *testing.T) {
	for name, c := range map[string]struct {
		change func(f *fact) bool // reports whether the fact is said
		says   string
	}{
		"as it is":        {func(*fact) bool { return true }, ""},
		"not done yet":    {func(f *fact) bool { return f.key != "invocation.settled/m/1" }, "approval v cannot be used"},
		"not used for it": {func(f *fact) bool { return f.key != "approval.consumed/m/2" }, "approval v cannot be used"},
		"by another": {func(f *fact) bool {
			if f.kind == ledger.BarrierOpened {
				*f = with(*f, func(b *ledger.Barrier) { b.Actions[0].Undo = []string{"x"} })
			}
			return true
		}, "approval v cannot be used"},
		"of a barrier that is not known": {func(f *fact) bool {
			f.gone = f.kind == ledger.BarrierOpened
			return true
		}, ""},
		"of a use that is not known": {func(f *fact) bool {
			f.gone = f.key == "approval.consumed/m/2"
			return true
		}, ""},
		"of an effect that is not known": {func(f *fact) bool {
			f.gone = f.key == "invocation.permitted/m/2"
			return true
		}, ""},
		"not sorted": {func(f *fact) bool {
			if f.kind == ledger.BarrierOpened {
				*f = with(*f, func(b *ledger.Barrier) { b.Actions[0].Undo = []string{"x", "u"} })
			}
			return true
		}, "are not sorted"},
	} {
		t.Run(name, func(t *testing.T) {
			l := start()
			var err error
			for _, f := range undoLife() {
				if c.change(&f) && err == nil {
					err = l.say(f)
				}
			}
			if c.says == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, c.says)
		})
	}
	l := start()
	odd := with(waiting("m/1"), func(d *ledger.Decision) { d.Compensation = &ledger.Compensation{Node: "x", By: []string{"b", "a"}} })
	require.NoError(t, l.say(undoLife()[0]))
	require.ErrorContains(t, l.say(odd), "are not sorted")
}
