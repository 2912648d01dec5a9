package sqlstore

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"chimera.ai/engine/ledger"
	"chimera.ai/engine/plan"
)

// TakeSnapshot implements [ledger.Facts].
func (s *Store) TakeSnapshot(ctx context.Context, v ledger.Snapshot) error {
	return s.do(ctx, "take a snapshot of "+v.Server, func(t *tx) error {
		chain := ledger.SnapshotsChain(v.Server)
		if err := t.lock(ctx, chain); err != nil {
			return err
		}
		same, err := t.lastSnapshot(ctx, chain, v)
		if err != nil || same {
			return err
		}
		v.TakenAt = t.now
		if _, err := t.exec(ctx, "INSERT INTO snapshots (server, fingerprint, digest, taken_at) VALUES ($1, $2, $3, $4)",
			v.Server, v.Fingerprint, v.Digest, millis(v.TakenAt)); err != nil {
			return err
		}
		n, err := t.next(ctx, chain)
		if err != nil {
			return err
		}
		_, err = t.state(ctx, ledger.Draft{Chain: chain, Key: key(ledger.SnapshotTaken, strconv.FormatInt(n, 10)), Kind: ledger.SnapshotTaken, Refs: refs("listing", v.Digest)}, v)
		return err
	})
}

// lastSnapshot reports whether the last entry of a locked chain of snapshots states one. The table
// does not count, nor does a row that is no entry: whoever adds one would keep a snapshot out of
// the log.
func (t *tx) lastSnapshot(ctx context.Context, chain string, v ledger.Snapshot) (bool, error) {
	var n int64
	var hash ledger.Hash
	var digest, raw []byte
	err := t.row(ctx, "SELECT n, hash, bytes FROM entries WHERE chain = $1 ORDER BY n DESC LIMIT 1", chain).Scan(&n, &digest, &raw)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	if err == nil {
		copy(hash[:], digest)
		err = t.proper(ctx, chain, n, hash)
	}
	if err != nil {
		return false, err
	}
	e, err := ledger.DecodeEntry(raw)
	if err != nil || e.Ref("listing") != v.Digest {
		return false, err
	}
	stored, err := t.opener().body(ctx, e.Body)
	if errors.Is(err, ledger.ErrGone) || errors.Is(err, ledger.ErrSealed) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	var last ledger.Snapshot
	b, err := ledger.DecodeBody(stored)
	if err != nil || json.Unmarshal(b.Data, &last) != nil {
		return false, nil
	}
	return last.Fingerprint == v.Fingerprint && last.Digest == v.Digest, nil
}

// StateAuthority implements [ledger.Facts].
func (s *Store) StateAuthority(ctx context.Context, statement json.RawMessage, prev string) error {
	return s.do(ctx, "state authority", func(t *tx) error {
		raw, err := canonical(statement)
		if err != nil {
			return err
		}
		digest := plan.DigestOf(raw)
		if err := t.lock(ctx, ledger.AuthorityChain); err != nil {
			return err
		}
		var n int64
		var last string
		err = t.row(ctx, "SELECT n, digest FROM authority ORDER BY n DESC LIMIT 1").Scan(&n, &last)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		if last == digest {
			return nil
		}
		if last != prev {
			return fmt.Errorf("%w: the last statement is %q, not %q", ledger.ErrConflict, last, prev)
		}
		var known int
		if err := t.row(ctx, "SELECT count(*) FROM authority WHERE digest = $1", digest).Scan(&known); err != nil {
			return err
		}
		if known > 0 {
			return fmt.Errorf("%w: it was stated before others", ledger.ErrConflict)
		}
		var size int64
		if err := t.row(ctx, "SELECT coalesce(sum(octet_length(statement)), 0) FROM authority").Scan(&size); err != nil {
			return err
		}
		if n >= ledger.MaxStatements || size+int64(len(raw)) > ledger.MaxAuthority {
			return fmt.Errorf("%w: the chain of statements is full: %d of %d, %d bytes of %d", ledger.ErrInvalid, n, ledger.MaxStatements, size, ledger.MaxAuthority)
		}
		if _, err := t.exec(ctx, "INSERT INTO authority (n, digest, prev, statement) VALUES ($1, $2, $3, $4)", n+1, digest, prev, string(raw)); err != nil {
			return err
		}
		_, err = t.state(ctx, ledger.Draft{Chain: ledger.AuthorityChain, Key: key(ledger.AuthorityStated, digest), Kind: ledger.AuthorityStated, Refs: refs("statement", digest)},
			ledger.AuthorityData{Prev: prev, Statement: raw})
		return err
	})
}

// Authority implements [ledger.Facts].
func (s *Store) Authority(ctx context.Context) ([]json.RawMessage, error) {
	size, n := 0, 0
	return list(ctx, s, "list authority", "SELECT statement FROM authority ORDER BY n", nil, func(rows *sql.Rows) (json.RawMessage, error) {
		// Somebody with access to the database may have put more there than fits into
		// memory.
		var raw sql.RawBytes
		if err := rows.Scan(&raw); err != nil {
			return nil, err
		}
		if n, size = n+1, size+len(raw); n > ledger.MaxStatements || size > ledger.MaxAuthority {
			return nil, fmt.Errorf("%w: more than %d statements or %d bytes", ledger.ErrInvalid, ledger.MaxStatements, ledger.MaxAuthority)
		}
		return bytes.Clone(raw), nil
	})
}
