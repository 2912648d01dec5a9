package redact

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// maxPassing and maxForms bound the secrets that are added, and the bytes of their forms: the
// oldest make room. Of those that are over, maxOver are taken away at a time.
const (
	maxPassing = 2048
	maxForms   = 64 << 20
	maxOver    = 16
)

// head is the length of the beginning of a form by which it is found.
const head = 4

// passing are secrets that are in use for some time, such as the tokens of requests. There may be
// many, and they change often: looking for them takes time by the length of the text, not by their
// number.
type passing struct {
	mu sync.RWMutex
	// secrets are those that were added, added is their order, and bytes are those of their forms.
	secrets map[string]*passed
	added   []*passed
	bytes   int
	// forms counts the secrets that are written so, and lengths the forms of a head by their length.
	forms   map[string]int
	lengths map[[head]byte]map[int]int
	pieces  pieces
}

// passed is a secret that was added: its forms, and until when it is in use, or zero.
type passed struct {
	secret string
	forms  []string
	until  time.Time
}

// Add adds a secret that is in use until a time, or indefinitely if that is zero; of several times,
// the last one counts. The last 2048 secrets are kept at most, with 64 MiB of forms. A secret of less
// than [MinBytes] is ignored.
func (s *Secrets) Add(secret string, until time.Time) {
	if s == nil || len(secret) < MinBytes {
		return
	}
	p := &s.passing
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	over := 0
	p.added = slices.DeleteFunc(p.added, func(x *passed) bool {
		if x.secret == secret || x.until.IsZero() || !now.After(x.until) || over == maxOver {
			return false
		}
		over++
		p.forget(x)
		return true
	})
	if x := p.secrets[secret]; x != nil {
		if until.IsZero() || !x.until.IsZero() && until.After(x.until) {
			x.until = until
		}
		at := slices.Index(p.added, x)
		p.added = append(slices.Delete(p.added, at, at+1), x)
		return
	}
	if p.secrets == nil {
		p.secrets, p.forms, p.lengths = map[string]*passed{}, map[string]int{}, map[[head]byte]map[int]int{}
	}
	found := map[string]bool{}
	spell(found, secret)
	x := &passed{secret, slices.Collect(maps.Keys(found)), until}
	p.secrets[secret] = x
	p.added = append(p.added, x)
	p.count(x.forms, 1)
	for len(p.added) > maxPassing || len(p.added) > 1 && p.bytes > maxForms {
		p.forget(p.added[0])
		p.added = slices.Delete(p.added, 0, 1)
	}
}

// forget takes a secret away, but for its place in the order.
func (p *passing) forget(x *passed) {
	delete(p.secrets, x.secret)
	p.count(x.forms, -1)
}

// count adds forms, or takes them away.
func (p *passing) count(forms []string, by int) {
	for _, form := range forms {
		p.bytes += by * len(form)
		if p.forms[form] == 0 {
			p.pieces.add(form)
		}
		if p.forms[form] += by; p.forms[form] == 0 {
			delete(p.forms, form)
			p.pieces.remove(form)
		}
		first := [head]byte([]byte(form))
		of := p.lengths[first]
		if of == nil {
			of = map[int]int{}
			p.lengths[first] = of
		}
		if of[len(form)] += by; of[len(form)] == 0 {
			delete(of, len(form))
		}
		if len(of) == 0 {
			delete(p.lengths, first)
		}
	}
}

// replace replaces secrets in a text. Of two forms at one place the longer one is replaced.
func (p *passing) replace(text string) string {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if len(p.added) == 0 {
		return text
	}
	var out strings.Builder
	copied := 0
	for i := 0; i+head <= len(text); i++ {
		lengths := p.lengths[[head]byte([]byte(text[i:i+head]))]
		if lengths == nil {
			continue
		}
		longest := 0
		for n := range lengths {
			if n > longest && i+n <= len(text) && p.forms[text[i:i+n]] > 0 {
				longest = n
			}
		}
		if longest > 0 {
			out.WriteString(text[copied:i])
			out.WriteString(Mark)
			copied = i + longest
			i = copied - 1
		}
	}
	if copied == 0 {
		return text
	}
	return out.String() + text[copied:]
}

// atEnd is as that of [pieces].
func (p *passing) atEnd(text string) int {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.pieces.atEnd(text)
}

// atStart is as that of [pieces].
func (p *passing) atStart(text string) int {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.pieces.atStart(text)
}
