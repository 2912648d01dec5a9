package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"

	"chimera.ai/engine/internal/pgtest"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/ledger/postgres"
	"chimera.ai/engine/ledger/sqlite"
)

const (
	logOrigin  = "bench.example.com/log"
	logWriters = 16
	// logBatch is the entries of one transaction, and logBatches the transactions
	// of a writer in one measurement: outcomes of nodes come so.
	logBatch, logBatches = 50, 30
)

// logDrafts are the outcomes of some nodes of a run.
func logDrafts(run string, from int) []ledger.Draft {
	out := make([]ledger.Draft, logBatch)
	for i := range out {
		node := fmt.Sprintf("node-%d", from+i)
		out[i] = ledger.Draft{
			Chain: "run/" + run + "/root", Key: "node/" + node + "/0/0", Kind: ledger.NodeSucceeded, Run: run, Node: node, Agent: "agent-42",
			Refs: []ledger.Ref{{Name: "output", Digest: ledger.BodyDigest([]byte(node))}},
			Data: json.RawMessage(`{"activity":"text/count","attempts":1,"kind":"node.succeeded","node":"` + node + `","output_digest":"` + ledger.BodyDigest([]byte(node)) + `"}`),
		}
	}
	return out
}

// inParallel runs so many writers and tells the rows a second.
func inParallel(writers int, write func(writer, batch int) error) (float64, error) {
	begin := time.Now()
	ends := make([]error, writers)
	var group sync.WaitGroup
	for w := range writers {
		group.Go(func() {
			for b := range logBatches {
				if ends[w] = write(w, b); ends[w] != nil {
					return
				}
			}
		})
	}
	group.Wait()
	return float64(writers*logBatches*logBatch) / time.Since(begin).Seconds(), errors.Join(ends...)
}

// appends measures the store.
func appends(ctx context.Context, s ledger.Log, writers, round int) (float64, error) {
	return inParallel(writers, func(w, b int) error {
		_, err := s.Append(ctx, logDrafts(fmt.Sprintf("r%d-%d", round, w), b*logBatch)...)
		return err
	})
}

// plainly measures inserts of rows as those that the store has written: into
// tables with the same columns and indexes, as many in a transaction, by a
// statement for each table. The rows lie ready.
func plainly(ctx context.Context, db *sql.DB, like []ledger.Record, round int) (float64, error) {
	return inParallel(logWriters, func(w, b int) error {
		chain := fmt.Sprintf("run/r%d-%d/root", round, w)
		hashes, numbers, keys, kinds, texts := make([][]byte, logBatch), make([]int64, logBatch), make([]string, logBatch), make([]string, logBatch), make([][]byte, logBatch)
		digests, classes := make([]string, logBatch), make([]string, logBatch)
		random := make([]byte, 64*logBatch)
		_, _ = rand.Read(random)
		for i := range hashes {
			hashes[i] = random[64*i : 64*i+32]
			numbers[i] = int64(b*logBatch + i)
			keys[i], kinds[i], texts[i] = fmt.Sprintf("node.succeeded/node-%d", numbers[i]), "node.succeeded", bytes.Clone(like[i%len(like)].Bytes)
			digests[i], classes[i] = fmt.Sprintf("sha256:%x", random[64*i+32:64*i+64]), "operational"
			// An entry ends with the digest of its body, which no other has.
			copy(texts[i][len(texts[i])-len(digests[i])-len(`"}`):], digests[i])
		}
		bodies := make([][]byte, logBatch)
		for i := range bodies {
			bodies[i] = texts[i][:min(240, len(texts[i]))]
		}
		t, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer func() { _ = t.Rollback() }()
		if _, err := t.ExecContext(ctx, `INSERT INTO plain_bodies (digest, chain, class, at, bytes)
			SELECT digest, $1::text, class, $2::bigint, bytes FROM unnest($3::text[], $4::text[], $5::bytea[]) AS u (digest, class, bytes)`,
			chain, time.Now().UnixMilli(), digests, classes, bodies); err != nil {
			return err
		}
		if _, err := t.ExecContext(ctx, `INSERT INTO plain_entries (hash, chain, n, key, kind, bytes)
			SELECT hash, $1::text, n, key, kind, bytes FROM unnest($2::bytea[], $3::bigint[], $4::text[], $5::text[], $6::bytea[]) AS u (hash, n, key, kind, bytes)`,
			chain, hashes, numbers, keys, kinds, texts); err != nil {
			return err
		}
		return t.Commit()
	})
}

