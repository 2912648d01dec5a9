package activities_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/blob"
	"chimera.ai/engine/contract"
	"chimera.ai/engine/host"
	"chimera.ai/engine/internal/stage"
	"chimera.ai/engine/ledger"
)

// TestARunThatAnotherCatalogOpened: a worker opens a run in the ledger and is lost before it
// answers, and the next one makes another plan of the start. The run fails, and the ledger and
// the run say why.
func TestARunThatAnotherCatalogOpened(t *testing.T) {
	t.Parallel()
	h := stage.Rehearse(t, host.Options{})
	open := stage.Gate(t, contract.ActivityLoad)
	run := stage.Start(t, h.Client(), stage.Source("", []string{"b engine/pass 900"}, []string{"$input.x -> b.x", "b.x -> $output.x"}), `{"x":1}`)
	other := blob.Digest([]byte("another plan"))
	require.NoError(t, h.Store().Ledger.OpenRun(t.Context(), ledger.Run{
		Workflow: run.GetID(), Root: run.GetRunID(), Origin: run.GetRunID(), PlanDigest: other, InputDigest: blob.Digest([]byte(`{"x":1}`)),
	}))
	open()
	f := stage.FailureOf(t, stage.Await(t, h.Client(), run, nil))
	require.Equal(t, contract.Conflict, f.Kind)
	require.Contains(t, f.Message, "the run was opened with "+other)
	state := stage.State(t, h.Client(), run)
	require.Equal(t, contract.RunFailed, state.State)
	require.Equal(t, f, *state.Failure)
	have, err := h.Store().Ledger.Run(t.Context(), run.GetID(), run.GetRunID())
	require.NoError(t, err)
	require.Equal(t, ledger.RunFailed, have.State)
	var said contract.Failure
	require.NoError(t, json.Unmarshal(have.Failure, &said))
	require.Equal(t, f, said)
}
