package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/ledger"
	"chimera.ai/engine/ledger/audit"
	"chimera.ai/engine/ledger/ledgertest"
	"chimera.ai/engine/ledger/sqlite"
)

var argument = regexp.MustCompile(`\$[0-9]`)

// intruded is a file, and somebody who may write to it.
func intruded(t testing.TB) *ledgertest.Database {
	o := sqlite.Options{Path: filepath.Join(t.TempDir(), "ledger.db"), Origin: ledgertest.Origin, Subjects: ledgertest.Ring(t)}
	s, err := sqlite.Open(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	db, err := sql.Open("sqlite", "file:"+o.Path+"?_pragma=busy_timeout(2000)")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return &ledgertest.Database{
		Store: s,
		Exec: func(query string, args ...any) error {
			_, err := db.ExecContext(t.Context(), argument.ReplaceAllString(query, "?"), args...)
			return err
		},
		Audit: func(t testing.TB, key *ledger.Key) (ok bool, problems, warnings []string) {
			dir := filepath.Join(t.TempDir(), "export")
			_, err := audit.Export(t.Context(), ledger.Verified(s, ledgertest.Origin, []string{key.Public()}, nil), dir)
			require.NoError(t, err)
			r, err := audit.Verify(dir, audit.Trust{Format: audit.TrustFormat, Origin: ledgertest.Origin, Log: key.Public()}, nil)
			require.NoError(t, err)
			for _, p := range r.Problems {
				problems = append(problems, p.Message)
			}
			for _, p := range r.Warnings {
				warnings = append(warnings, p.Message)
			}
			return r.OK, problems, warnings
		},
	}
}

func TestIntruders(t *testing.T) { ledgertest.Intruders(t, intruded) }

func TestForms(t *testing.T) { ledgertest.Forms(t, intruded) }

func TestReplayedCheckpoints(t *testing.T) { ledgertest.Replayed(t, intruded) }

// TestHiddenEntries: an entry that a row of log_index has passed over is told of. It gets no place
// any more, and nothing is returned to those that wait.
func TestHiddenEntries(t *testing.T) {
	d, key := intruded(t), ledgertest.Key(t)
	for _, k := range []string{"a", "b"} {
		_, err := d.Store.Append(t.Context(), ledger.Draft{Chain: "snapshots/" + k, Key: k, Kind: ledger.SnapshotTaken, Data: []byte(`{"server":"s","fingerprint":"","digest":""}`)})
		require.NoError(t, err)
	}
	ledgertest.Drain(t, d.Store, key)
	_, err := d.Store.Append(t.Context(), ledger.Draft{Chain: "snapshots/c", Key: "c", Kind: ledger.SnapshotTaken, Data: []byte(`{"server":"s"}`)})
	require.NoError(t, err)
	require.NoError(t, d.Exec("INSERT INTO entries (serial, hash, chain, n, key, kind, bytes) VALUES (100, zeroblob(32), 'x', 0, 'x', 'x', x'7b7d')"))
	require.NoError(t, d.Exec("INSERT INTO log_index (place, serial) VALUES (100, 100)"))
	n, _, err := d.Store.Recover(t.Context(), 0)
	require.NoError(t, err)
	require.Zero(t, n)
	status, err := d.Store.Status(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 1, status.Lost)
	lost, err := d.Store.Lost(t.Context(), 0, 10)
	require.NoError(t, err)
	require.Len(t, lost, 1)
	require.Equal(t, "c", lost[0].Key)
}

// TestBodiesAreFound: to read bodies takes no look at all runs.
func TestBodiesAreFound(t *testing.T) {
	d := intruded(t)
	require.NoError(t, d.Exec("WITH RECURSIVE u (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM u WHERE n < 200000) INSERT INTO runs (workflow, root, origin, opened_at, state, doc) SELECT 'w' || n, 'r', 'r', 0, 'failed', '{}' FROM u"))
	require.NoError(t, d.Exec(`WITH RECURSIVE u (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM u WHERE n < 30000)
		INSERT INTO bodies (digest, chain, class, at, bytes) SELECT 'd' || n, 'run/w' || n || '/r', 'operational', 0, x'7b7d' FROM u`))
	digests := make([]string, 30_000)
	for i := range digests {
		digests[i] = fmt.Sprint("d", i+1)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	stored, err := d.Store.StoredBodies(ctx, digests) // 6,000,000,000 rows of runs would take longer
	require.NoError(t, err)
	require.Len(t, stored, len(digests))
}

// stuck is a log in which looks for lost entries fail, or do not end.
type stuck struct {
	ledger.Log
	err error
}

func (s stuck) Recover(ctx context.Context, _ int64) (int, int64, error) {
	if s.err == nil {
		<-ctx.Done()
		return 0, 0, ctx.Err()
	}
	return 0, 0, s.err
}

// TestRecoveryFails: entries get their places though nobody can look for lost ones.
func TestRecoveryFails(t *testing.T) {
	for name, err := range map[string]error{"at once": errors.New("broken"), "slowly": nil} {
		t.Run(name, func(t *testing.T) {
			d, key := intruded(t), ledgertest.Key(t)
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			failed, placed := make(chan error, 9), make(chan []byte, 9)
			q := &ledger.Sequencer{Store: stuck{d.Store, err}, Key: key, Idle: time.Millisecond, Failed: func(err error) { failed <- err }, Integrated: func(b []byte) { placed <- b }}
			done := make(chan error, 1)
			go func() { done <- q.Run(ctx) }()
			for _, k := range []string{"a", "b"} {
				<-placed // before, that of nothing
				_, err := d.Store.Append(ctx, ledger.Draft{Chain: "snapshots/s", Key: k, Kind: ledger.SnapshotTaken, Data: []byte(`{"server":"s"}`)})
				require.NoError(t, err)
			}
			<-placed
			if err != nil {
				require.ErrorIs(t, <-failed, err)
			}
			stop()
			require.NoError(t, <-done)
		})
	}
}
