package main

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"go.temporal.io/sdk/client"
)

// execution starts a run.
type execution func(context.Context) (client.WorkflowRun, error)

// cost is what a run took.
type cost struct {
	// wall is the time from the start to the result; worked is the processor time
	// of this process and of the server until the log has what was stated, too.
	wall, worked time.Duration
}

// measure runs once.
func (b *bench) measure(ctx context.Context, start execution) (c cost, err error) {
	before, err := b.worked()
	if err != nil {
		return c, err
	}
	if c.wall, err = timed(ctx, start); err != nil {
		return c, err
	}
	if err := b.placed(ctx); err != nil {
		return c, err
	}
	after, err := b.worked()
	c.worked = after - before
	return c, err
}

// worked is the processor time that both processes have used so far.
func (b *bench) worked() (time.Duration, error) {
	here, err := cpu()
	if err != nil {
		return 0, err
	}
	there, err := cpuOf(b.server)
	return here + there, err
}

// placed waits until the log's sequencer has nothing to do: it looks five times a
// second, and else would work while the other side is measured. Both sides wait as
// long, so that both pay for processes that wait.
func (b *bench) placed(ctx context.Context) error {
	for {
		timer := time.NewTimer(300 * time.Millisecond)
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-timer.C:
		}
		left, err := b.ledger.Pending(ctx, 1)
		if err != nil || len(left) == 0 {
			return err
		}
	}
}

// compare prints how many times faster than a hand-written workflow the engine is.
func (b *bench) compare(ctx context.Context, name string, bar float64, engine, hand execution) error {
	return b.sides(ctx, name, bar, [2]string{"engine", "hand-written"}, [2]execution{engine, hand})
}

// sides prints how many times faster than the other the first side is, and
// whether that shows that the bar is held. Runs come in pairs, and each side is
// first as often as the other: what else the machine does hits both.
func (b *bench) sides(ctx context.Context, name string, bar float64, names [2]string, sides [2]execution) error {
	var ours, theirs [2]figures
	var ratios [2]figures
	for i := range b.pairs + 1 {
		var pair [2]cost
		for k := range pair {
			side := (i + k) % 2
			var err error
			if pair[side], err = b.measure(ctx, sides[side]); err != nil {
				return fmt.Errorf("%s: %s: %w", name, names[side], err)
			}
		}
		if i == 0 {
			continue // warm-up
		}
		for m, of := range []func(cost) time.Duration{
			func(c cost) time.Duration { return c.wall },
			func(c cost) time.Duration { return c.worked },
		} {
			e, h := of(pair[0]).Seconds(), of(pair[1]).Seconds()
			ours[m] = append(ours[m], e*1000)
			theirs[m] = append(theirs[m], h*1000)
			ratios[m] = append(ratios[m], h/e)
		}
	}
	fmt.Printf("%s (bar ≥ %.2f)\n", name, bar)
	for m, what := range []string{"time", "processor time"} {
		low, high := ratios[m].bounds()
		fmt.Printf("  %-15s %s ms %s   %s ms %s   times faster %s   the median is within %.2f–%.2f: %s\n", what,
			names[0], ours[m].quartiles("%.0f"), names[1], theirs[m].quartiles("%.0f"), ratios[m].quartiles("%.2f"), low, high, verdict(low, high, bar))
	}
	return nil
}

// quartiles writes the median and, in brackets, the quartiles around it.
func (f figures) quartiles(format string) string {
	slices.Sort(f)
	n := len(f)
	return fmt.Sprintf(format+" ["+format+"–"+format+"]", f[n/2], f[n/4], f[n-1-n/4])
}

// bounds is where the true median lies with at least 95 % probability, whatever
// the distribution: between the order statistics that a binomial law gives. With
// fewer than six figures no two of them say so.
func (f figures) bounds() (low, high float64) {
	slices.Sort(f)
	n := len(f)
	below := math.Pow(0.5, float64(n)) // P(at most k of n are below the median)
	term := below
	k := 0
	for ; below <= 0.025 && k < n/2; k++ {
		term *= float64(n-k) / float64(k+1)
		below += term
	}
	if k == 0 {
		return math.Inf(-1), math.Inf(1)
	}
	return f[k-1], f[n-k]
}

// verdict says what bounds of a median show.
func verdict(low, high, bar float64) string {
	switch {
	case low >= bar:
		return "held"
	case high < bar:
		return "not held"
	}
	return "not shown, more -rounds would narrow it"
}
