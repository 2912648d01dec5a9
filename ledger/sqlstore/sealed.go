package sqlstore

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"chimera.ai/engine/internal/strict"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/ledger/keyring"
)

// What the tables beside the log store about a person is sealed with that person's key, as
// the bodies of the log are: a database keeps what was deleted, in its files, in its
// write-ahead log, in replicas and in backups.

// sealedDoc is the stored form of an entity about a person. Bare is what everybody may read
// of it, and what remains once the person is erased; without it, the row goes.
type sealedDoc struct {
	Bare   json.RawMessage `json:"bare,omitempty"`
	Sealed json.RawMessage `json:"sealed"`
}

// keep returns what a table stores of an entity: sealed with a key, if that is not nil.
// bare may be nil.
func (k *sealKey) keep(v, bare any) (string, error) {
	switch {
	case k == nil:
		return text(v)
	case k.gone && bare != nil:
		return text(bare)
	}
	plain, err := text(v)
	if err != nil {
		return "", err
	}
	raw, err := ledger.Seal(k.id, k.key, []byte(plain))
	if err != nil {
		return "", err
	}
	if bare == nil {
		return string(raw), nil
	}
	left, err := text(bare)
	if err != nil {
		return "", err
	}
	return `{"bare":` + left + `,` + string(raw[1:]), nil
}

// keepBytes is keep for bytes that are no entity.
func (k *sealKey) keepBytes(b []byte) ([]byte, error) {
	if k == nil || b == nil {
		return b, nil
	}
	raw, err := json.Marshal(b)
	if err != nil {
		return nil, err
	}
	return ledger.Seal(k.id, k.key, raw)
}

// keepText is keepBytes for a text.
func (k *sealKey) keepText(s string) (string, error) {
	if k == nil || s == "" {
		return s, nil
	}
	raw, err := k.keepBytes([]byte(s))
	return string(raw), err
}

// name is the key's id as a column has it.
func (k *sealKey) name() any {
	if k == nil {
		return nil
	}
	return k.id
}

// reader reads one row, in a transaction or outside.
type reader interface {
	row(ctx context.Context, query string, args ...any) scanner
}

// row reads one row outside a transaction.
func (s *Store) row(ctx context.Context, query string, args ...any) scanner {
	if err := storable(args); err != nil {
		return nowhere{}
	}
	query, args = s.place(query, args)
	return s.db.QueryRowContext(ctx, query, args...)
}

// opener opens what is sealed. It keeps the keys that it has read, for the reads of one
// call.
type opener struct {
	from reader
	ring *keyring.Ring
	keys map[string][]byte
	// denied reports that the user of the database may not read the keys, wrapped as they are.
	denied func(error) bool
}

func (s *Store) opener() *opener { return s.openerOf(s) }

func (t *tx) opener() *opener { return t.openerOf(t) }

func (s *Store) openerOf(from reader) *opener {
	o := &opener{from: from, ring: s.ring, keys: map[string][]byte{}, denied: s.d.Denied}
	if o.denied == nil {
		o.denied = func(error) bool { return false }
	}
	return o
}

// open returns the JSON of an entity as it was before [sealKey.keep]. If the person was
// erased, it is what remains, or sql.ErrNoRows. Who has no keyring, or may not read the keys,
// gets the bare form, or [ledger.ErrSealed].
func (o *opener) open(ctx context.Context, raw string) ([]byte, error) {
	if !strings.HasPrefix(raw, `{"sealed":`) && !strings.HasPrefix(raw, `{"bare":`) {
		return []byte(raw), nil
	}
	var d sealedDoc
	if err := strict.Decode([]byte(raw), &d); err != nil {
		return nil, err
	}
	body, err := o.unseal(ctx, []byte(`{"sealed":`+string(d.Sealed)+`}`))
	if d.Bare != nil && (errors.Is(err, sql.ErrNoRows) || errors.Is(err, ledger.ErrSealed)) {
		return d.Bare, nil
	}
	return body, err
}

// openBytes is open for what [sealKey.keepBytes] has returned. It returns nil once the
// person was erased.
func (o *opener) openBytes(ctx context.Context, raw []byte) (b []byte, err error) {
	if len(raw) == 0 {
		return nil, nil
	}
	plain, err := o.unseal(ctx, raw)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err == nil {
		err = json.Unmarshal(plain, &b)
	}
	return b, err
}

func (o *opener) unseal(ctx context.Context, raw []byte) ([]byte, error) {
	id, ok := ledger.Sealed(raw)
	if !ok {
		return nil, errors.New("a row about a person is not sealed as the store seals it")
	}
	key, err := o.key(ctx, id)
	if err != nil {
		return nil, err
	}
	return ledger.Unseal(key, raw)
}

