package payload

import (
	"container/list"
	"context"
	"fmt"
	"runtime"
	"sync"
	"weak"

	"chimera.ai/engine/blob"
	"chimera.ai/engine/plan"
)

// Plans is the process-wide cache of decoded plans by digest, and of what was
// prepared from them, over the blob store that has all plans. It is safe for
// concurrent use. Its plans are shared and must not be changed.
//
// It is bounded by an estimate of the memory that its entries hold. An evicted plan
// that a run still uses returns to the cache as it is, so no plan is in memory
// twice.
type Plans struct {
	store blob.Store
	limit int

	mu      sync.Mutex
	size    int                      // bytes that the entries hold
	entries map[string]*list.Element // of *cached
	recent  *list.List               // most recent first
	// alive holds every decoded plan in use, including those in the cache.
	alive map[string]alive
}

// cached is an entry. Its bytes, prepared and, once it is decoded, data are guarded
// by the mutex of its cache.
type cached struct {
	digest string
	bytes  int

	decoding sync.Once
	data     []byte // or nil, once the plan is decoded and the store has it
	plan     *plan.Plan
	err      error

	prepared *preparation
}

// preparation is what was prepared from a plan. Its bytes, which count among those
// of its entry, are guarded by the mutex of the cache.
type preparation struct {
	bytes int
	once  sync.Once
	value any
}

// alive is a decoded plan, the length of its encoding, and whether the store has it.
type alive struct {
	plan    weak.Pointer[plan.Plan]
	encoded int
	stored  bool
}

// DefaultCacheBytes is how many bytes of memory a process uses for plans and what
// it prepared from them.
const DefaultCacheBytes = 256 << 20

// undecoded is the factor by which the encoded bytes of a plan count before it is
// decoded: about the same as after.
const undecoded = 3

// NewPlans makes a cache over store. Its entries hold at most about limit bytes of
// memory, but the most recent plan is always kept; limit 0 means
// [DefaultCacheBytes].
func NewPlans(store blob.Store, limit int) *Plans {
	if limit == 0 {
		limit = DefaultCacheBytes
	}
	return &Plans{
		store: store, limit: limit,
		entries: map[string]*list.Element{}, recent: list.New(), alive: map[string]alive{},
	}
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
	_, err = c.stored(c.decode(digest, data))
	return digest, err
}

// Check reports why the store behind the cache cannot be written to.
func (c *Plans) Check(ctx context.Context) error { return c.store.Check(ctx) }

// Get returns the plan with a digest, from the cache or from the store.
func (c *Plans) Get(ctx context.Context, digest string) (*plan.Plan, error) {
	e, err := c.get(ctx, digest)
	if err != nil {
		return nil, err
	}
	return e.plan, nil
}

// Prepared returns what prepare made of the plan with a digest. It calls prepare
// once while the plan is cached. The result is evicted with the plan, or earlier if
// it alone exceeds the bound; at any time it reports through grow how many more
// bytes of memory it holds.
func (c *Plans) Prepared(ctx context.Context, digest string, prepare func(p *plan.Plan, grow func(bytes int)) any) (any, error) {
	e, err := c.get(ctx, digest)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	if e.prepared == nil {
		e.prepared = new(preparation)
	}
	made := e.prepared
	c.mu.Unlock()
	made.once.Do(func() {
		made.value = prepare(e.plan, func(bytes int) {
			c.mu.Lock()
			defer c.mu.Unlock()
			if e.prepared == made {
				made.bytes += bytes
				c.grow(e, bytes)
			}
		})
	})
	return made.value, nil
}

// get returns the entry of a digest, decoded.
func (c *Plans) get(ctx context.Context, digest string) (*cached, error) {
	c.mu.Lock()
	e := c.entry(digest, nil)
	c.mu.Unlock()
	if e != nil {
		return c.decoded(e)
	}
	data, err := c.store.Get(ctx, digest)
	if err != nil {
		return nil, fmt.Errorf("load plan: %w", err)
	}
	return c.stored(c.decode(digest, data))
}

