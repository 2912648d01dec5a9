package sqlite

import (
	"database/sql"
	"database/sql/driver"

	"chimera.ai/engine/ledger/sqlstore"
)

// Source returns the driver, and the name by which it opens a file.
func Source(o Options) (driver.Driver, string, error) {
	name, err := address(o)
	if err != nil {
		return nil, "", err
	}
	db, err := sql.Open("sqlite", name)
	if err != nil {
		return nil, "", err
	}
	return db.Driver(), name, db.Close()
}

// On returns the store on a database that is open.
func On(db *sql.DB, origin string) *sqlstore.Store { return sqlstore.New(db, dialect(), origin, nil) }
