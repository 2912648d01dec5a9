package host

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"chimera.ai/engine/ledger"
	"chimera.ai/engine/ledger/witness"
	"chimera.ai/engine/store"
)

// settleTime bounds how long a closing host sequences the remaining entries.
const settleTime = 5 * time.Second

// sequencer runs the log's sequencer beside the workers. Of all processes with the
// log's key, one leads; the others wait to take over.
type sequencer struct {
	ledger.Sequencer
	logger *slog.Logger
	// asker asks the witnesses; nil if there are none.
	asker *witness.Asker

	begin  sync.Once
	cancel context.CancelFunc
	// done is closed when it has ended, with err; asked when no witness is asked
	// any more.
	done, asked chan struct{}
	err         error

	mu     sync.Mutex
	failed string
}

func newSequencer(s *store.Opened, o Options) *sequencer {
	q := &sequencer{logger: o.Logger, done: make(chan struct{}), asked: make(chan struct{})}
	q.Sequencer = ledger.Sequencer{Store: s.Ledger, Key: s.Key, Former: o.FormerKeys, Failed: q.warn}
	if len(o.Witnesses) > 0 {
		q.asker = &witness.Asker{Log: s.Ledger, Key: s.Key.Public(), Witnesses: o.Witnesses, Logger: o.Logger}
		q.Integrated = func([]byte) { q.asker.Wake() }
	}
	return q
}

// warn logs a failure once, not at every attempt.
func (q *sequencer) warn(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if text := err.Error(); text != q.failed {
		q.failed = text
		q.logger.Warn("the ledger's sequencer goes on after an error", "error", err)
	}
}

func (q *sequencer) start() {
	q.begin.Do(func() {
		ctx, cancel := context.WithCancel(context.Background())
		q.cancel = cancel
		go func() {
			defer close(q.asked)
			if q.asker != nil {
				q.asker.Run(ctx)
			}
		}()
		go func() {
			defer close(q.done)
			if err := q.Run(ctx); err != nil {
				q.err = fmt.Errorf("the ledger is not what its key has signed: %w", err)
				q.logger.Error("the ledger's sequencer has stopped", "error", q.err)
			}
		}()
	})
}

// stop ends it, after sequencing the remaining entries if that does not take long.
func (q *sequencer) stop() {
	if q.cancel == nil {
		return
	}
	q.cancel()
	<-q.done
	<-q.asked
	if q.err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), settleTime)
	defer cancel()
	release, err := q.Store.Lead(ctx)
	if err != nil {
		if !errors.Is(err, ledger.ErrConflict) { // else another leads, and does it
			q.warn(err)
		}
		return
	}
	defer release()
	for {
		n, err := q.Integrate(ctx)
		if err != nil {
			q.warn(err)
			return
		}
		if n == 0 {
			return
		}
	}
}
