// Package sqlstore is the ledger's store on SQL, for the databases of packages
// postgres and sqlite. The statements are the same for both; [Dialect] has what
// differs.
//
// A method that changes something is one transaction with its entries. An
// entry's place in its chain is given under a lock on the chain that is held to
// the commit, so that whoever reads sees a prefix of every chain.
package sqlstore

import (
	"context"
	"crypto/rand"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"time"

	"github.com/pressly/goose/v3"

	"chimera.ai/engine/ledger"
)

//go:embed migrations
var migrations embed.FS

// Dialect is what differs between databases.
type Dialect struct {
	// Name is the folder of the migrations; Goose is goose's name of the dialect.
	Name  string
	Goose goose.Dialect
	// Question: placeholders are written "?", not "$1".
	Question bool
	// Lock is the statement that locks a chain, by its name, to the end of the
	// transaction; "" where there is only one writer.
	Lock string
	// InsertStart and InsertEnd stand around the rows of new entries, Pending
	// selects hash and bytes of at most $1 entries without a place in the tree, in
	// order, and Placed, where it is not "", is run for $1, the serial of one that
	// got its place.
	InsertStart, InsertEnd, Pending, Placed string
	// Now selects the database's clock in milliseconds since 1970.
	Now string
	// OutcomeOrder is the column that outcomes are ordered by.
	OutcomeOrder string
	// Lead elects the sequencer.
	Lead func(ctx context.Context, db *sql.DB) (release func(), err error)
	// Busy reports an error after which the transaction is worth another try;
	// Unavailable one that says nothing about the operation itself.
	Busy, Unavailable func(error) bool
}

// Store implements [ledger.Store].
type Store struct {
	db     *sql.DB
	d      Dialect
	origin string
	// statements are rewritten once.
	statements sync.Map
}

var _ ledger.Store = (*Store)(nil)

// New gives the store of a database that has been migrated.
func New(db *sql.DB, d Dialect, origin string) *Store { return &Store{db: db, d: d, origin: origin} }

// Origin implements [ledger.Store].
func (s *Store) Origin() string { return s.origin }

// Close implements [ledger.Store].
func (s *Store) Close() error { return s.db.Close() }

// Migrate brings the database to the newest form, and tells how many steps
// that took. It is safe to run from several processes at once.
func Migrate(ctx context.Context, db *sql.DB, d Dialect, options ...goose.ProviderOption) (int, error) {
	files, err := fs.Sub(migrations, "migrations/"+d.Name)
	if err != nil {
		return 0, fmt.Errorf("migrate: %w", err)
	}
	p, err := goose.NewProvider(d.Goose, db, files, options...)
	if err != nil {
		return 0, fmt.Errorf("migrate: %w", err)
	}
	done, err := p.Up(ctx)
	if err != nil {
		return len(done), fmt.Errorf("migrate: %w", err)
	}
	return len(done), nil
}

// Current reports whether the database has every migration.
func Current(ctx context.Context, db *sql.DB, d Dialect) (bool, error) {
	files, err := fs.Sub(migrations, "migrations/"+d.Name)
	if err != nil {
		return false, fmt.Errorf("look at migrations: %w", err)
	}
	p, err := goose.NewProvider(d.Goose, db, files)
	if err != nil {
		return false, fmt.Errorf("look at migrations: %w", err)
	}
	pending, err := p.HasPending(ctx)
	if err != nil {
		return false, fmt.Errorf("look at migrations: %w", err)
	}
	return !pending, nil
}

// tx is a transaction.
type tx struct {
	*Store
	tx *sql.Tx
	// now is the database's clock, read once.
	now ledger.Time
}

// maxTries bounds how often a transaction is begun again after a conflict with
// another.
const maxTries = 50

// do runs f in a transaction. what is what was being done, for errors.
func (s *Store) do(ctx context.Context, what string, f func(*tx) error) error {
	var err error
	for try := range maxTries {
		if try > 0 {
			timer := time.NewTimer(time.Duration(try) * time.Millisecond)
			select {
			case <-ctx.Done():
				timer.Stop()
				return fmt.Errorf("%s: %w: %w", what, ledger.ErrUnavailable, ctx.Err())
			case <-timer.C:
			}
		}
		if err = s.once(ctx, f); err == nil || !s.d.Busy(err) {
			break
		}
	}
	return s.explain(what, err)
}

