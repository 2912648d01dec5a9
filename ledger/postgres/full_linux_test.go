package postgres_test

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"chimera.ai/engine/ledger"
	"chimera.ai/engine/ledger/ledgertest"
	"chimera.ai/engine/ledger/postgres"
)

// A full disk is an outage that says so. Nothing acknowledged is lost, and when
// there is room again, what failed is done once.
func TestDiskFull(t *testing.T) {
	disk := t.TempDir()
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=24m"); err != nil {
		if errors.Is(err, syscall.EPERM) {
			t.Fatal("only root may mount a small disk, without which this cannot be tried")
		}
		require.NoError(t, err)
	}
	t.Cleanup(func() { require.NoError(t, syscall.Unmount(disk, syscall.MNT_DETACH)) })
	c, _, _ := cluster(t)
	ctx := t.Context()
	require.NoError(t, os.Chmod(disk, 0o700))
	require.NoError(t, c.Own(disk))
	conn, err := pgx.Connect(ctx, c.URL("postgres"))
	require.NoError(t, err)
	_, err = conn.Exec(ctx, "CREATE TABLESPACE small LOCATION '"+disk+"'")
	require.NoError(t, err)
	_, err = conn.Exec(ctx, "CREATE DATABASE small TABLESPACE small")
	require.NoError(t, err)
	require.NoError(t, conn.Close(ctx))
	o := postgres.Options{URL: c.URL("small"), Origin: ledgertest.Origin}
	_, err = postgres.Migrate(ctx, o)
	require.NoError(t, err)
	s, err := postgres.Open(ctx, o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })

	var said []string
	random := make([]byte, 60<<10)
	_, _ = rand.Read(random)
	entry := func(i int) ledger.Draft {
		text, err := json.Marshal(random)
		require.NoError(t, err)
		return ledger.Draft{Chain: "snapshots/c", Key: fmt.Sprint(i), Kind: ledger.SnapshotTaken, Data: json.RawMessage(fmt.Sprintf(`{"server":"%d","x":%s}`, i, text))}
	}
	i := 0
	for ; ; i++ {
		require.Less(t, i, 10_000)
		if _, err = s.Append(ctx, entry(i)); err != nil {
			break
		}
		said = append(said, fmt.Sprint(i))
	}
	require.ErrorIs(t, err, ledger.ErrUnavailable)
	require.ErrorContains(t, err, "No space left on device")
	_, err = s.Append(ctx, entry(i))
	require.ErrorIs(t, err, ledger.ErrUnavailable, "again is no better")
	chain, err := s.Chain(ctx, "snapshots/c", 0, 10_000)
	require.NoError(t, err, "one can still read")
	require.Len(t, chain, len(said))

	require.NoError(t, syscall.Mount("tmpfs", disk, "tmpfs", syscall.MS_REMOUNT, "size=256m"))
	for range 2 {
		_, err = s.Append(ctx, entry(i))
		require.NoError(t, err)
	}
	ledgertest.Drain(t, s, ledgertest.Key(t))
	ledgertest.Same(t, s, ledgertest.Replay(t, s))
	chain, err = s.Chain(ctx, "snapshots/c", 0, 10_000)
	require.NoError(t, err)
	require.Len(t, chain, len(said)+1)
}
