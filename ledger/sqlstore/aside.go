package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"sync"

	"chimera.ai/engine/ledger"
	"chimera.ai/engine/ledger/model"
)

func scanCandidate(rows *sql.Rows) (c ledger.Candidate, err error) {
	var hash []byte
	err = rows.Scan(&c.Serial, &hash, &c.Chain, &c.N, &c.Key, &c.Kind, &c.Bytes)
	copy(c.Hash[:], hash)
	return c, err
}

// Candidates implements [ledger.Log].
func (s *Store) Candidates(ctx context.Context, limit int) ([]ledger.Candidate, error) {
	return list(ctx, s, "look for new entries", s.d.Pending, []any{bound(limit)}, scanCandidate)
}

// Pending implements [ledger.Log].
func (s *Store) Pending(ctx context.Context, limit int) ([]ledger.Record, error) {
	return list(ctx, s, "look for new entries", s.d.Pending, []any{bound(limit)}, func(rows *sql.Rows) (ledger.Record, error) {
		c, err := scanCandidate(rows)
		return ledger.Record{Bytes: c.Bytes, Hash: c.Hash, Index: -1}, err
	})
}

func scanHolder(rows *sql.Rows) (h ledger.Holder, err error) {
	var hash []byte
	var index sql.NullInt64
	err = rows.Scan(&h.Serial, &hash, &index)
	copy(h.Hash[:], hash)
	if h.Index = -1; index.Valid {
		h.Index = index.Int64
	}
	return h, err
}

// Holders implements [ledger.Log].
func (s *Store) Holders(ctx context.Context, places []ledger.Place) ([]ledger.Holder, error) {
	out, err := list(ctx, s, "look for entries in chains", s.d.Holders, s.d.Places(places), scanHolder)
	if err == nil && len(out) != len(places) {
		err = fmt.Errorf("look for entries in chains: %d of %d places are told of", len(out), len(places))
	}
	return out, err
}

// namedBody is a stored body with its digest.
type namedBody struct {
	digest string
	ledger.StoredBody
}

func scanStored(rows *sql.Rows) (b namedBody, err error) {
	var pruned, chain, class, key sql.NullString
	var at sql.NullInt64
	err = rows.Scan(&b.digest, &b.Bytes, &pruned, &chain, &class, &at, &key)
	b.Pruned, b.Chain, b.Class, b.At, b.Key = pruned.Valid, chain.String, ledger.Class(class.String), instant(at.Int64), key.String
	return b, err
}

func (s *Store) selectStored() string {
	return "SELECT u.value, b.bytes, p.digest, coalesce(p.chain, b.chain), coalesce(p.class, b.class), coalesce(p.at, b.at), r.subject_key FROM " + s.d.Each +
		" LEFT JOIN bodies b ON b.digest = u.value LEFT JOIN pruned_early p ON p.digest = u.value LEFT JOIN runs r ON 'run/' || r.workflow || '/' || r.root = (b.chain || '')" // SQLite uses the index for an expression alone
}

// StoredBodies implements [ledger.Log].
func (s *Store) StoredBodies(ctx context.Context, digests []string) (map[string]ledger.StoredBody, error) {
	rows, err := list(ctx, s, "read bodies", s.selectStored(), []any{s.d.List(digests)}, scanStored)
	return byDigest(rows), err
}

func byDigest(rows []namedBody) map[string]ledger.StoredBody {
	out := make(map[string]ledger.StoredBody, len(rows))
	for _, b := range rows {
		out[b.digest] = b.StoredBody
	}
	return out
}

// SetAside implements [ledger.Log].
func (s *Store) SetAside(ctx context.Context, rows []ledger.Aside) error {
	return s.do(ctx, "set rows aside", func(t *tx) error { return t.d.SetAside(ctx, t.tx, rows) })
}

// Asides implements [ledger.Log].
func (s *Store) Asides(ctx context.Context, after int64, limit int) ([]ledger.Aside, error) {
	return list(ctx, s, "list what was set aside", "SELECT serial, hash, chain, n, key, kind, bytes, why, at, bodied, followed FROM aside WHERE serial > $1 ORDER BY serial LIMIT $2",
		[]any{after, bound(limit)}, func(rows *sql.Rows) (a ledger.Aside, err error) {
			var hash []byte
			var at int64
			err = rows.Scan(&a.Serial, &hash, &a.Chain, &a.N, &a.Key, &a.Kind, &a.Bytes, &a.Why, &at, &a.Bodied, &a.Followed)
			copy(a.Hash[:], hash)
			a.At = instant(at)
			return a, err
		})
}

// Lost implements [ledger.Log].
func (s *Store) Lost(ctx context.Context, after int64, limit int) ([]ledger.Candidate, error) {
	return list(ctx, s, "look for lost entries", s.d.Lost, []any{after, bound(limit)}, scanCandidate)
}

