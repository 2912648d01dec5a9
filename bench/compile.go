package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"chimera.ai/engine/compiler"
	"chimera.ai/engine/compiler/plangen"
	"chimera.ai/engine/diag"
	"chimera.ai/engine/host"
	"chimera.ai/engine/internal/process"
)

// compiled are the plans whose compilation is measured. Each node has about two
// edges, and every one of them is proved.
var compiled = []struct {
	name string
	make func(n int) []byte
	// nodes are the sizes; those that are an order of magnitude apart show how
	// time and memory grow.
	nodes []int
}{
	{"chain", plangen.Chain, []int{100, 1000, 10_000}},
	{"layers", func(n int) []byte { return plangen.Layered(n, 32, 1) }, []int{1000, 10_000, 100_000}},
	{"orders", plangen.Orders, []int{1000, 10_000, 100_000}},
	// 50,000 nodes are about as many as a file can hold that write all out.
	{"all different", plangen.Typed, []int{1000, 10_000, 50_000}},
}

// The bar for a plan of barNodes nodes and about twice as many edges, on two
// processors, in milliseconds and MiB.
const (
	barNodes  = 10_000
	barTime   = 1000
	barMemory = 512
	barShort  = 1.10
)

// compileTimes prints how long plans of several sizes take to compile, and the
// largest memory of a process that compiles one, and nothing else.
func compileTimes(rounds int) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	fmt.Println("Compilation: all of it, from the text to the compiled plan, each as min median max of", rounds, "processes")
	fmt.Printf("(bar for %d nodes and about twice as many edges: %d ms and %d MiB on two processors;\n", barNodes, barTime, barMemory)
	fmt.Println(" processor time is that of the whole process, and varies less with what else the machine does)")
	for _, c := range compiled {
		var before float64
		for _, n := range c.nodes {
			var ms, memory, busy figures
			edges := 0
			for range rounds {
				said, used, worked, err := child(self, fmt.Sprintf("%s:%d", c.name, n))
				if err != nil {
					return fmt.Errorf("compile %s of %d nodes: %w", c.name, n, err)
				}
				var took float64
				if _, err := fmt.Sscan(said, &took, &edges); err != nil {
					return fmt.Errorf("compile %s of %d nodes: %w", c.name, n, err)
				}
				ms = append(ms, took)
				memory = append(memory, used)
				busy = append(busy, worked)
			}
			each := busy.median() * 1000 / float64(n)
			growth := ""
			if before > 0 {
				growth = fmt.Sprintf("   ÷ that of the size before %5.2f", each/before)
			}
			if n == barNodes {
				growth += fmt.Sprintf("   of the bar %4.2f of time %4.2f of memory", ms.median()/barTime, memory.median()/barMemory)
			}
			before = each
			fmt.Printf("%-44s ms %s   processor ms %s   MiB %s   processor µs a node %6.1f%s\n", fmt.Sprintf("%s: %d nodes, %d edges", c.name, n, edges),
				ms.row("%8.1f"), busy.row("%8.1f"), memory.row("%6.0f"), each, growth)
		}
	}
	return notations(self, rounds)
}

// notations prints how long the same plans take in their short notation, in turns with the
// notation that they have.
func notations(self string, rounds int) error {
	fmt.Printf("The short notation ÷ the one above, %d nodes (bar %.2f)\n", barNodes, barShort)
	for _, c := range compiled {
		var ms [2]figures
		for range rounds {
			for i, form := range []string{"", ":short"} {
				said, _, _, err := child(self, fmt.Sprintf("%s:%d%s", c.name, barNodes, form))
				if err != nil {
					return fmt.Errorf("compile %s of %d nodes%s: %w", c.name, barNodes, form, err)
				}
				var took float64
				var edges int
				if _, err := fmt.Sscan(said, &took, &edges); err != nil {
					return fmt.Errorf("compile %s of %d nodes%s: %w", c.name, barNodes, form, err)
				}
				ms[i] = append(ms[i], took)
			}
		}
		fmt.Printf("%-44s ms %s   short ms %s   ratio %4.2f\n", c.name, ms[0].row("%8.1f"), ms[1].row("%8.1f"), ms[1].median()/ms[0].median())
	}
	return nil
}

// child compiles one plan in a process of its own, and gives what it printed, the
// largest memory that it had, in MiB, and its processor time in milliseconds.
func child(self, which string) (said string, used, worked float64, err error) {
	c, err := process.Start(process.Spec{Command: self, Args: []string{"-compile", which}})
	if err != nil {
		return "", 0, 0, err
	}
	out, err := io.ReadAll(c.Stdout)
	complaint, err2 := io.ReadAll(c.Stderr)
	state := c.State()
	if err := errors.Join(err, err2, c.Stdin.Close(), c.Stdout.Close(), c.Stderr.Close()); err != nil {
		return "", 0, 0, err
	}
	if !state.Success() {
		return "", 0, 0, fmt.Errorf("%s: %s", state, complaint)
	}
	if usage, ok := state.SysUsage().(*syscall.Rusage); ok {
		used = float64(usage.Maxrss) / 1024
	}
	worked = (state.UserTime() + state.SystemTime()).Seconds() * 1000
	return string(out), used, worked, nil
}

// compileOne compiles one plan, "NAME:NODES" or "NAME:NODES:short", and prints the milliseconds
// that it took and the plan's edges.
func compileOne(which string) error {
	name, size, _ := strings.Cut(which, ":")
	size, form, _ := strings.Cut(size, ":")
	n, err := strconv.Atoi(size)
	if err != nil {
		return err
	}
	_, catalog, err := host.Catalog(nil, nil)
	if err != nil {
		return err
	}
	for _, c := range compiled {
		if c.name != name {
			continue
		}
		text := c.make(n)
		if form == "short" {
			var ds diag.Diagnostics
			if text, ds, err = compiler.Shorten(compiler.Source{Name: "bench.yaml", Text: text}, catalog, nil); err != nil || text == nil {
				return errors.Join(err, fmt.Errorf("the plan has no short notation: %v", ds))
			}
			runtime.GC()
		}
		begin := time.Now()
		p, ds := compiler.Compile(compiler.Source{Name: "bench.yaml", Text: text}, catalog, nil)
		took := time.Since(begin)
		if p == nil {
			return fmt.Errorf("the plan does not compile: %s: %s", ds[0].Summary, ds[0].Detail)
		}
		fmt.Println(took.Seconds()*1000, len(p.Edges))
		return nil
	}
	return fmt.Errorf("there is no plan %q", name)
}
