package activities

import (
	"crypto/sha256"
	"sync"
)

// maxSources is how many sources a process remembers the compiled plan of.
const maxSources = 256

// sources remembers the plan digest of sources that this process has compiled.
// Compilation is pure, and the catalog and the policy of a process do not
// change, so the same source gives the same plan. The zero value is ready to use.
type sources struct {
	mu      sync.Mutex
	digests map[[sha256.Size]byte]string
	order   [][sha256.Size]byte // oldest first
}

func (s *sources) digest(source string) (string, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	digest, ok := s.digests[sha256.Sum256([]byte(source))]
	return digest, ok
}

func (s *sources) remember(source, digest string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := sha256.Sum256([]byte(source))
	if _, ok := s.digests[key]; ok {
		return
	}
	if s.digests == nil {
		s.digests = map[[sha256.Size]byte]string{}
	}
	if len(s.order) == maxSources {
		delete(s.digests, s.order[0])
		s.order = s.order[1:]
	}
	s.digests[key] = digest
	s.order = append(s.order, key)
}
