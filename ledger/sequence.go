package ledger

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
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
	// Begin, if set, is called whenever the sequencer becomes the leader, before it signs. Its
	// errors [ErrCheckpoint] and [ErrProof] end Run.
	Begin func(ctx context.Context) error
	// Found, if set, is called with what somebody has done to the log's tables: rows that were
	// set aside, or that claim to be checkpoints.
	Found func(error)

	// Possible, if set, judges the data of entries: what no entry of its kind has is set aside.
	Possible Possible

	// unsigned are rows that claim to be checkpoints, and that none of the keys has signed. Each is
	// verified once: verifying all of them for every batch could take longer than Within.
	unsigned map[rowID]bool
	// looked is up to which serial there was nothing to recover, looks counts the looks, and
	// look is when the next one is due.
	looked int64
	looks  int
	look   time.Time
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
	if s.Begin != nil {
		if err := s.Begin(ctx); err != nil {
			return err
		}
	}
	s.looks, s.look = 0, time.Time{}
	if s.Leading != nil {
		var beside sync.WaitGroup
		leading, end := context.WithCancel(ctx)
		beside.Go(func() { s.Leading(leading) })
		defer beside.Wait()
		defer end()
	}
	ctx, end := context.WithCancel(ctx)
	var looking chan look
	defer func() {
		end()
		if looking != nil {
			<-looking
		}
	}()
	for ctx.Err() == nil {
		n, err := within(ctx, s, s.Integrate)
		if errors.Is(err, ErrConflict) && s.Failed != nil {
			s.Failed(err) // another leads, or what is to be placed has its place
		}
		if err != nil {
			return err
		}
		looking = s.recover(ctx, looking)
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

// lookPause is the pause between two looks for lost entries.
const lookPause = time.Minute

// lookEvery is how many looks for lost entries there are for one at the whole log: a
// transaction may commit rows whose serials others have passed.
const lookEvery = 10

// look is what a look for lost entries has found.
type look struct {
	n    int
	upTo int64
	err  error
}

// recover looks for lost entries, if it is time, beside the batches: one that fails, or takes
// long, delays none. It takes the look that goes on, or nil, and returns the one that goes on then.
func (s *Sequencer) recover(ctx context.Context, looking chan look) chan look {
	if looking != nil {
		select {
		case found := <-looking:
			s.looks, s.look = s.looks+1, time.Now().Add(lookPause)
			switch {
			case found.err != nil:
				if s.Failed != nil {
					s.Failed(fmt.Errorf("look for lost entries: %w", found.err))
				}
			default:
				s.looked = found.upTo
			}
			if found.n > 0 && s.Found != nil {
				s.Found(errors.New(counted(found.n, "entry had no place in the log, and did not wait for one: somebody has removed it from those that wait",
					"entries had no place in the log, and did not wait for one: somebody has removed them from those that wait")))
			}
		default:
			return looking
		}
	}
	if time.Now().Before(s.look) {
		return nil
	}
	after := s.looked
	if s.looks%lookEvery == 0 {
		after = math.MinInt64
	}
	looking = make(chan look, 1)
	go func() {
		found, err := within(ctx, s, func(ctx context.Context) (found look, err error) {
			found.n, found.upTo, err = s.Store.Recover(ctx, after)
			return found, err
		})
		found.err = err
		looking <- found
	}()
	return looking
}

// last returns the checkpoint from which the sequencer continues, and reports whether a
// former key has signed it. first says that the log has none.
func (s *Sequencer) last(ctx context.Context) (c Checkpoint, rotated, first bool, err error) {
	if s.unsigned == nil {
		s.unsigned = map[rowID]bool{}
	}
	f, err := latest(ctx, s.Store, s.Key.Name(), append([]string{s.Key.Public()}, s.Former...), s.unsigned)
	s.pass(f.fresh)
	if errors.Is(err, ErrNotFound) {
		return Checkpoint{Origin: s.Key.Name(), Root: EmptyRoot()}, false, true, nil
	}
	if errors.Is(err, ErrCheckpoint) {
		err = fmt.Errorf("the last checkpoint: %w", err)
	}
	if err == nil && f.passed > 0 {
		if beyond, err := s.Store.Records(ctx, f.Checkpoint.Size, 1); err != nil || len(beyond) > 0 {
			return f.Checkpoint, false, false, errors.Join(err, fmt.Errorf("%w: entries beyond the %d of the last checkpoint that this key has signed have places: the log may have another key by now", ErrCheckpoint, f.Checkpoint.Size))
		}
	}
	return f.Checkpoint, f.key > 0, false, err
}

// pass tells of n rows that claim to be checkpoints and are none.
func (s *Sequencer) pass(n int) {
	if n > 0 && s.Found != nil {
		s.Found(fmt.Errorf("%w: %s", ErrCheckpoint, counted(n, "row that is stored as a checkpoint is none that the log's key has signed: somebody has added it",
			"rows that are stored as checkpoints are none that the log's key has signed: somebody has added them")))
	}
}

// Integrate places one batch, and returns the number of rows that it has dealt with: those
// that were set aside, since they are no entries, included. The caller must be the leader. An
// empty log gets its first checkpoint.
func (s *Sequencer) Integrate(ctx context.Context) (int, error) {
	// Do not trust the database about what the log was.
	now, rotated, first, err := s.last(ctx)
	if err != nil {
		return 0, fmt.Errorf("integrate: %w", err)
	}
	candidates, err := s.Store.Candidates(ctx, s.batch())
	if err != nil {
		return 0, fmt.Errorf("integrate: %w", err)
	}
	batch, refused, err := s.sort(ctx, now.Origin, candidates)
	if err != nil {
		return 0, fmt.Errorf("integrate: %w", err)
	}
	if len(batch) == 0 && !first && !rotated {
		return refused, nil
	}
	tree := OpenTree(ctx, now, s.Store)
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
	return len(batch) + refused, nil
}

// sort returns the entries that get places, and sets aside what is none, which refused counts.
func (s *Sequencer) sort(ctx context.Context, origin string, candidates []Candidate) (batch []Hash, refused int, err error) {
	if len(candidates) == 0 {
		return nil, 0, nil
	}
	all, err := judge(ctx, s.Store, origin, s.Possible, candidates)
	if err != nil {
		return nil, 0, err
	}
	var aside []Aside
	for _, j := range all {
		switch j.verdict {
		case accepted:
			batch = append(batch, j.Hash)
		case rejected:
			aside = append(aside, Aside{Candidate: *j.Candidate, Why: reason(j.why)})
		case waiting:
			s.looks, s.look = 0, time.Time{} // for the entry before it, at once
		}
	}
	if len(aside) == 0 {
		return batch, 0, nil
	}
	if err := s.Store.SetAside(ctx, aside); err != nil {
		return nil, 0, err
	}
	if s.Found != nil {
		what := counted(len(aside), "row was set aside, since it is no entry of this log", "rows were set aside, since they are no entries of this log")
		s.Found(fmt.Errorf("%s: the first, %.120q in the chain %.120q: %s", what, aside[0].Key, aside[0].Chain, aside[0].Why))
	}
	return batch, len(aside), nil
}

// counted returns a number and what is counted.
func counted(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// reason returns the text of an error as every database can store it: what is wrong with a row
// may repeat its bytes.
func reason(err error) string {
	text := strings.Map(func(r rune) rune {
		if control(r) {
			return ' '
		}
		return r
	}, err.Error())
	return strings.ToValidUTF8(text[:min(len(text), maxReason)], "?")
}

// maxReason bounds a reason, in bytes.
const maxReason = 500
