package schemas

import (
	"container/list"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"sync"
)

// DefaultCacheEntries is how many schemas a [Cache] keeps unless it is told.
const DefaultCacheEntries = 1024

// Cache keeps compiled schemas by digest, the ones used last. The zero Cache is
// ready for use; it is safe for concurrent use and must not be copied.
type Cache struct {
	// Entries is the largest number of schemas kept; 0 means [DefaultCacheEntries].
	Entries int

	mu      sync.Mutex
	entries map[string]*list.Element
	recent  list.List
}

type cached struct {
	digest string
	once   func() (*Schema, error)
}

// Get gives the schema compiled from raw. digest is "sha256:" and the hex SHA-256
// of raw; it is checked when the schema is compiled, so that no cache entry is
// ever another schema's. A schema that does not compile is compiled again next
// time.
func (c *Cache) Get(digest string, raw []byte) (*Schema, error) {
	e := c.entry(digest, raw)
	s, err := e.once()
	if err != nil {
		c.drop(e)
	}
	return s, err
}

func (c *Cache) entry(digest string, raw []byte) *cached {
	c.mu.Lock()
	defer c.mu.Unlock()
	if el, ok := c.entries[digest]; ok {
		c.recent.MoveToFront(el)
		return el.Value.(*cached)
	}
	e := &cached{digest: digest, once: sync.OnceValues(func() (*Schema, error) {
		sum := sha256.Sum256(raw)
		if want := "sha256:" + hex.EncodeToString(sum[:]); digest != want {
			return nil, fmt.Errorf("compile schema: the digest is given as %s, but is %s", clip(digest, 80), want)
		}
		return Compile(raw)
	})}
	if c.entries == nil {
		c.entries = make(map[string]*list.Element)
	}
	c.entries[digest] = c.recent.PushFront(e)
	most := c.Entries
	if most <= 0 {
		most = DefaultCacheEntries
	}
	for c.recent.Len() > most {
		last := c.recent.Back()
		c.recent.Remove(last)
		delete(c.entries, last.Value.(*cached).digest)
	}
	return e
}

func (c *Cache) drop(e *cached) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if el, ok := c.entries[e.digest]; ok && el.Value == e {
		c.recent.Remove(el)
		delete(c.entries, e.digest)
	}
}
