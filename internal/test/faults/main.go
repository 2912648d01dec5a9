// Command faults plants single faults into code that carries a promise, and reports which tests find
// them.
//
//	go run ./internal/test/faults [-only REGEXP] [-at N] [-list]
//
// Each fault changes one text of one file. The changed file reaches the compiler by an overlay,
// in GOFLAGS, since tests build programs themselves; the source stays as it is. Then the tests
// run that must find the fault. Without a fault, the same tests must pass.
//
// The exit status is 1 if a fault was missed or does not compile, or if its tests fail
// without it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Stdout, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "faults:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer, args []string) error {
	flags := flag.NewFlagSet("faults", flag.ContinueOnError)
	only := flags.String("only", "", "plant only the faults whose area and name match this regular expression")
	at := flags.Int("at", 2, "how many faults are planted at a time")
	list := flags.Bool("list", false, "list the faults and plant none")
	if err := flags.Parse(args); err != nil {
		return err
	}
	match, err := regexp.Compile(*only)
	if err != nil {
		return fmt.Errorf("-only: %w", err)
	}
	var chosen []Fault
	for _, f := range All() {
		if match.MatchString(f.Area + ": " + f.Name) {
			chosen = append(chosen, f)
		}
	}
	switch {
	case len(chosen) == 0:
		return fmt.Errorf("no fault matches %q", *only)
	case *at < 1:
		return errors.New("-at must be at least 1")
	case *list:
		return write(out, chosen)
	}
	began := time.Now()
	g, err := newGo(ctx)
	if err != nil {
		return err
	}
	counts := map[Verdict]int{}
	report := func(f Fault, r Result) {
		counts[r.Verdict]++
		fmt.Fprintf(out, "%-19s %s: %s%s (%.0fs)\n", r.Verdict, f.Area, f.Name, r.by(), r.Took.Seconds())
		if r.Output != "" {
			fmt.Fprintln(out, "    "+strings.ReplaceAll(r.Output, "\n", "\n    "))
		}
	}
	plant(ctx, g, chosen, *at, report)
	if err := ctx.Err(); err != nil {
		return err
	}
	fmt.Fprintf(out, "%d faults: %d found, %d missed, %d timed out, %d do not compile, %d whose tests fail without them; %s\n", len(chosen),
		counts[Found], counts[Missed], counts[TimedOut], counts[NotCompiled], counts[FailsWithout], time.Since(began).Round(time.Second))
	if n := len(chosen) - counts[Found]; n > 0 {
		return fmt.Errorf("%d of %d faults were not found", n, len(chosen))
	}
	return nil
}

// write lists faults.
func write(out io.Writer, all []Fault) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, f := range all {
		fmt.Fprintf(w, "%s: %s\t%s\t%s\n", f.Area, f.Name, f.File, f.Tests)
	}
	return w.Flush()
}

// plant plants the faults, so many at a time, and reports each. First it runs the tests of all
// of them without a fault, each once.
func plant(ctx context.Context, g *goTool, all []Fault, at int, report func(Fault, Result)) {
	var tests []Tests
	for _, f := range all {
		if !slices.Contains(tests, f.Tests) {
			tests = append(tests, f.Tests)
		}
	}
	var mu sync.Mutex
	without := map[Tests]Result{}
	each(at, tests, func(t Tests) {
		r := g.test(ctx, t, "")
		mu.Lock()
		defer mu.Unlock()
		without[t] = r
	})
	each(at, all, func(f Fault) {
		r := without[f.Tests]
		if r.Verdict == Missed { // they pass
			r = g.planted(ctx, f)
		} else {
			r.Verdict = FailsWithout
		}
		if ctx.Err() != nil {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		report(f, r)
	})
}

// each calls do for each item, in order, so many at a time, and waits for all.
func each[T any](at int, items []T, do func(T)) {
	var group sync.WaitGroup
	free := make(chan struct{}, at)
	for _, x := range items {
		free <- struct{}{}
		group.Go(func() {
			defer func() { <-free }()
			do(x)
		})
	}
	group.Wait()
}
