package blob

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// ErrHangs reports a store that has not answered in time.
var ErrHangs = errors.New("the blob store does not answer")

// maxHanging is how many calls of a store may be in progress, or hang, at a time.
// The next waits for one of them to end, for as long as a call may take.
const maxHanging = 64

// Prompt returns a store whose calls end within a time even if the store ignores
// its context, as the file system of an unreachable server does.
func Prompt(s Store, within time.Duration) Store {
	return prompt{store: s, within: within, calls: make(chan struct{}, maxHanging)}
}

type prompt struct {
	store  Store
	within time.Duration
	calls  chan struct{}
}

// Put implements [Store].
func (p prompt) Put(ctx context.Context, b []byte) (string, error) {
	return promptly(ctx, p, "put blob", func(ctx context.Context) (string, error) { return p.store.Put(ctx, b) })
}

// Get implements [Store].
func (p prompt) Get(ctx context.Context, digest string) ([]byte, error) {
	return promptly(ctx, p, "get blob "+digest, func(ctx context.Context) ([]byte, error) { return p.store.Get(ctx, digest) })
}

// Check implements [Store].
func (p prompt) Check(ctx context.Context) error {
	_, err := promptly(ctx, p, "check the blob store", func(ctx context.Context) (struct{}, error) { return struct{}{}, p.store.Check(ctx) })
	return err
}

// promptly waits for a call for as long as p allows.
func promptly[T any](ctx context.Context, p prompt, what string, call func(context.Context) (T, error)) (T, error) {
	type answer struct {
		value T
		err   error
	}
	var none T
	ctx, cancel := context.WithTimeoutCause(ctx, p.within, fmt.Errorf("%s: %w within %s", what, ErrHangs, p.within))
	defer cancel()
	select {
	case p.calls <- struct{}{}:
	case <-ctx.Done():
		return none, context.Cause(ctx)
	}
	done := make(chan answer, 1)
	go func() {
		defer func() { <-p.calls }()
		value, err := call(ctx)
		done <- answer{value, err}
	}()
	select {
	case a := <-done:
		if a.err != nil && ctx.Err() != nil {
			return none, errors.Join(context.Cause(ctx), a.err)
		}
		return a.value, a.err
	case <-ctx.Done():
		return none, context.Cause(ctx)
	}
}
