package host

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"chimera.ai/engine/ledger"
	"chimera.ai/engine/ledger/model"
	"chimera.ai/engine/ledger/witness"
	"chimera.ai/engine/metrics"
	"chimera.ai/engine/store"
)

// settleTime bounds how long a host that ends continues to sequence what was
// stated.
const settleTime = 5 * time.Second

// sequencer runs the log's sequencer beside the workers. Of all processes that
// have the log's key, one leads; the others wait to take over.
type sequencer struct {
	ledger.Sequencer
	logger *slog.Logger
	// asker asks the witnesses, or is nil if there are none.
	asker *witness.Asker

	begin  sync.Once
	cancel context.CancelFunc
	// done is closed when it has ended, with err, and asked when no witness is
	// asked any longer.
	done, asked chan struct{}
	err         error

	mu sync.Mutex
	// failed is the last error, times how often it has come in a row, and next when it is
	// logged again.
	failed      string
	times, next int
	// contradicted is what a witness has against the log.
	contradicted error
	// measured measures the log's age, or is nil.
	measured *logAge
}

func newSequencer(s *store.Opened, o Options) *sequencer {
	q := &sequencer{logger: o.Logger, done: make(chan struct{}), asked: make(chan struct{})}
	q.Sequencer = ledger.Sequencer{Store: s.Ledger, Key: s.Key, Former: o.FormerKeys, Possible: model.Possible, Failed: q.warn, Found: q.tell}
	if len(o.Witnesses) > 0 {
		var keys []string
		for _, w := range o.Witnesses {
			keys = append(keys, w.Key)
		}
		log := ledger.Verified(s.Ledger, s.Key.Name(), []string{s.Key.Public()}, keys)
		q.asker = &witness.Asker{Log: log, Key: s.Key.Public(), Witnesses: o.Witnesses, Logger: o.Logger, Contradicted: q.contradict}
		q.Integrated = func([]byte) { q.asker.Wake() }
		q.Begin = q.asker.Check
	}
	if o.Client.MetricsHandler != nil {
		keys := append([]string{s.Key.Public()}, o.FormerKeys...)
		q.measured = &logAge{log: ledger.Verified(s.Ledger, s.Key.Name(), keys, nil), head: o.Client.MetricsHandler.Gauge(metrics.HeadAge), waiting: o.Client.MetricsHandler.Gauge(metrics.Waiting)}
	}
	return q
}

// warn logs an error at once, and with its number when it has come ten times in a row, a
// hundred times, and so on.
func (q *sequencer) warn(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if text := err.Error(); text != q.failed {
		q.failed, q.times, q.next = text, 0, 1
	}
	if q.times++; q.times == q.next {
		q.next *= 10
		q.logger.Warn("the ledger's sequencer goes on after an error", "error", err, "times", q.times)
	}
}

// tell logs what somebody has done to the log's tables.
func (q *sequencer) tell(err error) {
	q.logger.Error("the ledger's sequencer has found what no part of this deployment writes", "error", err)
}

// contradict ends the sequencer: a witness has cosigned another log.
func (q *sequencer) contradict(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.contradicted == nil {
		q.contradicted = err
		q.cancel()
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
		if q.measured != nil {
			go q.measured.run(ctx)
		}
		go func() {
			defer close(q.done)
			err := q.Run(ctx)
			q.mu.Lock()
			if err == nil {
				err = q.contradicted
			}
			q.mu.Unlock()
			if err != nil {
				q.err = stranger(err)
				q.logger.Error(stopped, "error", q.err)
			}
		}()
	})
}

const stopped = "the ledger's sequencer has stopped"

// stranger is the error of a ledger that the sequencer signs no further.
func stranger(err error) error {
	return fmt.Errorf("the ledger is not what its key has signed: %w", err)
}

// stop ends it once everything that was stated is sequenced, or after settleTime.
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
	if q.Begin != nil {
		// A witness that does not answer must leave time to sequence.
		begin, cancel := context.WithTimeout(ctx, settleTime/2)
		err := q.Begin(begin)
		cancel()
		if err != nil {
			q.logger.Error(stopped, "error", stranger(err))
			return
		}
	}
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
