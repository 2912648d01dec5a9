package trust

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash"
	"sync"

	"chimera.ai/engine/plan"
)

// Reader reads a source repeatedly, and verifies only new statements. As long as it
// lives, and with a Memory beyond that, it refuses a source that withdraws or changes
// statements that it has returned before. It is safe for concurrent use.
type Reader struct {
	Source    Source
	Bootstrap *Bootstrap
	// Memory, if not nil, keeps the last statement that was read.
	Memory Memory

	mu    sync.Mutex
	state State
	// last is what Memory has.
	last Seen
	// sums is the checksum of the statements that state includes, nil until something was
	// read, and stored the digest of the last of them as it is stored, "" if there is none.
	sums   hash.Hash
	stored string
}

// Memory keeps which statement was the last that a process has read, where those who can
// change the source cannot.
type Memory interface {
	// Load returns the zero value where nothing was kept.
	Load() (Seen, error)
	Save(s Seen) error
}

// Seen identifies a statement: its number in the chain, and its digest.
type Seen struct {
	N      int    `json:"statement"`
	Digest string `json:"digest"`
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
	if r.sums == nil {
		if r.state, err = Start(r.Bootstrap); err != nil {
			return State{}, fmt.Errorf("read authority: %w", err)
		}
		if r.Memory != nil {
			if r.last, err = r.Memory.Load(); err != nil {
				return State{}, fmt.Errorf("read authority: what was read before: %w", err)
			}
		}
		r.sums = sha256.New()
	}
	if len(list) < r.last.N {
		return State{}, fmt.Errorf("read authority: %w", invalid("there are %d statements, but this process has read %d before", len(list), r.last.N))
	}
	if len(list) < r.state.N {
		return State{}, fmt.Errorf("read authority: %w", invalid("there are %d statements, but %d were seen before", len(list), r.state.N))
	}
	for _, st := range list[:r.state.N] {
		count(sums, st)
	}
	if !bytes.Equal(sums.Sum(nil), r.sums.Sum(nil)) {
		return State{}, fmt.Errorf("read authority: %w", invalid("one of the first %d statements has changed since it was seen", r.state.N))
	}
	if len(list) == r.state.N {
		return r.state, r.remember()
	}
	next := r.state.clone()
	for _, st := range list[r.state.N:] {
		n := next.N + 1
		if err := next.step(st); err != nil {
			// The next call verifies the statements before it again, and this one too.
			return State{}, fmt.Errorf("read authority: %w", Problem{n, bare(err)})
		}
		if n == r.last.N && next.Head != r.last.Digest {
			return State{}, fmt.Errorf("read authority: %w", invalid("statement %d is not the one that this process has read before", n))
		}
		count(sums, st)
	}
	r.state, r.sums, r.stored = *next, sums, plan.DigestOf(list[len(list)-1])
	return r.state, r.remember()
}

// extend adds a statement that the source has taken after those that were read, and the state
// after it, which is verified.
func (r *Reader) extend(next State, statement []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	count(r.sums, statement)
	r.state, r.stored = next, plan.DigestOf(statement)
}

// remember keeps the last statement. Without that, what was read does not count.
func (r *Reader) remember() error {
	now := Seen{r.state.N, r.state.Head}
	if r.Memory == nil || now == r.last {
		return nil
	}
	if err := r.Memory.Save(now); err != nil {
		return fmt.Errorf("read authority: keep what was read: %w", err)
	}
	r.last = now
	return nil
}

// count adds a statement, with its length, so that no other list has the same sum.
func count(sums hash.Hash, statement []byte) {
	_ = binary.Write(sums, binary.BigEndian, uint64(len(statement))) // a hash never fails
	sums.Write(statement)
}