// Recover implements [ledger.Log].
func (s *Store) Recover(ctx context.Context, after int64) (found int, upTo int64, err error) {
	err = s.do(ctx, "recover lost entries", func(t *tx) error {
		found, upTo, err = t.d.Recover(ctx, t.tx, after)
		return err
	})
	return found, upTo, err
}

// tips remembers up to which entry chains were found proper, so that a writer looks only at
// what others have added since.
type tips struct {
	mu sync.Mutex
	of map[string]tip
}

type tip struct {
	n    int64
	hash ledger.Hash
}

// maxTips bounds the chains that are remembered.
const maxTips = 10_000

func (t *tips) has(chain string, n int64, hash ledger.Hash) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	have, ok := t.of[chain]
	return ok && have == tip{n, hash}
}

func (t *tips) keep(found map[string]tip) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.of == nil || len(t.of) >= maxTips {
		t.of = map[string]tip{}
	}
	maps.Copy(t.of, found)
}

// bodiesAtOnce bounds the bodies that are read at once.
const bodiesAtOnce = 64

// tails are how many entries of a chain are read at once, back from its end: the first has
// its place, unless others write to the chain, too.
var tails = []int{1, 64, 1024}

// proper returns an error unless the end of a locked chain is one that the log can take. It looks
// back to an entry that has its place in the log, or was found proper before. What is none was not
// written by a store, and whoever continued it would lose what they have stated.
func (t *tx) proper(ctx context.Context, chain string, n int64, hash ledger.Hash) error {
	head := tip{n, hash}
	if t.known(chain, n, hash) {
		return nil
	}
	for try := 0; ; try++ {
		limit := tails[min(try, len(tails)-1)]
		done, err := t.back(ctx, chain, &n, &hash, limit)
		if err != nil {
			return err
		}
		if done {
			t.found[chain] = head
			return nil
		}
	}
}

// known reports whether the end of a chain was found proper before, or written by this transaction.
func (t *tx) known(chain string, n int64, hash ledger.Hash) bool {
	end, ok := t.found[chain]
	return ok && end == tip{n, hash} || t.tips.has(chain, n, hash)
}

// back looks at up to limit entries of a chain, from the one that has this place and hash on
// back, and moves both. done reports that the rest of the chain is in the log, or was found
// proper.
func (t *tx) back(ctx context.Context, chain string, n *int64, hash *ledger.Hash, limit int) (done bool, err error) {
	rows, err := t.rows(ctx, "SELECT "+Columns+", (SELECT i.place FROM log_index i WHERE i.serial = e.serial) FROM entries e WHERE e.chain = $1 AND e.n <= $2 ORDER BY e.n DESC LIMIT $3",
		chain, *n, limit)
	if err != nil {
		return false, err
	}
	type row struct {
		ledger.Candidate
		placed bool
	}
	found, err := collect(rows, func(rows *sql.Rows) (r row, err error) {
		var hash []byte
		var index sql.NullInt64
		err = rows.Scan(&r.Serial, &hash, &r.Chain, &r.N, &r.Key, &r.Kind, &r.Bytes, &index)
		copy(r.Hash[:], hash)
		r.placed = index.Valid
		return r, err
	})
	if err != nil {
		return false, err
	}
	improper := func(r row, why error) error {
		return fmt.Errorf("%w: the row %d of the chain %.120q is no entry that the log takes, and waits to be set aside: %w", ledger.ErrUnavailable, r.N, chain, why)
	}
	var entries []*ledger.Entry
	var digests []string
	for _, r := range found {
		if r.N != *n || r.Hash != *hash {
			return false, improper(r, errors.New("the one behind it does not follow it"))
		}
		if r.placed || t.known(chain, r.N, r.Hash) {
			done = true
			break
		}
		e, err := r.Entry(t.origin)
		if err != nil {
			return false, improper(r, err)
		}
		entries, digests = append(entries, e), append(digests, e.Body)
		*n, *hash = e.N-1, e.Prev
		if e.N == 0 {
			done = true
			break
		}
	}
	if len(found) == 0 {
		return false, improper(row{Candidate: ledger.Candidate{N: *n}}, errors.New("it is not there"))
	}
	// A few at a time: whoever may add bodies may add large ones.
	for first := 0; first < len(entries); first += bodiesAtOnce {
		last := min(first+bodiesAtOnce, len(entries))
		stored, err := t.rows(ctx, t.selectStored(), t.d.List(digests[first:last]))
		if err != nil {
			return false, err
		}
		bodies, err := collect(stored, scanStored)
		if err != nil {
			return false, err
		}
		by := byDigest(bodies)
		for i := first; i < last; i++ {
			if err := by[entries[i].Body].Belongs(entries[i], model.Possible); err != nil {
				return false, improper(found[i], err)
			}
		}
	}
	return done, nil
}
