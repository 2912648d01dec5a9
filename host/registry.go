package host

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"

	"chimera.ai/engine/activities"
	"chimera.ai/engine/catalog"
	"chimera.ai/engine/registry"
	"chimera.ai/engine/trust"
)

const (
	// registryEvery is how long what was read of the registry holds.
	registryEvery = time.Second
	// registryTime bounds reading it. Where that is not enough, the next reading has twice the time, up
	// to registryMost.
	registryTime = 5 * time.Second
	registryMost = time.Minute
	// registryPause is how long no reading follows the first one that has failed. It doubles, up to
	// registryEvery times ten.
	registryPause = 100 * time.Millisecond
)

// imported is the catalog of the tools that are registered and stated.
type imported struct {
	said *trust.Reader
	rows registry.Rows

	mu sync.Mutex
	// edition and last are what was read last. failed is why nothing was yet, pause how long after the
	// last reading none follows, and within what the next one may take; 0 stands for the first of each.
	edition string
	last    *catalog.Catalog
	failed  error
	read    time.Time
	pause   time.Duration
	within  time.Duration
}

// catalog returns it, with the digest of the last statement, which tells one from another. What was
// read last holds while the store cannot be read. Until it could be, the error is
// [ledger.ErrUnavailable], and the next calls try again.
func (i *imported) catalog() (*catalog.Catalog, string, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if time.Since(i.read) < i.pause {
		return i.last, i.edition, i.failed
	}
	within := cmp.Or(i.within, registryTime)
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	s, err := i.said.State(ctx)
	if err == nil && (i.last == nil || s.Head != i.edition) {
		var all *catalog.Catalog
		if all, err = registry.Catalog(ctx, i.rows, s); err == nil {
			i.last, i.edition = all, s.Head
		}
	}
	if ctx.Err() != nil {
		i.within = min(2*within, registryMost)
	}
	i.read = time.Now()
	if i.last != nil {
		i.failed, i.pause = nil, registryEvery
	} else {
		i.failed, i.pause = err, min(cmp.Or(2*i.pause, registryPause), 10*registryEvery)
	}
	return i.last, i.edition, i.failed
}

// informed is what the admins have stated, for whoever also has to know what is registered. Until that
// could be read, it is [ledger.ErrUnavailable].
type informed struct {
	said  *trust.Reader
	bench func() activities.Workbench
}

// State implements [activities.Authority].
func (i informed) State(ctx context.Context) (trust.State, error) {
	if away := i.bench().Away; away != nil {
		return trust.State{}, away
	}
	return i.said.State(ctx)
}

// await asks again and again for what is registered until it can be read, and says so.
func await(ctx context.Context, bench func() activities.Workbench, logger *slog.Logger) {
	tick := time.NewTicker(registryEvery)
	defer tick.Stop()
	for {
		switch now := bench(); {
		case now.Away == nil:
			logger.InfoContext(ctx, "the registry of tools was read")
			if _, err := now.Judge(); err != nil {
				logger.ErrorContext(ctx, "no effect is decided on", "error", err)
			}
			return
		default:
			logger.DebugContext(ctx, "the registry of tools cannot be read", "error", now.Away)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
