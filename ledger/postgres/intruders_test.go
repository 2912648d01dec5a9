package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"chimera.ai/engine/internal/lengthy"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/ledger/audit"
	"chimera.ai/engine/ledger/ledgertest"
	"chimera.ai/engine/ledger/postgres"
)

// audited exports and verifies the log of a store.
func audited(s ledger.Log) func(t testing.TB, key *ledger.Key) (bool, []string, []string) {
	return func(t testing.TB, key *ledger.Key) (ok bool, problems, warnings []string) {
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
	}
}

// intruded is a database, and somebody who owns its tables.
func intruded(t testing.TB) *ledgertest.Database {
	o, s := database(t)
	conn := connect(t, o)
	return &ledgertest.Database{Store: s, Waits: true, Audit: audited(s), Exec: func(query string, args ...any) error {
		_, err := conn.Exec(t.Context(), query, args...)
		return err
	}}
}

// What they are is found by what both stores share, which has its tests on SQLite.
func TestIntruders(t *testing.T) {
	lengthy.Skip(t)
	ledgertest.Intruders(t, intruded)
}

func TestForms(t *testing.T) { ledgertest.Forms(t, intruded) }

func TestReplayedCheckpoints(t *testing.T) { ledgertest.Replayed(t, intruded) }

func TestHiddenEntries(t *testing.T) { ledgertest.Hidden(t, intruded) }

// TestTheEngineSetsAside: the engine's role sequences a log into which somebody has written, and
// returns what was hidden to those that wait, with its own rights; readers see all of it.
func TestTheEngineSetsAside(t *testing.T) {
	ctx := t.Context()
	_, o, _ := granted(t)
	engine, reader := as(t, o, postgres.DefaultRoles.Engine), as(t, o, postgres.DefaultRoles.Reader)
	d, key := &ledgertest.Database{Store: engine, Waits: true}, ledgertest.Key(t)
	conn := connect(t, o)
	d.Exec = func(query string, args ...any) error {
		_, err := conn.Exec(ctx, query, args...)
		return err
	}
	say := func(key string) {
		_, err := engine.Append(ctx, ledger.Draft{Chain: "snapshots/s", Key: "snapshot.taken/" + key, Kind: ledger.SnapshotTaken, Data: []byte(`{"server":"s","fingerprint":"","digest":""}`)})
		require.NoError(t, err)
	}
	say("0")
	ledgertest.Drain(t, engine, key)
	require.NoError(t, d.Exec(`INSERT INTO entries (hash, chain, n, key, kind, bytes) VALUES (sha256('x'), 'snapshots/s', 1, 'snapshot.taken/b', 'snapshot.taken', 'garbage')`))
	found, _, err := engine.Recover(ctx, 0)
	require.NoError(t, err)
	require.Equal(t, 1, found)
	ledgertest.Drain(t, engine, key)
	say("1")
	ledgertest.Drain(t, engine, key)
	status, err := reader.Status(ctx)
	require.NoError(t, err)
	require.EqualValues(t, 1, status.Aside)
	require.Zero(t, status.Waiting+status.Lost)
	ok, problems, _ := audited(reader)(t, key)
	require.True(t, ok, "%v", problems)
	for _, s := range []ledger.Store{reader, as(t, o, postgres.DefaultRoles.Guardian), as(t, o, postgres.DefaultRoles.Effects)} {
		require.ErrorContains(t, s.SetAside(ctx, []ledger.Aside{{}}), "permission denied")
	}
	// Columns are what the bytes say, for whoever is not the owner.
	_, err = conn.Exec(ctx, "SET ROLE "+postgres.DefaultRoles.Engine)
	require.NoError(t, err)
	for column, value := range map[string]string{"chain": "'snapshots/t'", "n": "7", "key": "'other'"} {
		columns := map[string]string{"chain": "chain", "n": "n", "key": "key"}
		columns[column] = value
		raw := `convert_to(replace(convert_from(bytes, 'UTF8'), '"key":"snapshot.taken/0"', '"key":"snapshot.taken/9"'), 'UTF8')`
		_, err := conn.Exec(ctx, "INSERT INTO entries (hash, chain, n, key, kind, bytes) SELECT sha256('\\x00'::bytea || "+raw+"), "+columns["chain"]+", "+columns["n"]+", "+columns["key"]+", kind, "+raw+" FROM entries WHERE key = 'snapshot.taken/0'")
		require.ErrorContains(t, err, "row-level security", column)
	}
}

