package host_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/sdk/client"

	"chimera.ai/engine/approval"
	"chimera.ai/engine/contract"
	"chimera.ai/engine/internal/lengthy"
	"chimera.ai/engine/internal/stage"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/trust"
)

// approvedPoints are where a kill interrupts effects that people approve: each waits until
// all of a round are there, strikes, and sees to it that all are signed.
var approvedPoints = map[string]func(t *testing.T, k *killed, victim string, who stage.Signer, runs []client.WorkflowRun){
	"while people are asked": func(t *testing.T, k *killed, victim string, who stage.Signer, runs []client.WorkflowRun) {
		asked := k.asks(t, runs)
		k.strike(t, victim, func() {})
		k.sign(t, who, runs, asked)
	},
	"between the signature and its verification": func(t *testing.T, k *killed, victim string, who stage.Signer, runs []client.WorkflowRun) {
		asked := k.asks(t, runs)
		resume := k.pause(t, "guardian")
		for range 2 { // one person counts once
			k.sign(t, who, runs, asked)
		}
		k.verifying(t, runs)
		k.strike(t, victim, resume)
	},
	"around the use of the signature": func(t *testing.T, k *killed, victim string, who stage.Signer, runs []client.WorkflowRun) {
		asked := k.asks(t, runs)
		verify := k.pause(t, "guardian")
		k.sign(t, who, runs, asked)
		k.verifying(t, runs)
		verify()
		k.until(t, "all are approved", func() bool {
			return !slices.ContainsFunc(asked, func(b ledger.Barrier) bool {
				now, err := k.ledger.Barrier(t.Context(), b.ID)
				require.NoError(t, err)
				return now.State != ledger.BarrierApproved
			})
		})
		k.strike(t, victim, func() {})
	},
	"between the use and the call": func(t *testing.T, k *killed, victim string, who stage.Signer, runs []client.WorkflowRun) {
		asked, signed := k.asks(t, runs), k.signed(t)
		resume := k.pause(t, "effects")
		k.sign(t, who, runs, asked)
		k.until(t, "all are permitted", func() bool { return k.signed(t) >= signed+len(runs) })
		k.strike(t, victim, resume)
		resume()
	},
}

// asks waits until people are asked about all of the runs, and returns the barriers.
func (k *killed) asks(t *testing.T, runs []client.WorkflowRun) (all []ledger.Barrier) {
	t.Helper()
	for _, run := range runs {
		all = append(all, stage.Asked(t, k.ledger, run, 1)...)
	}
	return all
}

// sign sends the signature for which each of the runs waits.
func (k *killed) sign(t *testing.T, who stage.Signer, runs []client.WorkflowRun, asked []ledger.Barrier) {
	t.Helper()
	for i, run := range runs {
		require.NoError(t, k.c.SignalWorkflow(t.Context(), run.GetID(), "", contract.SignalSignature, who.Sign(t, asked[i], approval.Approve, nil)))
	}
}

// verifying waits until the guardian is asked about signatures of all of the runs.
func (k *killed) verifying(t *testing.T, runs []client.WorkflowRun) {
	t.Helper()
	for _, run := range runs {
		k.until(t, "the guardian is asked about the signature", func() bool {
			about, err := k.c.DescribeWorkflowExecution(t.Context(), run.GetID(), run.GetRunID())
			require.NoError(t, err)
			return slices.ContainsFunc(about.GetPendingActivities(), func(a *workflowpb.PendingActivityInfo) bool {
				return a.GetActivityType().GetName() == contract.ActivitySign
			})
		})
	}
}

// killedShortly says where each process dies with -short. That of the guardian dies in make long
// alone: what it was asked then waits for half a minute.
var killedShortly = map[string]string{"engine": "around the use of the signature", "effects": "between the use and the call"}

// TestKillsLoseNoApproval: whatever dies while people are asked, or once they have signed, an
// approval is neither lost nor used twice: the tool counts one call for each.
func TestKillsLoseNoApproval(t *testing.T) {
	t.Parallel()
	for _, victim := range []string{"engine", "guardian", "effects"} {
		t.Run(victim, func(t *testing.T) {
			if killedShortly[victim] == "" {
				lengthy.Skip(t)
			}
			t.Parallel()
			// On SQLite, a process that is stopped in a transaction would keep the others
			// from writing.
			k := deployKilled(t, victim, true, strings.Replace(actingPlan, "{rollback", "{approval: {groups: [{role: editor, min: 1}]}, rollback", 1))
			eve := k.Enrol(t, k.ledger, trust.SigToken, "eve", "editor")
			n := 0
			for point, interrupt := range approvedPoints {
				if testing.Short() && point != killedShortly[victim] {
					continue
				}
				for range (*kills + together - 1) / together {
					n++
					round := fmt.Sprintf("r%d", n)
					k.leave(t, "act", round)
					k.leave(t, "answer", round)
					var runs []client.WorkflowRun
					for i := range together {
						line := fmt.Sprintf("%s.%d", round, i)
						runs = append(runs, k.Start(t, k.c, stage.RunID(t, line), k.digest, `{"line":"`+line+`"}`))
					}
					interrupt(t, k, victim, eve, runs)
					for _, run := range runs {
						require.NoError(t, stage.Await(t, k.c, run, nil), "%s %s, %s", victim, point, run.GetID())
					}
					for _, file := range []string{"begun", "done"} {
						lines := k.said(t, file, round)
						slices.Sort(lines)
						require.Len(t, slices.Compact(lines), together, "%s %s", victim, point)
						require.Len(t, k.said(t, file, round), together, "%s %s: a tool was called again", victim, point)
					}
					t.Logf("%s, %s: %d effects", victim, point, together)
				}
			}
		})
	}
}
