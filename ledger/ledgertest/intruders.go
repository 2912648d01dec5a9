package ledgertest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/ledger"
	"chimera.ai/engine/ledger/model"
)

// Database is a store with a way around it: what somebody who may write to its tables does.
type Database struct {
	Store ledger.Store
	// Exec runs a statement, whose arguments are $1, $2 and so on, in their order.
	Exec func(query string, args ...any) error
	// Audit exports and verifies the log: it returns whether it verifies, the problems and the
	// warnings.
	Audit func(t testing.TB, key *ledger.Key) (ok bool, problems, warnings []string)
	// Waits reports that entries wait for a place by rows of the table pending.
	Waits bool
}

// insert adds a row to the entries, as it is.
func (d *Database) insert(t testing.TB, c ledger.Candidate) {
	t.Helper()
	require.NoError(t, d.Exec("INSERT INTO entries (hash, chain, n, key, kind, bytes) VALUES ($1, $2, $3, $4, $5, $6)", c.Hash[:], c.Chain, c.N, c.Key, string(c.Kind), c.Bytes))
	if d.Waits {
		require.NoError(t, d.Exec("INSERT INTO pending (serial) SELECT serial FROM entries WHERE hash = $1", c.Hash[:]))
	}
}

// body adds a body as that of the next entry of the chain that is intruded, and returns its digest.
func (d *Database) body(t testing.TB, raw string) string {
	chain, err := d.Store.Chain(t.Context(), intruded, 0, 1)
	require.NoError(t, err)
	e, err := ledger.DecodeEntry(chain[0].Bytes)
	require.NoError(t, err)
	return d.bodyAs(t, raw, e.Chain, e.Class, e.At.Time().UnixMilli())
}

// bodyAs adds a body, and returns its digest.
func (d *Database) bodyAs(t testing.TB, raw, chain string, class ledger.Class, at int64) string {
	digest := ledger.BodyDigest([]byte(raw))
	require.NoError(t, d.Exec("INSERT INTO bodies (digest, chain, class, at, bytes) VALUES ($1, $2, $3, $4, $5)", digest, chain, string(class), at, []byte(raw)))
	return digest
}

const (
	intruded   = "snapshots/s"
	properBody = `{"data":{},"salt":"00000000000000000000000000000000"}`
	otherBody  = `{"data":{},"salt":"00000000000000000000000000000001"}`
)

