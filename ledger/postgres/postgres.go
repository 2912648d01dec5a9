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

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

	"chimera.ai/engine/ledger"
	"chimera.ai/engine/ledger/sqlstore"
)

// Options say which database it is.
type Options struct {
	// URL is a connection string, as libpq has them. It may hold a password, and
	// is not repeated in errors.
	URL string
	// Origin names the log.
	Origin string
	// Connections bounds those that are open at once; 0 means 16.
	Connections int
}

// sequencerLock is the advisory lock of the log's one sequencer.
const sequencerLock = 0x6368696d65726131 // "chimera1"

var dialect = sqlstore.Dialect{
	Name:  "postgres",
	Goose: goose.DialectPostgres,
	// A lock of a transaction: two chains whose names have one hash wait for each
	// other for no reason, and nothing else.
	Lock:         "SELECT pg_advisory_xact_lock(hashtextextended($1, 7))",
	InsertStart:  "WITH fresh AS (INSERT INTO entries (hash, chain, n, key, kind, bytes) VALUES ",
	InsertEnd:    " RETURNING serial) INSERT INTO pending (serial) SELECT serial FROM fresh",
	Pending:      "SELECT e.hash, e.bytes FROM pending p JOIN entries e ON e.serial = p.serial ORDER BY p.serial LIMIT $1",
	Placed:       "DELETE FROM pending WHERE serial IN ",
	Now:          "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint",
	OutcomeOrder: "serial",
	Lead:         lead,
	Busy:         busy,
	Unavailable:  unavailable,
}

func open(o Options) (*sql.DB, error) {
	config, err := pgx.ParseConfig(o.URL)
	if err != nil {
		// The library's error repeats the string.
		return nil, errors.New("open the PostgreSQL store: the connection string cannot be read")
	}
	if config.RuntimeParams["application_name"] == "" {
		config.RuntimeParams["application_name"] = "chimera"
	}
	db := stdlib.OpenDB(*config)
	n := o.Connections
	if n <= 0 {
		n = 16
	}
	db.SetMaxOpenConns(n)
	db.SetMaxIdleConns(n)
	return db, nil
}

// Open opens a database that [Migrate] has brought to its newest form; any
// other is an error.
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
		if unavailable(err) {
			err = fmt.Errorf("%w: %w", ledger.ErrUnavailable, err)
		}
		return nil, fmt.Errorf("open the PostgreSQL store: %w", errors.Join(err, db.Close()))
	}
	return sqlstore.New(db, dialect, o.Origin), nil
}

// Migrate brings the database to the newest form, and tells how many steps that
// took. Several processes may do it at once.
func Migrate(ctx context.Context, o Options) (n int, err error) {
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

// lead takes the sequencer's lock, which is that of a connection: it is free
// again when this process ends, however it ends.
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
		// Where the unlock fails the connection is thrown away, and the lock with it.
		if _, err := conn.ExecContext(context.WithoutCancel(ctx), "SELECT pg_advisory_unlock($1)", int64(sequencerLock)); err != nil {
			_ = conn.Raw(func(any) error { return driver.ErrBadConn })
		}
		_ = conn.Close()
	}, nil
}

// busy: another transaction was in the way.
func busy(err error) bool {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return false
	}
	switch pg.Code {
	case "40001", "40P01", "23505":
		return true
	}
	return false
}

// unavailable: the server, or the way to it, is in trouble.
func unavailable(err error) bool {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		// Connection exceptions, insufficient resources, operator intervention,
		// errors of the system.
		for _, class := range []string{"08", "53", "57", "58"} {
			if strings.HasPrefix(pg.Code, class) {
				return true
			}
		}
		// A server that is going over to another one is read-only for a while.
		return pg.Code == "25006"
	}
	var network net.Error
	var connect *pgconn.ConnectError
	return errors.As(err, &network) || errors.As(err, &connect) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, driver.ErrBadConn) || errors.Is(err, net.ErrClosed) || pgconn.SafeToRetry(err)
}
