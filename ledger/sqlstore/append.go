package sqlstore

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"chimera.ai/engine/ledger"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/schemas"
)

// Append implements [ledger.Log].
func (s *Store) Append(ctx context.Context, drafts ...ledger.Draft) (out []ledger.Record, err error) {
	err = s.do(ctx, "append to the log", func(t *tx) error {
		out, err = t.append(ctx, drafts...)
		return err
	})
	return out, err
}

// state appends a fact whose data are v.
func (t *tx) state(ctx context.Context, d ledger.Draft, v any) (ledger.Record, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return ledger.Record{}, err
	}
	d.Data = data
	records, err := t.append(ctx, d)
	if err != nil {
		return ledger.Record{}, err
	}
	return records[0], nil
}

// rowsPerInsert bounds the rows of one statement; databases bound its parameters.
const rowsPerInsert = 500

// append places drafts in their chains, in the order in which they come, and
// inserts those that are new.
func (t *tx) append(ctx context.Context, drafts ...ledger.Draft) ([]ledger.Record, error) {
	out := make([]ledger.Record, len(drafts))
	byChain := map[string][]int{}
	var names []string
	for i, d := range drafts {
		if byChain[d.Chain] == nil {
			names = append(names, d.Chain)
		}
		byChain[d.Chain] = append(byChain[d.Chain], i)
	}
	// In one order everywhere, so that two writers never wait for each other.
	slices.Sort(names)
	for _, name := range names {
		if err := t.extend(ctx, name, drafts, byChain[name], out); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (t *tx) extend(ctx context.Context, chain string, drafts []ledger.Draft, which []int, out []ledger.Record) error {
	if t.d.Lock != "" {
		if _, err := t.exec(ctx, t.d.Lock, chain); err != nil {
			return err
		}
	}
	have, err := t.existing(ctx, chain, drafts, which)
	if err != nil {
		return err
	}
	var n int64
	var head []byte
	err = t.row(ctx, "SELECT n, hash FROM entries WHERE chain = $1 ORDER BY n DESC LIMIT 1", chain).Scan(&n, &head)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		n = -1
	case err != nil:
		return err
	}
	var prev ledger.Hash
	copy(prev[:], head)
	var entries, bodies []any
	flush := func() error {
		if _, err := t.insert(ctx, "INSERT INTO bodies (digest, chain, class, at, subject_key, bytes) VALUES ", "", 6, bodies); err != nil {
			return err
		}
		_, err := t.insert(ctx, t.d.InsertStart, t.d.InsertEnd, 6, entries)
		entries, bodies = entries[:0], bodies[:0]
		return err
	}
	for _, i := range which {
		d := &drafts[i]
		if r, ok := have[d.Key]; ok {
			if err := t.repeated(ctx, d, r); err != nil {
				return err
			}
			out[i] = r
			continue
		}
		n++
		digest, body, key, err := t.body(ctx, d)
		if err != nil {
			return err
		}
		e := d.Entry(t.origin, n, prev, t.now, digest)
		raw, err := e.Encode()
		if err != nil {
			return err
		}
		prev = ledger.LeafHash(raw)
		out[i] = ledger.Record{Bytes: raw, Hash: prev, Index: -1}
		have[d.Key] = out[i]
		h := prev
		entries = append(entries, h[:], chain, n, d.Key, string(d.Kind), raw)
		if body != nil {
			bodies = append(bodies, digest, chain, string(e.Class), millis(t.now), key, body)
		}
		if len(entries) >= 6*rowsPerInsert {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	return flush()
}

// insert writes rows of so many columns with one statement, and tells how many.
func (t *tx) insert(ctx context.Context, start, end string, columns int, values []any) (int64, error) {
	if len(values) == 0 {
		return 0, nil
	}
	var b strings.Builder
	b.WriteString(start)
	for i := range values {
		switch {
		case i%columns != 0:
			b.WriteByte(',')
		case i > 0:
			b.WriteString("),(")
		default:
			b.WriteByte('(')
		}
		if t.d.Question {
			b.WriteByte('?')
		} else {
			fmt.Fprintf(&b, "$%d", i+1)
		}
	}
	b.WriteByte(')')
	b.WriteString(end)
	r, err := t.tx.ExecContext(ctx, b.String(), values...)
	if err != nil {
		return 0, err
	}
	return r.RowsAffected()
}

// existing finds the entries whose keys the chain has.
func (t *tx) existing(ctx context.Context, chain string, drafts []ledger.Draft, which []int) (map[string]ledger.Record, error) {
	have := map[string]ledger.Record{}
	for part := range slices.Chunk(which, rowsPerInsert) {
		var b strings.Builder
		args := []any{chain}
		for _, i := range part {
			args = append(args, drafts[i].Key)
			fmt.Fprintf(&b, ",$%d", len(args))
		}
		rows, err := t.rows(ctx, "SELECT key, hash, bytes FROM entries WHERE chain = $1 AND key IN ("+b.String()[1:]+")", args...)
		if err != nil {
			return nil, err
		}
		_, err = collect(rows, func(rows *sql.Rows) (struct{}, error) {
			var key string
			var hash, raw []byte
			if err := rows.Scan(&key, &hash, &raw); err != nil {
				return struct{}{}, err
			}
			have[key] = ledger.Record{Bytes: raw, Hash: ledger.Hash(hash), Index: -1}
			return struct{}{}, nil
		})
		if err != nil {
			return nil, err
		}
	}
	return have, nil
}

// repeated holds a draft against the entry that has its key. What a body that is
// gone said cannot be compared.
func (t *tx) repeated(ctx context.Context, d *ledger.Draft, r ledger.Record) error {
	e, err := ledger.DecodeEntry(r.Bytes)
	if err != nil {
		return err
	}
	conflict := fmt.Errorf("%w: %s has another entry %s", ledger.ErrConflict, d.Chain, d.Key)
	if !bytes.Equal(r.Bytes, t.again(d, e)) {
		return conflict
	}
	raw, err := t.open(ctx, e.Body)
	if errors.Is(err, ledger.ErrGone) || e.Body == "" && d.Data == nil {
		return nil
	}
	if err != nil {
		return err
	}
	body, err := ledger.DecodeBody(raw)
	if err != nil {
		return err
	}
	want, err := canonical(d.Data)
	if err != nil {
		return err
	}
	have, err := canonical(body.Data)
	if err != nil {
		return err
	}
	if !bytes.Equal(want, have) {
		return conflict
	}
	return nil
}

// again is the draft's entry in the place that e has.
func (t *tx) again(d *ledger.Draft, e *ledger.Entry) []byte {
	raw, err := d.Entry(e.Origin, e.N, e.Prev, e.At, e.Body).Encode()
	if err != nil {
		return nil
	}
	return raw
}

func canonical(raw json.RawMessage) ([]byte, error) {
	v, err := schemas.Decode(raw)
	if err != nil {
		return nil, err
	}
	return plan.Canonical(v)
}

// body makes the stored form of a draft's data; all are empty without data.
func (t *tx) body(ctx context.Context, d *ledger.Draft) (digest string, raw []byte, key any, err error) {
	if d.Data == nil {
		return "", nil, nil, nil
	}
	raw, err = ledger.Body{Data: d.Data, Salt: salt()}.Encode()
	if err != nil {
		return "", nil, nil, err
	}
	if d.Subject != "" {
		if raw, key, err = t.seal(ctx, d.Subject, raw); err != nil {
			return "", nil, nil, err
		}
	}
	return ledger.BodyDigest(raw), raw, key, nil
}