func (s *Store) once(ctx context.Context, f func(*tx) error) (err error) {
	t, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, ignoreDone(t.Rollback()))
		}
	}()
	x := &tx{Store: s, tx: t}
	var ms int64
	if err := t.QueryRowContext(ctx, s.d.Now).Scan(&ms); err != nil {
		return err
	}
	x.now = instant(ms)
	if err := f(x); err != nil {
		return err
	}
	return t.Commit()
}

func ignoreDone(err error) error {
	if errors.Is(err, sql.ErrTxDone) {
		return nil
	}
	return err
}

// explain wraps an error, and marks what says that the database is not there.
func (s *Store) explain(what string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, sql.ErrNoRows):
		return fmt.Errorf("%s: %w", what, ledger.ErrNotFound)
	case s.d.Unavailable(err), s.d.Busy(err), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded), errors.Is(err, sql.ErrConnDone):
		return fmt.Errorf("%s: %w: %w", what, ledger.ErrUnavailable, err)
	}
	return fmt.Errorf("%s: %w", what, err)
}

// placed is a statement with the order of its arguments.
type placed struct {
	sql   string
	order []int
}

// place rewrites "$1" for the dialect.
func (s *Store) place(query string, args []any) (string, []any) {
	if !s.d.Question {
		return query, args
	}
	v, ok := s.statements.Load(query)
	if !ok {
		v = question(query)
		s.statements.Store(query, v)
	}
	p := v.(placed)
	out := make([]any, len(p.order))
	for i, at := range p.order {
		out[i] = args[at]
	}
	return p.sql, out
}

func question(query string) placed {
	var p placed
	var b strings.Builder
	for i := 0; i < len(query); i++ {
		if query[i] != '$' {
			b.WriteByte(query[i])
			continue
		}
		n := 0
		for i+1 < len(query) && query[i+1] >= '0' && query[i+1] <= '9' {
			n = n*10 + int(query[i+1]-'0')
			i++
		}
		p.order = append(p.order, n-1)
		b.WriteByte('?')
	}
	p.sql = b.String()
	return p
}

func (t *tx) exec(ctx context.Context, query string, args ...any) (int64, error) {
	query, args = t.place(query, args)
	r, err := t.tx.ExecContext(ctx, query, args...)
	if err != nil {
		return 0, err
	}
	return r.RowsAffected()
}

func (t *tx) row(ctx context.Context, query string, args ...any) *sql.Row {
	query, args = t.place(query, args)
	return t.tx.QueryRowContext(ctx, query, args...)
}

func (t *tx) rows(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	query, args = t.place(query, args)
	return t.tx.QueryContext(ctx, query, args...)
}

// one reads a row outside a transaction.
func (s *Store) one(ctx context.Context, what, query string, args []any, into ...any) error {
	query, args = s.place(query, args)
	return s.explain(what, s.db.QueryRowContext(ctx, query, args...).Scan(into...))
}

// list reads rows outside a transaction.
func list[T any](ctx context.Context, s *Store, what, query string, args []any, scan func(*sql.Rows) (T, error)) ([]T, error) {
	query, args = s.place(query, args)
	rows, err := s.db.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, s.explain(what, err)
	}
	out, err := collect(rows, scan)
	return out, s.explain(what, err)
}

func collect[T any](rows *sql.Rows, scan func(*sql.Rows) (T, error)) (out []T, err error) {
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		v, err := scan(rows)
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, rows.Err()
}

func limits(p ledger.Page) (limit, offset int) {
	limit, offset = p.Limit, max(p.Offset, 0)
	if limit <= 0 {
		limit = 100
	}
	return min(limit, 10_000), offset
}

func instant(ms int64) ledger.Time { return ledger.At(time.UnixMilli(ms)) }

func millis(t ledger.Time) int64 { return t.Time().UnixMilli() }

func salt() (out [16]byte) {
	// It does not fail: crypto/rand ends the process instead.
	_, _ = rand.Read(out[:])
	return out
}
