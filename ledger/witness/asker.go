package witness

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"sync"
	"time"

	"chimera.ai/engine/ledger"
)

// Log is the part of a [ledger.Log] that an [Asker] needs.
type Log interface {
	ledger.Tiles
	Checkpoint(ctx context.Context) ([]byte, error)
	AddCosignatures(ctx context.Context, checkpoint []byte) error
}

// Asker asks the witnesses of a log for their cosignatures, each independently:
// none waits for another, and nothing waits for any of them.
type Asker struct {
	Log Log
	// Key is the log's verifier key.
	Key       string
	Witnesses []Witness
	// Pause is the least time between two requests to one witness, and between
	// two looks into a folder; 0 means 2 seconds.
	Pause time.Duration
	// Longest bounds the pause after failed requests, which grows; 0 means 5
	// minutes.
	Longest time.Duration
	// Within is how long the log and a witness may take for one request; 0
	// means a minute.
	Within time.Duration
	// Again is the pause after which a witness is asked again for what it has cosigned: its
	// answer shows whether it has cosigned another log meanwhile. 0 means 5 minutes.
	Again time.Duration
	// Contradicted, if set, is called with [ErrContradicted].
	Contradicted func(error)
	// Transport asks by HTTP; nil means one with the system's authorities, which
	// unpacks nothing.
	Transport http.RoundTripper
	// Logger logs once when a witness stops cosigning, and once when it
	// resumes; nil means slog.Default().
	Logger *slog.Logger

	once  sync.Once
	wakes []chan struct{}
	// checked is when Check last asked all witnesses, and none contradicted.
	checked time.Time
}

// checkTime bounds a check, and checkPause is the least time between two.
const checkTime, checkPause = 5 * time.Second, time.Minute

// Check asks each witness once, whatever it has cosigned, and returns [ErrContradicted] if the
// cosignature of one shows that it has cosigned another log. Those that merely say so, and those
// that do not answer in a few seconds, do not count. It is called
// by one goroutine at a time, and asks once a minute at most. A check that ctx has cut short does not
// count.
func (a *Asker) Check(ctx context.Context) error {
	if time.Since(a.checked) < checkPause {
		return nil
	}
	bounded, cancel := context.WithTimeout(ctx, checkTime)
	defer cancel()
	errs := make([]error, len(a.Witnesses))
	var all sync.WaitGroup
	for i, w := range a.Witnesses {
		all.Go(func() {
			if _, err := a.asking(w).step(bounded, true); errors.Is(err, ErrContradicted) {
				errs[i] = fmt.Errorf("the witness %s: %w", w.Name, err)
			}
		})
	}
	all.Wait()
	err := errors.Join(errs...)
	if err == nil && ctx.Err() == nil {
		a.checked = time.Now()
	}
	return err
}

func (a *Asker) prepare() {
	a.once.Do(func() {
		for range a.Witnesses {
			a.wakes = append(a.wakes, make(chan struct{}, 1))
		}
	})
}

// Wake announces a new checkpoint. It never blocks: a witness that is being asked
// is asked for the latest one afterwards.
func (a *Asker) Wake() {
	a.prepare()
	for _, w := range a.wakes {
		select {
		case w <- struct{}{}:
		default: // it will look anyway
		}
	}
}

// Run asks until ctx ends: for the checkpoint that is there, and for the latest
// after each [Asker.Wake].
func (a *Asker) Run(ctx context.Context) {
	a.prepare()
	var all sync.WaitGroup
	for i, w := range a.Witnesses {
		all.Go(func() { a.asking(w).run(ctx, a.wakes[i]) })
	}
	all.Wait()
}

// asking is the state of asking one witness.
type asking struct {
	*Asker
	witness Witness
	door    door
	logger  *slog.Logger
	// done is the checkpoint that it has cosigned last.
	done ledger.Checkpoint
	// failed is the last error, "" after a success; tries is how often in a row.
	failed string
	tries  int
}

func (a *Asker) asking(w Witness) *asking {
	logger := a.Logger
	if logger == nil {
		logger = slog.Default()
	}
	x := &asking{Asker: a, witness: w, logger: logger.With("witness", w.Name)}
	if w.Dir != "" {
		x.door = &folder{dir: w.Dir, key: w.Key}
		return x
	}
	x.door = &remote{url: w.URL, client: newClient(a.Transport)}
	return x
}

func (a *asking) run(ctx context.Context, wake <-chan struct{}) {
	pause := a.Again
	if pause <= 0 {
		pause = 5 * time.Minute
	}
	anyway := true
	for ctx.Err() == nil {
		again := a.turn(ctx, anyway)
		timer := time.NewTimer(a.pause())
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
		timer.Stop()
		if again {
			continue
		}
		timer = time.NewTimer(pause)
		select {
		case <-ctx.Done():
		case <-wake:
			anyway = false
		case <-timer.C:
			anyway = true
		}
		timer.Stop()
	}
}

// pause is how long to wait before asking the witness again.
func (a *asking) pause() time.Duration {
	pause, longest := a.Pause, a.Longest
	if pause <= 0 {
		pause = 2 * time.Second
	}
	if longest <= 0 {
		longest = 5 * time.Minute
	}
	return min(pause<<min(a.tries, 16), max(longest, pause))
}

