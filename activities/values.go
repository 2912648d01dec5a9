package activities

import (
	"context"

	"chimera.ai/engine/contract"
)

// Values keeps large values of runs out of what their workflows read and write: those
// see references.
type Values interface {
	// Keep stores what is large of the values of an outcome, for the workflow of a run,
	// and puts references in their place; where it is to be lean, of all but a little.
	Keep(ctx context.Context, workflow string, values []contract.Value, lean bool) error
	// Give puts the values in the place of references to them. Its error is a
	// [contract.Error], of kind [contract.StoreUnavailable] where they may be read later.
	Give(ctx context.Context, workflow string, values ...*contract.Value) error
}