// integrates measures the sequencer over all entries that are there.
func integrates(ctx context.Context, s ledger.Log, key *ledger.Key) (entries int, perSecond float64, err error) {
	begin := time.Now()
	q := ledger.Sequencer{Store: s, Key: key}
	for {
		n, err := q.Integrate(ctx)
		if err != nil {
			return entries, 0, err
		}
		if n == 0 {
			return entries, float64(entries) / time.Since(begin).Seconds(), nil
		}
		entries += n
	}
}

// log prints what the ledger's log takes in.
func (b *bench) log(ctx context.Context) (err error) {
	dir, err := os.MkdirTemp("", "chimera-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	fmt.Printf("\nLedger: %d writers, %d entries with bodies in a transaction, each as min median max of %d runs\n", logWriters, logBatch, b.rounds)
	secret, _, err := ledger.NewKey(logOrigin)
	if err != nil {
		return err
	}
	key, err := ledger.ParseKey(secret)
	if err != nil {
		return err
	}
	address := os.Getenv("DATABASE_URL")
	if address == "" {
		cluster, err := pgtest.Start(ctx, dir)
		if err != nil {
			return err
		}
		defer cluster.Kill()
		address = cluster.URL("postgres")
	}
	if err := b.logPostgres(ctx, address, key); err != nil {
		return fmt.Errorf("the ledger on PostgreSQL: %w", err)
	}
	s, err := sqlite.Open(ctx, sqlite.Options{Path: filepath.Join(dir, "ledger.db"), Origin: logOrigin})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	var appended, integrated figures
	for i := range b.rounds + 1 {
		a, err := appends(ctx, s, logWriters, i)
		if err != nil {
			return err
		}
		_, q, err := integrates(ctx, s, key)
		if err != nil {
			return err
		}
		if i > 0 {
			appended, integrated = append(appended, a), append(integrated, q)
		}
	}
	fmt.Printf("%-44s entries/s %s\n", "SQLite: append", appended.row("%7.0f"))
	fmt.Printf("%-44s entries/s %s\n", "SQLite: sequencer", integrated.row("%7.0f"))
	return nil
}

func (b *bench) logPostgres(ctx context.Context, address string, key *ledger.Key) (err error) {
	o := postgres.Options{URL: address, Origin: logOrigin}
	if _, err := postgres.Migrate(ctx, o); err != nil {
		return err
	}
	s, err := postgres.Open(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	db, err := sql.Open("pgx", address)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	db.SetMaxOpenConns(logWriters)
	db.SetMaxIdleConns(logWriters)
	for _, q := range []string{
		"DROP TABLE IF EXISTS plain_entries, plain_bodies",
		"CREATE TABLE plain_entries (LIKE entries INCLUDING ALL)", "CREATE TABLE plain_bodies (LIKE bodies INCLUDING ALL EXCLUDING CONSTRAINTS)",
	} {
		if _, err := db.ExecContext(ctx, q); err != nil {
			return err
		}
	}
	var ours, theirs, ratios, integrated figures
	start := int(time.Now().Unix()) // chains that a database which is used again does not have
	like, err := s.Append(ctx, logDrafts(fmt.Sprint("like-", start), 0)...)
	if err != nil {
		return err
	}
	for i := range b.rounds + 1 {
		var a, p float64
		// Now one goes first, now the other.
		for _, side := range [][]bool{{true, false}, {false, true}}[i%2] {
			if side {
				a, err = appends(ctx, s, logWriters, start+i)
			} else {
				p, err = plainly(ctx, db, like, start+i)
			}
			if err != nil {
				return err
			}
		}
		_, q, err := integrates(ctx, s, key)
		if err != nil {
			return err
		}
		if i == 0 {
			continue // warm-up
		}
		ours, theirs, ratios, integrated = append(ours, a), append(theirs, p), append(ratios, a/p), append(integrated, q)
	}
	fmt.Printf("%-44s entries/s %s   plain inserts/s %s   ratio %s   bar ≥ %.2f\n", "PostgreSQL: append",
		ours.row("%7.0f"), theirs.row("%7.0f"), ratios.row("%5.2f"), 0.75)
	fmt.Printf("%-44s entries/s %s\n", "PostgreSQL: sequencer", integrated.row("%7.0f"))
	return nil
}
