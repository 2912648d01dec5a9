package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"chimera.ai/engine/ledger"
)

func scanRecord(rows *sql.Rows) (ledger.Record, error) {
	var hash, raw []byte
	var index sql.NullInt64
	if err := rows.Scan(&hash, &raw, &index); err != nil {
		return ledger.Record{}, err
	}
	r := ledger.Record{Bytes: raw, Index: -1}
	copy(r.Hash[:], hash)
	if index.Valid {
		r.Index = index.Int64
	}
	return r, nil
}

// bound bounds how many entries are read at once.
func bound(limit int) int { return min(max(limit, 0), maxPage) }

// Records implements [ledger.Log].
func (s *Store) Records(ctx context.Context, from int64, limit int) ([]ledger.Record, error) {
	return list(ctx, s, "read the log", `SELECT e.hash, e.bytes, i.place FROM log_index i JOIN entries e ON e.serial = i.serial
		WHERE i.place >= $1 ORDER BY i.place LIMIT $2`, []any{from, bound(limit)}, scanRecord)
}

// Chain implements [ledger.Log].
func (s *Store) Chain(ctx context.Context, name string, from int64, limit int) ([]ledger.Record, error) {
	return list(ctx, s, "read a chain", `SELECT e.hash, e.bytes, i.place FROM entries e LEFT JOIN log_index i ON i.serial = e.serial
		WHERE e.chain = $1 AND e.n >= $2 ORDER BY e.n LIMIT $3`, []any{name, from, bound(limit)}, scanRecord)
}

// Find implements [ledger.Log].
func (s *Store) Find(ctx context.Context, h ledger.Hash) (ledger.Record, error) {
	found, err := list(ctx, s, "find an entry", `SELECT e.hash, e.bytes, i.place FROM entries e LEFT JOIN log_index i ON i.serial = e.serial
		WHERE e.hash = $1`, []any{h[:]}, scanRecord)
	if err != nil {
		return ledger.Record{}, err
	}
	if len(found) == 0 {
		return ledger.Record{}, fmt.Errorf("find entry %s: %w", h, ledger.ErrNotFound)
	}
	return found[0], nil
}

// Lead implements [ledger.Log].
func (s *Store) Lead(ctx context.Context) (func(), error) {
	release, err := s.d.Lead(ctx, s.db)
	return release, s.explain("lead the log", err)
}

// Integrate implements [ledger.Log].
func (s *Store) Integrate(ctx context.Context, size int64, batch []ledger.Hash, tiles []ledger.Tile, checkpoint []byte) error {
	return s.do(ctx, "integrate", func(t *tx) error {
		// Rows that claim to be checkpoints say nothing about how many there are: anybody may
		// have added them.
		var n, placed int64
		err := t.row(ctx, "SELECT (SELECT coalesce(max(n), 0) FROM log_batches), (SELECT coalesce(max(place), -1) + 1 FROM log_index)").Scan(&n, &placed)
		if err != nil {
			return err
		}
		if placed != size {
			return fmt.Errorf("%w: %d entries have places, not %d", ledger.ErrConflict, placed, size)
		}
		if err := t.d.Place(ctx, t.tx, size, batch); err != nil {
			return err
		}
		var rows []any
		for _, x := range tiles {
			rows = append(rows, x.Level, x.N, x.Width, x.Data)
		}
		if _, err := t.insert(ctx, "INSERT INTO log_tiles (level, n, width, data) VALUES ", "", 4, rows); err != nil {
			return err
		}
		for _, x := range tiles {
			if err := t.supersede(ctx, size, x); err != nil {
				return err
			}
		}
		// The number is unique: of two leaders that do not know of each other, one fails
		// here.
		_, err = t.exec(ctx, "INSERT INTO log_batches (n, size, grown, checkpoint) VALUES ($1, $2, $3, $4)", n+1, size, size+int64(len(batch)), checkpoint)
		return err
	})
}

// supersede removes the tile that a new one extends: the narrower tile in its place
// when the log had size entries, if any.
func (t *tx) supersede(ctx context.Context, size int64, x ledger.Tile) error {
	hashes := int64(0) // of the level, then
	if shift := x.Level * ledger.TileHeight; shift < 63 {
		hashes = size >> shift
	}
	if x.N != hashes>>ledger.TileHeight || hashes&(1<<ledger.TileHeight-1) == 0 {
		return nil
	}
	_, err := t.exec(ctx, "DELETE FROM log_tiles WHERE level = $1 AND n = $2 AND width < $3", x.Level, x.N, x.Width)
	return err
}

// Tile implements [ledger.Log].
func (s *Store) Tile(ctx context.Context, level int, n int64, width int) ([]byte, error) {
	var data []byte
	err := s.one(ctx, "read a tile", `SELECT data FROM log_tiles WHERE level = $1 AND n = $2 AND width >= $3 ORDER BY width LIMIT 1`, []any{level, n, width}, &data)
	if err != nil {
		return nil, err
	}
	// A wider tile begins with the narrower one.
	return data[:min(len(data), width*len(ledger.Hash{}))], nil
}

// Body implements [ledger.Log].
func (s *Store) Body(ctx context.Context, digest string) ([]byte, error) {
	if err := s.there(); err != nil {
		return nil, s.explain("read a body", err)
	}
	raw, err := s.opener().body(ctx, digest)
	return raw, s.explain("read a body", err)
}

// Stored implements [ledger.Log].
func (s *Store) Stored(ctx context.Context, digest string) (raw []byte, err error) {
	err = s.one(ctx, "read a body", "SELECT bytes FROM bodies WHERE digest = $1", []any{digest}, &raw)
	if errors.Is(err, ledger.ErrNotFound) {
		return nil, fmt.Errorf("read body %s: %w", digest, ledger.ErrGone)
	}
	return raw, err
}
