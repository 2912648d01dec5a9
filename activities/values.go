package activities

import (
	"context"
	"fmt"
	"time"

	"chimera.ai/engine/blob"
	"chimera.ai/engine/contract"
)

// Values keeps large values of runs out of what their workflows read and write;
// these see references.
type Values interface {
	// Keep stores the large values of an outcome for the workflow of a run, and
	// puts references in their place. If lean is set, it stores all but small
	// values.
	Keep(ctx context.Context, workflow string, values []contract.Value, lean bool) error
	// Give replaces references by their values. Its error is a
	// [contract.Error], of kind [contract.StoreUnavailable] if they may be read
	// later.
	Give(ctx context.Context, workflow string, values ...*contract.Value) error
}

// answerTime is how long before its deadline an activity gives up the store, so
// that it can still answer: a late answer counts as a lost worker.
const answerTime = time.Second

// storing returns the context for all reads and writes of the store by an activity.
// It ends before the activity does, with time left for a call.
func storing(ctx context.Context, call time.Duration) (context.Context, context.CancelFunc) {
	latest, ok := ctx.Deadline()
	if !ok {
		return context.WithCancel(ctx)
	}
	return context.WithDeadlineCause(ctx, latest.Add(-call-answerTime), errSlow)
}

// errSlow reports that each answer of the store came in time, but not all of them
// together.
var errSlow = fmt.Errorf("what the call reads and writes takes longer than it may: %w", blob.ErrHangs)
