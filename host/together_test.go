package host_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	"golang.org/x/sync/errgroup"

	"chimera.ai/engine/approval"
	"chimera.ai/engine/contract"
	"chimera.ai/engine/internal/raced"
	"chimera.ai/engine/internal/stage"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/trust"
)

// TestTwoSignTogether: two people who sign at the same moment, each by update or by signal,
// both count, and once: in dev mode on SQLite, and in production on PostgreSQL.
func TestTwoSignTogether(t *testing.T) {
	raced.Skip(t)
	for name, kind := range map[string]string{"sqlite": trust.SigDev, "postgres": trust.SigToken} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := deployKilled(t, "nobody", kind == trust.SigToken, approvedPlan)
			people := []stage.Signer{k.Enrol(t, k.ledger, kind, "eve", "editor"), k.Enrol(t, k.ledger, kind, "fay", "finance")}
			rounds := 20
			if testing.Short() {
				rounds = 8 // each way of sending twice
			}
			for n := range rounds {
				round := fmt.Sprintf("r%d", n)
				k.leave(t, "act", round)
				k.leave(t, "answer", round)
				run := k.Start(t, k.c, runID(t, round), k.digest, `{"line":"`+round+`.0"}`)
				b := k.asks(t, []client.WorkflowRun{run})[0]
				begin := make(chan struct{})
				var both errgroup.Group
				for i, who := range people {
					envelope, update := who.Sign(t, b, approval.Approve, nil), n>>i&1 == 0
					both.Go(func() error {
						<-begin
						if update {
							return accepts(t.Context(), k.c, run, envelope)
						}
						return k.c.SignalWorkflow(t.Context(), run.GetID(), "", contract.SignalSignature, envelope)
					})
				}
				close(begin)
				require.NoError(t, both.Wait(), round)
				require.NoError(t, stage.Await(t, k.c, run, nil), round)
				all, err := k.ledger.Approvals(t.Context(), b.ID, ledger.Page{})
				require.NoError(t, err)
				var counted []string
				for _, a := range all {
					require.True(t, a.Accepted, "%s: %s", round, a.Reason)
					counted = append(counted, a.Signer)
				}
				require.ElementsMatch(t, []string{people[0].ID, people[1].ID}, counted, round)
				require.Len(t, k.said(t, "done", round), 1, round)
			}
		})
	}
}

// accepts sends a signature by the update, and returns an error unless it counts.
func accepts(ctx context.Context, c client.Client, run client.WorkflowRun, envelope json.RawMessage) error {
	u, err := c.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{
		WorkflowID: run.GetID(), UpdateName: contract.UpdateSign, Args: []any{envelope}, WaitForStage: client.WorkflowUpdateStageCompleted,
	})
	if err != nil {
		return err
	}
	var v contract.Verdict
	if err := u.Get(ctx, &v); err != nil {
		return err
	}
	if !v.Accepted {
		return fmt.Errorf("the signature does not count: %s: %s", v.Code, v.Detail)
	}
	return nil
}
