package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

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

// Records implements [ledger.Log].
func (s *Store) Records(ctx context.Context, from int64, limit int) ([]ledger.Record, error) {
	return list(ctx, s, "read the log", `SELECT e.hash, e.bytes, i.place FROM log_index i JOIN entries e ON e.serial = i.serial
		WHERE i.place >= $1 ORDER BY i.place LIMIT $2`, []any{from, limit}, scanRecord)
}

// Chain implements [ledger.Log].
func (s *Store) Chain(ctx context.Context, name string) ([]ledger.Record, error) {
	return list(ctx, s, "read a chain", `SELECT e.hash, e.bytes, i.place FROM entries e LEFT JOIN log_index i ON i.serial = e.serial
		WHERE e.chain = $1 ORDER BY e.n`, []any{name}, scanRecord)
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

// Pending implements [ledger.Log].
func (s *Store) Pending(ctx context.Context, limit int) ([]ledger.Record, error) {
	return list(ctx, s, "look for new entries", s.d.Pending, []any{limit}, func(rows *sql.Rows) (ledger.Record, error) {
		var hash, raw []byte
		if err := rows.Scan(&hash, &raw); err != nil {
			return ledger.Record{}, err
		}
		r := ledger.Record{Bytes: raw, Index: -1}
		copy(r.Hash[:], hash)
		return r, nil
	})
}

// Lead implements [ledger.Log].
func (s *Store) Lead(ctx context.Context) (func(), error) {
	release, err := s.d.Lead(ctx, s.db)
	return release, s.explain("lead the log", err)
}

// Integrate implements [ledger.Log].
func (s *Store) Integrate(ctx context.Context, size int64, batch []ledger.Hash, tiles []ledger.Tile, checkpoint []byte) error {
	return s.do(ctx, "integrate", func(t *tx) error {
		n, grown := int64(0), int64(0)
		err := t.row(ctx, "SELECT n, grown FROM log_batches ORDER BY n DESC LIMIT 1").Scan(&n, &grown)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		if grown != size {
			return fmt.Errorf("%w: the log has %d entries, not %d", ledger.ErrConflict, grown, size)
		}
		if err := t.index(ctx, size, batch); err != nil {
			return err
		}
		var rows []any
		for _, x := range tiles {
			rows = append(rows, x.Level, x.N, x.Width, x.Data)
		}
		if _, err := t.insert(ctx, "INSERT INTO log_tiles (level, n, width, data) VALUES ", "", 4, rows); err != nil {
			return err
		}
		// The number is unique: of two who lead without knowing of each other, one
		// fails here.
		_, err = t.exec(ctx, "INSERT INTO log_batches (n, size, grown, checkpoint) VALUES ($1, $2, $3, $4)", n+1, size, size+int64(len(batch)), checkpoint)
		return err
	})
}

// index gives entries their places, from size on.
func (t *tx) index(ctx context.Context, size int64, batch []ledger.Hash) error {
	for start := 0; start < len(batch); start += rowsPerInsert {
		part := batch[start:min(start+rowsPerInsert, len(batch))]
		place := make(map[ledger.Hash]int64, len(part))
		var b strings.Builder
		var args []any
		for i, h := range part {
			place[h] = size + int64(start+i)
			args = append(args, h[:])
			fmt.Fprintf(&b, ",$%d", len(args))
		}
		if len(place) != len(part) {
			return fmt.Errorf("%w: the batch has an entry twice", ledger.ErrConflict)
		}
		rows, err := t.rows(ctx, "SELECT serial, hash FROM entries WHERE hash IN ("+b.String()[1:]+")", args...)
		if err != nil {
			return err
		}
		var serials []any
		values, err := collect(rows, func(rows *sql.Rows) ([2]any, error) {
			var serial int64
			var hash []byte
			if err := rows.Scan(&serial, &hash); err != nil {
				return [2]any{}, err
			}
			serials = append(serials, serial)
			return [2]any{place[ledger.Hash(hash)], serial}, nil
		})
		if err != nil {
			return err
		}
		if len(values) != len(part) {
			return fmt.Errorf("%w: the batch has an entry that is not stored", ledger.ErrConflict)
		}
		var flat []any
		for _, v := range values {
			flat = append(flat, v[0], v[1])
		}
		if _, err := t.insert(ctx, "INSERT INTO log_index (place, serial) VALUES ", "", 2, flat); err != nil {
			return err
		}
		if t.d.Placed != "" {
			if _, err := t.insert(ctx, t.d.Placed, "", len(serials), serials); err != nil {
				return err
			}
		}
	}
	return nil
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

// Checkpoint implements [ledger.Log].
func (s *Store) Checkpoint(ctx context.Context) ([]byte, error) {
	var raw []byte
	var size int64
	if err := s.one(ctx, "read the checkpoint", "SELECT checkpoint, grown FROM log_batches ORDER BY n DESC LIMIT 1", nil, &raw, &size); err != nil {
		return nil, err
	}
	more, err := list(ctx, s, "read cosignatures", "SELECT checkpoint FROM log_cosignatures WHERE size = $1 ORDER BY serial", []any{size}, func(rows *sql.Rows) (b []byte, err error) {
		return b, rows.Scan(&b)
	})
	if err != nil {
		return nil, err
	}
	for _, c := range more {
		if merged, err := ledger.Merge(raw, c); err == nil {
			raw = merged
		}
	}
	return raw, nil
}

// AddCosignatures implements [ledger.Log].
func (s *Store) AddCosignatures(ctx context.Context, checkpoint []byte) error {
	now, err := s.Checkpoint(ctx)
	if err != nil {
		return err
	}
	if _, err := ledger.Merge(now, checkpoint); err != nil {
		return fmt.Errorf("add cosignatures: %w: %w", ledger.ErrConflict, err)
	}
	return s.do(ctx, "add cosignatures", func(t *tx) error {
		_, err := t.exec(ctx, "INSERT INTO log_cosignatures (size, checkpoint) SELECT grown, $1 FROM log_batches ORDER BY n DESC LIMIT 1", checkpoint)
		return err
	})
}

// Body implements [ledger.Log].
func (s *Store) Body(ctx context.Context, digest string) (raw []byte, err error) {
	err = s.do(ctx, "read a body", func(t *tx) error {
		raw, err = t.open(ctx, digest)
		return err
	})
	return raw, err
}

// Stored implements [ledger.Log].
func (s *Store) Stored(ctx context.Context, digest string) (raw []byte, err error) {
	err = s.one(ctx, "read a body", "SELECT bytes FROM bodies WHERE digest = $1", []any{digest}, &raw)
	if errors.Is(err, ledger.ErrNotFound) {
		return nil, fmt.Errorf("read body %s: %w", digest, ledger.ErrGone)
	}
	return raw, err
}
