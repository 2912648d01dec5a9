// Package sqlite is the ledger's store in one file, for development and for single
// machines.
package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/pressly/goose/v3"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"chimera.ai/engine/ledger"
	"chimera.ai/engine/ledger/keyring"
	"chimera.ai/engine/ledger/sqlstore"
)

// Options identify the file.
type Options struct {
	// Path is the database's file. Files with its name and a suffix are beside
	// it.
	Path string
	// Origin names the log.
	Origin string
	// Subjects has the key that wraps the keys of subjects; nil if this process has none:
	// see [sqlstore.New]. Open makes it for a new database.
	Subjects *keyring.Ring
}

func dialect() sqlstore.Dialect {
	// A stale leader cannot do harm: a batch is placed at the size of the log, or
	// not at all. So that those of one process need not try, they take turns.
	var leader sync.Mutex
	// The writers of a process queue here, since SQLite has no queue, and a
	// later one may come first.
	turn := make(chan struct{}, 1)
	return sqlstore.Dialect{
		Name:     "sqlite",
		Goose:    goose.DialectSQLite3,
		Question: true,
		Enter: func(ctx context.Context) (func(), error) {
			select {
			case turn <- struct{}{}:
				return func() { <-turn }, nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		},
		// There is one writer: the transaction itself is the lock.
		Lock:    "SELECT " + clock + " WHERE $1 IS NOT NULL",
		Now:     "SELECT " + clock,
		Self:    "SELECT file FROM pragma_database_list WHERE name = 'main'", // one that was removed may be made again
		Keys:    "IN (SELECT value FROM json_each($2))",
		List:    func(keys []string) any { return list(keys) },
		Look:    true,
		Write:   write,
		Each:    "json_each($1) AS u",
		Pending: "SELECT " + sqlstore.Columns + " FROM entries e WHERE serial > coalesce((SELECT max(serial) FROM log_index), 0) ORDER BY serial LIMIT $1",
		Holders: `SELECT coalesce(e.serial, 0), e.hash, i.place FROM json_each($1) u
			LEFT JOIN entries e ON e.chain = u.value ->> 'Chain' AND e.n = u.value ->> 'N' LEFT JOIN log_index i ON i.serial = e.serial ORDER BY u.key`,
		Places:   func(of []ledger.Place) []any { return []any{list(of)} },
		Place:    place,
		SetAside: setAside,
		Waiting:  "SELECT count(*) FROM entries WHERE serial > coalesce((SELECT max(serial) FROM log_index), 0)",
		// Entries get their places in the order of their serials, so that only rows of log_index
		// that somebody has added pass one over, and it gets none any more.
		Lost: "SELECT " + sqlstore.Columns + ` FROM entries e WHERE e.serial > $1 AND e.serial <= (SELECT max(serial) FROM log_index)
			AND NOT EXISTS (SELECT 1 FROM log_index i WHERE i.serial = e.serial) ORDER BY e.serial LIMIT $2`,
		// They stay lost: see Status.
		Recover: func(_ context.Context, _ *sql.Tx, after int64) (found int, upTo int64, err error) {
			return 0, after, nil
		},
		Erased: erased,
		Prune: func(ctx context.Context, t *sql.Tx, class string, before int64) (int, error) {
			if _, err := t.ExecContext(ctx, `INSERT INTO pruned_early (digest, chain, class, at) SELECT digest, chain, class, at FROM bodies WHERE class = ? AND at < ? AND chain NOT IN (SELECT chain FROM legal_holds)
				AND chain IN (SELECT chain FROM entries WHERE serial > coalesce((SELECT max(serial) FROM log_index), 0)) ON CONFLICT DO NOTHING`, class, before); err != nil {
				return 0, err
			}
			r, err := t.ExecContext(ctx, "DELETE FROM bodies WHERE class = ? AND at < ? AND chain NOT IN (SELECT chain FROM legal_holds)", class, before)
			if err != nil {
				return 0, err
			}
			n, err := r.RowsAffected()
			return int(n), err
		},
		Packets: func(ctx context.Context, t *sql.Tx) error {
			_, err := t.ExecContext(ctx, `DELETE FROM evidence WHERE EXISTS (SELECT 1 FROM evidence_refs r WHERE r.packet = evidence.digest)
				AND NOT EXISTS (SELECT 1 FROM evidence_refs r JOIN bodies b ON b.digest = r.body LEFT JOIN subject_keys k ON k.id = b.subject_key
					WHERE r.packet = evidence.digest AND (b.subject_key IS NULL OR k.id IS NOT NULL))`)
			if err == nil {
				_, err = t.ExecContext(ctx, "DELETE FROM evidence_refs WHERE NOT EXISTS (SELECT 1 FROM bodies b WHERE b.digest = evidence_refs.body)")
			}
			return err
		},
		Lead: func(context.Context, *sql.DB) (func(), error) {
			if !leader.TryLock() {
				return nil, fmt.Errorf("%w: another sequencer leads", ledger.ErrConflict)
			}
			return leader.Unlock, nil
		},
		Busy: func(err error) bool {
			return code(err, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL)
		},
		Taken: func(err error) bool {
			return code(err, sqlite3.SQLITE_CONSTRAINT_UNIQUE, sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY)
		},
		Invalid: func(err error) bool {
			return code(err, sqlite3.SQLITE_TOOBIG, sqlite3.SQLITE_MISMATCH, sqlite3.SQLITE_CONSTRAINT_DATATYPE)
		},
		Unavailable: func(err error) bool {
			return code(err, sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_INTERRUPT)
		},
		// A connection that could not open the file for writing never writes.
		Stale: func(err error) bool { return code(err, sqlite3.SQLITE_READONLY) },
		Idle:  2,
	}
}

const clock = "CAST(round(unixepoch('subsec') * 1000) AS INTEGER)"

func list[T any](values []T) any {
	raw, err := json.Marshal(values)
	if err != nil {
		return "[]" // texts and numbers can always be written
	}
	return string(raw)
}

// write inserts entries with their bodies, a statement for each: there is no round
// trip that one statement for all would save.
func write(ctx context.Context, t *sql.Tx, chain string, at int64, rows []sqlstore.Row) error {
	entries, err := t.PrepareContext(ctx, "INSERT INTO entries (hash, chain, n, key, kind, bytes) VALUES (?, ?, ?, ?, ?, ?)")
	if err != nil {
		return err
	}
	defer func() { _ = entries.Close() }()
	bodies, err := t.PrepareContext(ctx, "INSERT INTO bodies (digest, chain, class, at, subject_key, bytes) VALUES (?, ?, ?, ?, nullif(?, ''), ?)")
	if err != nil {
		return err
	}
	defer func() { _ = bodies.Close() }()
	for i := range rows {
		r := &rows[i]
		if r.Digest != "" {
			if _, err := bodies.ExecContext(ctx, r.Digest, chain, string(r.Class), at, r.Sealed, r.Body); err != nil {
				return err
			}
		}
		if _, err := entries.ExecContext(ctx, r.Hash[:], chain, r.N, r.Key, string(r.Kind), r.Bytes); err != nil {
			return err
		}
	}
	return nil
}

// alike is the condition that a body b is sealed as its run is.
const alike = "(substr(b.chain, 1, 4) <> 'run/' OR b.subject_key IS (SELECT r.subject_key FROM runs r WHERE 'run/' || r.workflow || '/' || r.root = (b.chain || '')))"

// named is the condition that a body b is stored as that of an entry e.
const named = `b.chain = CAST(e.bytes AS TEXT) ->> 'chain' AND b.class = CAST(e.bytes AS TEXT) ->> 'class'
	AND b.at = CAST(round(unixepoch(CAST(e.bytes AS TEXT) ->> 'at', 'subsec') * 1000) AS INTEGER)`

// setAside moves rows that have no place. One that is set aside at once was none before another.
func setAside(ctx context.Context, t *sql.Tx, rows []ledger.Aside) error {
	serials := make([]int64, len(rows))
	for i := range rows {
		serials[i] = rows[i].Serial
	}
	which := list(serials)
	for i := range rows {
		_, err := t.ExecContext(ctx, `INSERT INTO aside (serial, hash, chain, n, key, kind, bytes, why, at, bodied, followed)
			SELECT serial, hash, chain, n, key, kind, bytes, substr($1, 1, 500), `+clock+`,
				json_valid(CAST(e.bytes AS TEXT)) AND (
					EXISTS (SELECT 1 FROM bodies b WHERE b.digest = CAST(e.bytes AS TEXT) ->> 'body' AND `+named+` AND `+alike+`)
					OR EXISTS (SELECT 1 FROM pruned_early b WHERE b.digest = CAST(e.bytes AS TEXT) ->> 'body' AND `+named+`)),
				n = 0 OR EXISTS (SELECT 1 FROM entries b WHERE b.chain = e.chain AND b.n = e.n - 1
					AND (EXISTS (SELECT 1 FROM log_index i WHERE i.serial = b.serial) OR b.serial NOT IN (SELECT value FROM json_each($3))))
			FROM entries e WHERE serial = $2 AND NOT EXISTS (SELECT 1 FROM log_index i WHERE i.serial = e.serial)`, rows[i].Why, rows[i].Serial, which)
		if err != nil {
			return err
		}
	}
	_, err := t.ExecContext(ctx, "DELETE FROM entries WHERE serial IN (SELECT value FROM json_each(?)) AND EXISTS (SELECT 1 FROM aside a WHERE a.serial = entries.serial)", which)
	return err
}

// place indexes a batch. All entries before the last have a place, so the next
// ones are those with the next serials.
func place(ctx context.Context, t *sql.Tx, size int64, batch []ledger.Hash) error {
	var last int64
	if err := t.QueryRowContext(ctx, "SELECT coalesce(max(serial), 0) FROM log_index").Scan(&last); err != nil {
		return err
	}
	before := last
	insert, err := t.PrepareContext(ctx, "INSERT INTO log_index (place, serial) SELECT ?, serial FROM entries WHERE hash = ? AND serial > ? RETURNING serial")
	if err != nil {
		return err
	}
	defer func() { _ = insert.Close() }()
	conflict := fmt.Errorf("%w: the batch is not the next entries in their order", ledger.ErrConflict)
	for i := range batch {
		err := insert.QueryRowContext(ctx, size+int64(i), batch[i][:], last).Scan(&last)
		if errors.Is(err, sql.ErrNoRows) {
			return conflict
		}
		if err != nil {
			return err
		}
	}
	var n int
	if err := t.QueryRowContext(ctx, "SELECT count(*) FROM entries WHERE serial > ? AND serial <= ?", before, last).Scan(&n); err != nil {
		return err
	}
	if n != len(batch) {
		return conflict
	}
	return nil
}

// erased empties the write-ahead log: the pages of the database itself were
// overwritten (secure_delete), the older pages there were not.
func erased(ctx context.Context, db *sql.DB) error {
	var busy, log, moved int
	if err := db.QueryRowContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)").Scan(&busy, &log, &moved); err != nil {
		return err
	}
	if busy != 0 {
		return fmt.Errorf("%w: readers keep the write-ahead log, and the deleted key in it; erase again", ledger.ErrUnavailable)
	}
	return nil
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

