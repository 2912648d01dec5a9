package host

import (
	"errors"
	"fmt"
	"slices"

	"chimera.ai/engine/ledger/witness"
	"chimera.ai/engine/store"
	"chimera.ai/engine/trust"
)

// Check reports options that are invalid in any environment.
func (o Options) Check() error {
	for _, r := range o.Roles {
		if !slices.Contains(Roles(), r) {
			return fmt.Errorf("role %q is not supported yet; the roles are %v", r, Roles())
		}
	}
	if o.Trust != nil && o.Trust.Audience == trust.Dev && o.Store.Driver == store.Postgres {
		return errors.New("the bootstrap's audience is dev, which exists with the embedded store alone")
	}
	if o.Store.Driver == store.Postgres && o.Sealing.Keys == nil && !o.Dev {
		return errUnsealed
	}
	return witness.CheckAll(o.Witnesses, 0)
}

// errUnsealed refuses unsealed payloads in production: a store on PostgreSQL means
// production.
var errUnsealed = errors.New("there are no payload keys (payload.keys), without which every client of the Temporal namespace could answer for a worker: " +
	"chimera migrate --new-payload-key FILE makes one, and every worker of the deployment has payload.keys: [\"${file:FILE}\"]")

// has reports whether a host has a role.
func (o Options) has(r Role) bool { return len(o.Roles) == 0 || slices.Contains(o.Roles, r) }
