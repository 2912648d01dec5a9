package audit_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/ledger"
	"chimera.ai/engine/ledger/audit"
)

// crowded is a store in which more entries wait than it lists.
type crowded struct {
	ledger.Store
	bytes []byte
}

const (
	waitListed = 10_000
	waitAll    = 12_345
)

func (c crowded) Pending(_ context.Context, limit int) (out []ledger.Record, _ error) {
	for i := range min(limit, waitListed) {
		r := ledger.Record{Bytes: c.bytes, Index: -1}
		binary.BigEndian.PutUint64(r.Hash[:], uint64(i))
		out = append(out, r)
	}
	return out, nil
}

func (c crowded) Status(context.Context) (ledger.Status, error) {
	return ledger.Status{Waiting: waitAll}, nil
}

// TestManyPending: an export counts more entries than it lists.
func TestManyPending(t *testing.T) {
	w := newWorld(t)
	records, err := w.store.Records(t.Context(), 0, 1)
	require.NoError(t, err)
	w.dir = filepath.Join(t.TempDir(), "export")
	x, err := audit.Export(t.Context(), crowded{w.store, records[0].Bytes}, w.dir)
	require.NoError(t, err)
	require.EqualValues(t, waitAll, x.Pending)
	require.Equal(t, waitListed, bytes.Count(w.read(t, audit.PendingFile), []byte("\n")))
}
