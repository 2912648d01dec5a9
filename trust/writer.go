package trust

import (
	"context"
	"errors"
	"fmt"
	"time"

	"chimera.ai/engine/ledger"
)

// Writer publishes any number of statements. It reads and verifies the chain once, and extends
// what it has verified by each statement that it publishes: the store takes that only after
// the statement that the Writer knows as the last. Once somebody else has published, or a call
// has failed, it reads the chain again, and verifies what is new. It is not safe for concurrent
// use.
type Writer struct {
	store Store
	chain Reader
	// known: chain has the last statement, as far as anybody here knows.
	known bool
}

// NewWriter returns a Writer of a store's statements, which rest on a bootstrap.
func NewWriter(k Store, b *Bootstrap) *Writer {
	return &Writer{store: k, chain: Reader{Source: k, Bootstrap: b}}
}

// State returns the state that the next statement is to follow.
func (w *Writer) State(ctx context.Context) (State, error) {
	if w.known {
		return w.chain.state, nil
	}
	s, err := w.chain.State(ctx)
	w.known = err == nil
	return s, err
}

// Publish verifies a statement at an instant, stores it, and returns the state after it, whose
// rows [Writer.Settle] writes. Publishing the last statement again changes nothing. If another
// statement has its place, the error is [ledger.ErrConflict] or [ErrInvalid].
func (w *Writer) Publish(ctx context.Context, envelope []byte, at time.Time) (State, error) {
	next, err := w.publish(ctx, envelope, at)
	w.known = err == nil
	return next, err
}

func (w *Writer) publish(ctx context.Context, envelope []byte, at time.Time) (State, error) {
	s, err := w.State(ctx)
	if err != nil {
		return State{}, err
	}
	st, e, err := ParseStatement(envelope)
	if err != nil {
		return State{}, err
	}
	if s.N > 0 && s.Head == e.Digest() {
		return s, nil // it is stored, but perhaps not yet applied
	}
	if err := st.Within(at); err != nil {
		return State{}, err
	}
	next, err := s.Next(envelope)
	if err != nil {
		return State{}, err
	}
	raw, err := e.Encode()
	if err != nil {
		return State{}, err
	}
	err = w.store.StateAuthority(ctx, raw, w.chain.stored)
	if errors.Is(err, ledger.ErrConflict) {
		return State{}, fmt.Errorf("publish statement %d: the authority changed meanwhile; make the statement again: %w", st.N, err)
	}
	if err != nil {
		return State{}, fmt.Errorf("publish statement %d: %w", st.N, err)
	}
	w.chain.extend(next, raw)
	return next, nil
}

// Settle applies the state after what was published, and those that follow it meanwhile; otherwise
// a concurrent call that applies an older one could leave stale rows behind. It returns the
// state that it has applied.
func (w *Writer) Settle(ctx context.Context) (State, error) {
	s, err := w.State(ctx)
	if err != nil {
		return State{}, err
	}
	for {
		err := Apply(ctx, w.store, s)
		now, again := w.chain.State(ctx)
		if again != nil {
			w.known = false
			return State{}, errors.Join(err, again)
		}
		if now.N == s.N {
			return now, err
		}
		s = now
	}
}

// Publish publishes the next statement: it verifies the chain and the envelope at an
// instant, stores the statement, and applies it. Publishing the last statement again
// changes nothing. If another statement has its place, the error is [ledger.ErrConflict]
// or [ErrInvalid].
func Publish(ctx context.Context, k Store, b *Bootstrap, envelope []byte, at time.Time) (State, error) {
	w := NewWriter(k, b)
	if _, err := w.Publish(ctx, envelope, at); err != nil {
		return State{}, err
	}
	return w.Settle(ctx)
}
