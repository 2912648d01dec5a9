// Package sqlite is the ledger's store in one file, for development and for
// machines of their own.
package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"sync"

	"github.com/pressly/goose/v3"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"chimera.ai/engine/ledger"
	"chimera.ai/engine/ledger/sqlstore"
)

// Options say which file it is.
type Options struct {
	// Path is the database's file. Files with its name and a suffix lie beside it.
	Path string
	// Origin names the log.
	Origin string
}

func dialect() sqlstore.Dialect {
	// A stale leader cannot do harm: a batch is placed at the size of the log, or
	// not at all. So that those of one process need not try, they take turns.
	var leader sync.Mutex
	return sqlstore.Dialect{
		Name:         "sqlite",
		Goose:        goose.DialectSQLite3,
		Question:     true,
		InsertStart:  "INSERT INTO entries (hash, chain, n, key, kind, bytes) VALUES ",
		Pending:      "SELECT hash, bytes FROM entries WHERE serial > coalesce((SELECT max(serial) FROM log_index), 0) ORDER BY serial LIMIT $1",
		Now:          "SELECT CAST(unixepoch('subsec') * 1000 AS INTEGER)",
		OutcomeOrder: "rowid",
		Lead: func(context.Context, *sql.DB) (func(), error) {
			if !leader.TryLock() {
				return nil, fmt.Errorf("%w: another sequencer leads", ledger.ErrConflict)
			}
			return leader.Unlock, nil
		},
		Busy: func(err error) bool {
			return code(err, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_CONSTRAINT_UNIQUE)
		},
		Unavailable: func(err error) bool {
			return code(err, sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_NOMEM)
		},
	}
}

// code reports whether an error has one of the codes, or is a kind of one.
func code(err error, codes ...int) bool {
	var e *sqlite.Error
	if !errors.As(err, &e) {
		return false
	}
	for _, c := range codes {
		if e.Code() == c || e.Code()&0xff == c {
			return true
		}
	}
	return false
}

func open(o Options) (*sql.DB, error) {
	path, err := filepath.Abs(o.Path)
	if err != nil {
		return nil, fmt.Errorf("open the SQLite store: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("open the SQLite store: %w", err)
	}
	address := url.URL{Scheme: "file", Path: path, RawQuery: url.Values{
		"_pragma": {"busy_timeout(10000)", "journal_mode(WAL)", "synchronous(FULL)", "foreign_keys(1)"},
		// A transaction that will write says so at once, and waits for its turn.
		"_txlock": {"immediate"},
	}.Encode()}
	db, err := sql.Open("sqlite", address.String())
	if err != nil {
		return nil, fmt.Errorf("open the SQLite store: %w", err)
	}
	db.SetMaxOpenConns(8)
	return db, nil
}

// Open opens the file, makes it if it is not there, and brings it to its newest
// form.
func Open(ctx context.Context, o Options) (*sqlstore.Store, error) {
	db, err := open(o)
	if err != nil {
		return nil, err
	}
	d := dialect()
	if _, err := sqlstore.Migrate(ctx, db, d); err != nil {
		return nil, fmt.Errorf("open the SQLite store: %w", errors.Join(err, db.Close()))
	}
	// It may hold what only its owner is to read.
	if err := os.Chmod(o.Path, 0o600); err != nil {
		return nil, fmt.Errorf("open the SQLite store: %w", errors.Join(err, db.Close()))
	}
	return sqlstore.New(db, d, o.Origin), nil
}
