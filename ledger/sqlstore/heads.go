package sqlstore

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"math"

	"chimera.ai/engine/ledger"
)

// Heads implements [ledger.Log].
func (s *Store) Heads(ctx context.Context, after ledger.Head, limit int) ([]ledger.Head, error) {
	return list(ctx, s, "read checkpoints", "SELECT n, grown, checkpoint, at FROM log_batches WHERE (grown, n) < ($1, $2) ORDER BY grown DESC, n DESC LIMIT $3",
		[]any{after.Size, after.N, bound(limit)}, scanHead)
}

func scanHead(rows *sql.Rows) (h ledger.Head, err error) {
	var at int64
	err = rows.Scan(&h.N, &h.Size, &h.Raw, &at)
	h.At = instant(at)
	return h, err
}

// Checkpoint implements [ledger.Log].
func (s *Store) Checkpoint(ctx context.Context) ([]byte, error) {
	for h, err := range ledger.AllHeads(ctx, s, ledger.Top) {
		if err != nil {
			return nil, err
		}
		if _, err := h.Checkpoint(s.origin); err != nil {
			continue
		}
		more, err := s.firstCosignatures(ctx, h.Size)
		return ledger.MergeAll(h.Raw, more), err
	}
	return nil, fmt.Errorf("read the checkpoint: %w", ledger.ErrNotFound)
}

func scanBytes(rows *sql.Rows) (b []byte, err error) { return b, rows.Scan(&b) }

// Cosignatures implements [ledger.Log].
func (s *Store) Cosignatures(ctx context.Context, size int64) ([][]byte, error) {
	return list(ctx, s, "read cosignatures", "SELECT checkpoint FROM log_cosignatures WHERE size = $1 ORDER BY serial", []any{size}, scanBytes)
}

// CosignaturesAfter lists some of the same: those with serials beyond the given one, at most limit.
// It returns the last serial.
func (s *Store) CosignaturesAfter(ctx context.Context, size, serial int64, limit int) (texts [][]byte, last int64, err error) {
	last = serial
	texts, err = list(ctx, s, "read cosignatures", "SELECT serial, checkpoint FROM log_cosignatures WHERE size = $1 AND serial > $2 ORDER BY serial LIMIT $3",
		[]any{size, serial, bound(limit)}, func(rows *sql.Rows) (b []byte, err error) { return b, rows.Scan(&last, &b) })
	return texts, last, err
}

// firstTexts bounds the texts with cosignatures of one size that are read without the witnesses'
// keys: somebody may have added any number of rows.
const firstTexts = 64

func (s *Store) firstCosignatures(ctx context.Context, size int64) ([][]byte, error) {
	texts, _, err := s.CosignaturesAfter(ctx, size, math.MinInt64, firstTexts)
	return texts, err
}

// AddCosignatures implements [ledger.Log].
func (s *Store) AddCosignatures(ctx context.Context, checkpoint []byte) error {
	c, err := ledger.ParseCheckpoint(checkpoint)
	if err != nil {
		return fmt.Errorf("add cosignatures: %w: %w", ledger.ErrInvalid, err)
	}
	text, _, _ := bytes.Cut(checkpoint, []byte("\n\n"))
	text = append(bytes.Clone(text), "\n\n"...)
	return s.do(ctx, "add cosignatures", func(t *tx) error {
		var there int
		if err := t.row(ctx, "SELECT count(*) FROM log_batches WHERE grown = $1 AND substr(checkpoint, 1, $2) = $3", c.Size, len(text), text).Scan(&there); err != nil {
			return err
		}
		if there == 0 {
			return fmt.Errorf("%w: the log has no such checkpoint over %d entries", ledger.ErrConflict, c.Size)
		}
		var have int
		if err := t.row(ctx, "SELECT count(*) FROM log_cosignatures WHERE size = $1 AND checkpoint = $2", c.Size, checkpoint).Scan(&have); err != nil || have > 0 {
			return err
		}
		_, err := t.exec(ctx, "INSERT INTO log_cosignatures (size, checkpoint) VALUES ($1, $2)", c.Size, checkpoint)
		return err
	})
}

// headsPerSize bounds the rows of one size that are returned.
const headsPerSize = 100

// ofSize returns the checkpoints of a size, the last first. A size may have two, by a former and by
// the current key of the log, and rows that somebody has added.
func (s *Store) ofSize(ctx context.Context, size int64) (out []ledger.Head, err error) {
	for h, err := range ledger.AllHeads(ctx, s, ledger.Head{Size: size, N: math.MaxInt64}) {
		if err != nil {
			return nil, err
		}
		if h.Size != size || len(out) == headsPerSize {
			break
		}
		if _, err := h.Checkpoint(s.origin); err == nil {
			out = append(out, h)
		}
	}
	return out, nil
}

// Cosigned implements [ledger.Log].
func (s *Store) Cosigned(ctx context.Context, limit int) ([][]byte, error) {
	return s.cosigned(ctx, "SELECT DISTINCT size FROM log_cosignatures ORDER BY size DESC LIMIT $1", bound(limit))
}

// CosignedEvenly implements [ledger.Log].
func (s *Store) CosignedEvenly(ctx context.Context, limit int) ([][]byte, error) {
	if limit = bound(limit); limit == 0 {
		return nil, nil
	}
	return s.cosigned(ctx, `SELECT size FROM (SELECT size, row_number() OVER (ORDER BY size) AS k, count(*) OVER () AS n
		FROM (SELECT DISTINCT size FROM log_cosignatures) AS sizes) AS numbered WHERE k = n OR k % ((n + $1 - 1) / $1) = 0 ORDER BY size`, int64(limit))
}

// cosigned lists the checkpoints of the sizes that a query selects.
func (s *Store) cosigned(ctx context.Context, query string, limit any) ([][]byte, error) {
	sizes, err := list(ctx, s, "list cosigned checkpoints", query, []any{limit},
		func(rows *sql.Rows) (n int64, err error) { return n, rows.Scan(&n) })
	if err != nil {
		return nil, err
	}
	var out [][]byte
	for _, size := range sizes {
		more, err := s.firstCosignatures(ctx, size)
		if err != nil {
			return nil, err
		}
		rows, err := s.ofSize(ctx, size)
		if err != nil {
			return nil, err
		}
		for _, h := range rows {
			out = append(out, ledger.MergeAll(h.Raw, more))
		}
	}
	return out, nil
}
