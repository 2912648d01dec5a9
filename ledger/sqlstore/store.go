// Package sqlstore is the ledger's store on SQL, for the databases of packages
// postgres and sqlite. The statements are the same for both; [Dialect] has what
// differs.
//
// A method that changes something is one transaction with its entries. An entry
// gets its place in its chain under a lock on the chain that is held until the
// commit, so that readers see a prefix of every chain.
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
	"unicode/utf8"

	"github.com/pressly/goose/v3"

	"chimera.ai/engine/ledger"
	"chimera.ai/engine/ledger/keyring"
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
	// Isolation is that of transactions: each statement must see what was
	// committed before it began.
	Isolation sql.IsolationLevel
	// Enter, if not nil, waits for this process's turn to write.
	Enter func(ctx context.Context) (leave func(), err error)
	// There, if not nil, reports why the database is no longer the one that was
	// opened, so that what its connections write would be lost.
	There func() error
	// Leave, if not nil, releases what holds the database before it is closed.
	Leave func() error
	// Lock locks a chain, by its name, to the end of the transaction, where there
	// is more than one writer, and then reads the database's clock in milliseconds
	// since 1970. Now reads the clock alone.
	Lock, Now string
	// Self reads what the keyring knows the database by: a text that stays, whatever it holds.
	Self string
	// Keys is the condition that a key is one of $2, a JSON list of texts or what
	// List makes of them.
	Keys string
	List func([]string) any
	// Look reports that keys are looked up before they are inserted, since a
	// failed insert costs more.
	Look bool
	// Write inserts entries of one chain, in order, with their bodies.
	Write func(ctx context.Context, t *sql.Tx, chain string, at int64, rows []Row) error
	// Each is a table u with the column value, of the texts that List has made the argument
	// $1 of.
	Each string
	// Pending selects the [Columns] of at most $1 entries e without a place in the
	// tree, in order. Place gives entries their places, from size on, and fails
	// with [ledger.ErrConflict] where they are not such entries in that order.
	Pending string
	Place   func(ctx context.Context, t *sql.Tx, size int64, batch []ledger.Hash) error
	// Holders selects serial, hash and index of the entries in some places of chains, in the
	// order of these, and Places makes its arguments.
	Holders string
	Places  func([]ledger.Place) []any
	// SetAside moves entries without a place to the table aside.
	SetAside func(ctx context.Context, t *sql.Tx, rows []ledger.Aside) error
	// Waiting counts the entries that wait for a place.
	Waiting string
	// Lost selects the Columns of at most $2 entries e with serials beyond $1 that neither have
	// a place nor wait for one, and Recover returns them to those that wait: see [ledger.Log].
	Lost    string
	Recover func(ctx context.Context, t *sql.Tx, after int64) (found int, upTo int64, err error)
	// Prune deletes the bodies of a class that were stated before an instant, in
	// milliseconds since 1970, and are under no legal hold.
	Prune func(ctx context.Context, t *sql.Tx, class string, before int64) (int, error)
	// Packets deletes the evidence packets behind bodies that are gone, or whose key
	// is.
	Packets func(ctx context.Context, t *sql.Tx) error
	// Move, if not nil, marks a pending hold as running or ends it, with what it takes from
	// its budgets, and reports whether the hold was such; posted is nil or what is spent,
	// in minor units. Otherwise the store changes the tables itself.
	Move func(ctx context.Context, t *sql.Tx, hold string, to ledger.TxStatus, running bool, posted any) (bool, error)
	// Lead elects the sequencer.
	Lead func(ctx context.Context, db *sql.DB) (release func(), err error)
	// Erased, if not nil, removes from files what was deleted.
	Erased func(ctx context.Context, db *sql.DB) error
	// Busy reports an error after which the transaction should be retried,
	// Taken that a unique value exists already, Invalid that a value cannot be
	// stored, and Unavailable an error that says nothing about the operation
	// itself.
	Busy, Taken, Invalid, Unavailable func(error) bool
	// Denied, if not nil, reports that the user may not do what it has asked for.
	Denied func(error) bool
	// Stale reports an error that may be the connection's alone: what it found
	// when it was opened, such as a read-only file, holds for its lifetime.
	Stale func(error) bool
	// Idle is how many idle connections stay open.
	Idle int
}

// Columns are those of entries e that the statements of a [Dialect] select.
const Columns = "e.serial, e.hash, e.chain, e.n, e.key, e.kind, e.bytes"

// Row is an entry to write, with its body.
type Row struct {
	N      int64
	Hash   ledger.Hash
	Key    string
	Kind   ledger.Kind
	Bytes  []byte
	Class  ledger.Class
	Digest string // of the body, "" if there is none
	// Body is as it is stored; Sealed names the key that it is sealed with, or is "".
	Body   []byte
	Sealed string
}

// Store implements [ledger.Store].
type Store struct {
	db     *sql.DB
	d      Dialect
	origin string
	// ring has the key that wraps the keys of subjects, or is nil.
	ring *keyring.Ring
	// statements caches rewritten statements. There are as many as this package
	// has.
	statements sync.Map
	tips       tips
}

