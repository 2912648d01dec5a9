package host

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"time"

	"chimera.ai/engine/ledger"
)

// DefaultRetainEvery is how often the retention policy is applied to the ledger.
const DefaultRetainEvery = time.Hour

// retentionReason is the reason that the log records for what was pruned.
const retentionReason = "ledger.retention"

// retain applies a policy periodically, until ctx ends. After a failure of the store it
// tries again at the next time.
func retain(ctx context.Context, books ledger.Retention, policy ledger.Policy, every time.Duration, logger *slog.Logger) {
	for {
		pruned, err := books.Retain(ctx, policy, retentionReason)
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
