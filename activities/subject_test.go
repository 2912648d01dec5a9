package activities_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/internal/stage"
	"chimera.ai/engine/ledger"
)

const aboutPlan = `{apiVersion: chimera/v1, kind: Plan, name: about, version: "1", agent: tester,
  input_schema: {type: object, properties: {x: {type: integer}}, required: [x]}, output_schema: {type: object},
  nodes: [{id: a, template: engine/pass, input_schema: &x {type: object, properties: {x: {type: integer}}}, output_schema: *x}], edges: [$input.x -> a.x]}`

// TestASubjectIsErased: what a run about a person states is sealed, also where the run was
// reset; erased, nobody reads it, and the export verifies.
func TestASubjectIsErased(t *testing.T) {
	t.Parallel()
	a := stage.Act(t, stage.Writes)
	run, err := a.Client().ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: stage.RunID(t, "run"), TaskQueue: contract.QueueEngine},
		contract.WorkflowType, contract.Start{Source: aboutPlan, Input: json.RawMessage(`{"x":1}`), Subject: "person-17"})
	require.NoError(t, err)
	require.NoError(t, a.Await(t, run, nil))
	again := stage.Reset(t, a.Client(), run)
	require.NoError(t, a.Await(t, again, nil))

	chains := []string{ledger.RunChain(run.GetID(), run.GetRunID()), ledger.RunChain(run.GetID(), again.GetRunID())}
	require.NotEqual(t, chains[0], chains[1])
	bodies := func(read func(digest string)) (n int) {
		for _, chain := range chains {
			records, err := a.Ledger().Chain(t.Context(), chain, 0, 1000)
			require.NoError(t, err)
			require.NotEmpty(t, records, chain)
			for _, r := range records {
				e, err := ledger.DecodeEntry(r.Bytes)
				require.NoError(t, err)
				require.Empty(t, e.Refs, "digests of what might be guessed are sealed")
				stored, err := a.Ledger().Stored(t.Context(), e.Body)
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
		_, err := a.Ledger().Body(t.Context(), digest)
		require.NoError(t, err)
	})
	require.NoError(t, a.Ledger().EraseSubject(t.Context(), "person-17", "asked"))
	require.Equal(t, n, bodies(func(digest string) {
		_, err := a.Ledger().Body(t.Context(), digest)
		require.ErrorIs(t, err, ledger.ErrGone)
	}))
	report := a.Verifies(t)
	require.EqualValues(t, n, report.Sealed)
	require.Equal(t, 1, report.Erased)
}
