// Package skills holds the ways to run a skill: Go functions that are
// registered by provider and operation and run in this process, the engine's
// own built-in skills, and executables that speak JSON on standard input and
// output.
//
// Every failure is a [contract.Error] with a kind of the closed set, so that
// the same retry rules hold for a skill as for any other provider.
package skills

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"chimera.ai/engine/plan"
)

// Func is a skill's code. It gets the assembled input, which is valid against
// the skill's input schema, and returns its output, both JSON texts. It stops
// when ctx ends. An error that is not a contract.Error counts as tool_error.
type Func func(ctx context.Context, input json.RawMessage) (json.RawMessage, error)

// Skill is a pure operation that runs in this process.
type Skill struct {
	Provider, Operation string
	// Description is one sentence for people.
	Description string
	// InputSchema and OutputSchema are JSON Schemas (draft 2020-12).
	InputSchema, OutputSchema json.RawMessage
	// Mode says whether equal inputs give equal outputs.
	Mode plan.Mode
	Run  Func
}

// Registry holds skills by provider and operation. The zero Registry is empty
// and ready to use. A Registry is safe for concurrent use.
type Registry struct {
	mu     sync.RWMutex
	skills map[key]Skill
}

type key struct{ provider, operation string }

// Register adds s. It refuses an incomplete skill and a second one of the same
// provider and operation.
func (r *Registry) Register(s Skill) error {
	if err := s.check(); err != nil {
		return fmt.Errorf("register skill %s/%s: %w", s.Provider, s.Operation, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	k := key{s.Provider, s.Operation}
	if _, ok := r.skills[k]; ok {
		return fmt.Errorf("register skill %s/%s: it is registered already", s.Provider, s.Operation)
	}
	if r.skills == nil {
		r.skills = map[key]Skill{}
	}
	r.skills[k] = s
	return nil
}

// Lookup finds the skill of a provider and operation.
func (r *Registry) Lookup(provider, operation string) (Skill, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	s, ok := r.skills[key{provider, operation}]
	return s, ok
}

// All lists the registered skills, sorted by provider and operation.
func (r *Registry) All() []Skill {
	r.mu.RLock()
	defer r.mu.RUnlock()
	all := make([]Skill, 0, len(r.skills))
	for _, s := range r.skills {
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b Skill) int {
		if c := strings.Compare(a.Provider, b.Provider); c != 0 {
			return c
		}
		return strings.Compare(a.Operation, b.Operation)
	})
	return all
}