// stored records that the store has the plan of an entry, so that its bytes are not
// needed here.
func (c *Plans) stored(e *cached, err error) (*cached, error) {
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if a, ok := c.alive[e.digest]; ok {
		a.stored = true
		c.alive[e.digest] = a
	}
	c.grow(e, -len(e.data))
	e.data = nil
	return e, nil
}

// decode returns the entry of data, whose digest must be as named. Concurrent
// callers for the same plan wait for one decoding.
func (c *Plans) decode(digest string, data []byte) (*cached, error) {
	c.mu.Lock()
	e := c.entry(digest, data)
	if e == nil {
		e = &cached{digest: digest, data: data}
		c.add(e, undecoded*len(data))
	}
	c.mu.Unlock()
	return c.decoded(e)
}

// entry returns the entry of a digest, now the most recent one, or nil. A plan
// still in use gets a new entry, with data. The lock is held.
func (c *Plans) entry(digest string, data []byte) *cached {
	if element, ok := c.entries[digest]; ok {
		c.recent.MoveToFront(element)
		return element.Value.(*cached)
	}
	a := c.alive[digest]
	p := a.plan.Value()
	if p == nil {
		return nil
	}
	e := &cached{digest: digest, data: data, plan: p}
	c.add(e, len(data)+p.Memory(a.encoded))
	return e
}

// decoded returns an entry once it is decoded, and drops it if that fails.
func (c *Plans) decoded(e *cached) (*cached, error) {
	e.decoding.Do(func() {
		if e.plan != nil {
			return
		}
		if plan.DigestOf(e.data) != e.digest {
			e.err = errDigest
		} else {
			e.plan, e.err = plan.Decode(e.data)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		if e.err != nil {
			c.remove(e)
			return
		}
		c.alive[e.digest] = alive{plan: weak.Make(e.plan), encoded: len(e.data)}
		runtime.AddCleanup(e.plan, c.forget, e.digest)
		c.grow(e, len(e.data)+e.plan.Memory(len(e.data))-e.bytes)
	})
	return e, e.err
}

// add makes an entry the most recent one. The lock is held.
func (c *Plans) add(e *cached, bytes int) {
	c.entries[e.digest] = c.recent.PushFront(e)
	c.grow(e, bytes)
}

// grow counts bytes that an entry holds, if it is still here. The lock is held.
func (c *Plans) grow(e *cached, bytes int) {
	if !c.has(e) {
		return
	}
	e.bytes += bytes
	c.size += bytes
	for c.size > c.limit && c.recent.Len() > 1 {
		c.remove(c.recent.Back().Value.(*cached))
	}
	if c.size > c.limit && c.has(e) && e.prepared != nil {
		e.bytes -= e.prepared.bytes
		c.size -= e.prepared.bytes
		e.prepared = nil
	}
}

func (c *Plans) has(e *cached) bool {
	element, ok := c.entries[e.digest]
	return ok && element.Value.(*cached) == e
}

// remove takes an entry out, if it is still here. The lock is held.
func (c *Plans) remove(e *cached) {
	if c.has(e) {
		c.recent.Remove(c.entries[e.digest])
		delete(c.entries, e.digest)
		c.size -= e.bytes
	}
}

// forget is called when a plan is no longer in use.
func (c *Plans) forget(digest string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if a, ok := c.alive[digest]; ok && a.plan.Value() == nil {
		delete(c.alive, digest)
	}
}

// bytes returns the canonical bytes of a loaded plan, or nil if the store has them.
func (c *Plans) bytes(loaded *plan.Loaded) ([]byte, error) {
	digest := loaded.Head.Digest
	c.mu.Lock()
	a := c.alive[digest]
	var data []byte
	if element, ok := c.entries[digest]; ok {
		data = element.Value.(*cached).data
	}
	c.mu.Unlock()
	if a.stored && a.plan.Value() == loaded.Plan {
		return nil, nil
	}
	if data != nil {
		return data, nil
	}
	return loaded.Plan.Encode()
}
