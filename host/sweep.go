package host

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"chimera.ai/engine/ledger"
)

// DefaultSweepEvery is how often the role guardian ends what nobody else can end.
const DefaultSweepEvery = 30 * time.Second

// sweepMost bounds what one round ends.
const sweepMost = 100

// sweeper ends what nobody else can: holds of permits that were not used in time, and
// calls of runs that have ended, of which nobody knows what they did.
type sweeper struct {
	store interface {
		ledger.Effects
		ledger.Budgets
	}
	every  time.Duration
	logger *slog.Logger
}

// run sweeps until ctx ends.
func (s *sweeper) run(ctx context.Context) {
	ticker := time.NewTicker(s.every)
	defer ticker.Stop()
	for {
		if err := s.sweep(ctx); err != nil && ctx.Err() == nil {
			s.logger.WarnContext(ctx, "abandoned effects and holds were not ended", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

func (s *sweeper) sweep(ctx context.Context) error {
	n, err := s.store.ExpireHolds(ctx)
	if errors.Is(err, ledger.ErrUnavailable) {
		return err
	}
	all := []error{err} // what cannot be ended holds up nothing else
	if n > 0 {
		s.logger.InfoContext(ctx, "holds have expired: their permits were not used in time", "holds", n)
	}
	forsaken, err := s.store.Forsaken(ctx, sweepMost)
	all = append(all, err)
	for _, b := range forsaken {
		_, err := s.store.CloseBarrier(ctx, b.ID, ledger.BarrierWithdrawn, "the run has ended")
		all = append(all, err)
	}
	abandoned, err := s.store.Abandoned(ctx, sweepMost)
	all = append(all, err)
	for _, i := range abandoned {
		_, err := s.store.Settle(ctx, i.ID, ledger.Effect{Settlement: ledger.Settlement{Attempt: i.Attempt, State: ledger.Unknown}, Orphaned: true})
		if err != nil {
			all = append(all, err)
			continue
		}
		s.logger.WarnContext(ctx, "nobody knows what the call of an effect did, whose run has ended", "invocation", i.ID)
	}
	return errors.Join(all...)
}
