package host

import (
	"context"
	"time"

	"go.temporal.io/sdk/client"

	"chimera.ai/engine/ledger"
)

// logAge measures the age of the log's head, and how long entries have waited for a place.
type logAge struct {
	log           ledger.Log
	head, waiting client.MetricsGauge

	// first is the row that waits longest, since when this process has seen it.
	first int64
	since time.Time
}

// logAgeEvery is the pause between two measurements.
const logAgeEvery = 10 * time.Second

func (a *logAge) run(ctx context.Context) {
	tick := time.NewTicker(logAgeEvery)
	defer tick.Stop()
	for {
		a.measure(ctx, time.Now())
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// measure looks at the log. If the store does not answer, the waiting time goes on.
func (a *logAge) measure(ctx context.Context, now time.Time) {
	if heads, err := a.log.Heads(ctx, ledger.Top, 1); err == nil && len(heads) > 0 {
		a.head.Update(max(now.Sub(heads[0].At.Time()), 0).Seconds())
	}
	rows, err := a.log.Candidates(ctx, 1)
	switch {
	case err == nil && len(rows) == 0:
		a.first = 0
	case err == nil && rows[0].Serial != a.first:
		a.first, a.since = rows[0].Serial, now
	}
	if a.first == 0 {
		a.waiting.Update(0)
		return
	}
	a.waiting.Update(now.Sub(a.since).Seconds())
}
