// Package postgres is the ledger's store on PostgreSQL, for production.
package postgres

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

	"chimera.ai/engine/ledger"
	"chimera.ai/engine/ledger/keyring"
	"chimera.ai/engine/ledger/sqlstore"
)

// Options identify the database.
type Options struct {
	// URL is a connection string in the form of libpq. It may contain a
	// password, and does not appear in errors.
	URL string
	// Origin names the log.
	Origin string
	// Subjects has the key that wraps the keys of subjects; nil if this process has none:
	// see [sqlstore.New].
	Subjects *keyring.Ring
	// Connections bounds those that are open at once; 0 means 16.
	Connections int
}

const connections = 16

// Password is the password in a connection string, or else in libpq's variables and
// files, or "".
func Password(url string) string {
	c, err := pgx.ParseConfig(url)
	if err != nil {
		return "" // whoever connects says what is wrong
	}
	return c.Password
}

// sequencerLock is the advisory lock of the log's one sequencer.
const sequencerLock = 0x6368696d65726131 // "chimera1"

const clock = "floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint"

var dialect = sqlstore.Dialect{
	Name:      "postgres",
	Goose:     goose.DialectPostgres,
	Isolation: sql.LevelReadCommitted,
	// A transaction's lock. Two chains whose names have the same hash merely
	// wait for each other. The clock is read while it is held.
	Lock: "SELECT CASE WHEN pg_advisory_xact_lock(hashtextextended($1, 7)) IS NULL THEN 0 ELSE " + clock + " END",
	Now:  "SELECT " + clock,
	// When it was first migrated, in microseconds since 1970; a restored one is the same.
	Self:  "SELECT floor(extract(epoch FROM min(tstamp)) * 1000000)::text FROM goose_db_version",
	Keys:  "= ANY($2)",
	List:  func(keys []string) any { return keys },
	Write: write,
	Each:  "unnest($1::text[]) AS u (value)",
	Pending: "SELECT " + sqlstore.Columns + ` FROM pending p JOIN entries e ON e.serial = p.serial
		WHERE NOT EXISTS (SELECT FROM log_index i WHERE i.serial = p.serial) ORDER BY p.serial LIMIT $1`,
	Holders: `SELECT coalesce(e.serial, 0), e.hash, i.place FROM unnest($1::text[], $2::bigint[]) WITH ORDINALITY AS u (chain, n, o)
		LEFT JOIN entries e ON e.chain = u.chain AND e.n = u.n LEFT JOIN log_index i ON i.serial = e.serial ORDER BY u.o`,
	Places:   places,
	Place:    place,
	SetAside: setAside,
	Waiting:  "SELECT count(*) FROM pending p WHERE NOT EXISTS (SELECT FROM log_index i WHERE i.serial = p.serial)",
	Lost:     "SELECT " + sqlstore.Columns + " FROM entries e WHERE e.serial > $1 AND " + lost + " ORDER BY e.serial LIMIT $2",
	Recover:  recoverLost,
	Prune:    prune,
	Packets: func(ctx context.Context, t *sql.Tx) error {
		_, err := t.ExecContext(ctx, "SELECT drop_packets()")
		return err
	},
	Move: func(ctx context.Context, t *sql.Tx, hold string, to ledger.TxStatus, running bool, posted any) (bool, error) {
		var n int
		err := t.QueryRowContext(ctx, "SELECT move_hold($1, $2, $3, $4)", hold, string(to), running, posted).Scan(&n)
		return n == 1, err
	},
	Lead:        lead,
	Busy:        func(err error) bool { return code(err, "40001", "40P01") || overtaken(err) },
	Taken:       func(err error) bool { return code(err, "23505") && !overtaken(err) },
	Invalid:     func(err error) bool { return code(err, "22", "23514", "54") },
	Unavailable: unavailable,
	Denied:      func(err error) bool { return code(err, "42501") },
	// A session has the settings of its role and database from its start, such as
	// default_transaction_read_only, statement_timeout and lock_timeout.
	Stale: func(err error) bool { return code(err, "25006", "57014", "55P03") },
	Idle:  connections,
}

// prune calls the function for the engine's role, which may not delete anything
// itself.
func prune(ctx context.Context, t *sql.Tx, class string, before int64) (n int, err error) {
	return n, t.QueryRowContext(ctx, "SELECT prune_bodies($1, $2)", class, before).Scan(&n)
}

