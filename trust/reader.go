package trust

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash"
	"sync"
)

// Reader reads a source repeatedly, and verifies only new statements. As long as it
// lives, it refuses a source that withdraws or changes statements that it has returned
// before. It is safe for concurrent use.
type Reader struct {
	Source    Source
	Bootstrap *Bootstrap

	mu    sync.Mutex
	state State
	// sum is the checksum of the statements that state includes.
	sum []byte
}

// State returns the state at the end of the chain, which callers must not modify. The
// error is [ErrInvalid] if the chain does not verify, and otherwise the source's.
func (r *Reader) State(ctx context.Context) (State, error) {
	for {
		r.mu.Lock()
		seen := r.state.N
		r.mu.Unlock()
		list, err := r.Source.Authority(ctx)
		if err != nil {
			return State{}, fmt.Errorf("read authority: %w", err)
		}
		if s, late, err := r.take(list, seen); !late {
			return s, err
		}
	}
}

// take compares a list with the statements verified so far, and verifies the new ones.
// seen is how many statements there were before the list was read. late is true if
// another call has added more meanwhile: the list is then shorter than the state, although
// the source withdrew nothing.
func (r *Reader) take(list []json.RawMessage, seen int) (out State, late bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if seen <= len(list) && len(list) < r.state.N {
		return State{}, true, nil
	}
	out, err = r.follow(list)
	return out, false, err
}

// follow is take with the lock held, for a list that is not late.
func (r *Reader) follow(list []json.RawMessage) (_ State, err error) {
	sums := sha256.New()
	if r.sum == nil {
		if r.state, err = Start(r.Bootstrap); err != nil {
			return State{}, fmt.Errorf("read authority: %w", err)
		}
		r.sum = sums.Sum(nil)
	}
	if len(list) < r.state.N {
		return State{}, fmt.Errorf("read authority: %w", invalid("there are %d statements, but %d were seen before", len(list), r.state.N))
	}
	for _, st := range list[:r.state.N] {
		count(sums, st)
	}
	if string(sums.Sum(nil)) != string(r.sum) {
		return State{}, fmt.Errorf("read authority: %w", invalid("one of the first %d statements has changed since it was seen", r.state.N))
	}
	if len(list) == r.state.N {
		return r.state, nil
	}
	next := r.state.clone()
	for _, st := range list[r.state.N:] {
		n := next.N + 1
		if err := next.step(st); err != nil {
			// The next call verifies the statements before it again, and this one too.
			return State{}, fmt.Errorf("read authority: %w", Problem{n, bare(err)})
		}
		count(sums, st)
	}
	r.state, r.sum = *next, sums.Sum(nil)
	return r.state, nil
}

// count adds a statement, with its length, so that no other list has the same sum.
func count(sums hash.Hash, statement []byte) {
	_ = binary.Write(sums, binary.BigEndian, uint64(len(statement))) // a hash never fails
	sums.Write(statement)
}
