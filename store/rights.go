package store

import (
	"context"
	"database/sql"
	"fmt"

	"chimera.ai/engine/ledger"
)

// writes has, for each of [Roles] that processes need, a table that none of the others may
// add rows to.
var writes = map[string]string{
	Roles.Engine:   "runs",
	Roles.Guardian: "barriers",
	Roles.Effects:  "checks",
}

// RightsError reports that the user of the database is not a member of a role that a
// process needs.
type RightsError struct{ Role string }

func (e *RightsError) Error() string {
	return fmt.Sprintf("the database's user (store.url) must be a member of %s", e.Role)
}

// Unwrap returns [ledger.ErrDenied].
func (e *RightsError) Unwrap() error { return ledger.ErrDenied }

// KeyringError reports that a process that states what is about persons is configured without
// the keyring of its database.
type KeyringError struct{ Cause error }

func (e *KeyringError) Error() string { return "open the store: " + e.Cause.Error() }

// Unwrap returns the cause.
func (e *KeyringError) Unwrap() error { return e.Cause }

// CheckRights returns a [RightsError] if the database user lacks the rights of
// one of [Roles] that a process needs. Whoever owns the tables has them all, and SQLite
// has no users.
func CheckRights(ctx context.Context, o Options, roles ...string) (err error) {
	if o.Driver != Postgres || len(roles) == 0 {
		return nil
	}
	db, err := sql.Open("pgx", o.URL) // the driver of package postgres
	if err != nil {
		return fmt.Errorf("ask for the rights of the database's user: %w", err)
	}
	defer func() { _ = db.Close() }() // it has only been read
	for _, role := range roles {
		var may bool
		if err := db.QueryRowContext(ctx, "SELECT has_any_column_privilege($1, 'INSERT')", writes[role]).Scan(&may); err != nil {
			return fmt.Errorf("ask for the rights of the database's user: %w: %w", ledger.ErrUnavailable, err)
		}
		if !may {
			return &RightsError{role}
		}
	}
	return nil
}
