package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"chimera.ai/engine/activities"
	"chimera.ai/engine/catalog"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/registry"
	"chimera.ai/engine/trust"
)

const (
	// registryEvery is how long what was read of the registry holds, and for how long a call waits for a
	// reading where there was one before.
	registryEvery = time.Second
	// registryTime bounds reading it. Where that is not enough for the tools, the next reading has twice
	// the time, up to registryMost.
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
	// reading is closed when the reading that is under way since began ends. It is nil if none is.
	reading chan struct{}
	began   time.Time
}

// catalog returns it, with the digest of the last statement, which tells one from another. Once what was
// read no longer holds, it is read again, by one reading at a time, and each call waits for that, but not
// longer than until registryEvery after it began: then what was read before stands, as it does while the
// store cannot be read. Until it could be, the error is [ledger.ErrUnavailable], and later calls try again.
// Only the first reading is waited for until it ends, or ctx does.
func (i *imported) catalog(ctx context.Context) (*catalog.Catalog, string, error) {
	i.mu.Lock()
	if i.reading == nil && time.Since(i.read) >= i.pause {
		i.reading, i.began = make(chan struct{}), time.Now()
		go i.again(cmp.Or(i.within, registryTime))
	}
	reading, first := i.reading, i.last == nil && i.failed == nil
	until := i.began.Add(registryEvery)
	i.mu.Unlock()
	if reading != nil {
		var late <-chan time.Time
		if !first {
			late = time.After(time.Until(until))
		}
		select {
		case <-reading:
		case <-late:
		case <-ctx.Done():
		}
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.last == nil && i.failed == nil {
		return nil, "", fmt.Errorf("%w: %w", ledger.ErrUnavailable, context.Cause(ctx))
	}
	return i.last, i.edition, i.failed
}

// again reads it. It has more time than the last reading only where the tools took too long: an outage
// says nothing about the next reading.
func (i *imported) again(within time.Duration) {
	i.mu.Lock()
	last, edition := i.last, i.edition
	i.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	s, err := i.said.State(ctx)
	large := last == nil || err == nil
	if err == nil && (last == nil || s.Head != edition) {
		if last, err = registry.Catalog(ctx, i.rows, s); err == nil {
			edition = s.Head
		}
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	switch {
	case err == nil:
		i.last, i.edition, i.within = last, edition, 0
	case ctx.Err() != nil && large:
		i.within = min(2*within, registryMost)
	}
	i.read = time.Now()
	if i.last != nil {
		i.failed, i.pause = nil, registryEvery
	} else {
		i.failed, i.pause = err, min(cmp.Or(2*i.pause, registryPause), 10*registryEvery)
	}
	close(i.reading)
	i.reading = nil
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

// await asks again and again for what is registered until it can be read, says so, and makes up for the
// checks of the start: what would have ended that ends the host.
func (h *Host) await(ctx context.Context, read *reader, said *trust.Reader, operations *catalog.Catalog) {
	logger := h.options.Logger
	tick := time.NewTicker(registryEvery)
	defer tick.Stop()
	for {
		err := h.late(ctx, read, said, operations)
		switch {
		case err == nil:
			logger.InfoContext(ctx, "the registry of tools was read")
			if _, err := read.workbench().Judge(); err != nil {
				logger.ErrorContext(ctx, "no effect is decided on", "error", err)
			}
			return
		case errors.Is(err, ledger.ErrUnavailable) || ctx.Err() != nil:
			logger.DebugContext(ctx, "the registry of tools cannot be read", "error", err)
		default:
			select {
			case h.refused <- fmt.Errorf("read the registry of tools: %w", err):
			default: // another reason came first
			}
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// late checks the operations that are registered as the start would have.
func (h *Host) late(ctx context.Context, read *reader, said *trust.Reader, operations *catalog.Catalog) error {
	registered, _, err := read.registry.catalog(ctx)
	if err != nil {
		return err
	}
	s, err := said.State(ctx)
	if err != nil {
		return err
	}
	return h.callable(ctx, s, registry.Under(operations, registered))
}
