// Package authority is what people who hold keys do over a ledger: authors publish
// plans, admins propose statements of who may do what, sign and apply them, and anyone
// compares the store with what was stated. Callers supply the keys and the bootstrap
// that they trust; the package has none of its own.
//
// An error is [trust.ErrInvalid] if something is not signed or stated as it must be.
// Errors of the store are those of package ledger.
package authority

import (
	"context"
	"fmt"

	"chimera.ai/engine/ledger"
	"chimera.ai/engine/trust"
)

// Authority is a ledger and the bootstrap of its statements of authority.
type Authority struct {
	// Bootstrap is the root of trust. If it is nil, plans can be published and found,
	// unsigned, and nothing else is possible.
	Bootstrap *trust.Bootstrap
	Ledger    ledger.Store
}

// State returns what the admins have stated, verified.
func (a *Authority) State(ctx context.Context) (trust.State, error) {
	if err := a.rooted(); err != nil {
		return trust.State{}, err
	}
	return trust.Read(ctx, a.Ledger, a.Bootstrap)
}

// rooted returns an error unless there is a bootstrap.
func (a *Authority) rooted() error {
	if a.Bootstrap == nil {
		return fmt.Errorf("%w: there is no bootstrap, so nothing says whom to trust", trust.ErrInvalid)
	}
	return nil
}