var _ ledger.Store = (*Store)(nil)

// New returns the store of a database that has been migrated. ring has the key that wraps
// the keys of subjects; with nil, nothing about a person is stated, and what is there can
// neither be read nor erased.
func New(db *sql.DB, d Dialect, origin string, ring *keyring.Ring) *Store {
	db.SetMaxIdleConns(d.Idle)
	return &Store{db: db, d: d, origin: origin, ring: ring}
}

// Origin implements [ledger.Store].
func (s *Store) Origin() string { return s.origin }

// Close implements [ledger.Store].
func (s *Store) Close() (err error) {
	if s.d.Leave != nil {
		err = s.d.Leave()
	}
	return errors.Join(err, s.db.Close())
}

// Migrate brings the database to the newest form, and returns the number of
// migrations applied. Several processes may call it at once.
func Migrate(ctx context.Context, db *sql.DB, d Dialect, options ...goose.ProviderOption) (int, error) {
	files, err := fs.Sub(migrations, "migrations/"+d.Name)
	if err != nil {
		return 0, fmt.Errorf("migrate: %w", err)
	}
	p, err := goose.NewProvider(d.Goose, db, files, options...)
	if err != nil {
		return 0, fmt.Errorf("migrate: %w", err)
	}
	if err := known(ctx, p); err != nil {
		return 0, err
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
	if err := known(ctx, p); err != nil {
		return false, err
	}
	pending, err := p.HasPending(ctx)
	if err != nil {
		return false, fmt.Errorf("look at migrations: %w", err)
	}
	return !pending, nil
}

// known refuses a database of a newer program, or one older than the first
// migration: the meaning of its tables is not known.
func known(ctx context.Context, p *goose.Provider) error {
	current, target, err := p.GetVersions(ctx)
	if err != nil {
		return fmt.Errorf("look at migrations: %w", err)
	}
	if current > target {
		return fmt.Errorf("the database is of version %d; this program knows %d: use a newer one", current, target)
	}
	if first := p.ListSources()[0].Version; current > 0 && current < first {
		return fmt.Errorf("the database is of version %d, of a build from before the first release; this program knows %d and later: begin with an empty database, and keep this one with the build that wrote it, which can export its log", current, first)
	}
	return nil
}

// tx is a transaction.
type tx struct {
	*Store
	tx *sql.Tx
	// chains are those that it has locked, and now is the database's clock when it
	// locked the last of them: times rise along a chain.
	chains map[string]bool
	// keys caches the keys of chains, nil for those that are not sealed.
	keys map[string]*sealKey
	// found are the ends of chains that are proper once it is committed.
	found map[string]tip
	now   ledger.Time
	// careful reports that a value that should have been new existed in an
	// earlier attempt. Only then are entries looked up by their keys, since
	// most are new.
	careful bool
}

const (
	// maxTries bounds the attempts of a transaction after conflicts with
	// others, and maxTaken those after a value that existed already, which the
	// second attempt usually finds.
	maxTries = 50
	maxTaken = 3
)

// do runs f in a transaction, and again after a conflict with another one, so f may
// only change what each call sets again. what names the operation in errors.
func (s *Store) do(ctx context.Context, what string, f func(*tx) error) error {
	var err error
	taken := 0
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
		err = s.once(ctx, taken > 0, f)
		if err == nil || !s.d.Busy(err) && !s.d.Taken(err) {
			break
		}
		if s.d.Taken(err) {
			if taken++; taken == maxTaken {
				break
			}
		}
	}
	if err != nil && ctx.Err() != nil && !answered(err) {
		// The caller's context ended meanwhile. The errors of database/sql for what was
		// closed then have no type.
		err = errors.Join(ctx.Err(), err)
	}
	return s.explain(what, err)
}

