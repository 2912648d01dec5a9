package host

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"time"

	"chimera.ai/engine/ledger"
)

// DefaultRetainEvery is how often what is older than the retention policy keeps
// it is taken out of the ledger.
const DefaultRetainEvery = time.Hour

// retentionReason stands in the log beside what was pruned.
const retentionReason = "ledger.retention"

// retain applies a policy now and then, until ctx ends. A store that is away, or
// that refuses, is asked again at the next time.
func retain(ctx context.Context, store ledger.Retention, policy ledger.Policy, every time.Duration, logger *slog.Logger) {
	for {
		pruned, err := store.Retain(ctx, policy, retentionReason)
		for _, class := range slices.Sorted(maps.Keys(pruned)) {
			if n := pruned[class]; n > 0 {
				logger.InfoContext(ctx, "bodies of the ledger were pruned", "class", class, "count", n)
			}
		}
		if err != nil && ctx.Err() == nil {
			logger.WarnContext(ctx, "the ledger's retention policy was not applied", "error", err)
		}
		timer := time.NewTimer(every)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
	}
}