// Intruders inserts rows that are no entries. None is signed, writers continue none, and the log
// verifies with a warning.
func Intruders(t *testing.T, fresh func(t testing.TB) *Database) {
	// forge returns the next entry of the chain as a row, with a body that is there.
	forge := func(t testing.TB, d *Database, change func(e *ledger.Entry)) ledger.Candidate {
		chain, err := d.Store.Chain(t.Context(), intruded, 0, 100)
		require.NoError(t, err)
		last := chain[len(chain)-1]
		e, err := ledger.DecodeEntry(last.Bytes)
		require.NoError(t, err)
		e.N, e.Prev, e.Key, e.Body = e.N+1, last.Hash, "forged", ledger.BodyDigest([]byte(properBody))
		change(e)
		raw, err := e.Encode()
		require.NoError(t, err)
		return ledger.Candidate{Hash: ledger.LeafHash(raw), Chain: e.Chain, N: e.N, Key: e.Key, Kind: e.Kind, Bytes: raw}
	}
	same := func(*ledger.Entry) {}
	bytesOf := func(c ledger.Candidate, raw []byte) ledger.Candidate {
		c.Bytes, c.Hash = raw, ledger.LeafHash(raw)
		return c
	}
	for name, c := range map[string]struct {
		row func(t testing.TB, d *Database) ledger.Candidate
		why string
	}{
		"no JSON": {func(t testing.TB, d *Database) ledger.Candidate {
			return bytesOf(forge(t, d, same), []byte("garbage\xff"))
		}, "decode entry"},
		"not canonical": {func(t testing.TB, d *Database) ledger.Candidate {
			x := forge(t, d, same)
			return bytesOf(x, bytes.Replace(x.Bytes, []byte(`,"key"`), []byte(`, "key"`), 1))
		}, "not canonical"},
		"of another log": {func(t testing.TB, d *Database) ledger.Candidate {
			return forge(t, d, func(e *ledger.Entry) { e.Origin = "other.example.com" })
		}, "it is of the log"},
		"of another hash": {func(t testing.TB, d *Database) ledger.Candidate {
			x := forge(t, d, same)
			x.Hash[0]++
			return x
		}, "not that of its bytes"},
		"stored as another": {func(t testing.TB, d *Database) ledger.Candidate {
			x := forge(t, d, same)
			x.Key = "another"
			return x
		}, "says something else"},
		"without the one before": {func(t testing.TB, d *Database) ledger.Candidate {
			return forge(t, d, func(e *ledger.Entry) { e.N += 3 })
		}, "there is no entry before it"},
		"a fork": {func(t testing.TB, d *Database) ledger.Candidate {
			return forge(t, d, func(e *ledger.Entry) { e.Prev[0]++ })
		}, "does not follow"},
		"in a chain of others": {func(t testing.TB, d *Database) ledger.Candidate {
			return forge(t, d, func(e *ledger.Entry) { e.Kind = ledger.RunClosed; e.Class = ledger.Evidence })
		}, "stands in the chain"},
		"without its body": {func(t testing.TB, d *Database) ledger.Candidate {
			return forge(t, d, func(e *ledger.Entry) { e.Body = ledger.BodyDigest([]byte("nowhere")) })
		}, "its body was never there"},
		"with the body of another chain": {func(t testing.TB, d *Database) ledger.Candidate {
			return forge(t, d, func(e *ledger.Entry) {
				e.Body = d.bodyAs(t, otherBody, "other", e.Class, e.At.Time().UnixMilli())
			})
		}, "its body is stored as one of class"},
		"with a body that is kept longer": {func(t testing.TB, d *Database) ledger.Candidate {
			return forge(t, d, func(e *ledger.Entry) {
				e.Body = d.bodyAs(t, otherBody, e.Chain, ledger.Permanent, e.At.Time().UnixMilli())
			})
		}, "its body is stored as one of class"},
		"with an older body": {func(t testing.TB, d *Database) ledger.Candidate {
			return forge(t, d, func(e *ledger.Entry) { e.Body = d.bodyAs(t, otherBody, e.Chain, e.Class, 0) })
		}, "its body is stored as one of class"},
		"with data of another kind": {func(t testing.TB, d *Database) ledger.Candidate {
			digest := d.body(t, `{"data":{"server":1},"salt":"00000000000000000000000000000002"}`)
			return forge(t, d, func(e *ledger.Entry) { e.Body = digest })
		}, "its data are not those of its kind"},
		"with a body that is none": {func(t testing.TB, d *Database) ledger.Candidate {
			digest := d.body(t, "{}")
			return forge(t, d, func(e *ledger.Entry) { e.Body = digest })
		}, "decode body"},
	} {
		t.Run(name, func(t *testing.T) {
			d, key := fresh(t), Key(t)
			ctx := t.Context()
			say := func(k string) error {
				_, err := d.Store.Append(ctx, ledger.Draft{Chain: intruded, Key: k, Kind: ledger.SnapshotTaken, Data: json.RawMessage(`{"server":"s","fingerprint":"","digest":""}`)})
				return err
			}
			require.NoError(t, say("first"))
			Drain(t, d.Store, key)
			d.body(t, properBody)
			d.insert(t, c.row(t, d))
			require.ErrorIs(t, say("second"), ledger.ErrUnavailable, "nobody continues it")
			var found []error
			q := &ledger.Sequencer{Store: d.Store, Key: key, Possible: model.Possible, Found: func(err error) { found = append(found, err) }}
			n, err := q.Integrate(ctx)
			require.NoError(t, err)
			require.Equal(t, 1, n)
			require.Len(t, found, 1)
			aside, err := d.Store.Asides(ctx, 0, 10)
			require.NoError(t, err)
			require.Len(t, aside, 1)
			require.Contains(t, aside[0].Why, c.why)
			for _, query := range []string{"DELETE FROM aside", "UPDATE aside SET why = ''", "DELETE FROM entries"} {
				require.ErrorContains(t, d.Exec(query), "of the ledger takes no", query)
			}
			require.NoError(t, say("second"), "its place is free again")
			Drain(t, d.Store, key)
			Replay(t, d.Store)
			ok, problems, warnings := d.Audit(t, key)
			require.True(t, ok, "%v", problems)
			require.Len(t, warnings, 1)
			require.Contains(t, warnings[0], "set aside")
			_, err = d.Store.Prune(ctx, ledger.SnapshotTaken.Class(), time.Now().Add(time.Hour), "its body, too")
			require.NoError(t, err)
			Drain(t, d.Store, key)
			ok, problems, warnings = d.Audit(t, key)
			require.True(t, ok, "%v", problems)
			require.Contains(t, warnings[0], "set aside")
		})
	}

	// What a run states is sealed as its beginning is.
	t.Run("sealed otherwise than the run", func(t *testing.T) {
		const none, its, other = "", "its", "another"
		for _, c := range []struct{ subject, with, why string }{
			{"erika", none, `its body is sealed with the key "", and what its run states with`},
			{"erika", other, "its body is sealed with the key"},
			{"", its, `and what its run states with ""`},
		} {
			d, key := fresh(t), Key(t)
			ctx := t.Context()
			r := ledger.Run{Workflow: "w", Root: "r", Origin: "r", PlanDigest: ledger.BodyDigest(nil), InputDigest: ledger.BodyDigest(nil), Subject: c.subject}
			require.NoError(t, d.Store.OpenRun(ctx, r))
			Drain(t, d.Store, key)
			first, err := d.Store.Chain(ctx, r.Chain(), 0, 1)
			require.NoError(t, err)
			e, err := ledger.DecodeEntry(first[0].Bytes)
			require.NoError(t, err)
			body, err := ledger.Body{Data: json.RawMessage(`{"activity":"x","kind":"node.succeeded","node":"n"}`)}.Encode()
			require.NoError(t, err)
			if c.with != none {
				body, err = ledger.Seal(c.with, make([]byte, ledger.KeyBytes), body)
				require.NoError(t, err)
			}
			e.N, e.Prev, e.Kind, e.Class, e.Key, e.Node, e.Refs, e.Body = 1, first[0].Hash, ledger.NodeSucceeded, ledger.NodeSucceeded.Class(), "node/n/0/0", "n", nil, ledger.BodyDigest(body)
			raw, err := e.Encode()
			require.NoError(t, err)
			var id any
			if c.with != none {
				id = c.with
			}
			add := func(id any) error {
				return d.Exec("INSERT INTO bodies (digest, chain, class, at, subject_key, bytes) VALUES ($1, $2, $3, $4, $5, $6)", e.Body, e.Chain, string(e.Class), e.At.Time().UnixMilli(), id, body)
			}
			require.Error(t, add("who else"), "a body is stored under the key that it names")
			require.NoError(t, add(id))
			d.insert(t, ledger.Candidate{Hash: ledger.LeafHash(raw), Chain: e.Chain, N: e.N, Key: e.Key, Kind: e.Kind, Bytes: raw})
			outcome := ledger.Outcome{Node: "n", Kind: ledger.NodeSucceeded, Activity: "x", Attempts: 1}
			require.ErrorIs(t, d.Store.RecordOutcomes(ctx, r.Workflow, r.Root, []ledger.Outcome{outcome}), ledger.ErrUnavailable, "nobody continues it")
			Drain(t, d.Store, key)
			aside, err := d.Store.Asides(ctx, 0, 10)
			require.NoError(t, err)
			require.Len(t, aside, 1)
			require.Contains(t, aside[0].Why, c.why)
			require.NoError(t, d.Store.RecordOutcomes(ctx, r.Workflow, r.Root, []ledger.Outcome{outcome}))
			Drain(t, d.Store, key)
			ok, problems, warnings := d.Audit(t, key)
			require.True(t, ok, "%v", problems)
			require.Contains(t, fmt.Sprint(warnings), "not sealed as its run is")
			for _, class := range []ledger.Class{ledger.Operational, ledger.Evidence} {
				_, err = d.Store.Prune(ctx, class, time.Now().Add(time.Hour), "the run, too")
				require.NoError(t, err)
			}
			Drain(t, d.Store, key)
			ok, problems, _ = d.Audit(t, key)
			require.True(t, ok, "%v", problems)
		}
	})

	// To prune a body that two entries name would be stated once.
	t.Run("with the body of another", func(t *testing.T) {
		d := fresh(t)
		_, err := d.Store.Append(t.Context(), ledger.Draft{Chain: intruded, Key: "first", Kind: ledger.SnapshotTaken, Data: json.RawMessage(`{"server":"s"}`)})
		require.NoError(t, err)
		chain, err := d.Store.Chain(t.Context(), intruded, 0, 1)
		require.NoError(t, err)
		c := forge(t, d, func(e *ledger.Entry) {
			first, err := ledger.DecodeEntry(chain[0].Bytes)
			require.NoError(t, err)
			e.Body = first.Body
		})
		insert := "INTO entries (hash, chain, n, key, kind, bytes) VALUES ($1, $2, $3, $4, $5, $6)"
		for _, start := range []string{"INSERT ", "INSERT OR REPLACE "} { // the second, where the database knows it
			require.Error(t, d.Exec(start+insert, c.Hash[:], c.Chain, c.N, c.Key, string(c.Kind), c.Bytes))
		}
	})

	// A writer looks at all that others have added behind the last entry with a place.
	t.Run("behind another", func(t *testing.T) {
		d, key := fresh(t), Key(t)
		say := func(k string) error {
			_, err := d.Store.Append(t.Context(), ledger.Draft{Chain: intruded, Key: k, Kind: ledger.SnapshotTaken, Data: json.RawMessage(`{"server":"s"}`)})
			return err
		}
		require.NoError(t, say("first"))
		Drain(t, d.Store, key)
		d.body(t, properBody)
		d.insert(t, forge(t, d, func(e *ledger.Entry) { e.Body = ledger.BodyDigest([]byte("nowhere")) }))
		d.insert(t, forge(t, d, func(e *ledger.Entry) { e.Key = "behind" }))
		require.ErrorIs(t, say("second"), ledger.ErrUnavailable)
		Drain(t, d.Store, key)
		require.NoError(t, say("second"))
		aside, err := d.Store.Asides(t.Context(), 0, 10)
		require.NoError(t, err)
		require.Len(t, aside, 2)
	})

	// Whoever sets an entry aside is told of.
	t.Run("a proper one is set aside", func(t *testing.T) {
		d, key := fresh(t), Key(t)
		_, err := d.Store.Append(t.Context(), ledger.Draft{Chain: intruded, Key: "k", Kind: ledger.SnapshotTaken, Data: json.RawMessage(`{"server":"s"}`)})
		require.NoError(t, err)
		rows, err := d.Store.Candidates(t.Context(), 10)
		require.NoError(t, err)
		Drain(t, d.Store, key)
		require.NoError(t, d.Store.SetAside(t.Context(), []ledger.Aside{{Candidate: rows[0], Why: "placed"}}))
		none, err := d.Store.Asides(t.Context(), 0, 10)
		require.NoError(t, err)
		require.Empty(t, none, "what has its place stays")
		_, err = d.Store.Append(t.Context(), ledger.Draft{Chain: intruded, Key: "l", Kind: ledger.SnapshotTaken, Data: json.RawMessage(`{"server":"s"}`)})
		require.NoError(t, err)
		rows, err = d.Store.Candidates(t.Context(), 10)
		require.NoError(t, err)
		require.NoError(t, d.Store.SetAside(t.Context(), []ledger.Aside{{Candidate: rows[0], Why: "garbage"}}))
		ok, problems, _ := d.Audit(t, key)
		require.False(t, ok)
		require.Len(t, problems, 1)
		require.Contains(t, problems[0], `1 entry was set aside as if it were none of this log, and is one: snapshot.taken, "l" in the chain snapshots/s, entry 1 there`)
	})
}