// answered reports whether an error is an answer of the store that refuses the
// operation.
func answered(err error) bool {
	for _, e := range []error{sql.ErrNoRows, ledger.ErrNotFound, ledger.ErrConflict, ledger.ErrBudget, ledger.ErrInvalid, ledger.ErrGone} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

func (s *Store) once(ctx context.Context, careful bool, f func(*tx) error) (err error) {
	if s.d.Enter != nil {
		leave, err := s.d.Enter(ctx)
		if err != nil {
			return err
		}
		defer leave()
	}
	if err := s.there(); err != nil {
		return err
	}
	t, err := s.db.BeginTx(ctx, &sql.TxOptions{Isolation: s.d.Isolation})
	if err != nil {
		return err
	}
	done := false
	defer func() {
		// Also when f panics. A rollback that fails ends the connection, and the
		// transaction with it; only the first error counts.
		if !done {
			_ = t.Rollback()
		}
	}()
	x := &tx{Store: s, tx: t, chains: map[string]bool{}, keys: map[string]*sealKey{}, found: map[string]tip{}, careful: careful || s.d.Look}
	if err := f(x); err != nil {
		return err
	}
	done = true
	if err := t.Commit(); err != nil {
		return err
	}
	s.tips.keep(x.found)
	return s.there() // it may have gone meanwhile
}

func (s *Store) there() error {
	if s.d.There == nil {
		return nil
	}
	return s.d.There()
}

// lock locks a chain before its state is read, so that decisions still hold when
// they are written.
func (t *tx) lock(ctx context.Context, chain string) error {
	if t.chains[chain] {
		return nil
	}
	if err := named(chain); err != nil {
		return err
	}
	var ms int64
	if err := t.row(ctx, t.d.Lock, chain).Scan(&ms); err != nil {
		return err
	}
	t.chains[chain] = true
	t.now = instant(ms)
	return nil
}

// named returns an error unless a chain may have a name.
func named(chain string) error {
	if chain == "" || len(chain) > maxText || storable([]any{chain}) != nil {
		return fmt.Errorf("%w: %.80q is no name of a chain", ledger.ErrInvalid, chain)
	}
	return nil
}

// explain wraps an error, and marks one that says that the database is unavailable.
func (s *Store) explain(what string, err error) error {
	if err != nil && s.d.Stale(err) {
		// This closes idle connections.
		s.db.SetMaxIdleConns(-1)
		s.db.SetMaxIdleConns(s.d.Idle)
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, sql.ErrNoRows):
		return fmt.Errorf("%s: %w", what, ledger.ErrNotFound)
	case s.d.Unavailable(err), s.d.Busy(err), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded),
		errors.Is(err, sql.ErrConnDone), errors.Is(err, sql.ErrTxDone):
		return fmt.Errorf("%s: %w: %w", what, ledger.ErrUnavailable, err)
	case s.d.Taken(err):
		return fmt.Errorf("%s: %w: %w", what, ledger.ErrConflict, err)
	case s.d.Invalid(err):
		return fmt.Errorf("%s: %w: %w", what, ledger.ErrInvalid, err)
	case s.d.Denied != nil && s.d.Denied(err):
		return fmt.Errorf("%s: %w: %w", what, ledger.ErrDenied, err)
	}
	return fmt.Errorf("%s: %w", what, err)
}

// maxText bounds each text that a statement compares or indexes.
const maxText = 1024

// storable refuses text that not every database can store.
func storable(args []any) error {
	for _, a := range args {
		if s, ok := a.(string); ok {
			if err := storableText(s); err != nil {
				return err
			}
		}
	}
	return nil
}

// storableText is storable for one text.
func storableText(s string) error {
	if strings.IndexByte(s, 0) >= 0 || !utf8.ValidString(s) {
		return fmt.Errorf("%w: %.80q is not a text without NUL bytes", ledger.ErrInvalid, s)
	}
	return nil
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
	if err := storable(args); err != nil {
		return 0, err
	}
	query, args = t.place(query, args)
	r, err := t.tx.ExecContext(ctx, query, args...)
	if err != nil {
		return 0, err
	}
	return r.RowsAffected()
}

// row reads one row. Looking up text that cannot be stored finds nothing.
func (t *tx) row(ctx context.Context, query string, args ...any) scanner {
	if err := storable(args); err != nil {
		return nowhere{}
	}
	query, args = t.place(query, args)
	return t.tx.QueryRowContext(ctx, query, args...)
}

type scanner interface{ Scan(...any) error }

type nowhere struct{}

func (nowhere) Scan(...any) error { return sql.ErrNoRows }

func (t *tx) rows(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	if err := storable(args); err != nil {
		return nil, err
	}
	query, args = t.place(query, args)
	return t.tx.QueryContext(ctx, query, args...)
}

// one reads a row outside a transaction.
func (s *Store) one(ctx context.Context, what, query string, args []any, into ...any) error {
	if storable(args) != nil {
		return s.explain(what, sql.ErrNoRows)
	}
	if err := s.there(); err != nil {
		return s.explain(what, err)
	}
	query, args = s.place(query, args)
	return s.explain(what, s.db.QueryRowContext(ctx, query, args...).Scan(into...))
}

// list reads rows outside a transaction.
func list[T any](ctx context.Context, s *Store, what, query string, args []any, scan func(*sql.Rows) (T, error)) ([]T, error) {
	if storable(args) != nil {
		return nil, nil
	}
	if err := s.there(); err != nil {
		return nil, s.explain(what, err)
	}
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

// maxPage bounds every listing.
const maxPage = 10_000

func limits(p ledger.Page) (limit, offset int) {
	limit, offset = p.Limit, max(p.Offset, 0)
	if limit <= 0 {
		limit = 100
	}
	return min(limit, maxPage), offset
}

func instant(ms int64) ledger.Time { return ledger.At(time.UnixMilli(ms)) }

func millis(t ledger.Time) int64 { return t.Time().UnixMilli() }

// saltBytes is the length of a salt.
const saltBytes = 16

func salt() (out [saltBytes]byte) {
	// It does not fail: crypto/rand ends the process instead.
	_, _ = rand.Read(out[:])
	return out
}