// write inserts entries, their bodies and their notices to the sequencer in one
// statement. Its text is the same for any number of rows.
func write(ctx context.Context, t *sql.Tx, chain string, at int64, rows []sqlstore.Row) error {
	hashes, numbers, keys, kinds, texts := make([][]byte, len(rows)), make([]int64, len(rows)), make([]string, len(rows)), make([]string, len(rows)), make([][]byte, len(rows))
	var digests, classes, sealed []string
	var bodies [][]byte
	for i := range rows {
		r := &rows[i]
		hashes[i], numbers[i], keys[i], kinds[i], texts[i] = r.Hash[:], r.N, r.Key, string(r.Kind), r.Bytes
		if r.Digest != "" {
			digests, classes, sealed, bodies = append(digests, r.Digest), append(classes, string(r.Class)), append(sealed, r.Sealed), append(bodies, r.Body)
		}
	}
	_, err := t.ExecContext(ctx, `WITH b AS (
			INSERT INTO bodies (digest, chain, class, at, subject_key, bytes)
			SELECT digest, $1::text, class, $2::bigint, nullif(sealed, ''), bytes FROM unnest($3::text[], $4::text[], $5::text[], $6::bytea[]) AS u (digest, class, sealed, bytes)
		), e AS (
			INSERT INTO entries (hash, chain, n, key, kind, bytes)
			SELECT hash, $1::text, n, key, kind, bytes FROM unnest($7::bytea[], $8::bigint[], $9::text[], $10::text[], $11::bytea[]) AS u (hash, n, key, kind, bytes) ORDER BY n
			RETURNING serial
		) INSERT INTO pending (serial) SELECT serial FROM e`,
		chain, at, digests, classes, sealed, bodies, hashes, numbers, keys, kinds, texts)
	return err
}

// lost is the condition that an entry neither has a place nor waits for one.
const lost = "NOT EXISTS (SELECT FROM log_index i WHERE i.serial = e.serial) AND NOT EXISTS (SELECT FROM pending p WHERE p.serial = e.serial)"

// recovers bounds the entries that one look returns to those that wait.
const recovers = 10_000

// recoverLost returns entries to those that wait for a place.
func recoverLost(ctx context.Context, t *sql.Tx, after int64) (found int, upTo int64, err error) {
	err = t.QueryRowContext(ctx, "WITH l AS (SELECT e.serial FROM entries e WHERE e.serial > $1 AND "+lost+` ORDER BY e.serial LIMIT $2), p AS (
			INSERT INTO pending (serial) SELECT serial FROM l ON CONFLICT DO NOTHING RETURNING serial
		) SELECT (SELECT count(*) FROM p), (SELECT coalesce(max(serial), $1) FROM entries)`, after, recovers).Scan(&found, &upTo)
	if found > 0 {
		upTo = after // there may be more
	}
	return found, upTo, err
}

// places are the arguments of Holders.
func places(of []ledger.Place) []any {
	chains, numbers := make([]string, len(of)), make([]int64, len(of))
	for i, p := range of {
		chains[i], numbers[i] = p.Chain, p.N
	}
	return []any{chains, numbers}
}

// setAside calls the function for the engine's role, which may not delete entries itself.
func setAside(ctx context.Context, t *sql.Tx, rows []ledger.Aside) error {
	serials, reasons := make([]int64, len(rows)), make([]string, len(rows))
	for i := range rows {
		serials[i], reasons[i] = rows[i].Serial, rows[i].Why
	}
	_, err := t.ExecContext(ctx, "SELECT set_aside($1, $2)", serials, reasons)
	return err
}

// place indexes a batch of pending entries in one statement.
func place(ctx context.Context, t *sql.Tx, size int64, batch []ledger.Hash) error {
	hashes := make([][]byte, len(batch))
	for i := range batch {
		hashes[i] = batch[i][:]
	}
	var gone, placed int
	var ordered bool
	err := t.QueryRowContext(ctx, `WITH b AS (
			SELECT o, e.serial FROM unnest($1::bytea[]) WITH ORDINALITY AS u (hash, o) JOIN entries e ON e.hash = u.hash
		), d AS (
			DELETE FROM pending WHERE serial IN (SELECT serial FROM b) RETURNING serial
		), i AS (
			INSERT INTO log_index (place, serial) SELECT $2::bigint + o - 1, b.serial FROM b JOIN d ON d.serial = b.serial ORDER BY o RETURNING place
		) SELECT (SELECT count(*) FROM d), (SELECT count(*) FROM i),
			(SELECT coalesce(bool_and(rises), true) FROM (SELECT serial > lag(serial) OVER (ORDER BY o) AS rises FROM b) AS x)`,
		hashes, size).Scan(&gone, &placed, &ordered)
	if err != nil {
		return err
	}
	if gone != len(batch) || placed != len(batch) || !ordered {
		return fmt.Errorf("%w: the batch is not the next entries in their order", ledger.ErrConflict)
	}
	return nil
}

func open(o Options) (*sql.DB, error) {
	config, err := pgx.ParseConfig(o.URL)
	if err != nil {
		// The driver's error repeats the string.
		return nil, errors.New("open the PostgreSQL store: the connection string cannot be read")
	}
	if config.RuntimeParams["application_name"] == "" {
		config.RuntimeParams["application_name"] = "chimera"
	}
	db := stdlib.OpenDB(*config, stdlib.OptionAfterConnect(watched), stdlib.OptionShouldPing(silent))
	db.SetMaxOpenConns(o.connections())
	return db, nil
}

func (o Options) connections() int {
	if o.Connections <= 0 {
		return connections
	}
	return o.Connections
}

