package sqlite

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/ledger"
	"chimera.ai/engine/ledger/ledgertest"
	"chimera.ai/engine/ledger/sqlstore"
)

// A database that may not grow is an outage that says so. Nothing acknowledged is
// lost, and when there is room again, what failed is done once.
func TestFull(t *testing.T) {
	o := Options{Path: filepath.Join(t.TempDir(), "ledger.db"), Origin: ledgertest.Origin}
	s, err := Open(t.Context(), o)
	require.NoError(t, err)
	require.NoError(t, s.Close())
	db, err := open(o)
	require.NoError(t, err)
	// The limit is that of a connection.
	db.SetMaxOpenConns(1)
	limit := func(pages int) {
		_, err := db.Exec(fmt.Sprintf("PRAGMA max_page_count = %d", pages))
		require.NoError(t, err)
	}
	limit(200)
	s = sqlstore.New(db, dialect(), o.Origin, nil)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	ctx := t.Context()
	entry := func(i int) ledger.Draft {
		return ledger.Draft{Chain: "snapshots/c", Key: fmt.Sprint(i), Kind: ledger.SnapshotTaken, Data: json.RawMessage(`{"server":"` + strings.Repeat("x", 9000) + `"}`)}
	}
	i := 0
	for ; err == nil; i++ {
		require.Less(t, i, 1000)
		_, err = s.Append(ctx, entry(i))
	}
	i--
	require.ErrorIs(t, err, ledger.ErrUnavailable)
	require.ErrorContains(t, err, "full")
	_, err = s.Append(ctx, entry(i))
	require.ErrorIs(t, err, ledger.ErrUnavailable)
	chain, err := s.Chain(ctx, "snapshots/c", 0, 10_000)
	require.NoError(t, err, "one can still read")
	require.Len(t, chain, i)
	limit(100_000)
	for range 2 {
		_, err = s.Append(ctx, entry(i))
		require.NoError(t, err)
	}
	chain, err = s.Chain(ctx, "snapshots/c", 0, 10_000)
	require.NoError(t, err)
	require.Len(t, chain, i+1)
	ledgertest.Drain(t, s, ledgertest.Key(t))
	ledgertest.Same(t, s, ledgertest.Replay(t, s))
}

// While another program writes, a caller that gives up has done nothing, and
// one that waits gets its turn.
func TestBusy(t *testing.T) {
	o := Options{Path: filepath.Join(t.TempDir(), "ledger.db"), Origin: ledgertest.Origin}
	s, err := Open(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	other, err := open(o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, other.Close()) })
	held, err := other.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	draft := ledger.Draft{Chain: "snapshots/c", Key: "k", Kind: ledger.SnapshotTaken, Data: json.RawMessage(`{}`)}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	_, err = s.Append(ctx, draft)
	require.ErrorIs(t, err, ledger.ErrUnavailable)
	_, err = s.Chain(t.Context(), "snapshots/c", 0, 10_000)
	require.NoError(t, err, "readers do not wait")
	waited := make(chan error, 1)
	go func() { _, err := s.Append(t.Context(), draft); waited <- err }()
	select {
	case err := <-waited:
		t.Fatalf("it did not wait: %v", err)
	default:
	}
	require.NoError(t, held.Rollback())
	require.NoError(t, <-waited)
	chain, err := s.Chain(t.Context(), "snapshots/c", 0, 10_000)
	require.NoError(t, err)
	require.Len(t, chain, 1)
}
