package host

import (
	"context"
	"sync"
	"time"

	"chimera.ai/engine/catalog"
	"chimera.ai/engine/registry"
	"chimera.ai/engine/trust"
)

const (
	// registryEvery is how long what was read of the registry holds, and registryTime bounds
	// reading it.
	registryEvery = time.Second
	registryTime  = 5 * time.Second
)

// imported is the catalog of the tools that are registered and stated.
type imported struct {
	said *trust.Reader
	rows registry.Rows

	mu      sync.Mutex
	read    time.Time
	edition string
	last    *catalog.Catalog
}

// catalog returns it, with the digest of the last statement, which tells one from another. What was
// read last holds while the store cannot be read.
func (i *imported) catalog() (*catalog.Catalog, string, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.last != nil && time.Since(i.read) < registryEvery {
		return i.last, i.edition, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), registryTime)
	defer cancel()
	s, err := i.said.State(ctx)
	if err == nil && (i.last == nil || s.Head != i.edition) {
		var all *catalog.Catalog
		if all, err = registry.Catalog(ctx, i.rows, s); err == nil {
			i.last, i.edition = all, s.Head
		}
	}
	if err != nil && i.last == nil {
		return nil, "", err
	}
	i.read = time.Now()
	return i.last, i.edition, nil
}
