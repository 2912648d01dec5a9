package ledger

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Sequencer assigns entries their indexes in the tree, in batches, and signs a checkpoint
// after each. One of the sequencers of a log is the leader. A new leader continues from the
// last checkpoint, so a crash at any instant loses no entry and places none twice.
type Sequencer struct {
	Store Log
	// Key signs checkpoints; its name is the log's origin.
	Key *Key
	// Former holds verifier keys that the log had before Key. One of them may have signed
	// the last checkpoint, which the sequencer then signs again at once.
	Former []string
	// Batch bounds the entries of one batch; 0 means [DefaultBatch].
	Batch int
	// Idle is the pause after a poll that found nothing; 0 means 200 ms.
	Idle time.Duration
	// Within is how long the store may take for one batch; 0 means a minute. Without it, a
	// store that no longer answers, as after a failover, would block the sequencer.
	Within time.Duration
	// Wake ends a pause early; nil never does.
	Wake <-chan struct{}
	// Leading, if set, runs in its own goroutine while the sequencer is the leader; then
	// its ctx ends.
	Leading func(ctx context.Context)
	// Integrated, if set, is called with every new checkpoint.
	Integrated func(checkpoint []byte)
	// Failed, if set, is called with the errors after which Run continues.
	Failed func(error)
}

// DefaultBatch is how many entries a batch has at most.
const DefaultBatch = 4096

// Run leads and integrates until ctx ends, which is not an error. While another sequencer
// leads, Run waits.
func (s *Sequencer) Run(ctx context.Context) error {
	idle := s.Idle
	if idle <= 0 {
		idle = 200 * time.Millisecond
	}
	for ctx.Err() == nil {
		err := s.lead(ctx, idle)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil && !errors.Is(err, ErrConflict) && s.Failed != nil {
			s.Failed(err)
		}
		if errors.Is(err, ErrCheckpoint) || errors.Is(err, ErrProof) {
			// The log is not the one that this key has signed, so nothing may be added to it.
			return err
		}
		if errors.Is(err, errSign) {
			s.pause(ctx, max(idle, unsignedPause))
			continue
		}
		s.pause(ctx, idle)
	}
	return nil
}

// unsignedPause is the pause after the key has failed to sign, such as one on a token that
// is not there. Another sequencer may lead meanwhile.
const unsignedPause = 2 * time.Second

// lead integrates while the sequencer is the leader.
func (s *Sequencer) lead(ctx context.Context, idle time.Duration) error {
	release, err := within(ctx, s, s.Store.Lead)
	if err != nil {
		return err
	}
	defer release()
	if s.Leading != nil {
		var beside sync.WaitGroup
		leading, end := context.WithCancel(ctx)
		beside.Go(func() { s.Leading(leading) })
		defer beside.Wait()
		defer end()
	}
	for ctx.Err() == nil {
		n, err := within(ctx, s, s.Integrate)
		if errors.Is(err, ErrConflict) && s.Failed != nil {
			s.Failed(err) // another leads, or what is to be placed has its place
		}
		if err != nil {
			return err
		}
		switch {
		case n == 0:
			s.pause(ctx, idle)
		case n < s.batch():
			// Writers continue, and would wait for the next batch.
			s.pause(ctx, min(idle, gather))
		}
	}
	return nil
}

// within calls f with a context that ends when the store has taken too long.
func within[T any](ctx context.Context, s *Sequencer, f func(context.Context) (T, error)) (T, error) {
	bound := s.Within
	if bound <= 0 {
		bound = time.Minute
	}
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	return f(ctx)
}

// gather is the pause after a batch that was not full. A batch occupies the store's only
// writer as long as a run's own statement does, so one batch for each statement would
// double the time that every run waits.
const gather = 50 * time.Millisecond

func (s *Sequencer) batch() int {
	if s.Batch <= 0 {
		return DefaultBatch
	}
	return s.Batch
}

func (s *Sequencer) pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-s.Wake:
	}
}

// last opens the checkpoint from which the sequencer continues, and reports whether a
// former key has signed it.
func (s *Sequencer) last(raw []byte) (_ Checkpoint, rotated bool, err error) {
	signed, err := Signers{Log: s.Key.Public()}.Open(raw)
	if err == nil {
		return signed.Checkpoint, false, nil
	}
	for _, key := range s.Former {
		if former, again := (Signers{Log: key}).Open(raw); again == nil && former.Origin == s.Key.Name() {
			return former.Checkpoint, true, nil
		}
	}
	return Checkpoint{}, false, err
}

// Integrate places one batch, and returns its number of entries. The caller must be the
// leader. An empty log gets its first checkpoint.
func (s *Sequencer) Integrate(ctx context.Context) (int, error) {
	now := Checkpoint{Origin: s.Key.Name(), Root: EmptyRoot()}
	raw, err := s.Store.Checkpoint(ctx)
	first, rotated := errors.Is(err, ErrNotFound), false
	switch {
	case first:
	case err != nil:
		return 0, fmt.Errorf("integrate: %w", err)
	default:
		// Do not trust the database about what the log was.
		if now, rotated, err = s.last(raw); err != nil {
			return 0, fmt.Errorf("integrate: the last checkpoint: %w", err)
		}
	}
	limit := s.batch()
	pending, err := s.Store.Pending(ctx, limit)
	if err != nil {
		return 0, fmt.Errorf("integrate: %w", err)
	}
	if len(pending) == 0 && !first && !rotated {
		return 0, nil
	}
	tree := OpenTree(ctx, now, s.Store)
	batch := make([]Hash, len(pending))
	for i, r := range pending {
		if LeafHash(r.Bytes) != r.Hash {
			return 0, fmt.Errorf("integrate: %w: the entry stored under %s has other bytes", ErrProof, r.Hash)
		}
		batch[i] = r.Hash
	}
	if err := tree.Add(batch...); err != nil {
		return 0, fmt.Errorf("integrate: %w", err)
	}
	tiles, err := tree.Since(now.Size)
	if err != nil {
		return 0, fmt.Errorf("integrate: %w", err)
	}
	root, err := tree.Root()
	if err != nil {
		return 0, fmt.Errorf("integrate: %w", err)
	}
	signed, err := s.Key.Sign(Checkpoint{Origin: now.Origin, Size: tree.Size(), Root: root})
	if err != nil {
		return 0, fmt.Errorf("integrate: %w", err)
	}
	if err := s.Store.Integrate(ctx, now.Size, batch, tiles, signed); err != nil {
		return 0, fmt.Errorf("integrate: %w", err)
	}
	if s.Integrated != nil {
		s.Integrated(signed)
	}
	return len(batch), nil
}
