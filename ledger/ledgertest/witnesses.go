package ledgertest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/ledger"
)

// witnesses: a cosignature belongs to the checkpoint that it was made for, however
// late it comes, and to no other tree; and a log that has got another key goes on.
func witnesses(t *testing.T, open Open) {
	s := open(t)
	key := Key(t)
	grow := func(q *ledger.Sequencer, n int) []byte {
		for i := range n {
			_, err := s.Append(t.Context(), ledger.Draft{Chain: "snapshots/w", Key: fmt.Sprint(q.Key.Public(), i, n), Kind: ledger.SnapshotTaken, Data: json.RawMessage(`{"server":"s"}`)})
			require.NoError(t, err)
		}
		_, err := q.Integrate(t.Context())
		require.NoError(t, err)
		raw, err := s.Checkpoint(t.Context())
		require.NoError(t, err)
		return raw
	}
	q := &ledger.Sequencer{Store: s, Key: key}
	var keys []string
	sign := func(checkpoint []byte) []byte {
		secret, public, err := ledger.NewKey("witness.example.com")
		require.NoError(t, err)
		keys = append(keys, public)
		w, err := ledger.NewWitness(secret, key.Public(), nil)
		require.NoError(t, err)
		cosigned, err := w.Cosign(checkpoint, nil)
		require.NoError(t, err)
		return cosigned
	}
	none, err := s.Cosigned(t.Context(), 10)
	require.NoError(t, err)
	require.Empty(t, none)

	first := grow(q, 3)
	late, again := sign(first), sign(first)
	second := grow(q, 4)
	require.NoError(t, s.AddCosignatures(t.Context(), late))
	require.NoError(t, s.AddCosignatures(t.Context(), late), "twice is once")
	require.NoError(t, s.AddCosignatures(t.Context(), again), "another key of the same name")
	raw, err := s.Checkpoint(t.Context())
	require.NoError(t, err)
	require.Equal(t, string(second), string(raw), "the latest has none")
	all, err := s.Cosigned(t.Context(), 10)
	require.NoError(t, err)
	require.Len(t, all, 1)
	require.Equal(t, 2, bytes.Count(all[0], []byte("— witness.example.com ")))
	for _, k := range keys { // a witness that changes its key keeps its name, and a reader knows one of them
		opened, err := ledger.Signers{Log: key.Public(), Witnesses: []string{k}, Quorum: 1}.Open(all[0])
		require.NoError(t, err)
		require.Equal(t, int64(3), opened.Size)
	}
	require.NoError(t, s.AddCosignatures(t.Context(), sign(second)))
	for limit, sizes := range map[int][]int64{0: nil, 1: {7}, 2: {3, 7}, 10: {3, 7}} {
		all, err = s.CosignedEvenly(t.Context(), limit)
		require.NoError(t, err)
		var have []int64
		for _, raw := range all {
			c, err := ledger.ParseCheckpoint(raw)
			require.NoError(t, err)
			have = append(have, c.Size)
		}
		require.Equal(t, sizes, have, limit)
	}
	all, err = s.Cosigned(t.Context(), 1)
	require.NoError(t, err)
	require.Len(t, all, 1)
	last := keys[len(keys)-1:]
	opened, err := ledger.Signers{Log: key.Public(), Witnesses: last, Quorum: 1}.Open(all[0])
	require.NoError(t, err)
	require.Equal(t, int64(7), opened.Size)

	for _, c := range []ledger.Checkpoint{{Origin: key.Name(), Size: 3, Root: ledger.Hash{1}}, {Origin: key.Name(), Size: 5, Root: ledger.Hash{1}}, {Origin: key.Name(), Size: 1 << 40}} {
		other, err := key.Sign(c)
		require.NoError(t, err)
		require.ErrorIs(t, s.AddCosignatures(t.Context(), sign(other)), ledger.ErrConflict, "%v", c)
	}
	require.ErrorIs(t, s.AddCosignatures(t.Context(), []byte("hello")), ledger.ErrInvalid)

	// The key changes: whoever knows nothing of the former one adds nothing.
	next := Key(t)
	_, err = (&ledger.Sequencer{Store: s, Key: next}).Integrate(t.Context())
	require.ErrorIs(t, err, ledger.ErrCheckpoint)
	_, err = (&ledger.Sequencer{Store: s, Key: next, Former: []string{Key(t).Public()}}).Integrate(t.Context())
	require.ErrorIs(t, err, ledger.ErrCheckpoint)
	r := &ledger.Sequencer{Store: s, Key: next, Former: []string{Key(t).Public(), key.Public()}}
	raw = grow(r, 0)
	opened, err = ledger.Signers{Log: next.Public(), Witnesses: last, Quorum: 1}.Open(raw)
	require.NoError(t, err, "the same tree, with the new signature; cosignatures are over the tree")
	require.Equal(t, int64(7), opened.Size)
	raw = grow(r, 2)
	opened, err = ledger.Signers{Log: next.Public()}.Open(raw)
	require.NoError(t, err)
	require.Equal(t, int64(9), opened.Size)
	_, err = q.Integrate(t.Context())
	require.ErrorIs(t, err, ledger.ErrCheckpoint, "the former key signs no more")
}
