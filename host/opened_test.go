package host_test

import (
	"encoding/json"
	"errors"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"

	"chimera.ai/engine/blob"
	"chimera.ai/engine/contract"
	"chimera.ai/engine/host"
	"chimera.ai/engine/internal/stage"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/store"
)

// TestARunThatAnotherCatalogOpened: a worker opens a run in the ledger and is lost
// before it answers, and the next one makes another plan of the start. The run fails,
// and Temporal, the ledger and the run itself say why.
func TestARunThatAnotherCatalogOpened(t *testing.T) {
	stage.Parallel(t)
	o, c := storeIn(filepath.Join(t.TempDir(), "store")), stranger(t)
	run := stage.Start(t, c, source("", []string{"b engine/pass 500"}, []string{"$input.x -> b.x", "b.x -> $output.x"}), `{"x":1}`)
	opened, err := store.Open(t.Context(), o)
	require.NoError(t, err)
	other := blob.Digest([]byte("another plan"))
	require.NoError(t, opened.Ledger.OpenRun(t.Context(), ledger.Run{
		Workflow: run.GetID(), Root: run.GetRunID(), Origin: run.GetRunID(), PlanDigest: other, InputDigest: blob.Digest([]byte(`{"x":1}`)),
	}))
	require.NoError(t, opened.Close())

	h := stage.Host(t, host.Options{Store: o})
	err = c.GetWorkflow(t.Context(), run.GetID(), "").Get(t.Context(), nil)
	var application *temporal.ApplicationError
	require.True(t, errors.As(err, &application), "%v", err)
	require.Equal(t, string(contract.Conflict), application.Type())
	require.Contains(t, application.Message(), "the run was opened with "+other)
	state := stage.State(t, h.Client(), run)
	require.Equal(t, contract.RunFailed, state.State)
	require.Equal(t, contract.Conflict, state.Failure.Kind)
	have, err := h.Store().Ledger.Run(t.Context(), run.GetID(), run.GetRunID())
	require.NoError(t, err)
	require.Equal(t, ledger.RunFailed, have.State)
	var said contract.Failure
	require.NoError(t, json.Unmarshal(have.Failure, &said))
	require.Equal(t, *state.Failure, said)
}
