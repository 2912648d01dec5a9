package payload

import (
	"container/list"
	"context"
	"fmt"
	"sync"

	"chimera.ai/engine/blob"
	"chimera.ai/engine/plan"
)

// Plans is the process-wide cache of decoded plans by digest, over the blob
// store that has them all. It is safe for concurrent use, and a plan in it is
// shared: nobody changes it.
type Plans struct {
	store blob.Store
	limit int

	mu      sync.Mutex
	size    int
	entries map[string]*list.Element // of *cached
	recent  *list.List               // most recent first
}

type cached struct {
	digest string
	once   sync.Once
	plan   *plan.Plan
	data   []byte
	err    error
}

// DefaultCacheBytes is how many encoded bytes of plans a process keeps decoded.
const DefaultCacheBytes = 256 << 20

// NewPlans makes a cache over store. The plans in it have at most limit encoded
// bytes, but the most recent one is always kept; limit 0 means [DefaultCacheBytes].
func NewPlans(store blob.Store, limit int) *Plans {
	if limit == 0 {
		limit = DefaultCacheBytes
	}
	return &Plans{store: store, limit: limit, entries: map[string]*list.Element{}, recent: list.New()}
}

// Put stores a compiled plan and returns its digest.
func (c *Plans) Put(ctx context.Context, p *plan.Plan) (string, error) {
	data, err := p.Encode()
	if err != nil {
		return "", err
	}
	digest, err := c.store.Put(ctx, data)
	if err != nil {
		return "", fmt.Errorf("store plan: %w", err)
	}
	if _, err := c.decode(digest, data); err != nil {
		return "", err
	}
	return digest, nil
}

// Check reports why the store behind the cache cannot be written to.
func (c *Plans) Check(ctx context.Context) error { return c.store.Check(ctx) }

// Get returns the plan of a digest, from the cache or from the store.
func (c *Plans) Get(ctx context.Context, digest string) (*plan.Plan, error) {
	c.mu.Lock()
	element, ok := c.entries[digest]
	if ok {
		c.recent.MoveToFront(element)
	}
	c.mu.Unlock()
	if ok {
		entry := element.Value.(*cached)
		return entry.wait()
	}
	data, err := c.store.Get(ctx, digest)
	if err != nil {
		return nil, fmt.Errorf("load plan: %w", err)
	}
	return c.decode(digest, data)
}

// decode gives the plan of data, whose digest must be as named. Whoever comes
// while the same plan is being decoded waits for it.
func (c *Plans) decode(digest string, data []byte) (*plan.Plan, error) {
	c.mu.Lock()
	element, ok := c.entries[digest]
	if !ok {
		element = c.recent.PushFront(&cached{digest: digest, data: data})
		c.entries[digest] = element
		c.size += len(data)
		c.trim()
	}
	c.mu.Unlock()
	p, err := element.Value.(*cached).wait()
	if err != nil {
		c.drop(element)
	}
	return p, err
}

func (e *cached) wait() (*plan.Plan, error) {
	e.once.Do(func() {
		if plan.DigestOf(e.data) != e.digest {
			e.err = errDigest
			return
		}
		e.plan, e.err = plan.Decode(e.data)
	})
	return e.plan, e.err
}

func (c *Plans) trim() {
	for c.size > c.limit && c.recent.Len() > 1 {
		c.remove(c.recent.Back())
	}
}

func (c *Plans) drop(element *list.Element) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.remove(element)
}

func (c *Plans) remove(element *list.Element) {
	entry := element.Value.(*cached)
	if c.entries[entry.digest] != element {
		return
	}
	delete(c.entries, entry.digest)
	c.recent.Remove(element)
	c.size -= len(entry.data)
}

// bytes gives the canonical bytes of a loaded plan.
func (c *Plans) bytes(loaded *plan.Loaded) ([]byte, error) {
	c.mu.Lock()
	element, ok := c.entries[loaded.Head.Digest]
	c.mu.Unlock()
	if ok {
		return element.Value.(*cached).data, nil
	}
	return loaded.Plan.Encode()
}