// turn asks once, and reports whether to ask again without a new checkpoint.
func (a *asking) turn(ctx context.Context, anyway bool) (again bool) {
	within := a.Within
	if within <= 0 {
		within = time.Minute
	}
	bounded, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	again, err := a.step(bounded, anyway)
	switch {
	case ctx.Err() != nil:
	case err == nil:
		if a.failed != "" {
			a.logger.InfoContext(ctx, "the witness cosigns again")
		}
		a.failed, a.tries = "", 0
	default:
		// Once, and not at every try.
		if text := sort(err); text != a.failed {
			a.failed = text
			switch {
			case errors.Is(err, ErrContradicted) && a.Contradicted != nil:
				a.logger.ErrorContext(ctx, "the witness contradicts the log, which signs nothing more", "error", err)
			case errors.Is(err, errClaimed):
				a.logger.ErrorContext(ctx, "the witness does not cosign; the log goes on without it", "error", err)
			default:
				a.logger.WarnContext(ctx, "the witness does not cosign; the log goes on without it", "error", err)
			}
		}
		a.tries++
		if errors.Is(err, ErrContradicted) && a.Contradicted != nil {
			a.Contradicted(fmt.Errorf("the witness %s: %w", a.witness.Name, err))
		}
		return true
	}
	return again
}

// sort classifies an error, so that it is logged once: an unreachable witness has
// errors with many texts.
func sort(err error) string {
	if unreachable := new(url.Error); errors.As(err, &unreachable) {
		return "unreachable"
	}
	return err.Error()
}

// step asks for the latest checkpoint, if the witness has not cosigned it or anyway, and
// stores what it answers, once that is verified.
func (a *asking) step(ctx context.Context, anyway bool) (again bool, err error) {
	q, raw, err := a.latest(ctx)
	if err != nil || q.Size == 0 {
		return false, err
	}
	if _, _, _, err := ledger.Cosignature(raw, a.witness.Key); err == nil {
		a.done = q.Checkpoint // perhaps before this process began
	}
	if q.Checkpoint == a.done && !anyway {
		return false, nil
	}
	answer, err := a.door.ask(ctx, q)
	if errors.Is(err, errWaiting) {
		return true, nil
	}
	if further := new(ahead); errors.As(err, &further) {
		return true, a.caughtUp(ctx, further)
	}
	if err != nil {
		return true, err
	}
	c, _, only, err := ledger.Cosignature(answer, a.witness.Key)
	if err != nil {
		return true, fmt.Errorf("its answer is no cosignature: %w", err)
	}
	if err := q.holds(c); err != nil {
		return true, err
	}
	if c == a.done {
		return c != q.Checkpoint, nil // stored already: there may be nothing newer yet
	}
	if err := a.Log.AddCosignatures(ctx, only); err != nil {
		if errors.Is(err, ledger.ErrConflict) {
			return true, fmt.Errorf("it has cosigned a tree of %d entries that this log never had: %w", c.Size, err)
		}
		return true, fmt.Errorf("keep the cosignature: %w", err)
	}
	a.done = c
	return c != q.Checkpoint, nil
}

// caughtUp returns an error if a witness has cosigned more entries than the log has now: other
// processes may have asked it meanwhile, about what they have stored before.
func (a *asking) caughtUp(ctx context.Context, e *ahead) error {
	q, _, err := a.latest(ctx)
	if err != nil {
		return err
	}
	if q.Size >= e.known {
		return nil
	}
	if !e.shown {
		return fmt.Errorf("%w: %w", errClaimed, &ahead{known: e.known, size: q.Size})
	}
	return fmt.Errorf("%w: %w", ErrContradicted, &ahead{known: e.known, size: q.Size, shown: true})
}

// holds returns an error unless the log of the question begins with what was cosigned.
func (q question) holds(c ledger.Checkpoint) error {
	proof, err := q.prove(c.Size)
	if err != nil {
		return err
	}
	if err := ledger.Extends(c, q.Checkpoint, proof); err != nil {
		return fmt.Errorf("%w: %w", ErrContradicted, err)
	}
	return nil
}

// latest returns the log's latest checkpoint as a question, and as it is stored.
func (a *asking) latest(ctx context.Context) (question, []byte, error) {
	raw, err := a.Log.Checkpoint(ctx)
	if errors.Is(err, ledger.ErrNotFound) || errors.Is(err, ledger.ErrCheckpoint) {
		return question{}, nil, nil // see below
	}
	if err != nil {
		return question{}, nil, fmt.Errorf("read the checkpoint: %w", err)
	}
	// A row of the database alone does not decide what to ask a witness.
	only, err := ledger.Signers{Log: a.Key}.Alone(raw)
	if errors.Is(err, ledger.ErrCheckpoint) {
		// By a former key, which the sequencer replaces at once, or by a strange one,
		// of which it tells. There is nothing to ask either way, until it wakes us.
		return question{}, nil, nil
	}
	if err != nil {
		return question{}, nil, fmt.Errorf("read the checkpoint: %w", err)
	}
	c, err := ledger.ParseCheckpoint(only)
	if err != nil {
		return question{}, nil, fmt.Errorf("read the checkpoint: %w", err)
	}
	tree := ledger.OpenTree(ctx, c, a.Log)
	return question{c, only, tree.ProveExtends}, raw, nil
}
