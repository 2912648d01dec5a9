package audit_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/ledger"
	"chimera.ai/engine/ledger/audit"
	"chimera.ai/engine/ledger/ledgertest"
)

// TestWitnessed: while a log grows faster than its witnesses look, an export and a
// proof still have their cosignatures.
func TestWitnessed(t *testing.T) { onBoth(t, witnessed) }

func witnessed(t *testing.T, w *world) {
	secret, public, err := ledger.NewKey("witness.example.com")
	require.NoError(t, err)
	_, absent, err := ledger.NewKey("absent.example.com")
	require.NoError(t, err)
	x, err := ledger.NewWitness(secret, w.key.Public(), nil)
	require.NoError(t, err)
	before := w.read(t, audit.CheckpointFile)
	c, err := ledger.ParseCheckpoint(before)
	require.NoError(t, err)
	log := audit.Witnessed(w.store, []string{absent, public}, 1)
	latest, err := log.Checkpoint(t.Context())
	require.NoError(t, err)
	require.Equal(t, string(before), string(latest), "there is none: the latest, which lacks it")
	require.Zero(t, audit.Cosigners(latest, []string{absent, public}))

	cosigned, err := x.Cosign(before, nil)
	require.NoError(t, err)
	w.run(t, "later", 2, true)
	ledgertest.Drain(t, w.store, w.key)
	require.NoError(t, w.store.AddCosignatures(t.Context(), cosigned))
	w.trust.Witnesses, w.trust.Quorum = []string{public}, 1
	w.export(t)
	require.Equal(t, []audit.ProblemKind{audit.BadCheckpoint}, kinds(w.verify(t, nil)), "the latest has none yet")

	w.dir = t.TempDir() + "/export"
	exported, err := audit.Export(t.Context(), log, w.dir)
	require.NoError(t, err)
	require.Equal(t, c.Size, exported.Entries)
	require.Equal(t, int64(4), exported.Pending, "what is younger is shown, and not proved")
	r := w.verify(t, nil)
	require.True(t, r.OK, "%v", r.Problems)
	require.Equal(t, []string{"witness.example.com"}, r.Witnesses)
	records, err := w.store.Records(t.Context(), 0, 1)
	require.NoError(t, err)
	raw, err := audit.Prove(t.Context(), log, records[0].Hash)
	require.NoError(t, err)
	_, err = audit.VerifyProof(raw, w.trust)
	require.NoError(t, err)
	raw, err = audit.Prove(t.Context(), w.store, records[0].Hash)
	require.NoError(t, err)
	_, err = audit.VerifyProof(raw, w.trust)
	require.ErrorIs(t, err, ledger.ErrCheckpoint)
	require.Equal(t, log, audit.Witnessed(log, nil, 0))

	// Bodies that were pruned since are explained, in the latest checkpoint.
	n, err := w.store.Prune(t.Context(), ledger.Operational, time.Now().Add(time.Hour), "old")
	require.NoError(t, err)
	require.Positive(t, n)
	ledgertest.Drain(t, w.store, w.key)
	w.dir = t.TempDir() + "/export"
	_, err = audit.Export(t.Context(), log, w.dir)
	require.NoError(t, err)
	r = w.verify(t, nil)
	require.Equal(t, []audit.ProblemKind{audit.BadCheckpoint}, kinds(r), "the witness has not seen it: %v", r.Problems)
	raw, err = w.store.Checkpoint(t.Context())
	require.NoError(t, err)
	proof, err := ledger.OpenTree(t.Context(), parsed(t, raw), w.store).ProveExtends(c.Size)
	require.NoError(t, err)
	cosigned, err = x.Cosign(raw, proof)
	require.NoError(t, err)
	require.NoError(t, w.store.AddCosignatures(t.Context(), cosigned))
	w.dir = t.TempDir() + "/export"
	_, err = audit.Export(t.Context(), log, w.dir)
	require.NoError(t, err)
	require.True(t, w.verify(t, nil).OK)
}

func parsed(t *testing.T, raw []byte) ledger.Checkpoint {
	c, err := ledger.ParseCheckpoint(raw)
	require.NoError(t, err)
	return c
}
