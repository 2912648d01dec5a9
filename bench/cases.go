package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"

	"go.temporal.io/sdk/client"

	"chimera.ai/engine/compiler"
	"chimera.ai/engine/contract"
	"chimera.ai/engine/host"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/plan"
)

const input = `{"x":"hello"}`

// engine runs a plan, which is published first, as the code of a workflow is
// deployed before it runs.
func (b *bench) engine(source string) execution {
	ref := ""
	return func(ctx context.Context) (_ client.WorkflowRun, err error) {
		if ref == "" {
			if ref, err = b.publish(ctx, source); err != nil {
				return nil, err
			}
		}
		return b.client.ExecuteWorkflow(ctx, client.StartWorkflowOptions{TaskQueue: contract.QueueEngine},
			contract.WorkflowType, contract.Start{Plan: ref, Input: json.RawMessage(input)})
	}
}

// publish publishes a plan as chimera publish does, under a version of its own,
// and tells which.
func (b *bench) publish(ctx context.Context, source string) (string, error) {
	source = strings.Replace(source, version, version+"+"+plan.DigestOf([]byte(source))[len("sha256:"):][:16], 1)
	_, catalog, err := host.Catalog(echoCatalog(), nil)
	if err != nil {
		return "", err
	}
	compiled, ds := compiler.Compile(compiler.Source{Name: "plan", Text: []byte(source)}, catalog, nil)
	if ds.HasErrors() {
		return "", fmt.Errorf("the plan of a case does not compile: %v", ds)
	}
	raw, err := compiled.Encode()
	if err != nil {
		return "", err
	}
	blob, err := b.ledger.PutBlob(ctx, []byte(source))
	if err != nil {
		return "", err
	}
	_, err = b.ledger.PublishPlan(ctx, ledger.Plan{
		Name: compiled.Name, Version: compiled.Version, Digest: plan.DigestOf(raw), SourceDigest: blob, Author: "bench", Agent: compiled.Agent,
	})
	return compiled.Name + "@" + compiled.Version, err
}

func (b *bench) hand(workflow string, args ...any) execution {
	return func(ctx context.Context) (client.WorkflowRun, error) {
		return b.plain.ExecuteWorkflow(ctx, client.StartWorkflowOptions{TaskQueue: handQueue}, workflow, args...)
	}
}

// timed starts a run and waits for its end.
func timed(ctx context.Context, start execution) (time.Duration, error) {
	begin := time.Now()
	run, err := start(ctx)
	if err != nil {
		return 0, err
	}
	err = run.Get(ctx, nil)
	return time.Since(begin), err
}

// figures are measurements.
type figures []float64

func (f figures) row(format string) string {
	slices.Sort(f)
	return fmt.Sprintf(format+" "+format+" "+format, f[0], f[len(f)/2], f[len(f)-1])
}

func (f figures) median() float64 {
	slices.Sort(f)
	return f[len(f)/2]
}

func (b *bench) speed(ctx context.Context) error {
	fmt.Printf("\nSpeed: median and [quartiles] of %d pairs of runs; processor time is that of this process and the server\n", b.pairs)
	const n = 200
	value := json.RawMessage(`"hello"`)
	for _, c := range []struct {
		name         string
		bar          float64
		engine, hand execution
	}{
		// What a run costs beside its nodes: an empty workflow is nearly all Temporal's.
		{"one local node, beside no activity at all", 0.5, b.engine(chain(1, local)), b.hand(handChain, 0, value)},
		{"chain of 200 local nodes", 22, b.engine(chain(n, local)), b.hand(handChain, n, value)},
		{"200 local nodes, 32 in parallel", 3.3, b.engine(fan(n, local)), b.hand(handFan, n, 32, value)},
		{"chain of 200 ordinary nodes", 0.97, b.engine(chain(n, ordinary)), b.hand(handChain, n, value)},
		{"200 ordinary nodes, 32 in parallel", 0.95, b.engine(fan(n, ordinary)), b.hand(handFan, n, 32, value)},
	} {
		if !strings.Contains(c.name, b.match) {
			continue
		}
		if err := b.compare(ctx, c.name, c.bar, c.engine, c.hand); err != nil {
			return err
		}
	}
	const calls = 60
	name := fmt.Sprintf("%d executables in sequence beside as many in-process nodes", calls)
	if !strings.Contains(name, b.match) {
		return nil
	}
	return b.sides(ctx, name, 1/1.35, [2]string{"executables", "in-process"}, [2]execution{b.engine(programs(head, calls)), b.engine(chain(calls, ordinary))})
}

// length is the number of events of a finished run, and their bytes.
func (b *bench) length(ctx context.Context, start execution) (events, size float64, err error) {
	run, err := start(ctx)
	if err != nil {
		return 0, 0, err
	}
	if err := run.Get(ctx, nil); err != nil {
		return 0, 0, err
	}
	described, err := b.client.DescribeWorkflowExecution(ctx, run.GetID(), run.GetRunID())
	info := described.GetWorkflowExecutionInfo()
	return float64(info.GetHistoryLength()), float64(info.GetHistorySizeBytes()), err
}

func (b *bench) events(ctx context.Context) error {
	fmt.Println("\nEvents and bytes in the history")
	value := json.RawMessage(`"hello"`)
	// What each further node brings, and what a run has beside its nodes.
	per := func(of func(n int) execution) (each, bytes, fixed float64, err error) {
		short, small, err := b.length(ctx, of(20))
		if err != nil {
			return 0, 0, 0, err
		}
		long, large, err := b.length(ctx, of(120))
		each = (long - short) / 100
		return each, (large - small) / 100, short - 20*each, err
	}
	hand, handBytes, _, err := per(func(n int) execution { return b.hand(handChain, n, value) })
	if err != nil {
		return err
	}
	for _, c := range []struct {
		name    string
		timeout int
	}{{"ordinary", ordinary}, {"local", local}} {
		each, bytes, fixed, err := per(func(n int) execution { return b.engine(chain(n, c.timeout)) })
		if err != nil {
			return err
		}
		fmt.Printf("%-44s each further node %.2f (%.0f bytes)   hand-written %.2f (%.0f bytes)   ratio %.2f (bar ≤ 1.00)   fixed events %.0f (bar ≤ 15)\n",
			"chain of "+c.name+" nodes", each, bytes, hand, handBytes, each/hand, fixed)
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
