package host

import (
	"context"
	"errors"
	"slices"

	"chimera.ai/engine/ledger"
	"chimera.ai/engine/store"
)

// has reports whether a host has a role.
func (o Options) has(r Role) bool {
	return slices.Contains(o.Roles, r) || len(o.Roles) == 0 && slices.Contains(defaultRoles, r)
}

var defaultRoles = []Role{RoleEngine, RoleTools}

// compiles reports whether a host has a role that compiles plans.
func (o Options) compiles() bool {
	return o.has(RoleEngine) || o.has(RoleGuardian) || o.has(RoleEffects)
}

// Roles lists all roles.
func Roles() []Role { return []Role{RoleEngine, RoleTools, RoleGuardian, RoleEffects} }

// openLedger opens the store of a host that has a ledger, as a user of the database that
// has the rights of the host's roles. Otherwise the error is a [store.RightsError], or a
// [store.KeyringError] if the host has no keyring and the database has one.
func openLedger(ctx context.Context, o Options) (*store.Opened, error) {
	var needed []string
	for _, r := range []struct {
		of   Role
		name string
	}{{RoleEngine, store.Roles.Engine}, {RoleGuardian, store.Roles.Guardian}, {RoleEffects, store.Roles.Effects}} {
		if o.has(r.of) {
			needed = append(needed, r.name)
		}
	}
	s, err := store.Open(ctx, o.Store)
	if errors.Is(err, ledger.ErrDenied) && len(needed) > 0 {
		return nil, &store.RightsError{Role: needed[0]} // the user may not even look at the log
	}
	if err != nil {
		return nil, err
	}
	err = store.CheckRights(ctx, o.Store, needed...)
	if err == nil {
		// A ring that is away is waited for. One that is not configured would end each run about a
		// person that meets this worker.
		if ring := s.Ledger.Keyring(ctx); errors.Is(ring, ledger.ErrInvalid) {
			err = &store.KeyringError{Cause: ring}
		} else if ring != nil {
			o.Logger.Warn("runs about persons wait: the key that wraps the keys of persons is not there", "error", ring)
		}
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}
