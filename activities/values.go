package activities

import (
	"context"
	"fmt"
	"time"

	"chimera.ai/engine/blob"
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

// answerTime is what is left of an activity's time when its last read or write of the
// store is given up, to say so: an answer that comes too late is that of a lost worker.
const answerTime = time.Second

// storing gives the context in which an activity reads and writes the store, all that
// it does there together. It ends before the activity does, and before the time that a
// call may take then.
func storing(ctx context.Context, call time.Duration) (context.Context, context.CancelFunc) {
	latest, ok := ctx.Deadline()
	if !ok {
		return context.WithCancel(ctx)
	}
	return context.WithDeadlineCause(ctx, latest.Add(-call-answerTime), errSlow)
}

// errSlow is why the store is given up where each of its answers comes in time, and all
// together do not.
var errSlow = fmt.Errorf("what the call reads and writes takes longer than it may: %w", blob.ErrHangs)
