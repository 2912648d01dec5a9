package host_test

import (
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/host"
	"chimera.ai/engine/internal/stage"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/ledger/audit"
	"chimera.ai/engine/store"
)

// TestASubjectIsErased: what a run about a person states is sealed, also where the
// run was reset; erased, nobody reads it, and the export verifies.
func TestASubjectIsErased(t *testing.T) {
	t.Parallel()
	for name, options := range stores(t) {
		if name == "postgres, with blobs" {
			continue // as the one before
		}
		t.Run(name, func(t *testing.T) {
			stage.Parallel(t)
			o := options(t)
			h := stage.Host(t, host.Options{Store: o})
			id := "about a person, on " + name
			run, err := h.Client().ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: id, TaskQueue: contract.QueueEngine},
				contract.WorkflowType, contract.Start{Source: source("", []string{"a engine/pass 5000"}, []string{"$input.x -> a.x"}), Input: json.RawMessage(`{"x":1}`), Subject: "person-17"})
			require.NoError(t, err)
			require.NoError(t, stage.Await(t, h.Client(), run, nil))
			// Behind the task that has opened the run, which is not opened by the same way again.
			tasks := events(t, h.Client(), run, enumspb.EVENT_TYPE_WORKFLOW_TASK_COMPLETED)
			require.Greater(t, len(tasks), 1)
			reset, err := h.Client().ResetWorkflowExecution(t.Context(), &workflowservice.ResetWorkflowExecutionRequest{
				Namespace: stage.Temporal(t).Namespace, WorkflowExecution: &commonpb.WorkflowExecution{WorkflowId: id, RunId: run.GetRunID()},
				Reason: "test", RequestId: id, WorkflowTaskFinishEventId: tasks[1].GetEventId(),
			})
			require.NoError(t, err)
			again := h.Client().GetWorkflow(t.Context(), id, reset.GetRunId())
			require.NoError(t, stage.Await(t, h.Client(), again, nil))
			require.NoError(t, h.Close())

			operator, err := store.Open(t.Context(), owner(o))
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, operator.Close()) })
			store := operator.Ledger
			chains := []string{ledger.RunChain(id, run.GetRunID()), ledger.RunChain(id, reset.GetRunId())}
			bodies := func(read func(digest string)) (n int) {
				for _, chain := range chains {
					records, err := store.Chain(t.Context(), chain, 0, 1000)
					require.NoError(t, err)
					require.NotEmpty(t, records, chain)
					for _, r := range records {
						e, err := ledger.DecodeEntry(r.Bytes)
						require.NoError(t, err)
						require.Empty(t, e.Refs, "digests of what might be guessed are sealed")
						stored, err := store.Stored(t.Context(), e.Body)
						require.NoError(t, err)
						_, sealed := ledger.Sealed(stored)
						require.True(t, sealed, e.Key)
						read(e.Body)
						n++
					}
				}
				return n
			}
			n := bodies(func(digest string) {
				_, err := store.Body(t.Context(), digest)
				require.NoError(t, err)
			})
			require.NoError(t, store.EraseSubject(t.Context(), "person-17", "asked"))
			require.Equal(t, n, bodies(func(digest string) {
				_, err := store.Body(t.Context(), digest)
				require.ErrorIs(t, err, ledger.ErrGone)
			}))
			integrate(t, operator)

			dir := filepath.Join(t.TempDir(), "export")
			_, err = audit.Export(t.Context(), store, dir)
			require.NoError(t, err)
			report, err := audit.Verify(dir, audit.Trust{Origin: operator.Key.Name(), Log: operator.Key.Public()}, nil)
			require.NoError(t, err)
			require.True(t, report.OK, report.Problems)
			require.EqualValues(t, n, report.Sealed)
			require.Equal(t, 1, report.Erased)
		})
	}
}

// integrate gives everything its place in the log.
func integrate(t *testing.T, s *store.Opened) {
	t.Helper()
	q := ledger.Sequencer{Store: s.Ledger, Key: s.Key}
	for {
		n, err := q.Integrate(t.Context())
		require.NoError(t, err)
		if n == 0 {
			return
		}
	}
}