// TestLowSerials: whoever owns the tables may give a row any number, and it is found.
func TestLowSerials(t *testing.T) {
	d, key := intruded(t), ledgertest.Key(t)
	ctx := t.Context()
	for _, chain := range []string{"snapshots/a", "snapshots/b"} {
		_, err := d.Store.Append(ctx, ledger.Draft{Chain: chain, Key: "k", Kind: ledger.SnapshotTaken, Data: []byte(`{"server":"s","fingerprint":"","digest":""}`)})
		require.NoError(t, err)
	}
	require.NoError(t, d.Exec("DELETE FROM pending"))
	ledgertest.Drain(t, d.Store, key)
	require.NoError(t, d.Exec(`WITH e AS (SELECT * FROM entries WHERE chain = 'snapshots/b') INSERT INTO entries (serial, hash, chain, n, key, kind, bytes) OVERRIDING SYSTEM VALUE
		SELECT -7, sha256('x'), 'snapshots/x', 0, 'x', 'x', 'garbage' FROM e`))
	status, err := d.Store.Status(ctx)
	require.NoError(t, err)
	require.EqualValues(t, 3, status.Lost)
	_, _, warnings := d.Audit(t, key)
	require.Contains(t, strings.Join(warnings, "; "), "2 entries were in the database, without a place in the log")
	found := make(chan error, 9)
	ctx, stop := context.WithCancel(ctx)
	q := &ledger.Sequencer{Store: d.Store, Key: key, Found: func(err error) { found <- err }}
	done := make(chan error, 1)
	go func() { done <- q.Run(ctx) }()
	both := errors.Join(<-found, <-found)
	require.ErrorContains(t, both, "3 entries had no place")
	require.ErrorContains(t, both, "1 row was set aside")
	stop()
	require.NoError(t, <-done)
	aside, err := d.Store.Asides(t.Context(), math.MinInt64, 10)
	require.NoError(t, err)
	require.Len(t, aside, 1)
}

// TestSetAsideSays: whoever may call set_aside cannot make a proper entry look as if it had lacked
// something.
func TestSetAsideSays(t *testing.T) {
	for name, c := range map[string]struct {
		which func(last, placed int64) []*int64
		first string
	}{
		"with a number that is none": {func(last, _ int64) []*int64 { return []*int64{&last, nil} }, "SELECT"},
		"with the one before":        {func(last, placed int64) []*int64 { return []*int64{&last, &placed} }, "SELECT"},
		"after its body was pruned":  {func(last, _ int64) []*int64 { return []*int64{&last} }, "DELETE FROM pending"},
	} {
		t.Run(name, func(t *testing.T) {
			d, key := intruded(t), ledgertest.Key(t)
			ctx := t.Context()
			say := func(k string) {
				_, err := d.Store.Append(ctx, ledger.Draft{Chain: "snapshots/s", Key: k, Kind: ledger.SnapshotTaken, Data: []byte(`{"server":"s","fingerprint":"","digest":""}`)})
				require.NoError(t, err)
			}
			say("a")
			rows, err := d.Store.Candidates(ctx, 1)
			require.NoError(t, err)
			ledgertest.Drain(t, d.Store, key)
			say("b")
			last, err := d.Store.Candidates(ctx, 1)
			require.NoError(t, err)
			require.NoError(t, d.Exec(c.first))
			if c.first != "SELECT" {
				_, err := d.Store.Prune(ctx, ledger.SnapshotTaken.Class(), time.Now().Add(time.Hour), "age")
				require.NoError(t, err)
			}
			require.NoError(t, d.Exec("SELECT set_aside($1, $2)", c.which(last[0].Serial, rows[0].Serial), []string{"garbage", "garbage"}[:len(c.which(0, 0))]))
			aside, err := d.Store.Asides(ctx, math.MinInt64, 10)
			require.NoError(t, err)
			require.Len(t, aside, 1)
			require.True(t, aside[0].Bodied, "its body was there")
			require.True(t, aside[0].Followed, "the one before it was there")
		})
	}
}

// counter counts the statements that have a text.
type counter struct {
	text string
	n    int
}

// TraceQueryStart implements [pgx.QueryTracer].
func (c *counter) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	if strings.Contains(q.SQL, c.text) {
		c.n++
	}
	return ctx
}

// TraceQueryEnd implements [pgx.QueryTracer].
func (c *counter) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// TestTwoWritersOfOneChain: while nobody gives entries their places, each of two writers looks only
// at what the other has added.
func TestTwoWritersOfOneChain(t *testing.T) {
	o, other := database(t)
	looks := &counter{text: "FROM entries e WHERE e.chain = $1 AND e.n <= $2"}
	db, err := postgres.Traced(o, looks)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	one := postgres.On(db, o.Origin)
	say := func(s ledger.Log, k string, many int) {
		all := make([]ledger.Draft, many)
		for i := range all {
			all[i] = ledger.Draft{Chain: "snapshots/s", Key: fmt.Sprint(k, i), Kind: ledger.SnapshotTaken, Data: []byte(`{"server":"s","fingerprint":"","digest":""}`)}
		}
		_, err := s.Append(t.Context(), all...)
		require.NoError(t, err)
	}
	say(other, "a", 2000) // more than one look shows
	say(one, "b", 1)
	looks.n = 0
	say(other, "c", 1)
	say(one, "d", 1)
	require.Equal(t, 2, looks.n)
}

// TestCheckpointsAreDated: when a checkpoint was added, the database says.
func TestCheckpointsAreDated(t *testing.T) {
	d, key := intruded(t), ledgertest.Key(t)
	ledgertest.Drain(t, d.Store, key)
	raw, err := d.Store.Checkpoint(t.Context())
	require.NoError(t, err)
	require.NoError(t, d.Exec("INSERT INTO log_batches (n, size, grown, checkpoint, at) VALUES (2, 0, 0, $1, 1::bigint << 60)", raw))
	heads, err := d.Store.Heads(t.Context(), ledger.Top, 1)
	require.NoError(t, err)
	require.WithinDuration(t, time.Now(), heads[0].At.Time(), time.Minute)
}
