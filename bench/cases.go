package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"syscall"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"

	"chimera.ai/engine/contract"
)

const input = `{"x":"hello"}`

func (b *bench) engine(source string) func(context.Context) (client.WorkflowRun, error) {
	return func(ctx context.Context) (client.WorkflowRun, error) {
		return b.client.ExecuteWorkflow(ctx, client.StartWorkflowOptions{TaskQueue: contract.QueueEngine},
			contract.WorkflowType, contract.Start{Source: source, Input: json.RawMessage(input)})
	}
}

func (b *bench) hand(workflow string, args ...any) func(context.Context) (client.WorkflowRun, error) {
	return func(ctx context.Context) (client.WorkflowRun, error) {
		return b.client.ExecuteWorkflow(ctx, client.StartWorkflowOptions{TaskQueue: handQueue}, workflow, args...)
	}
}

// timed starts a run and waits for its end.
func timed(ctx context.Context, start func(context.Context) (client.WorkflowRun, error)) (time.Duration, error) {
	begin := time.Now()
	run, err := start(ctx)
	if err != nil {
		return 0, err
	}
	err = run.Get(ctx, nil)
	return time.Since(begin), err
}

// figures are sorted measurements.
type figures []float64

func (f figures) row(format string) string {
	slices.Sort(f)
	return fmt.Sprintf(format+" "+format+" "+format, f[0], f[len(f)/2], f[len(f)-1])
}

func (f figures) median() float64 {
	slices.Sort(f)
	return f[len(f)/2]
}

// compare prints how many times faster the engine is than the other side.
func (b *bench) compare(ctx context.Context, name string, bar float64, engine, hand func(context.Context) (client.WorkflowRun, error)) error {
	var ours, theirs, ratios figures
	for i := range b.rounds + 1 {
		e, err := timed(ctx, engine)
		if err != nil {
			return fmt.Errorf("%s: engine: %w", name, err)
		}
		h, err := timed(ctx, hand)
		if err != nil {
			return fmt.Errorf("%s: hand-written: %w", name, err)
		}
		if i == 0 {
			continue // warm-up
		}
		ours = append(ours, e.Seconds()*1000)
		theirs = append(theirs, h.Seconds()*1000)
		ratios = append(ratios, h.Seconds()/e.Seconds())
	}
	fmt.Printf("%-44s engine ms %s   hand-written ms %s   times faster %s   bar ≥ %.2f\n",
		name, ours.row("%7.1f"), theirs.row("%7.1f"), ratios.row("%5.2f"), bar)
	return nil
}

func (b *bench) speed(ctx context.Context) error {
	fmt.Println("\nSpeed, each as min median max of", b.rounds, "runs")
	const n = 200
	value := json.RawMessage(`"hello"`)
	for _, c := range []struct {
		name         string
		bar          float64
		engine, hand func(context.Context) (client.WorkflowRun, error)
	}{
		{"chain of 200 local nodes", 8, b.engine(chain(n, local)), b.hand(handChain, n, value)},
		{"200 local nodes, 32 in parallel", 1.5, b.engine(fan(n, local)), b.hand(handFan, n, 32, value)},
		{"chain of 200 ordinary nodes", 0.95, b.engine(chain(n, ordinary)), b.hand(handChain, n, value)},
		{"200 ordinary nodes, 32 in parallel", 0.95, b.engine(fan(n, ordinary)), b.hand(handFan, n, 32, value)},
	} {
		if err := b.compare(ctx, c.name, c.bar, c.engine, c.hand); err != nil {
			return err
		}
	}
	return nil
}

// length is the number of events of a finished run.
func (b *bench) length(ctx context.Context, start func(context.Context) (client.WorkflowRun, error)) (int, error) {
	run, err := start(ctx)
	if err != nil {
		return 0, err
	}
	if err := run.Get(ctx, nil); err != nil {
		return 0, err
	}
	n := 0
	events := b.client.GetWorkflowHistory(ctx, run.GetID(), run.GetRunID(), false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for events.HasNext() {
		if _, err := events.Next(); err != nil {
			return 0, err
		}
		n++
	}
	return n, nil
}

func (b *bench) events(ctx context.Context) error {
	fmt.Println("\nEvents in the history")
	value := json.RawMessage(`"hello"`)
	per := func(make func(n int) func(context.Context) (client.WorkflowRun, error)) (float64, float64, error) {
		short, err := b.length(ctx, make(20))
		if err != nil {
			return 0, 0, err
		}
		long, err := b.length(ctx, make(120))
		each := float64(long-short) / 100
		return each, float64(short) - 20*each, err
	}
	hand, _, err := per(func(n int) func(context.Context) (client.WorkflowRun, error) { return b.hand(handChain, n, value) })
	if err != nil {
		return err
	}
	for _, c := range []struct {
		name    string
		timeout int
	}{{"ordinary", ordinary}, {"local", local}} {
		each, fixed, err := per(func(n int) func(context.Context) (client.WorkflowRun, error) { return b.engine(chain(n, c.timeout)) })
		if err != nil {
			return err
		}
		fmt.Printf("%-44s each further node %.2f   hand-written %.2f   ratio %.2f (bar ≤ 1.00)   fixed events %.0f (bar ≤ 15)\n",
			"chain of "+c.name+" nodes", each, hand, each/hand, fixed)
	}
	return nil
}

// cpu is the processor time that this process has used so far.
func cpu() (time.Duration, error) {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0, err
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), nil
}

func (b *bench) scale(ctx context.Context) error {
	fmt.Println("\nProcessor time of the worker process for each node, continue-as-new included")
	for _, c := range []struct {
		name string
		plan func(n, timeout int) string
	}{{"chain", chain}, {"32 in parallel", fan}} {
		var small, large, ratios figures
		for i := range b.rounds + 1 {
			var each [2]float64
			for k, n := range []int{1000, 10000} {
				before, err := cpu()
				if err != nil {
					return err
				}
				if _, err := timed(ctx, b.engine(c.plan(n, local))); err != nil {
					return fmt.Errorf("%d nodes: %w", n, err)
				}
				after, err := cpu()
				if err != nil {
					return err
				}
				each[k] = float64((after - before).Microseconds()) / float64(n)
			}
			if i == 0 {
				continue
			}
			small, large = append(small, each[0]), append(large, each[1])
			ratios = append(ratios, each[1]/each[0])
		}
		fmt.Printf("%-44s 1,000 nodes µs %s   10,000 nodes µs %s   ratio %s (bar ≤ 1.20)\n",
			c.name, small.row("%6.0f"), large.row("%6.0f"), ratios.row("%5.2f"))
	}
	return nil
}
