package audit_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/ledger"
	"chimera.ai/engine/ledger/audit"
)

func TestProofs(t *testing.T) {
	w := newWorld(t)
	records, err := w.store.Records(t.Context(), 0, 1000)
	require.NoError(t, err)
	for _, i := range []int{0, 7, len(records) - 1} {
		raw, err := audit.Prove(t.Context(), w.store, records[i].Hash)
		require.NoError(t, err)
		p, err := audit.VerifyProof(raw, w.trust)
		require.NoError(t, err)
		require.Equal(t, records[i].Bytes, p.Bytes)
		require.Equal(t, int64(i), p.Index)
		for at := range raw {
			bad := append([]byte{}, raw...)
			bad[at] ^= 1
			if q, err := audit.VerifyProof(bad, w.trust); err == nil {
				require.Equal(t, p.Bytes, q.Bytes, "byte %d", at)
			}
		}
	}
	for _, raw := range []string{"", "c2sp.org/tlog-proof", string(records[0].Bytes)} {
		_, err := audit.VerifyProof([]byte(raw), w.trust)
		require.ErrorIs(t, err, audit.ErrNoProof, raw)
		require.ErrorIs(t, err, ledger.ErrProof)
	}
	_, err = audit.VerifyProof([]byte("c2sp.org/tlog-proof@v1\n"), w.trust)
	require.ErrorIs(t, err, ledger.ErrProof)
	require.NotErrorIs(t, err, audit.ErrNoProof, "a damaged one")
	_, err = audit.Prove(t.Context(), w.store, ledger.Hash{1})
	require.ErrorIs(t, err, ledger.ErrNotFound)
	w.run(t, "late", 1, true)
	late, err := w.store.Pending(t.Context(), 1)
	require.NoError(t, err)
	_, err = audit.Prove(t.Context(), w.store, late[0].Hash)
	require.ErrorIs(t, err, ledger.ErrNotFound, "an entry without a place cannot be proved")
}