// watched makes the server end a session whose process stopped within a
// transaction, or whose machine is gone, since it holds locks for which others
// wait. It is set on each connection, since poolers refuse such settings at the
// start of one.
func watched(ctx context.Context, conn *pgx.Conn) error {
	err := conn.PgConn().Exec(ctx, `SET idle_in_transaction_session_timeout = '10s';
		SET tcp_keepalives_idle = 30; SET tcp_keepalives_interval = 10; SET tcp_keepalives_count = 3`).Close()
	if err != nil {
		_ = conn.Close(ctx) // the library forgets it
	}
	return err
}

// pingTime is how long a connection that has been idle may take to answer.
const pingTime = 2 * time.Second

// silent reports whether an idle connection no longer answers, as when a firewall
// has forgotten it. It closes the connection, so that the ping that follows drops
// it at once.
func silent(ctx context.Context, p stdlib.ShouldPingParams) bool {
	if p.IdleDuration <= time.Second {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, pingTime)
	defer cancel()
	return p.Conn.PgConn().Ping(ctx) != nil
}

// Open opens a database that [Migrate] has brought to its newest form; any
// other is an error. It is [ledger.ErrDenied] for a user who is a member of no role.
func Open(ctx context.Context, o Options) (*sqlstore.Store, error) {
	db, err := open(o)
	if err != nil {
		return nil, err
	}
	current, err := sqlstore.Current(ctx, db, dialect)
	if err == nil && !current {
		err = errors.New("the database lacks migrations: run chimera migrate")
	}
	if err != nil {
		switch {
		case unavailable(err):
			err = fmt.Errorf("%w: %w", ledger.ErrUnavailable, err)
		case dialect.Denied(err):
			err = fmt.Errorf("%w: %w", ledger.ErrDenied, err)
		}
		return nil, fmt.Errorf("open the PostgreSQL store: %w", errors.Join(err, db.Close()))
	}
	d := dialect
	d.Idle = o.connections()
	return sqlstore.New(db, d, o.Origin, o.Subjects), nil
}

// Migrate brings the database to the newest form, and returns the number of
// migrations applied. If Subjects is not nil, it makes that the keyring of the database.
// Several processes may call it at once.
func Migrate(ctx context.Context, o Options) (int, error) {
	n, err := migrate(ctx, o)
	if err != nil || o.Subjects == nil {
		return n, err
	}
	s, err := Open(ctx, o)
	if err != nil {
		return n, err
	}
	return n, errors.Join(s.Bind(ctx), s.Close())
}

func migrate(ctx context.Context, o Options) (n int, err error) {
	db, err := open(o)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	locker, err := lock.NewPostgresSessionLocker()
	if err != nil {
		return 0, fmt.Errorf("migrate: %w", err)
	}
	n, err = sqlstore.Migrate(ctx, db, dialect, goose.WithSessionLocker(locker))
	if err != nil && unavailable(err) {
		err = fmt.Errorf("%w: %w", ledger.ErrUnavailable, err)
	}
	return n, err
}

// lead takes the sequencer's lock, which belongs to a connection, so that it is
// released however this process ends.
func lead(ctx context.Context, db *sql.DB) (func(), error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	var got bool
	if err := conn.QueryRowContext(ctx, "SELECT pg_try_advisory_lock($1)", int64(sequencerLock)).Scan(&got); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	if !got {
		return nil, errors.Join(fmt.Errorf("%w: another sequencer leads", ledger.ErrConflict), conn.Close())
	}
	return func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		// If unlocking fails, the connection is closed, and the lock is released with it.
		if _, err := conn.ExecContext(ctx, "SELECT pg_advisory_unlock($1)", int64(sequencerLock)); err != nil {
			_ = conn.Raw(func(any) error { return driver.ErrBadConn })
		}
		_ = conn.Close()
	}, nil
}

// code reports whether PostgreSQL has answered with one of these codes or classes.
// A class is the first two characters of its codes.
func code(err error, codes ...string) bool {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return false
	}
	for _, c := range codes {
		if strings.HasPrefix(pg.Code, c) {
			return true
		}
	}
	return false
}

// overtaken reports that another entry has taken the next place of a chain: somebody has written
// it without the chain's lock.
func overtaken(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == "23505" && pg.ConstraintName == "entries_chain_n_key"
}

// unavailable reports that the server, or the connection to it, is at fault. That
// includes every error while connecting, such as a wrong password: the operation
// did not begin.
func unavailable(err error) bool {
	var connect *pgconn.ConnectError
	if errors.As(err, &connect) {
		return true
	}
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		// Connection exceptions, insufficient resources, a lock that was not had in
		// time, operator intervention, errors of the system, a server that is read-only
		// while another takes over, and a transaction that this process was too slow for.
		return code(err, "08", "53", "55P03", "57", "58", "25006", "25P03")
	}
	var network net.Error
	return errors.As(err, &network) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, driver.ErrBadConn) || errors.Is(err, net.ErrClosed) || pgconn.SafeToRetry(err)
}
