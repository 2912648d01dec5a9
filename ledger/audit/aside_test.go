package audit_test

import (
	"bytes"
	"context"
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/ledger"
	"chimera.ai/engine/ledger/audit"
	"chimera.ai/engine/ledger/ledgertest"
)

// setAside is a log with rows that were set aside.
type setAside struct {
	ledger.Log
	rows []ledger.Aside
}

func (l setAside) Asides(_ context.Context, after int64, limit int) (out []ledger.Aside, err error) {
	from := max(0, int(after))
	return l.rows[from:min(len(l.rows), from+limit)], nil
}

// exportAside exports the world's log as if these rows, and those that wait, had been set aside.
func exportAside(t *testing.T, w *world, rows ...ledger.Aside) audit.Exported {
	t.Helper()
	waiting, err := w.store.Candidates(t.Context(), 10)
	require.NoError(t, err)
	for _, c := range waiting {
		rows = append(rows, ledger.Aside{Candidate: c, Bodied: true, Followed: true})
	}
	for i := range rows {
		rows[i].Serial = int64(i + 1)
	}
	w.dir = filepath.Join(t.TempDir(), "export")
	x, err := audit.Export(t.Context(), setAside{w.store, rows}, w.dir)
	require.NoError(t, err)
	return x
}

// TestManyAside: whoever writes many rows into the database that are no entries hides none that
// is one, and makes no log unverifiable.
func TestManyAside(t *testing.T) {
	const listed = 100_000
	garbage := make([]ledger.Aside, listed, listed+1)
	for i := range garbage {
		garbage[i] = ledger.Aside{Candidate: ledger.Candidate{Bytes: []byte("x")}, Why: "garbage"}
	}
	w := newWorld(t)
	ledgertest.Drain(t, w.store, w.key)
	exportAside(t, w, garbage...)
	r := w.verify(t, nil)
	require.True(t, r.OK, "%v", r.Problems)
	require.EqualValues(t, listed, r.Aside)
	require.False(t, warned(r, "more than"), "all are listed")

	x := exportAside(t, w, append(garbage, garbage[0])...)
	require.EqualValues(t, listed+1, x.Aside)
	r = w.verify(t, nil)
	require.True(t, r.OK, "%v", r.Problems)
	require.EqualValues(t, listed+1, r.Aside)
	require.True(t, warned(r, "100000 rows were set aside, and 1 more than aside.jsonl lists"), "%v", r.Warnings)

	_, err := w.store.Append(t.Context(), ledger.Draft{Chain: "snapshots/new", Key: "k", Kind: ledger.SnapshotTaken, Data: json.RawMessage(`{"server":"new"}`)})
	require.NoError(t, err)
	exportAside(t, w, append(garbage, garbage[0])...)
	r = w.verify(t, nil)
	require.False(t, r.OK)
	require.Len(t, r.Problems, 1)
	require.Contains(t, r.Problems[0].Message, `1 entry was set aside as if it were none of this log, and is one: snapshot.taken, "k" in the chain snapshots/new`)
}

// TestPartlyAside: entries that lacked something when they were set aside are told from garbage.
func TestPartlyAside(t *testing.T) {
	w := newWorld(t)
	ledgertest.Drain(t, w.store, w.key)
	_, err := w.store.Append(t.Context(), ledger.Draft{Chain: "snapshots/new", Key: "k", Kind: ledger.SnapshotTaken, Data: json.RawMessage(`{"server":"new"}`)})
	require.NoError(t, err)
	waiting, err := w.store.Candidates(t.Context(), 10)
	require.NoError(t, err)
	require.Len(t, waiting, 1)
	stored, err := w.store.Stored(t.Context(), bodyOf(t, waiting[0].Bytes))
	require.NoError(t, err)
	for name, c := range map[string]struct {
		bodied, followed bool
		body             []byte
		warns            string
	}{
		"without its body":           {false, true, nil, "was not complete: snapshot.taken"},
		"without the one before":     {true, false, stored, "was not complete: snapshot.taken"},
		"with a body of any size":    {true, true, bytes.Repeat([]byte("x"), 4*ledger.MaxBodyBytes), "was not complete: snapshot.taken"},
		"with a body that is gone":   {true, true, nil, "its body was deleted since"},
		"with a body that was added": {false, true, stored, "was not complete: snapshot.taken"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "export")
			_, err := audit.Export(t.Context(), bodied{setAside{w.store, []ledger.Aside{{Candidate: waiting[0], Bodied: c.bodied, Followed: c.followed}}}, bodyOf(t, waiting[0].Bytes), c.body}, dir)
			require.NoError(t, err)
			w.dir = dir
			r := w.verify(t, nil)
			require.True(t, r.OK, "%v", r.Problems)
			require.True(t, warned(r, c.warns), "%v", r.Warnings)
		})
	}
}

// bodied is a log that has this of a body.
type bodied struct {
	ledger.Log
	digest string
	raw    []byte
}

func (l bodied) Stored(ctx context.Context, digest string) ([]byte, error) {
	switch {
	case digest != l.digest:
		return l.Log.Stored(ctx, digest)
	case l.raw == nil:
		return nil, ledger.ErrGone
	}
	return l.raw, nil
}

func bodyOf(t *testing.T, raw []byte) string {
	t.Helper()
	e, err := ledger.DecodeEntry(raw)
	require.NoError(t, err)
	return e.Body
}
