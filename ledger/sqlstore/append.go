package sqlstore

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"chimera.ai/engine/ledger"
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

const (
	// maxDrafts bounds the drafts of one transaction, and maxChains their chains:
	// each takes a lock.
	maxDrafts, maxChains = 4096, 64
	// maxRows bounds the rows that one statement writes.
	maxRows = 512
)

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
	if len(drafts) > maxDrafts || len(names) > maxChains {
		return nil, fmt.Errorf("%w: %d entries in %d chains at once, more than %d in %d", ledger.ErrInvalid, len(drafts), len(names), maxDrafts, maxChains)
	}
	// In one order everywhere, so that two writers never wait for each other.
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(cmp.Compare(last(a), last(b)), cmp.Compare(a, b)) })
	for _, name := range names {
		if err := t.lock(ctx, name); err != nil {
			return nil, err
		}
	}
	for _, name := range names {
		if err := t.extend(ctx, name, drafts, byChain[name], out); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// last is 1 for the chains that are locked after all others, and 0 for these.
func last(chain string) int {
	if strings.HasPrefix(chain, ledger.HypothesesChain("")) {
		return 1
	}
	return 0
}

func (t *tx) extend(ctx context.Context, chain string, drafts []ledger.Draft, which []int, out []ledger.Record) error {
	n, prev, have, err := t.look(ctx, chain, drafts, which)
	if err != nil {
		return err
	}
	if n >= 0 {
		if err := t.proper(ctx, chain, n, prev); err != nil {
			return err
		}
	}
	sealed, err := t.sealing(ctx, chain)
	if err != nil {
		return err
	}
	if sealed != nil {
		drafts = slices.Clone(drafts) // what is withheld is withheld here
		for _, i := range which {
			withhold(&drafts[i])
		}
	}
	rows := make([]Row, 0, len(which))
	var packets []any // each with the body that it stands behind
	fresh := map[string]int{}
	for _, i := range which {
		d := &drafts[i]
		if r, ok := have[d.Key]; ok {
			if err := t.repeated(ctx, d, r); err != nil {
				return err
			}
			out[i] = r
			continue
		}
		if j, ok := fresh[d.Key]; ok {
			// Said twice at once.
			same, err := equalDrafts(d, &drafts[j])
			if err != nil {
				return err
			}
			if !same {
				return fmt.Errorf("%w: %s would get two entries %s", ledger.ErrConflict, chain, d.Key)
			}
			out[i] = out[j]
			continue
		}
		n++
		row := Row{N: n, Key: d.Key, Kind: d.Kind}
		if err := t.body(ctx, d, &row); err != nil {
			return err
		}
		e := d.Entry(t.origin, n, prev, t.now, row.Digest)
		if row.Bytes, err = e.Encode(); err != nil {
			return err
		}
		if why := e.Misplaced(); why != "" {
			return fmt.Errorf("%w: %s", ledger.ErrInvalid, why)
		}
		row.Class = e.Class
		if packet := e.Ref(ledger.EvidenceRef); packet != "" && row.Digest != "" {
			packets = append(packets, packet, row.Digest)
		}
		row.Hash = ledger.LeafHash(row.Bytes)
		prev = row.Hash
		out[i] = ledger.Record{Bytes: row.Bytes, Hash: row.Hash, Index: -1}
		fresh[d.Key] = i
		rows = append(rows, row)
	}
	for part := range slices.Chunk(rows, maxRows) {
		if err := t.d.Write(ctx, t.tx, chain, millis(t.now), part); err != nil {
			return err
		}
	}
	if len(rows) > 0 {
		t.found[chain] = tip{n, prev}
	}
	// The bodies to which evidence packets belong.
	_, err = t.insert(ctx, "INSERT INTO evidence_refs (packet, body) VALUES ", " ON CONFLICT DO NOTHING", 2, packets)
	return err
}

// look reads the head of a locked chain, and, if it is careful, the entries that
// have the keys.
func (t *tx) look(ctx context.Context, chain string, drafts []ledger.Draft, which []int) (n int64, head ledger.Hash, have map[string]ledger.Record, err error) {
	keys := make([]string, len(which))
	for i, at := range which {
		keys[i] = drafts[at].Key
		if err := storableText(keys[i]); err != nil {
			return 0, head, nil, err
		}
	}
	if !t.careful {
		n = -1
		var raw []byte
		var err error
		workflow, root, run := ledger.RunOf(chain)
		if _, known := t.keys[chain]; known || !run {
			err = t.row(ctx, "SELECT n, hash FROM entries WHERE chain = $1 ORDER BY n DESC LIMIT 1", chain).Scan(&n, &raw)
		} else {
			var id sql.NullString
			err = t.row(ctx, "SELECT n, hash, (SELECT subject_key FROM runs WHERE workflow = $2 AND root = $3) FROM entries WHERE chain = $1 ORDER BY n DESC LIMIT 1",
				chain, workflow, root).Scan(&n, &raw, &id)
			if err == nil {
				_, err = t.sealedWith(ctx, chain, id)
			}
		}
		if errors.Is(err, sql.ErrNoRows) {
			err = nil
		}
		copy(head[:], raw)
		return n, head, nil, err
	}
	rows, err := t.rows(ctx, `SELECT * FROM (SELECT n, hash, '' AS key, hash AS bytes FROM entries WHERE chain = $1 ORDER BY n DESC LIMIT 1) AS head
		UNION ALL SELECT n, hash, key, bytes FROM entries WHERE chain = $1 AND key `+t.d.Keys, chain, t.d.List(keys))
	if err != nil {
		return 0, head, nil, err
	}
	n, have = -1, map[string]ledger.Record{}
	_, err = collect(rows, func(rows *sql.Rows) (struct{}, error) {
		var at int64
		var key string
		var hash, raw []byte
		if err := rows.Scan(&at, &hash, &key, &raw); err != nil {
			return struct{}{}, err
		}
		if key == "" {
			n = at
			copy(head[:], hash)
			return struct{}{}, nil
		}
		r := ledger.Record{Bytes: raw, Index: -1}
		copy(r.Hash[:], hash)
		have[key] = r
		return struct{}{}, nil
	})
	return n, head, have, err
}

// next is the number of the next entry in a locked chain.
func (t *tx) next(ctx context.Context, chain string) (int64, error) {
	var n sql.NullInt64
	if err := t.row(ctx, "SELECT max(n) FROM entries WHERE chain = $1", chain).Scan(&n); err != nil {
		return 0, err
	}
	if !n.Valid {
		return 0, nil
	}
	return n.Int64 + 1, nil
}

// insert writes rows of so many columns. A statement has a power of two of them,
// so that there are few different ones: databases and drivers keep each.
func (t *tx) insert(ctx context.Context, start, end string, columns int, values []any) (written int64, err error) {
	if err := storable(values); err != nil {
		return 0, err
	}
	for len(values) > 0 {
		rows := 256
		for rows*columns > len(values) {
			rows /= 2
		}
		part := values[:rows*columns]
		values = values[rows*columns:]
		var b strings.Builder
		b.WriteString(start)
		for i := range part {
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
		r, err := t.tx.ExecContext(ctx, b.String(), part...)
		if err != nil {
			return written, err
		}
		n, err := r.RowsAffected()
		if err != nil {
			return written, err
		}
		written += n
	}
	return written, nil
}

// repeated compares a draft with the entry that has its key. A body that is gone
// cannot be compared.
func (t *tx) repeated(ctx context.Context, d *ledger.Draft, r ledger.Record) error {
	e, err := ledger.DecodeEntry(r.Bytes)
	if err != nil {
		return err
	}
	conflict := fmt.Errorf("%w: %s has another entry %s", ledger.ErrConflict, d.Chain, d.Key)
	if (e.Body == "") != (d.Data == nil) || !bytes.Equal(r.Bytes, again(d, e)) {
		return conflict
	}
	if e.Body == "" {
		return nil
	}
	raw, err := t.opener().body(ctx, e.Body)
	if errors.Is(err, ledger.ErrGone) {
		return nil
	}
	if err != nil {
		return err
	}
	body, err := ledger.DecodeBody(raw)
	if err != nil {
		return err
	}
	same, err := equalJSON(d.Data, body.Data)
	if err == nil && !same {
		err = conflict
	}
	return err
}

// equalDrafts reports whether two drafts with one key are equal.
func equalDrafts(a, b *ledger.Draft) (bool, error) {
	x, err := a.Entry("x", 0, ledger.Hash{}, ledger.Time{}, "").Encode()
	if err != nil {
		return false, err
	}
	y, err := b.Entry("x", 0, ledger.Hash{}, ledger.Time{}, "").Encode()
	if err != nil || !bytes.Equal(x, y) || a.Subject != b.Subject || (a.Data == nil) != (b.Data == nil) {
		return false, err
	}
	if a.Data == nil {
		return true, nil
	}
	return equalJSON(a.Data, b.Data)
}

// again is the draft's entry in the place that e has.
func again(d *ledger.Draft, e *ledger.Entry) []byte {
	raw, err := d.Entry(e.Origin, e.N, e.Prev, e.At, e.Body).Encode()
	if err != nil {
		return nil
	}
	return raw
}

func equalJSON(a, b json.RawMessage) (bool, error) {
	x, err := canonical(a)
	if err != nil {
		return false, err
	}
	y, err := canonical(b)
	return bytes.Equal(x, y), err
}

// body makes the stored form of a draft's data.
func (t *tx) body(ctx context.Context, d *ledger.Draft, row *Row) (err error) {
	if d.Data == nil {
		return nil
	}
	if row.Body, err = (ledger.Body{Data: d.Data, Salt: salt()}).Encode(); err != nil {
		return err
	}
	k := t.keys[d.Chain]
	if d.Subject != "" {
		if _, _, run := ledger.RunOf(d.Chain); run || d.Kind.Class().Rank() > ledger.Evidence.Rank() {
			return fmt.Errorf("%w: an entry of kind %s in the chain %.80q is about no person by itself", ledger.ErrInvalid, d.Kind, d.Chain)
		}
		own, err := t.keyOf(ctx, d.Subject)
		if err != nil {
			return err
		}
		k = &own
	}
	if k != nil {
		if row.Body, err = ledger.Seal(k.id, k.key, row.Body); err != nil {
			return err
		}
		row.Sealed = k.id
	}
	row.Digest = ledger.BodyDigest(row.Body)
	return nil
}

// body returns a body as it was before it was sealed.
func (o *opener) body(ctx context.Context, digest string) ([]byte, error) {
	gone := fmt.Errorf("body %s: %w", digest, ledger.ErrGone)
	var raw []byte
	var id sql.NullString
	err := o.from.row(ctx, "SELECT bytes, subject_key FROM bodies WHERE digest = $1", digest).Scan(&raw, &id)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil, gone
	case err != nil || !id.Valid:
		return raw, err
	}
	if raw, err = o.unseal(ctx, raw); errors.Is(err, sql.ErrNoRows) {
		return nil, gone
	}
	return raw, err
}
