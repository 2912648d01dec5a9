package postgres_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"chimera.ai/engine/internal/pgtest"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/ledger/ledgertest"
	"chimera.ai/engine/ledger/postgres"
)

// cluster returns a server of the test's own, with a migrated database.
func cluster(t *testing.T) (*pgtest.Cluster, postgres.Options, ledger.Store) {
	c, err := pgtest.Start(t.Context(), t.TempDir())
	require.NoError(t, err)
	t.Cleanup(c.Kill)
	o := postgres.Options{URL: c.URL("postgres"), Origin: ledgertest.Origin}
	_, err = postgres.Migrate(t.Context(), o)
	require.NoError(t, err)
	s, err := postgres.Open(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return c, o, s
}

func eventually(t *testing.T, f func() error) {
	t.Helper()
	var err error
	require.Eventually(t, func() bool { err = f(); return err == nil }, 5*time.Minute, 10*time.Millisecond, "%v", err)
}

// A server that ends during a transaction, and one that is not there, are outages
// by type; what is repeated afterwards is done once.
func TestOutage(t *testing.T) {
	c, o, s := cluster(t)
	ctx := t.Context()
	cents, err := ledger.Minor(1, "USD")
	require.NoError(t, err)
	require.NoError(t, s.SetBudget(ctx, ledger.Budget{Agent: "a", Currency: "USD", Every: ledger.Forever, Limit: cents}))
	hold := ledger.Hold{ID: "h", Agent: "a", Amount: cents, ExpiresAt: ledger.At(time.Unix(1<<33, 0))}
	draft := ledger.Draft{Chain: "snapshots/c", Key: "k", Kind: ledger.SnapshotTaken, Data: json.RawMessage(`{}`)}
	unavailable := func(err error) {
		t.Helper()
		require.ErrorIs(t, err, ledger.ErrUnavailable)
	}

	// Both wait for locks that another transaction holds when the server ends.
	conn, err := pgx.Connect(ctx, o.URL)
	require.NoError(t, err)
	_, err = conn.Exec(ctx, "BEGIN; SELECT pg_advisory_xact_lock(hashtextextended('snapshots/c', 7)); SELECT pg_advisory_xact_lock(hashtextextended('budget/USD', 7))")
	require.NoError(t, err)
	ends := make(chan error, 2)
	go func() { _, err := s.OpenHold(ctx, hold); ends <- err }()
	go func() { _, err := s.Append(ctx, draft); ends <- err }()
	watch, err := pgx.Connect(ctx, o.URL)
	require.NoError(t, err)
	eventually(t, func() error {
		var n int
		err := watch.QueryRow(ctx, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted").Scan(&n)
		if err == nil && n != 2 {
			err = fmt.Errorf("%d wait", n)
		}
		return err
	})
	c.Kill()
	unavailable(<-ends)
	unavailable(<-ends)

	_, err = s.OpenHold(ctx, hold)
	unavailable(err)
	_, err = s.Append(ctx, draft)
	unavailable(err)
	_, err = s.Task(ctx, "t")
	unavailable(err)
	_, err = s.ListRuns(ctx, ledger.Page{})
	unavailable(err)
	_, err = s.Body(ctx, ledger.BodyDigest(nil))
	unavailable(err)
	_, err = s.Stored(ctx, ledger.BodyDigest(nil))
	unavailable(err)
	_, err = s.Lead(ctx)
	unavailable(err)
	_, err = s.Checkpoint(ctx)
	unavailable(err)
	_, err = s.GetBlob(ctx, ledger.BodyDigest(nil))
	unavailable(err)
	_, err = s.ExpireHolds(ctx)
	unavailable(err)
	_, err = s.Retain(ctx, ledger.Policy{ledger.Evidence: time.Hour}, "")
	unavailable(err)
	_, err = postgres.Open(ctx, o)
	unavailable(err)
	_, err = postgres.Migrate(ctx, o)
	unavailable(err)
	unavailable(postgres.Grant(ctx, o, postgres.DefaultRoles))

	require.NoError(t, c.Restart(ctx))
	for range 2 {
		eventually(t, func() error { _, err := s.OpenHold(ctx, hold); return err })
		eventually(t, func() error { _, err := s.Append(ctx, draft); return err })
	}
	chain, err := s.Chain(ctx, "snapshots/c", 0, 10_000)
	require.NoError(t, err)
	require.Len(t, chain, 1)
	ledgertest.Drain(t, s, ledgertest.Key(t))
	ledgertest.Same(t, s, ledgertest.Replay(t, s))
}

// Sessions that began while the database had other settings end with those.
func TestSettingsOfTheDatabase(t *testing.T) {
	for _, setting := range []string{"default_transaction_read_only = on", "statement_timeout = '1ms'", "lock_timeout = '1ms'"} {
		t.Run(setting, func(t *testing.T) {
			o, s := database(t)
			conn := connect(t, o)
			var db string
			require.NoError(t, conn.QueryRow(t.Context(), "SELECT current_database()").Scan(&db))
			exec := func(q string) {
				_, err := conn.Exec(t.Context(), q)
				require.NoError(t, err)
			}
			var n atomic.Int64
			state := func() error {
				errs := make([]error, 16) // as many as there are connections
				var all sync.WaitGroup
				for i := range errs {
					all.Go(func() {
						// They wait for each other.
						_, errs[i] = s.Append(t.Context(), ledger.Draft{Chain: "snapshots/c", Key: fmt.Sprint(n.Add(1)), Kind: ledger.SnapshotTaken, Data: json.RawMessage(`{}`)})
					})
				}
				all.Wait()
				return errors.Join(errs...)
			}
			exec("ALTER DATABASE " + db + " SET " + setting)
			exec("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()")
			for range 3 {
				require.ErrorIs(t, state(), ledger.ErrUnavailable)
			}
			exec("ALTER DATABASE " + db + " RESET ALL")
			eventually(t, state)
		})
	}
}

// A caller that gives up learns that the outcome is not known, and leaves nothing
// behind that blocks others.
func TestCallerGivesUp(t *testing.T) {
	o, s := database(t)
	conn := connect(t, o)
	_, err := conn.Exec(t.Context(), "BEGIN; SELECT pg_advisory_xact_lock(hashtextextended('snapshots/c', 7))")
	require.NoError(t, err)
	draft := ledger.Draft{Chain: "snapshots/c", Key: "k", Kind: ledger.SnapshotTaken, Data: json.RawMessage(`{}`)}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err = s.Append(ctx, draft)
	require.ErrorIs(t, err, ledger.ErrUnavailable)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	_, err = conn.Exec(t.Context(), "COMMIT")
	require.NoError(t, err)
	_, err = s.Append(t.Context(), draft)
	require.NoError(t, err)
	chain, err := s.Chain(t.Context(), "snapshots/c", 0, 10_000)
	require.NoError(t, err)
	require.Len(t, chain, 1)
}
