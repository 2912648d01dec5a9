// Package authority is what people who hold keys do over a ledger: authors publish
// plans, admins propose statements of who may do what, sign and apply them, and anyone
// holds what the store has against what was stated. Callers give the keys and the
// bootstrap that they trust; the package has none of its own.
//
// An error that is [trust.ErrInvalid] says that something is not signed or stated as it
// must be. Errors of the store are those of package ledger.
package authority

import (
	"context"
	"fmt"

	"chimera.ai/engine/ledger"
	"chimera.ai/engine/trust"
)

// Authority is a ledger, and the bootstrap on which its statements of authority rest.
type Authority struct {
	// Bootstrap is nil where nothing says whom to trust: then plans can be published
	// and found, unsigned, and nothing else is possible.
	Bootstrap *trust.Bootstrap
	Ledger    ledger.Store
}

// State gives what the admins have stated, verified.
func (a *Authority) State(ctx context.Context) (trust.State, error) {
	if a.Bootstrap == nil {
		return trust.State{}, fmt.Errorf("%w: there is no bootstrap, so nothing says whom to trust", trust.ErrInvalid)
	}
	return trust.Read(ctx, a.Ledger, a.Bootstrap)
}
