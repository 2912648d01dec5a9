package redact

import (
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// maxPassing and maxForms bound the secrets that are added, and the bytes of their forms: the
// oldest make room.
const (
	maxPassing = 2048
	maxForms   = 64 << 20
)

// head is the length of the beginning of a form by which it is found.
const head = 4

// passing are secrets that are in use for some time, such as the tokens of requests. There may be
// many, and they change often: looking for them takes time by the length of the text, not by their
// number.
type passing struct {
	mu sync.RWMutex
	// added are the secrets in the order in which they were added, and bytes those of their forms.
	added []passed
	bytes int
	// forms counts the secrets that are written so, and lengths the forms of a head by their length.
	forms   map[string]int
	lengths map[[head]byte]map[int]int
}

// passed is a secret that was added: its forms, and until when it is in use, or zero.
type passed struct {
	forms []string
	until time.Time
}

// Add adds a secret that is in use until a time, or indefinitely if that is zero. The last 2048
// are kept at most. A secret of less than [MinBytes] is ignored, as is one that is there.
func (s *Secrets) Add(secret string, until time.Time) {
	if s == nil || len(secret) < MinBytes {
		return
	}
	p := &s.passing
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.forms[secret] > 0 {
		return
	}
	now := time.Now()
	p.added = slices.DeleteFunc(p.added, func(x passed) bool {
		over := !x.until.IsZero() && now.After(x.until)
		if over {
			p.count(x.forms, -1)
		}
		return over
	})
	found := map[string]bool{}
	spell(found, secret)
	x := passed{slices.Collect(maps.Keys(found)), until}
	p.added = append(p.added, x)
	p.count(x.forms, 1)
	for len(p.added) > maxPassing || len(p.added) > 1 && p.bytes > maxForms {
		p.count(p.added[0].forms, -1)
		p.added = slices.Delete(p.added, 0, 1)
	}
}

// count adds forms, or takes them away.
func (p *passing) count(forms []string, by int) {
	if p.forms == nil {
		p.forms, p.lengths = map[string]int{}, map[[head]byte]map[int]int{}
	}
	for _, form := range forms {
		p.bytes += by * len(form)
		if p.forms[form] += by; p.forms[form] == 0 {
			delete(p.forms, form)
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

// all are the forms of all secrets.
func (s *Secrets) all() iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, form := range s.forms {
			if !yield(form) {
				return
			}
		}
		s.passing.mu.RLock()
		defer s.passing.mu.RUnlock()
		for form := range s.passing.forms {
			if !yield(form) {
				return
			}
		}
	}
}
