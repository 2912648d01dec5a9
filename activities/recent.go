package activities

import (
	"crypto/sha256"
	"sync"
)

// maxRecent is how many texts a [recent] remembers.
const maxRecent = 256

// recent is a small cache from texts, by their digests, to texts. The zero value is
// ready to use.
type recent struct {
	mu     sync.Mutex
	values map[[sha256.Size]byte]string
	order  [][sha256.Size]byte // oldest first
}

func (r *recent) get(name string) (string, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	value, ok := r.values[sha256.Sum256([]byte(name))]
	return value, ok
}

func (r *recent) remember(name, value string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := sha256.Sum256([]byte(name))
	if _, ok := r.values[key]; ok {
		return
	}
	if r.values == nil {
		r.values = map[[sha256.Size]byte]string{}
	}
	if len(r.order) == maxRecent {
		delete(r.values, r.order[0])
		r.order = r.order[1:]
	}
	r.values[key] = value
	r.order = append(r.order, key)
}