// key returns the key of a subject by its id. Its error is sql.ErrNoRows if it was deleted.
func (o *opener) key(ctx context.Context, id string) ([]byte, error) {
	key, known := o.keys[id]
	if !known {
		if o.ring == nil {
			return nil, errNoRing
		}
		_, found, err := o.unwrap(ctx, id)
		switch {
		case err != nil && o.denied(err):
			return nil, errNoRing
		case err != nil && !errors.Is(err, sql.ErrNoRows):
			return nil, err
		}
		key = found
		o.keys[id] = key
	}
	if key == nil {
		return nil, sql.ErrNoRows
	}
	return key, nil
}

var errNoRing = fmt.Errorf("%w: it is about a person, and the key for the keys of subjects is not configured (ledger.subjects), or this user of the database may not read them", ledger.ErrSealed)

// unwrap reads the key of a subject from its row. An erasure wraps all of them anew: between
// the row and the file there may have been one.
func (o *opener) unwrap(ctx context.Context, id string) (subject string, key []byte, err error) {
	for try := 0; ; try++ {
		var generation string
		var wrapped []byte
		if err := o.from.row(ctx, "SELECT generation, wrapped FROM subject_keys WHERE id = $1", id).Scan(&generation, &wrapped); err != nil {
			return "", nil, err
		}
		g, err := o.ring.Generation(generation)
		if errors.Is(err, keyring.ErrMissing) && try == 0 {
			continue
		}
		if errors.Is(err, keyring.ErrMissing) {
			// Whoever may insert keys may name any generation. If it is the current one, the ring
			// is away, or an old copy.
			var now string
			if other := o.from.row(ctx, "SELECT generation FROM keyring").Scan(&now); other == nil && now != generation {
				return "", nil, fmt.Errorf("%w: its key is wrapped with a key that is not that of the database", ledger.ErrSealed)
			}
		}
		if err != nil {
			return "", nil, fmt.Errorf("%w: %w", ledger.ErrUnavailable, err)
		}
		return g.Unwrap(id, wrapped)
	}
}

// decode opens an entity that is stored as JSON, and decodes it.
func decode[T any](ctx context.Context, o *opener, raw string) (v T, err error) {
	plain, err := o.open(ctx, raw)
	if err == nil {
		err = json.Unmarshal(plain, &v)
	}
	return v, err
}

// documents lists entities that are stored as JSON. Those of a person who is erased
// meanwhile are left out.
func documents[T any](ctx context.Context, s *Store, what, query string, args []any) ([]T, error) {
	return openAll(ctx, s, what, query, args, scanText, decode[T])
}

// proper is documents for a list that passes over what is none.
func proper[T any](ctx context.Context, s *Store, what, query string, args []any) ([]T, error) {
	return openAll(ctx, s, what, query, args, scanText, passing(s, decode[T]))
}

// passing passes over rows that open cannot read: they are gone, or somebody has put there what is
// none, and hide no others of their list.
func passing[R, T any](s *Store, open func(context.Context, *opener, R) (T, error)) func(context.Context, *opener, R) (T, error) {
	return func(ctx context.Context, o *opener, r R) (T, error) {
		v, err := open(ctx, o, r)
		if err = s.explain("open a row", err); err == nil || errors.Is(err, ledger.ErrUnavailable) || errors.Is(err, ledger.ErrDenied) || errors.Is(err, ledger.ErrSealed) {
			return v, err
		}
		return v, sql.ErrNoRows
	}
}

// openAll lists rows that scan reads, and opens each once all of them are read: a
// transaction reads one thing at a time.
func openAll[R, T any](ctx context.Context, s *Store, what, query string, args []any, scan func(*sql.Rows) (R, error), open func(context.Context, *opener, R) (T, error)) ([]T, error) {
	rows, err := list(ctx, s, what, query, args, scan)
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	out := make([]T, 0, len(rows))
	o := s.opener()
	for _, r := range rows {
		v, err := open(ctx, o, r)
		if errors.Is(err, sql.ErrNoRows) {
			continue
		}
		if err != nil {
			return nil, s.explain(what, err)
		}
		out = append(out, v)
	}
	return out, nil
}

// bareOf returns what remains of a stored entity once its person is erased.
func bareOf(raw string) (string, bool) {
	if !strings.HasPrefix(raw, `{"bare":`) {
		return "", false
	}
	var d sealedDoc
	if err := strict.Decode([]byte(raw), &d); err != nil || d.Bare == nil {
		return "", false
	}
	return string(bytes.TrimSpace(d.Bare)), true
}
