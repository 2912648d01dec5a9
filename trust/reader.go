package trust

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
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
	list, err := r.Source.Authority(ctx)
	if err != nil {
		return State{}, fmt.Errorf("read authority: %w", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
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
