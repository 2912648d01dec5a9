package postgres

import (
	"database/sql"
	"database/sql/driver"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"chimera.ai/engine/ledger/sqlstore"
)

// Connector returns connections to a database.
func Connector(o Options) (driver.Connector, error) {
	config, err := pgx.ParseConfig(o.URL)
	if err != nil {
		return nil, err
	}
	return stdlib.GetConnector(*config), nil
}

// Traced returns a database whose statements are traced.
func Traced(o Options, tracer pgx.QueryTracer) (*sql.DB, error) {
	config, err := pgx.ParseConfig(o.URL)
	if err != nil {
		return nil, err
	}
	config.Tracer = tracer
	return stdlib.OpenDB(*config), nil
}

// On returns the store on a database that is open.
func On(db *sql.DB, origin string) *sqlstore.Store { return sqlstore.New(db, dialect, origin, nil) }