// Replayed inserts rows that claim to be checkpoints. The database refuses what does not fit, and
// the log goes on from what its key has signed.
func Replayed(t *testing.T, fresh func(t testing.TB) *Database) {
	d, key := fresh(t), Key(t)
	ctx := t.Context()
	grow := func(k string) {
		t.Helper()
		_, err := d.Store.Append(ctx, ledger.Draft{Chain: intruded, Key: k, Kind: ledger.SnapshotTaken, Data: json.RawMessage(`{"server":"s","fingerprint":"","digest":""}`)})
		require.NoError(t, err)
		Drain(t, d.Store, key)
	}
	grow("a")
	old, err := d.Store.Checkpoint(ctx)
	require.NoError(t, err)
	grow("b")
	grow("c")
	add := func(n, size, grown int64, raw []byte) error {
		return d.Exec("INSERT INTO log_batches (n, size, grown, checkpoint) VALUES ($1, $2, $3, $4)", n, size, grown, raw)
	}
	for name, err := range map[string]error{
		"an old one, as a larger one": add(4, 3, 4, old),
		"an old one, as the last":     add(4, 3, 3, old),
		"one far ahead":               add(1<<62, 1, 1, old),
		"of a size that never was":    add(4, 2, 1<<40, bytes.Replace(old, []byte("\n1\n"), []byte("\n1099511627776\n"), 1)),
	} {
		require.ErrorContains(t, err, "log_batches", name)
	}
	forged := bytes.Replace(old, []byte("\n1\n"), []byte("\n3\n"), 1)
	require.NoError(t, add(4, 3, 3, forged), "whether it is signed, the database does not know")
	require.NoError(t, add(5, 1, 1, old))
	var found []error
	q := &ledger.Sequencer{Store: d.Store, Key: key, Found: func(err error) { found = append(found, err) }}
	for _, k := range []string{"d", "e"} {
		_, err = d.Store.Append(ctx, ledger.Draft{Chain: intruded, Key: k, Kind: ledger.SnapshotTaken, Data: json.RawMessage(`{"server":"s","fingerprint":"","digest":""}`)})
		require.NoError(t, err)
		if k == "d" {
			log := ledger.Verified(d.Store, Origin, []string{key.Public()}, nil)
			raw, err := log.Checkpoint(ctx)
			require.NoError(t, err)
			c, err := ledger.Signers{Log: key.Public()}.Open(raw)
			require.NoError(t, err, "readers pass over it")
			require.EqualValues(t, 3, c.Size)
		}
		n, err := q.Integrate(ctx)
		require.NoError(t, err)
		require.Equal(t, 1, n)
	}
	require.Len(t, found, 1, "it is told once")

	// Nobody hides a checkpoint that was cosigned behind rows of its size.
	log := ledger.Verified(d.Store, Origin, []string{key.Public()}, nil)
	heads, err := log.Heads(ctx, ledger.Top, 1)
	require.NoError(t, err)
	require.Len(t, heads, 1)
	last := heads[0]
	require.NoError(t, d.Exec("INSERT INTO log_cosignatures (size, checkpoint) VALUES ($1, $2)", last.Size, last.Raw))
	for i := range int64(49) { // a size takes a hundred rows
		for j, raw := range [][]byte{bytes.Replace(old, []byte("\n1\n"), fmt.Appendf(nil, "\n%d\n", last.Size), 1), fmt.Appendf(nil, "x\n%d\nx", last.Size)} {
			require.NoError(t, add(last.N+1+2*i+int64(j), last.Size, last.Size, raw))
		}
	}
	heads, err = log.Heads(ctx, ledger.Top, 1)
	require.NoError(t, err)
	require.Equal(t, []ledger.Head{last}, heads)
	for _, list := range []func(context.Context, int) ([][]byte, error){log.Cosigned, log.CosignedEvenly} {
		all, err := list(ctx, 10)
		require.NoError(t, err)
		require.Len(t, all, 1)
		require.Equal(t, string(last.Raw), string(all[0]))
	}
	ok, problems, _ := d.Audit(t, key)
	require.True(t, ok, "%v", problems)
}