// address is the data source name for the driver.
func address(o Options) (string, error) {
	path, err := filepath.Abs(o.Path)
	if err != nil {
		return "", fmt.Errorf("open the SQLite store: %w", err)
	}
	address := url.URL{Scheme: "file", Path: path, RawQuery: url.Values{
		// Keys are digests, so the statements of one run are all over the file. Pages are
		// cached, and written back once for many runs.
		"_pragma": {"busy_timeout(2000)", "journal_mode(WAL)", "synchronous(FULL)", "foreign_keys(1)", "secure_delete(1)",
			"cache_size(-8000)", "wal_autocheckpoint(8000)"},
		// A transaction that will write takes the write lock at its start.
		"_txlock": {"immediate"},
	}.Encode()}
	return address.String(), nil
}

func open(o Options) (*sql.DB, error) {
	name, err := address(o)
	if err != nil {
		return nil, err
	}
	db, err := sql.Open("sqlite", name)
	if err != nil {
		return nil, fmt.Errorf("open the SQLite store: %w", err)
	}
	db.SetMaxOpenConns(1 + 8) // one is held
	return db, nil
}

// opening bounds the attempts to open the file while others interfere.
const opening = 10

// Open opens the file, makes it if it is not there, and brings it to its newest
// form. Several processes may do so at once.
func Open(ctx context.Context, o Options) (*sqlstore.Store, error) {
	if err := create(o.Path); err != nil {
		return nil, fmt.Errorf("open the SQLite store: %w", err)
	}
	db, err := open(o)
	if err != nil {
		return nil, err
	}
	d := dialect()
	err = migrate(ctx, o, db, d)
	// Opening fails at once while the last connection of another process
	// closes.
	for try := 1; d.Busy(err) && try < opening && ctx.Err() == nil; try++ {
		timer := time.NewTimer(time.Duration(try) * time.Millisecond)
		select {
		case <-ctx.Done():
			timer.Stop()
		case <-timer.C:
		}
		err = migrate(ctx, o, db, d)
	}
	if err != nil {
		if d.Unavailable(err) || d.Busy(err) {
			err = fmt.Errorf("%w: %w", ledger.ErrUnavailable, err)
		}
		return nil, fmt.Errorf("open the SQLite store %s: %w", o.Path, errors.Join(err, db.Close()))
	}
	paths, err := files(o.Path)
	if err != nil {
		return nil, fmt.Errorf("open the SQLite store: %w", errors.Join(err, db.Close()))
	}
	opened, leave, err := hold(ctx, db, paths)
	if err != nil {
		return nil, fmt.Errorf("open the SQLite store: %w", errors.Join(err, db.Close()))
	}
	d.There, d.Leave = func() error { return there(paths, opened) }, leave
	s := sqlstore.New(db, d, o.Origin, o.Subjects)
	if o.Subjects == nil {
		return s, nil
	}
	// A ring that is away later is for those who need it.
	bound, err := s.Bound(ctx)
	if err == nil && !bound {
		err = s.Bind(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// files returns the paths of what SQLite has open: the database, which may be a link to
// it, and the write-ahead log and its index, which lie beside the database itself.
func files(path string) ([]string, error) {
	target, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil, err
	}
	return []string{path, target + "-wal", target + "-shm"}, nil
}

// hold returns the files that connections have open, and keeps a connection until leave:
// who closes the last one removes all but the database itself.
func hold(ctx context.Context, db *sql.DB, paths []string) (opened []os.FileInfo, leave func() error, err error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, nil, err
	}
	var n int
	err = conn.QueryRowContext(ctx, "SELECT count(*) FROM goose_db_version").Scan(&n) // opens the others
	opened = make([]os.FileInfo, len(paths))
	for i, path := range paths {
		if err == nil {
			opened[i], err = os.Stat(path)
		}
	}
	if err != nil {
		return nil, nil, errors.Join(err, conn.Close())
	}
	return opened, conn.Close, nil
}

// there refuses a file that was removed or replaced: SQLite goes on with the one
// that it has open, which nobody finds again, and makes an empty one for the next
// connection.
func there(paths []string, opened []os.FileInfo) error {
	for i, path := range paths {
		now, err := os.Stat(path)
		switch {
		case err != nil:
			return fmt.Errorf("%w: the database's file is gone: %w", ledger.ErrUnavailable, err)
		case !os.SameFile(opened[i], now):
			return fmt.Errorf("%w: %s is another file than the one that was opened: it was replaced, and a restart takes up the new one", ledger.ErrUnavailable, path)
		}
	}
	return nil
}

// creating is held while a file is created.
var creating sync.Mutex

// create makes the file for its owner alone, as it may hold what only they are
// to read. Those that SQLite makes beside it get the same mode. One that is there is
// not opened: to close it would take away the locks of all connections that this
// process has to it, and who closes the last of another process's then would remove
// the write-ahead log that they write to.
func create(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	creating.Lock()
	defer creating.Unlock()
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return os.Chmod(path, 0o600)
	}
	if err != nil {
		return err
	}
	return errors.Join(f.Chmod(0o600), f.Close())
}

// migrate migrates under a lock: one file more, of which a process holds the
// lock for writing meanwhile. It is free again when the process ends, however it
// ends.
func migrate(ctx context.Context, o Options, db *sql.DB, d sqlstore.Dialect) (err error) {
	var begun bool
	if err := db.QueryRowContext(ctx, "SELECT count(*) > 0 FROM sqlite_master WHERE name = 'goose_db_version'").Scan(&begun); err != nil {
		return err
	}
	if begun {
		if current, err := sqlstore.Current(ctx, db, d); err != nil || current {
			return err
		}
	}
	o.Path += ".migrating"
	if err := create(o.Path); err != nil {
		return err
	}
	lock, err := open(o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	for {
		t, err := lock.BeginTx(ctx, nil)
		if d.Busy(err) && ctx.Err() == nil {
			continue // it has waited
		}
		if err != nil {
			return err
		}
		_, err = sqlstore.Migrate(ctx, db, d)
		return errors.Join(err, t.Rollback())
	}
}
