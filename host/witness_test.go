package host_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/host"
	"chimera.ai/engine/internal/stage"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/ledger/audit"
	"chimera.ai/engine/ledger/witness"
	"chimera.ai/engine/store"
)

// TestWitnesses: a host asks the witnesses of its log; one that is away delays no
// run, and the checkpoint of the other's cosignature is what is exported.
func TestWitnesses(t *testing.T) {
	stage.Parallel(t)
	secret, public, err := ledger.NewKey("witness.example.com")
	require.NoError(t, err)
	_, absent, err := ledger.NewKey("absent.example.com")
	require.NoError(t, err)
	shared := t.TempDir()
	h := stage.Host(t, host.Options{
		Store: store.Options{Dir: filepath.Join(t.TempDir(), "store")},
		Witnesses: []witness.Witness{
			{Name: "attic", Key: public, Dir: shared},
			{Name: "absent", Key: absent, URL: "https://127.0.0.1:1"},
		},
	})
	text := source("", []string{"a engine/pass 500"}, []string{"$input.x -> a.x"})
	require.NoError(t, stage.Await(t, h.Client(), stage.Start(t, h.Client(), text, `{"x":1}`), nil))
	opened := h.Store()
	k := witness.Cosigner{Secret: secret, Log: opened.Key.Public(), Dir: shared, State: filepath.Join(t.TempDir(), "state")}
	stage.Until(t, "the witness has cosigned the end of the run", func() bool {
		if _, err := os.Stat(filepath.Join(shared, witness.RequestFile)); err == nil {
			_, err := k.Answer()
			require.NoError(t, err)
		}
		raw, err := opened.Ledger.Checkpoint(t.Context())
		require.NoError(t, err)
		pending, err := opened.Ledger.Pending(t.Context(), 1)
		require.NoError(t, err)
		return len(pending) == 0 && audit.Cosigners(raw, []string{public}) == 1
	})
	dir := filepath.Join(t.TempDir(), "export")
	_, err = audit.Export(t.Context(), audit.Witnessed(opened.Ledger, []string{public, absent}, 1), dir)
	require.NoError(t, err)
	r, err := audit.Verify(dir, audit.Trust{Format: audit.TrustFormat, Origin: opened.Key.Name(), Log: opened.Key.Public(), Witnesses: []string{public, absent}, Quorum: 1}, nil)
	require.NoError(t, err)
	require.True(t, r.OK, "%v", r.Problems)
	require.Equal(t, []string{"witness.example.com"}, r.Witnesses)
	require.Zero(t, r.Open)
}
