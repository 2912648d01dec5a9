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

// Reader reads what a source has again and again, and verifies what is new. It
// refuses a source that takes back or changes what it has shown before, for as
// long as the reader lives. It is safe for concurrent use.
type Reader struct {
	Source    Source
	Bootstrap *Bootstrap

	mu    sync.Mutex
	state State
	// sum is over the statements that state has taken in.
	sum []byte
}

// State gives the state at the end of the chain. Nobody changes it. The error is
// [ErrInvalid] where the chain does not hold, and else the source's.
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

// take holds a list against what was shown before it was read, which was so many
// statements, and takes in what is new. It is late where another call has taken in
// more meanwhile: the list is then shorter than what was seen, and yet nothing was
// taken back.
func (r *Reader) take(list []json.RawMessage, seen int) (out State, late bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if seen <= len(list) && len(list) < r.state.N {
		return State{}, true, nil
	}
	out, err = r.follow(list)
	return out, false, err
}

// follow is take where the lock is held and the list is not late.
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
		return State{}, fmt.Errorf("read authority: %w", invalid("one of the first %d statements is another than was seen before", r.state.N))
	}
	if len(list) == r.state.N {
		return r.state, nil
	}
	next := r.state.clone()
	for _, st := range list[r.state.N:] {
		n := next.N + 1
		if err := next.step(st); err != nil {
			// What came before it is verified again the next time, and so is this.
			return State{}, fmt.Errorf("read authority: %w", Problem{n, bare(err)})
		}
		count(sums, st)
	}
	r.state, r.sum = *next, sums.Sum(nil)
	return r.state, nil
}

// count adds a statement, with its length, so that no other list has the same sum.
func count(sums hash.Hash, statement []byte) {
	_ = binary.Write(sums, binary.BigEndian, uint64(len(statement))) // a hash takes everything
	sums.Write(statement)
}