// Hidden removes entries from those that wait for a place.
func Hidden(t *testing.T, fresh func(t testing.TB) *Database) {
	d, key := fresh(t), Key(t)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	for _, k := range []string{"a", "b", "c"} {
		_, err := d.Store.Append(ctx, ledger.Draft{Chain: intruded, Key: k, Kind: ledger.SnapshotTaken, Data: json.RawMessage(`{"server":"s","fingerprint":"","digest":""}`)})
		require.NoError(t, err)
		if k == "a" {
			Drain(t, d.Store, key)
		}
		if k == "b" {
			require.NoError(t, d.Exec("DELETE FROM pending"))
		}
	}
	status, err := d.Store.Status(ctx)
	require.NoError(t, err)
	require.EqualValues(t, 1, status.Lost)
	require.EqualValues(t, 1, status.Waiting)
	ok, problems, warnings := d.Audit(t, key)
	require.True(t, ok, "%v", problems)
	require.Len(t, warnings, 1)
	require.Contains(t, warnings[0], "1 entry was in the database, without a place in the log, and did not wait for one")
	q := &ledger.Sequencer{Store: d.Store, Key: key}
	n, err := q.Integrate(ctx)
	require.NoError(t, err)
	require.Zero(t, n, "the one behind it waits for it")
	found := make(chan error, 1)
	q = &ledger.Sequencer{Store: d.Store, Key: key, Idle: tick, Found: func(err error) { found <- err }}
	done := make(chan error, 1)
	go func() { done <- q.Run(ctx) }()
	require.ErrorContains(t, <-found, "1 entry had no place in the log")
	require.Eventually(t, func() bool {
		status, err := d.Store.Status(ctx)
		return err == nil && status.Waiting+status.Lost == 0
	}, waitFor, tick)
	stop()
	require.NoError(t, <-done)
	aside, err := d.Store.Asides(t.Context(), 0, 10)
	require.NoError(t, err)
	require.Empty(t, aside)
	ok, problems, warnings = d.Audit(t, key)
	require.True(t, ok, "%v", problems)
	require.Empty(t, warnings)
}
